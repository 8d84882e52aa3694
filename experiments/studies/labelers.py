"""How well labelers foresee each other: the lines that a reward model's accuracy is held against (paper, figure 7).

All in closed form: the simulated labeler's chances of each label are known (`webgpt_jax/tinyweb/preferences.py`).

Legend: Q questions, C pairs of answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from experiments.tinyweb_lab.answers import judgement, side_of
from webgpt_jax.env import Episode
from webgpt_jax.tinyweb.preferences import LabelerConfig, Outcome, outcome
from webgpt_jax.tinyweb.questions import TinyQuestion
from webgpt_jax.tinyweb.world import World

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two different answers to a question.

    Attributes:
      question: its number.
      a: the place of the first among the question's answers.
      b: the place of the second.
      chances: of a labeler's labels.
    """

    question: int
    a: int
    b: int
    chances: Outcome


def pairs_of(
    world: World, asked: Sequence[TinyQuestion], episodes: Sequence[Sequence[Episode]], labeler: LabelerConfig
) -> list[Pair]:
    """All pairs of different answers [Q][N] to the same question."""
    found = []
    for number, (question, answers) in enumerate(zip(asked, episodes, strict=True)):
        there = [at for at, one in enumerate(answers) if one.answer is not None and one.answer.text.strip()]
        judged = {at: judgement(world, question, answers[at]) for at in there}
        for a, b in combinations(there, 2):
            if side_of(answers[a]) != side_of(answers[b]):
                found.append(Pair(number, a, b, outcome(judged[a], judged[b], labeler)))
    return found


def accuracy_of_scores(pairs: Sequence[Pair], scores: Array) -> Array:
    """[C]: how often a labeler is expected to agree with a reward model; a tie against a difference counts half.

    Args:
      pairs: [C].
      scores: [Q, N].
    """
    found = []
    for pair in pairs:
        difference = scores[pair.question, pair.a] - scores[pair.question, pair.b]
        found.append(agrees(pair.chances, float(np.sign(difference))))
    return np.array(found)


def agrees(chances: Outcome, vote: float) -> float:
    """How often a labeler is expected to agree with a vote: 1 for A, -1 for B, 0 for a tie."""
    if vote:
        return (chances.a if vote > 0 else chances.b) + chances.tie / 2
    return chances.tie + (chances.a + chances.b) / 2


def accuracy_of_labelers(chances: Outcome, count: int) -> float:
    """How often a labeler is expected to agree with the majority of so many others; as many votes for either answer are
    a tie. With one it is how often two labelers agree."""
    total = 0.0
    for for_a in range(count + 1):
        for for_b in range(count + 1 - for_a):
            ties = count - for_a - for_b
            ways = math.comb(count, for_a) * math.comb(count - for_a, for_b)
            probability = ways * chances.a**for_a * chances.b**for_b * chances.tie**ties
            total += probability * agrees(chances, (for_a > for_b) - (for_a < for_b))
    return total
