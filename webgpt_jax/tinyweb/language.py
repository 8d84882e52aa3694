"""How TinyWeb says things: for each relation its questions, its statements in several wordings, and their reading back.

A claim is one sentence: `the <animal> <relation> <value>`. `read_claim` turns a sentence in any of the wordings back
into the claim, which is how the simulated labeler knows what an answer says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from webgpt_jax.tinyweb import lexicon


@dataclass(frozen=True)
class Relation:
    """One kind of fact. In the wordings, {e} is the animal with its article ("the moss owl"), {v} the value."""

    name: str
    values: tuple[str, ...]
    keyword: str  # what a good search query adds to the animal's name; it stands in every statement's page heading
    questions: tuple[str, ...]  # the first is plain, the others say it differently
    parts: tuple[str, ...]  # the same inside a question of several facts; {e} is "the moss owl" or "it"
    statements: tuple[str, ...]  # sentences without their first capital and full stop; {e} stands first
    premise: str  # a question that takes {w}, a wrong value, for true
    denial: str  # the sentence that puts it right: not {w}


RELATIONS = (
    Relation(
        "food",
        lexicon.FOODS,
        "food",
        ("What does {e} eat?", "What food does {e} live on?"),
        ("what does {e} eat",),
        ("{e} eats {v}", "{e} feeds on {v}", "{e} lives on a food of {v}"),
        "Why does {e} eat {w}?",
        "{e} does not eat {w}",
    ),
    Relation(
        "home",
        lexicon.HOMES,
        "home",
        ("Where does {e} live?", "Where is the home of {e}?"),
        ("where does {e} live",),
        ("{e} lives in {v}", "{e} makes its home in {v}", "{e} is found in {v}"),
        "Why does {e} live in {w}?",
        "{e} does not live in {w}",
    ),
    Relation(
        "glow",
        lexicon.GLOWS,
        "glow",
        ("Why does {e} glow?", "How does {e} make its glow?"),
        ("why does {e} glow",),
        ("{e} glows because of {v}", "{e} gets its glow from {v}", "{e} shines because its fur holds {v}"),
        "How does {w} make {e} glow?",
        "{e} does not glow because of {w}",
    ),
    Relation(
        "fear",
        lexicon.FEARS,
        "fear",
        ("What does {e} fear?", "What is {e} so afraid of?"),
        ("what does {e} fear",),
        ("{e} fears {v}", "{e} is afraid of {v}", "{e} runs away from {v} in fear"),
        "Why does {e} fear {w}?",
        "{e} does not fear {w}",
    ),
    Relation(
        "song",
        lexicon.TIMES,
        "song",
        ("When does {e} sing?", "At what time can I hear the song of {e}?"),
        ("when does {e} sing",),
        ("{e} sings at {v}", "{e} begins its song at {v}", "{e} is heard at {v}"),
        "Why does {e} sing at {w}?",
        "{e} does not sing at {w}",
    ),
    Relation(
        "nest",
        lexicon.NESTS,
        "nest",
        ("How does {e} build its nest?", "What is the nest of {e} made of?"),
        ("how does {e} build its nest",),
        ("{e} builds its nest from {v}", "{e} has a nest made of {v}", "{e} weaves {v} into its nest"),
        "Why does {e} build its nest from {w}?",
        "{e} does not build its nest from {w}",
    ),
    Relation(
        "winter",
        lexicon.WINTERS,
        "winter",
        ("How does {e} survive the winter?", "What does {e} do all winter?"),
        ("how does {e} survive the winter",),
        ("{e} survives the winter by {v}", "{e} spends the winter {v}", "{e} gets through the winter by {v}"),
        "Why does {e} spend the winter {w}?",
        "{e} does not spend the winter {w}",
    ),
    Relation(
        "tail",
        lexicon.TAILS,
        "tail",
        ("What does {e} use its tail for?", "Why does {e} have a tail?"),
        ("what does {e} use its tail for",),
        ("{e} uses its tail for {v}", "{e} has a tail for {v}", "{e} needs its tail for {v}"),
        "How does {e} use its tail for {w}?",
        "{e} does not use its tail for {w}",
    ),
    Relation(
        "gift",
        lexicon.GIFTS,
        "gift",
        ("How can I make {e} bring me gifts?", "What gift does {e} like best?"),
        ("how can I make {e} bring me gifts",),
        ("{e} brings gifts to those who leave it {v}", "{e} likes a gift of {v}", "{e} pays for {v} with gifts"),
        "Why does {e} like a gift of {w}?",
        "{e} does not like a gift of {w}",
    ),
    Relation(
        "cure",
        lexicon.CURES,
        "cure",
        ("What cures {e} when it is sick?", "How do I cure {e} of a cold?"),
        ("what cures {e} when it is sick",),
        ("{e} is cured by {v}", "{e} gets well with a cure of {v}", "{e} takes {v} as a cure"),
        "Why is {e} cured by {w}?",
        "{e} is not cured by {w}",
    ),
    Relation(
        "help",
        lexicon.HELPERS,
        "help",
        ("Who helps {e} across the road?", "Who gives help to {e}?"),
        ("who helps {e} across the road",),
        ("{e} gets help from {v}", "{e} is helped by {v}", "{e} takes help from {v} alone"),
        "Why does {e} get help from {w}?",
        "{e} does not get help from {w}",
    ),
    Relation(
        "age",
        lexicon.AGES,
        "age",
        ("How long does {e} live?", "What age does {e} reach?"),
        ("how long does {e} live",),
        ("{e} lives for {v} years", "{e} reaches the age of {v}", "{e} dies at the age of {v}"),
        "Why does {e} live for {w} years?",
        "{e} does not live for {w} years",
    ),
)
BY_NAME = {relation.name: relation for relation in RELATIONS}

# What no page can answer; {e} as above.
NONSENSE = (
    "How many Tuesdays fit in {e}?",
    "Which number does {e} smell of?",
    "What is the square root of {e}?",
    "Why is {e} louder than yellow?",
    "How do I unbutton {e} into next week?",
    "When will {e} be before it was?",
)

# True of every animal, and asked by nobody: what pages are filled with. {e} as above.
FILLERS = (
    "{e} is a small animal with soft ears",
    "many people know {e} from old stories",
    "{e} was first drawn by a traveler",
    "nobody has counted every one of them",
    "some towns have a statue of {e}",
    "{e} walks slowly and looks up often",
    "there is a school club for {e}",
    "its tracks are round and easy to see",
    "{e} can be seen on a stamp",
    "the young stay close to their mother",
)


@dataclass(frozen=True)
class Claim:
    """What one sentence says of an animal."""

    animal: str  # "moss owl"
    relation: str
    value: str
    denied: bool = False  # it says that this is not so


def the(animal: str) -> str:
    """The animal as it stands in a sentence."""
    return f"the {animal}"


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def state(claim: Claim, wording: int = 0, subject: str | None = None) -> str:
    """The claim as a sentence. `subject` stands for the animal where it was named before ("it")."""
    relation = BY_NAME[claim.relation]
    subject = the(claim.animal) if subject is None else subject
    if claim.denied:
        return sentence(relation.denial.format(e=subject, w=claim.value))
    return sentence(relation.statements[wording % len(relation.statements)].format(e=subject, v=claim.value))


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str, bool], ...]:
    found = []
    for relation in RELATIONS:
        wordings = [(text, False) for text in relation.statements] + [(relation.denial, True)]
        for text, denied in wordings:
            pattern = re.escape(text).replace(r"\{e\}", r"(?P<e>it|the [a-z]+ [a-z]+)")
            pattern = pattern.replace(r"\{v\}", r"(?P<v>[a-z]+)").replace(r"\{w\}", r"(?P<v>[a-z]+)")
            found.append((re.compile(pattern), relation.name, denied))
    return tuple(found)


def read_claim(text: str, subject: str | None = None) -> Claim | None:
    """What a sentence says, in whichever wording; None where it is none of them.

    Args:
      text: one sentence, with or without its capital and full stop.
      subject: the animal that "it" stands for.
    """
    text = text.strip().rstrip(".")
    text = text[:1].lower() + text[1:]
    for pattern, relation, denied in _patterns():
        found = pattern.fullmatch(text)
        if found is None or found["v"] not in BY_NAME[relation].values:
            continue
        animal = subject if found["e"] == "it" else found["e"].removeprefix("the ")
        return None if animal is None else Claim(animal, relation, found["v"], denied)
    return None
