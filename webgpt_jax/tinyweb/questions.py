"""Questions about a TinyWeb, in the style of ELI5, in five sets that share no animal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal, get_args

from webgpt_jax.tinyweb.language import BY_NAME, NONSENSE, RELATIONS, Claim, the
from webgpt_jax.tinyweb.world import World

Split = Literal["bc", "rm", "rl", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
SHARES = {"bc": 8, "rm": 4, "rl": 4, "validation": 2, "test": 2}  # parts of the animals, in twentieths

# How often each kind is asked.
FACTS = {1: 0.5, 2: 0.3, 3: 0.08}  # by the number of facts it needs
MISCONCEPTION, NONSENSICAL = 0.07, 0.05
TWO_ANIMALS = 0.3  # of the questions of two facts
ELI5 = 0.25  # begin with "ELI5: "


class QuestionKind(Enum):
    """What a question asks for."""

    FACTS = "facts"
    MISCONCEPTION = "misconception"  # it takes something wrong for true
    NONSENSE = "nonsense"  # nothing can answer it


@dataclass(frozen=True)
class TinyQuestion:
    """A question, and what an answer to it needs.

    Attributes:
      text: as it is asked.
      kind: what it asks for.
      needs: the true claims that answer it, one to three; of nonsense none.
      supposed: the wrong value that a misconception takes for true.
    """

    text: str
    kind: QuestionKind
    needs: tuple[Claim, ...]
    supposed: str | None = None


def animals_of(world: World, split: Split) -> tuple[str, ...]:
    """The animals that a set's questions are about. No two sets share one.

    Raises:
      ValueError: there is no such set.
    """
    if split not in SPLITS:
        raise ValueError(f"no set {split!r}; there are {', '.join(SPLITS)}")
    parts = sum(SHARES.values())
    begin = sum(SHARES[name] for name in SPLITS[: SPLITS.index(split)])
    count = len(world.animals)
    return world.animals[count * begin // parts : count * (begin + SHARES[split]) // parts]


def questions(world: World, split: Split, seed: int = 0) -> Iterator[TinyQuestion]:
    """The set's questions in an order drawn from the seed, each once, until there are no more (many thousands)."""
    animals = animals_of(world, split)
    draw = random.Random(f"tinyweb questions {world.seed} {split} {seed}")
    seen: set[str] = set()
    misses = 0
    while misses < 1000:  # nearly all have been asked
        question = _draw_question(world, animals, draw)
        if question.text in seen:
            misses += 1
            continue
        misses = 0
        seen.add(question.text)
        yield question


def _draw_question(world: World, animals: tuple[str, ...], draw: random.Random) -> TinyQuestion:
    animal = draw.choice(animals)
    kinds: list[int | QuestionKind] = [*FACTS, QuestionKind.MISCONCEPTION, QuestionKind.NONSENSE]
    kind = draw.choices(kinds, [*FACTS.values(), MISCONCEPTION, NONSENSICAL])[0]
    prefix = "ELI5: " if draw.random() < ELI5 else ""
    if kind == QuestionKind.NONSENSE:
        text = draw.choice(NONSENSE).format(e=the(animal))
        return TinyQuestion(prefix + text, QuestionKind.NONSENSE, ())
    if kind == QuestionKind.MISCONCEPTION:
        need = world.claim(animal, draw.choice(RELATIONS).name)
        relation = BY_NAME[need.relation]
        wrong = draw.choice([value for value in relation.values if value != need.value])
        text = relation.premise.format(e=the(animal), w=wrong)
        return TinyQuestion(prefix + text, QuestionKind.MISCONCEPTION, (need,), wrong)
    assert isinstance(kind, int)
    names = [relation.name for relation in draw.sample(RELATIONS, kind)]
    if kind == 1:
        text = draw.choice(BY_NAME[names[0]].questions).format(e=the(animal))
        return TinyQuestion(prefix + text, QuestionKind.FACTS, (world.claim(animal, names[0]),))
    asked = [animal] * kind
    if kind == 2 and len(animals) > 1 and draw.random() < TWO_ANIMALS:
        asked[1] = draw.choice([other for other in animals if other != animal])
    parts = [
        draw.choice(BY_NAME[name].parts).format(e="it" if at and asked[at] == animal else the(asked[at]))
        for at, name in enumerate(names)
    ]
    text = ", and ".join(parts) if kind == 2 else f"{parts[0]}, {parts[1]}, and {parts[2]}"
    text = f"{text[0].upper()}{text[1:]}?"
    needs = tuple(world.claim(name, relation) for name, relation in zip(asked, names, strict=True))
    return TinyQuestion(prefix + text, QuestionKind.FACTS, needs)
