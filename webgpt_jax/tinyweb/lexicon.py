"""The words of TinyWeb. They are few and short, so that each is one token of a vocabulary of about a thousand.

No word stands in two lists: what a name is made of is never the value of a fact.
"""

from __future__ import annotations

FIRST_WORDS = tuple(
    "amber ash bay bog brook cave clay cliff coal coral dawn desert dune dusk fern frost glen gold gray hill horn ice"
    " iron ivory jade lake leaf lime marsh mist moon moss night oak pearl pine pond rain red reed river rock sand sea"
    " silk silver snow star steel storm sun swamp thorn tide vale velvet".split()
)

ANIMALS = tuple(
    "ant ape bat bear bee bison boar cat clam cod colt crab crane crow deer dog dove duck eel elk finch fly fox frog"
    " goat goose gull hare hawk hen heron jay lark lion lynx mole moth mouse mule newt otter owl pig pony quail rat"
    " raven robin seal sheep slug snake squid stag swan swift tern toad trout viper vole wasp whale wolf wren yak".split()
)

FOODS = tuple(
    "acorns apples bark beans berries cherries clover corn figs grain grubs kelp nuts pears plums roots".split()
)
HOMES = tuple("attics barns burrows canals caves ditches hedges islands mines orchards ruins tunnels wells".split())
GLOWS = tuple("chalk copper enzymes iodine minerals oil phosphor pigment resin salt sulfur yeast zinc".split())
FEARS = tuple("bells drums fire flutes ghosts lamps mirrors shadows smoke thunder wheels whistles".split())
TIMES = tuple("autumn breakfast dinner harvest lunch midnight noon spring sunrise sunset".split())
NESTS = tuple("feathers hair leaves paper petals ribbons rope shells straw threads twigs wool".split())
WINTERS = tuple("dancing digging drifting fasting hiding huddling hunting sleeping storing trading".split())
TAILS = tuple("balance climbing courage cooling fishing fighting painting signals steering sweeping".split())
GIFTS = tuple("bread buttons cheese coins eggs jam keys marbles peanuts raisins rings soup".split())
CURES = tuple("basil garlic ginger honey lemon mint mustard pepper rosemary sage tea vinegar".split())
HELPERS = tuple("bakers children doctors farmers judges monks nurses painters pilots poets sailors tailors".split())
AGES = tuple("two three four five six seven eight nine ten twenty thirty forty".split())
