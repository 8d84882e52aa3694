"""What is true in a TinyWeb, drawn from a seed: animals, one value a relation for each, and what people get wrong."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from webgpt_jax.tinyweb.language import BY_NAME, RELATIONS, Claim
from webgpt_jax.tinyweb.lexicon import ANIMALS, FIRST_WORDS

WORLD_ANIMALS = 240


@dataclass(frozen=True)
class World:
    """The facts of one seed. Two worlds share words, never a reason to expect the same value.

    Attributes:
      seed: what it was drawn from.
      animals: their names, two words each.
      facts: the true value of (animal, relation).
      rumors: for each, a value that is wrong; forums repeat it.
      former: for each, another wrong value; it was held true once, and old pages say it.
    """

    seed: int
    animals: tuple[str, ...]
    facts: Mapping[tuple[str, str], str]
    rumors: Mapping[tuple[str, str], str]
    former: Mapping[tuple[str, str], str]

    def claim(self, animal: str, relation: str) -> Claim:
        """The true claim."""
        return Claim(animal, relation, self.facts[animal, relation])

    def is_true(self, claim: Claim) -> bool:
        """Whether a claim holds here. Of an animal that is not here nothing does."""
        value = self.facts.get((claim.animal, claim.relation))
        return value is not None and (value == claim.value) != claim.denied

    @cached_property
    def by_word(self) -> Mapping[str, tuple[str, ...]]:
        """The animals that share a word of their name."""
        found: dict[str, list[str]] = {}
        for animal in self.animals:
            for word in animal.split():
                found.setdefault(word, []).append(animal)
        return {word: tuple(animals) for word, animals in found.items()}


def make_world(seed: int, animals: int = WORLD_ANIMALS) -> World:
    """The world of a seed: the same on every machine.

    Raises:
      ValueError: more animals than there are names.
    """
    names = [f"{first} {second}" for first in FIRST_WORDS for second in ANIMALS]
    if not 1 <= animals <= len(names):
        raise ValueError(f"a world has from 1 to {len(names)} animals, not {animals}")
    draw = random.Random(f"tinyweb world {seed}")
    chosen = tuple(draw.sample(names, animals))
    facts, rumors, former = {}, {}, {}
    for animal in chosen:
        for relation in RELATIONS:
            key = (animal, relation.name)
            facts[key], rumors[key], former[key] = draw.sample(BY_NAME[relation.name].values, 3)
    return World(seed, chosen, facts, rumors, former)
