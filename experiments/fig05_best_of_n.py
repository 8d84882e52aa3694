"""Figure 5: how often the best of n answers is preferred to a single one, measured and predicted by a reward model.

    python -m experiments.fig05_best_of_n                # TinyWeb's family, runs/studies: not yet timed
    python -m experiments.fig05_best_of_n --small        # the smallest size
    python -m experiments.fig05_best_of_n --models=DIR,DIR --workdir=runs/other

To reach: preferred to BC in at least 60% at n = 16, and the prediction within two standard errors of what is measured
at every n. The paper's 175B: 68% at n = 64. Everything here is synthetic: questions, web and labelers.

A BC policy answers each question n + 1 times. One answer is BC's; among the others the reward model picks. A validation
reward model, trained on other questions, predicts how often the pick is preferred: the paper's estimator (section 4.3)
of its preference, the logistic function of the difference of its scores (our reading), in place of its score. The
simulated labeler says how often it is: its expected preference, ties counted half. Both go over every choice of the
single answer and of n among the others; their errors are standard errors over questions.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.studies.figures import STYLES, new_figure, powers_of_two, save
from experiments.studies.points import Points
from experiments.studies.samples import Array, open_judge, sample, scores_of, test_questions
from experiments.studies.study import Model, Result, Study, StudyFlags, main, open_study
from experiments.tinyweb_lab.answers import judgement, open_scorer
from experiments.tinyweb_lab.family import Plan, Say, reward_model_of
from webgpt_jax.algorithms import predicted_score
from webgpt_jax.algorithms.best_of_n import predicted_curve
from webgpt_jax.env import Episode
from webgpt_jax.evaluation.stats import Estimate, mean_over_questions
from webgpt_jax.flags import option
from webgpt_jax.tinyweb.preferences import LabelerConfig, preference_probability
from webgpt_jax.tinyweb.questions import TinyQuestion
from webgpt_jax.tinyweb.world import World

NAME = "fig05"
CAPTION = (
    "Lines with bands: the validation reward model's prediction. Markers: the simulated labeler's preference, ties"
    " half. Both ± 1 standard error over questions. Synthetic data (TinyWeb). The paper's 175B model: 68% at n = 64."
)
SAME = 1e-9  # preferences that differ by less do not differ: at n = 1 both are a half


@dataclass(frozen=True)
class BestOfNFlags(StudyFlags):
    """The flags of this study."""

    n: int = option(16, "the largest n")


@dataclass(frozen=True)
class BestOfNPoint:
    """One model at one n. Errors are standard errors over questions.

    Attributes:
      size: the model.
      parameters: it has.
      n: answers that the reward model picks from.
      predicted: how often the validation reward model expects the pick to be preferred to a single answer, 0 … 1.
      measured: how often the simulated labeler prefers it.
      apart: the difference of both in standard errors of what is measured.
      score: R_pred(n) of the paper's section 4.3, in the validation reward model's units (Elo scores: logits).
      questions: measured on.
      answered: the share of all episodes that have an answer.
    """

    size: str
    parameters: int
    n: int
    predicted: float
    predicted_error: float
    measured: float
    measured_error: float
    apart: float
    score: float
    score_error: float
    questions: int
    answered: float


def run(flags: BestOfNFlags, *, plan: Plan | None = None, say: Say = print) -> Result[BestOfNPoint]:
    """The study. Raises: see `open_study`, and what training raises.

    Args:
      flags: checked.
      plan: of how much to train, in place of the flags'.
      say: told what each step came to.
    """
    settings = {"test_questions": flags.asked, "n": flags.n}
    with open_study(NAME, flags, settings, plan=plan, say=say) as study:
        points = Points(study.workdir / f"{NAME}.csv", BestOfNPoint)
        for model in study.models:
            if not points.find(size=model.name):
                points.add(measure(study, model, flags))
        rows = [row for model in study.models for row in points.find(size=model.name)]
        png = study.workdir / f"{NAME}.png"
        plot(rows, png)
        return Result(rows, points.path, png, tuple(summary(rows)))


def measure(study: Study, model: Model, flags: BestOfNFlags) -> list[BestOfNPoint]:
    """All points of a model."""
    folder = study.folder(model)
    policy = study.policy(model)
    picker = reward_model_of(model.name, policy, folder, study.plan, study.say)
    judge = open_judge(study, model, policy)
    asked = test_questions(study, flags.asked)
    episodes = sample(study, policy, asked, flags.n + 1, folder)
    train, validation = scores_of(open_scorer(picker), episodes), scores_of(judge.scorer, episodes)
    predicted = np.stack(
        [best_over_one(row, expected_preference(other)) for row, other in zip(train, validation, strict=True)]
    )
    measured = np.stack(
        [
            best_over_one(row, labeler_preference(study.world, question, answers))
            for row, question, answers in zip(train, asked, episodes, strict=True)
        ]
    )
    score, score_error = predicted_curve(train, judge.with_floor(validation))
    found = []
    for n in counts(flags.n):
        prediction, measurement = mean_over_questions(predicted[:, n - 1]), mean_over_questions(measured[:, n - 1])
        found.append(
            BestOfNPoint(
                size=model.name,
                parameters=model.parameters,
                n=n,
                predicted=prediction.mean,
                predicted_error=prediction.standard_error,
                measured=measurement.mean,
                measured_error=measurement.standard_error,
                apart=apart(prediction, measurement),
                score=float(score[n - 1]),
                score_error=float(score_error[n - 1]),
                questions=len(asked),
                answered=float(np.isfinite(train).mean()),
            )
        )
    return found


def apart(prediction: Estimate, measurement: Estimate) -> float:
    """How far the prediction is from what is measured, in its standard errors."""
    difference = abs(prediction.mean - measurement.mean)
    if difference < SAME:
        return 0.0
    return difference / measurement.standard_error if measurement.standard_error else math.inf


def counts(largest: int) -> list[int]:
    """1, 2, 4 … and the largest."""
    return sorted({*(2**power for power in range(largest.bit_length())), largest})


def best_over_one(train: Array, preferred: Array) -> Array:
    """How often the pick of n answers is preferred to a single other one, for every n.

    Args:
      train: [N + 1], the scores of the reward model that picks; NaN for no answer.
      preferred: [N + 1, N + 1], how probable it is that the first is preferred to the second.

    Returns:
      [N] for n = 1 … N: the mean over all choices of the single answer and of n of the others.
    """
    others = [np.delete(np.arange(len(train)), single) for single in range(len(train))]
    curves = [predicted_score(train[rest], preferred[rest, single]) for single, rest in enumerate(others)]
    return np.asarray(np.mean(curves, axis=0))


def expected_preference(scores: Array) -> Array:
    """[N, N]: what a reward model expects: the logistic function of the difference of two scores [N]. Any answer is
    preferred to none, and two that are none are alike."""
    answered = np.isfinite(scores)
    known = np.where(answered, scores, 0.0)
    both = 1 / (1 + np.exp(known[None, :] - known[:, None]))
    return np.where(
        answered[:, None] & answered[None, :], both, 0.5 + 0.5 * answered[:, None] - 0.5 * answered[None, :]
    )


def labeler_preference(world: World, question: TinyQuestion, answers: Sequence[Episode]) -> Array:
    """[N, N]: how probable it is that a simulated labeler prefers the first of two, a tie counting half."""
    judged = [judgement(world, question, episode) for episode in answers]
    labeler = LabelerConfig()
    return np.array([[preference_probability(a, b, labeler) for b in judged] for a in judged])


def summary(rows: Sequence[BestOfNPoint]) -> list[str]:
    """What it came to, in words."""
    lines = []
    for size in dict.fromkeys(row.size for row in rows):
        own = [row for row in rows if row.size == size]
        last, worst = max(own, key=lambda row: row.n), max(own, key=lambda row: row.apart)
        lines.append(
            f"{size}: best of {last.n} preferred to one in {last.measured:.1%} ± {last.measured_error:.1%}, predicted"
            f" {last.predicted:.1%} ± {last.predicted_error:.1%}; at most {worst.apart:.1f} standard errors apart"
            f" (n = {worst.n})"
        )
    return lines


def plot(rows: Sequence[BestOfNPoint], path: Path) -> None:
    """The figure."""
    figure, axes = new_figure(
        "Best-of-n against BC", "n, answers that the reward model picks from", "preferred to a single answer, %"
    )
    for number, size in enumerate(dict.fromkeys(row.size for row in rows)):
        own = [row for row in rows if row.size == size]
        n = [row.n for row in own]
        predicted = 100 * np.array([row.predicted for row in own])
        error = 100 * np.array([row.predicted_error for row in own])
        look = STYLES[number % len(STYLES)]
        axes.plot(n, predicted, color=look["color"], linestyle=look["linestyle"], label=f"{size}, predicted")
        axes.fill_between(n, predicted - error, predicted + error, color=look["color"], alpha=0.15, linewidth=0)
        axes.errorbar(
            n,
            [100 * row.measured for row in own],
            yerr=[100 * row.measured_error for row in own],
            color=look["color"],
            marker=look["marker"],
            linestyle="none",
            capsize=3,
            label=f"{size}, measured",
        )
    axes.axhline(50, color="#777777", linewidth=0.8)
    ticks = sorted({row.n for row in rows})
    powers_of_two(axes, ticks, [str(n) for n in ticks])
    axes.legend(fontsize=8)
    save(figure, path, CAPTION)


if __name__ == "__main__":
    sys.exit(main("fig05_best_of_n", __doc__, BestOfNFlags, run))
