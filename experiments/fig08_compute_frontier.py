"""Figure 8: what a question costs in operations and what it is worth, over sizes and n; the Pareto frontier.

    python -m experiments.fig08_compute_frontier              # TinyWeb's family, runs/studies: not yet timed;
                                                              # takes fig05_best_of_n's models and answers
    python -m experiments.fig08_compute_frontier --small      # the smallest size
    python -m experiments.fig08_compute_frontier --models=DIR,DIR --workdir=runs/other

To see: for each budget another size and n is best, and larger budgets want both larger. The paper: 760M best-of-4, 13B
best-of-16 and 175B best-of-64 lie on the frontier. Everything here is synthetic: questions, web and labelers.

Each size's policy answers with its own reward model picking; one validation reward model, the largest size's, scores
the picks by the paper's estimator (section 4.3). Operations are counted from the episodes' own tokens: prompts read and
tokens sampled by the policy in every step, answers read by the reward model where n is more than 1
(`webgpt_jax/evaluation/flops.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.fig05_best_of_n import counts
from experiments.studies.figures import Line, draw, new_figure, save
from experiments.studies.points import Points
from experiments.studies.samples import open_judge, sample, scores_of, test_questions
from experiments.studies.study import Model, Result, Study, StudyFlags, find_models, main, open_study
from experiments.tinyweb_lab.answers import open_scorer
from experiments.tinyweb_lab.family import Plan, Say, reward_model_of
from webgpt_jax.algorithms.best_of_n import predicted_curve
from webgpt_jax.env import Action, Episode
from webgpt_jax.evaluation.flops import CompletionLengths, EpisodeLengths, best_of_n_flops
from webgpt_jax.evaluation.frontier import Point, pareto_frontier
from webgpt_jax.flags import option
from webgpt_jax.models import Tokenizer, load_pretrained, load_reward_model

NAME = "fig08"
CAPTION = (
    "Operations counted from the episodes' tokens, policy and reward model. Score: the validation reward model's of the"
    " largest size, in logits of preference; error bars ± 1 standard error over questions; numbers: n. Circled and"
    " joined: the Pareto frontier. Synthetic data (TinyWeb). The paper: 760M best-of-4, 13B best-of-16, 175B"
    " best-of-64 on it."
)


@dataclass(frozen=True)
class FrontierFlags(StudyFlags):
    """The flags of this study."""

    n: int = option(16, "the largest n")


@dataclass(frozen=True)
class FrontierPoint:
    """One model at one n.

    Attributes:
      size: the model.
      parameters: it has.
      n: answers that its reward model picks from.
      flops: operations a question.
      score: the validation reward model's of the pick, the mean over questions.
      score_error: its standard error over questions.
      questions: measured on.
      answered: the share of all episodes that have an answer.
    """

    size: str
    parameters: int
    n: int
    flops: float
    score: float
    score_error: float
    questions: int
    answered: float

    @property
    def label(self) -> str:
        """As the frontier calls it."""
        return f"{self.size} best-of-{self.n}"


def run(flags: FrontierFlags, *, plan: Plan | None = None, say: Say = print) -> Result[FrontierPoint]:
    """The study. Raises: see `open_study`, and what training raises.

    Args:
      flags: checked.
      plan: of how much to train, in place of the flags'.
      say: told what each step came to.
    """
    settings = {"test_questions": flags.asked, "n": flags.n, "judge": find_models(flags)[-1].name}
    with open_study(NAME, flags, settings, plan=plan, say=say) as study:
        points = Points(study.workdir / f"{NAME}.csv", FrontierPoint)
        missing = [model for model in study.models if not points.find(size=model.name)]
        for found in measure(study, missing, flags):
            points.add(found)
        rows = [row for model in study.models for row in points.find(size=model.name)]
        png = study.workdir / f"{NAME}.png"
        plot(rows, png)
        return Result(rows, points.path, png, tuple(summary(rows)))


def measure(study: Study, missing: Sequence[Model], flags: FrontierFlags) -> Iterator[list[FrontierPoint]]:
    """The points of the models that have none yet."""
    if not missing:
        return
    judge = open_judge(study, study.largest, study.policy(study.largest))
    asked = test_questions(study, flags.asked)
    for model in missing:
        policy = study.policy(model)
        picker = reward_model_of(model.name, policy, study.folder(model), study.plan, study.say)
        # One more than are picked from: the same as figure 5's.
        episodes = sample(study, policy, asked, flags.n + 1, study.folder(model))
        train, validation = scores_of(open_scorer(picker), episodes), scores_of(judge.scorer, episodes)
        score, error = predicted_curve(train, judge.with_floor(validation))
        costs = flops_by_n(policy, picker, [episode for row in episodes for episode in row], counts(flags.n))
        yield [
            FrontierPoint(
                size=model.name,
                parameters=model.parameters,
                n=n,
                flops=cost,
                score=float(score[n - 1]),
                score_error=float(error[n - 1]),
                questions=len(asked),
                answered=float(np.isfinite(train).mean()),
            )
            for n, cost in costs.items()
        ]


def flops_by_n(policy: Path, picker: Path, episodes: Sequence[Episode], wanted: Sequence[int]) -> dict[int, float]:
    """Operations a question for each n, the mean of these episodes standing for all."""
    model, tokenizer = load_pretrained(policy)
    reward_model, _ = load_reward_model(picker)
    assert tokenizer is not None  # it browsed with it
    lengths = [lengths_of(episode, tokenizer) for episode in episodes]
    return {n: best_of_n_flops(model.config, reward_model.config, lengths, n) for n in wanted}


def lengths_of(episode: Episode, tokenizer: Tokenizer) -> EpisodeLengths:
    """How many tokens were read and written in an episode."""
    asked = [(step.observation, step.action) for step in episode.steps]
    if episode.answer is not None and episode.answer_prompt is not None:
        asked.append((episode.answer_prompt, episode.answer))
    completions = tuple(
        CompletionLengths(len(tokenizer.encode(prompt)), _completion(action, tokenizer)) for prompt, action in asked
    )
    answer = episode.answer
    if answer is None or not answer.text.strip() or episode.answer_prompt is None:
        return EpisodeLengths(completions)
    read = len(tokenizer.encode(episode.answer_prompt)) + len(tokenizer.encode(answer.text)) + 1
    return EpisodeLengths(completions, read)


def _completion(action: Action, tokenizer: Tokenizer) -> int:
    """Tokens of an action, its end among them."""
    return len(tokenizer.encode(action.text)) + 1 if action.tokens is None else len(action.tokens)


def frontier_of(rows: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """The points that no other beats, from the cheapest to the dearest."""
    by_label = {row.label: row for row in rows}
    return [by_label[point.label] for point in pareto_frontier(Point(row.flops, row.score, row.label) for row in rows)]


def summary(rows: Sequence[FrontierPoint]) -> list[str]:
    """The frontier."""
    return [
        f"on the frontier: {row.label}, {row.flops:.2e} operations a question, score {row.score:.3f} ±"
        f" {row.score_error:.3f}"
        for row in frontier_of(rows)
    ]


def plot(rows: Sequence[FrontierPoint], path: Path) -> None:
    """The figure."""
    figure, axes = new_figure(
        "Best-of-n over sizes", "operations a question, FLOPs", "validation reward model's score, logits"
    )
    front = frontier_of(rows)
    axes.plot([row.flops for row in front], [row.score for row in front], color="#bbbbbb", linewidth=5, zorder=1)
    axes.scatter(
        [row.flops for row in front],
        [row.score for row in front],
        s=150,
        facecolors="none",
        edgecolors="#000000",
        zorder=3,
        label="on the frontier",
    )
    sizes = [[row for row in rows if row.size == size] for size in dict.fromkeys(row.size for row in rows)]
    draw(
        axes,
        [
            Line(own[0].size, [row.flops for row in own], [row.score for row in own], [row.score_error for row in own])
            for own in sizes
        ],
    )
    for row in rows:
        axes.annotate(str(row.n), (row.flops, row.score), (6, -12), textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    axes.legend(fontsize=8)
    save(figure, path, CAPTION)


if __name__ == "__main__":
    sys.exit(main("fig08_compute_frontier", __doc__, FrontierFlags, run))
