"""The words of TinyWeb. They are few and short, so that each is one token of a vocabulary of about a thousand.

No word stands in two lists: what a name is made of is never the value of a fact.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_WORDS = _words(
    "amber ash bay bog brook cave clay cliff coal coral dawn desert dune dusk fern frost glen gold gray hill horn ice"
    " iron ivory jade lake leaf lime marsh mist moon moss night oak pearl pine pond rain red reed river rock sand sea"
    " silk silver snow star steel storm sun swamp thorn tide vale velvet"
)

ANIMALS = _words(
    "ant ape bat bear bee bison boar cat clam cod colt crab crane crow deer dog dove duck eel elk finch fly fox frog"
    " goat goose gull hare hawk hen heron jay lark lion lynx mole moth mouse mule newt otter owl pig pony quail rat"
    " raven robin seal sheep slug snake squid stag swan swift tern toad trout viper vole wasp whale wolf wren yak"
)

FOODS = _words("acorns apples bark beans berries cherries clover corn figs grain grubs kelp nuts pears plums roots")
HOMES = _words("attics barns burrows canals caves ditches hedges islands mines orchards ruins tunnels wells")
GLOWS = _words("chalk copper enzymes iodine minerals oil phosphor pigment resin salt sulfur yeast zinc")
FEARS = _words("bells drums fire flutes ghosts lamps mirrors shadows smoke thunder wheels whistles")
TIMES = _words("autumn breakfast dinner harvest lunch midnight noon spring sunrise sunset")
NESTS = _words("feathers hair leaves paper petals ribbons rope shells straw threads twigs wool")
WINTERS = _words("dancing digging drifting fasting hiding huddling hunting sleeping storing trading")
TAILS = _words("balance climbing courage cooling fishing fighting painting signals steering sweeping")
GIFTS = _words("bread buttons cheese coins eggs jam keys marbles peanuts raisins rings soup")
CURES = _words("basil garlic ginger honey lemon mint mustard pepper rosemary sage tea vinegar")
HELPERS = _words("bakers children doctors farmers judges monks nurses painters pilots poets sailors tailors")
AGES = _words("two three four five six seven eight nine ten twenty thirty forty")
