"""Answers of graded quality, each with its references, made without browsing: what labelers are first calibrated on,
and what tests of them read. They have the faults of hasty people: doubtful sources, lost citations, needs left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from webgpt_jax.env import EpisodeEnd, Quote
from webgpt_jax.tinyweb.answers import compose_answer
from webgpt_jax.tinyweb.labeler import Judgement, Side, judge
from webgpt_jax.tinyweb.language import BY_NAME, FILLERS, RELATIONS, Claim, sentence, state, the
from webgpt_jax.tinyweb.questions import QuestionKind, TinyQuestion
from webgpt_jax.tinyweb.world import World

CARELESSNESS = (0.02, 0.1, 0.25, 0.5)  # the chance of each fault, from an expert to a novice
MORE = 0.35  # how often an answer says one more thing of the animal, at any skill


def make_variants(world: World, question: TinyQuestion, draw: random.Random) -> tuple[Side, ...]:
    """One outcome for each level of carelessness, the most careful first. The same draw gives the same ones."""
    return tuple(_Writer(world, question, draw, carelessness).write() for carelessness in CARELESSNESS)


def practice_pairs(
    world: World, questions: Iterable[TinyQuestion], draw: random.Random
) -> list[tuple[TinyQuestion, Side, Side]]:
    """For each question two answers by people of any carelessness: the distribution of the first calibration.

    As with comparisons in practice, questions that are nonsense, episodes without an answer and pairs of the same text
    are left out.
    """
    pairs = []
    for question in questions:
        a, b = (draw.choice(make_variants(world, question, draw)) for _ in range(2))
        if question.kind != QuestionKind.NONSENSE and None not in (a.answer, b.answer) and a != b:
            pairs.append((question, a, b))
    return pairs


def judge_pairs(world: World, pairs: Iterable[tuple[TinyQuestion, Side, Side]]) -> list[tuple[Judgement, Judgement]]:
    """The judgements of both sides: what `calibrate` takes."""
    return [(judge(world, question, a), judge(world, question, b)) for question, a, b in pairs]


class _Writer:
    """Writes one answer."""

    def __init__(self, world: World, question: TinyQuestion, draw: random.Random, carelessness: float) -> None:
        self.world = world
        self.question = question
        self.draw = draw
        self.carelessness = carelessness
        self.quotes: list[Quote] = []

    def write(self) -> Side:
        if self.question.kind == QuestionKind.NONSENSE and not self._slips():
            return Side((), None, EpisodeEnd.NONSENSE)
        said: list[tuple[Claim, tuple[int, ...]]] = []
        for need in self.question.needs:
            if len(self.question.needs) > 1 and self._slips():
                continue  # forgotten
            found, number = self._quote(need)
            if self.question.supposed is not None and not self._slips():
                said.append((Claim(need.animal, need.relation, self.question.supposed, denied=True), (number,)))
                if self._slips():
                    continue  # what is so instead is left out
            if self._slips():  # misread
                found = Claim(found.animal, found.relation, self.draw.choice(BY_NAME[found.relation].values))
            said.append((found, (number,)))
        animal = said[-1][0].animal if said else self._asked()
        if self.draw.random() < MORE:
            found, number = self._quote(self.world.claim(animal, self.draw.choice(RELATIONS).name))
            said.append((found, (number,)))
        if self._slips():  # of another animal
            other = self.draw.choice(self.world.animals)
            found, number = self._quote(self.world.claim(other, self.draw.choice(RELATIONS).name))
            if self._slips():
                said.append((found, (number,)))
        if self._slips():  # from memory
            relation = self.draw.choice(RELATIONS)
            said.append((Claim(animal, relation.name, self.draw.choice(relation.values)), ()))
        if not self.quotes:
            return Side((), None, EpisodeEnd.NO_REFERENCES)
        return Side(tuple(self.quotes), self._text(said, animal))

    def _asked(self) -> str:
        return next(animal for animal in self.world.animals if the(animal) in self.question.text)

    def _slips(self) -> bool:
        return self.draw.random() < self.carelessness / 2

    def _quote(self, true: Claim) -> tuple[Claim, int]:
        """Quotes a page about something; returns what it says and the quote's number."""
        domain = self.draw.choice(("wiki.test", "wiki.test", "news.test"))
        value = true.value
        if self._slips():
            domain, wrong = self.draw.choice((("forum.test", self.world.rumors), ("old.test", self.world.former)))
            value = self.draw.choice((wrong[true.animal, true.relation], value))
        claim = Claim(true.animal, true.relation, value)
        title = sentence(the(true.animal)).removesuffix(".")
        self.quotes.append(Quote(state(claim, self.draw.randrange(3)), title, domain, "", 0, 0))
        return claim, len(self.quotes)

    def _text(self, said: list[tuple[Claim, tuple[int, ...]]], animal: str) -> str:
        said = [(claim, self._cited() if self._slips() else numbers) for claim, numbers in said]
        if said and self._slips():
            said.append(self.draw.choice(said))  # once more
        sentences = [compose_answer(said)] if said else []
        if self._slips() or not said:
            sentences.append(sentence(self.draw.choice(FILLERS).format(e=the(animal))))
        text = " ".join(sentences)
        return text[: -self.draw.randint(1, 12)] if self._slips() else text

    def _cited(self) -> tuple[int, ...]:
        """A wrong citation, or none."""
        return self.draw.choice(((), (self.draw.randint(1, len(self.quotes) + 1),)))
