"""What the demo measures, each beside the target that it should reach.

Legend: Q questions, N answers to each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from experiments.fig05_best_of_n import BestOfNPoint
from experiments.studies.samples import Array
from experiments.tinyweb_lab.answers import judgement, outcomes
from webgpt_jax.env import Episode
from webgpt_jax.evaluation.stats import Estimate, mean_over_questions
from webgpt_jax.tinyweb.preferences import LabelerConfig, Outcome, ceiling, outcome
from webgpt_jax.tinyweb.questions import TinyQuestion
from webgpt_jax.tinyweb.world import World

VALID, ANSWERED = 0.97, 0.90
BELOW_CEILING = 0.05  # how far the reward model's accuracy may be from what the labeler's own noise lets anybody reach
PREFERRED = 0.60
APART = 2.0  # standard errors between figure 5's prediction and what is measured


@dataclass(frozen=True)
class Check:
    """A figure, and whether it reaches its target."""

    what: str
    target: str
    measured: str
    reached: bool

    @property
    def verdict(self) -> str:
        """In a word."""
        return "ok" if self.reached else "below target"


@dataclass(frozen=True)
class Accuracy:
    """How often a labeler agrees with who picks the better of two answers, ties counting half: expected over the
    labeler's noise, for all pairs of answers to a question, the mean over questions.

    Attributes:
      model: the reward model picks.
      ceiling: the best that anybody could, who knew the labeler's utilities.
      length: whoever picks by length alone, longer or shorter, whichever is right more often.
      missing: from the reward model to the ceiling.
    """

    model: Estimate
    ceiling: Estimate
    length: Estimate
    missing: Estimate


def accuracy(
    world: World, asked: Sequence[TinyQuestion], answers: Sequence[Sequence[Episode]], scores: Array
) -> Accuracy | None:
    """Of a reward model's scores of episodes. None where no question has two answers.

    Args:
      answers: [Q][N].
      scores: [Q, N]; NaN where there is no answer.
    """
    labeler = LabelerConfig()
    model, best, length = [], [], []
    for question, episodes, row in zip(asked, answers, scores, strict=True):
        pairs = list(combinations(np.flatnonzero(np.isfinite(row)).tolist(), 2))
        if not pairs:
            continue
        judged = {at: judgement(world, question, episodes[at]) for at in {at for pair in pairs for at in pair}}
        chars = [0 if episode.answer is None else len(episode.answer.text) for episode in episodes]
        chances = [outcome(judged[a], judged[b], labeler) for a, b in pairs]
        model.append(_right(chances, (row[a] - row[b] for a, b in pairs)))
        length.append(_right(chances, (chars[a] - chars[b] for a, b in pairs)))
        best.append(ceiling([(judged[a], judged[b]) for a, b in pairs], labeler))
    if not model:
        return None
    longer = mean_over_questions(length)
    return Accuracy(
        model=mean_over_questions(model),
        ceiling=mean_over_questions(best),
        length=longer if longer.mean >= 0.5 else mean_over_questions(1 - np.asarray(length)),
        missing=mean_over_questions(np.subtract(best, model)),
    )


def _right(chances: Sequence[Outcome], differences: Iterable[float]) -> float:
    """How often the first is right to be picked where a difference is above 0, the second below; half at 0."""
    expected = [
        0.5 if not difference else (chance.a if difference > 0 else chance.b) + chance.tie / 2
        for chance, difference in zip(chances, differences, strict=True)
    ]
    return sum(expected) / len(expected)


def checks(
    world: World,
    asked: Sequence[TinyQuestion],
    answers: Sequence[Sequence[Episode]],
    scores: Array,
    curve: Sequence[BestOfNPoint],
) -> list[Check]:
    """All that the demo should show.

    Args:
      answers: [Q][N], of the policy to questions that can be answered.
      scores: [Q, N], the reward model's; NaN where there is no answer.
      curve: figure 5's points.
    """
    done = outcomes(world, asked, answers)
    best = max(curve, key=lambda point: point.n)
    return [
        Check("valid commands", f"at least {VALID:.0%}", f"{done.valid:.1%}", done.valid >= VALID),
        Check(
            "questions answered, with a reference",
            f"at least {ANSWERED:.0%}",
            f"{done.answered:.1%}",
            done.answered >= ANSWERED,
        ),
        *_reward_model(accuracy(world, asked, answers, scores)),
        Check(
            f"best of {best.n} preferred to one answer",
            f"at least {PREFERRED:.0%}",
            f"{best.measured:.1%} ± {best.measured_error:.1%}",
            best.measured >= PREFERRED,
        ),
        *(
            Check(
                f"figure 5, n = {point.n}: predicted {point.predicted:.1%}",
                f"{APART:g} standard errors",
                f"{point.measured:.1%} ± {point.measured_error:.1%}, {point.apart:.1f} apart",
                point.apart <= APART,
            )
            for point in sorted(curve, key=lambda point: point.n)
        ),
    ]


def _reward_model(found: Accuracy | None) -> list[Check]:
    if found is None:
        return [Check("reward model's accuracy", "a ceiling", "no question has two answers", False)]
    return [
        Check(
            f"reward model right (anybody: {found.ceiling.mean:.1%})",
            f"at least {found.ceiling.mean - BELOW_CEILING:.1%}",
            _percent(found.model),
            found.missing.mean <= BELOW_CEILING,
        ),
        Check(
            "… and by the answers' length alone",
            f"below {found.model.mean:.1%}",
            _percent(found.length),
            found.length.mean < found.model.mean,
        ),
    ]


def _percent(estimate: Estimate) -> str:
    return f"{estimate.mean:.1%} ± {estimate.standard_error:.1%}"


def table(rows: Sequence[Check]) -> str:
    """The checks as text, a line each."""
    cells = [("measured on held-out questions", "target", "measured", "")]
    cells += [(row.what, row.target, row.measured, row.verdict) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )
