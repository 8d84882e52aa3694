"""Figure 6: how a policy's score grows with demonstrations and with its size.

    python -m experiments.fig06_demonstrations --seeds=3      # TinyWeb's family, runs/studies: not yet timed
    python -m experiments.fig06_demonstrations --small        # the smallest size
    python -m experiments.fig06_demonstrations --models=DIR,DIR --workdir=runs/other

To see: the score rises with both. The paper: +0.13 for each doubling of the demonstrations, +0.09 for each doubling of
parameters. Everything here is synthetic: questions, web, demonstrations and labelers.

Behaviour cloning on 1/8, 1/4, 1/2 and all of the demonstrations' questions, a smaller share's being among a larger's,
each for as many epochs and by the same settings; only the average of weights forgets faster where there are fewer
updates. The answers to held-out questions are scored by one validation reward model, the largest size's; an episode
without an answer scores as the worst answer does.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.studies.figures import Line, draw, new_figure, powers_of_two, save
from experiments.studies.points import Points
from experiments.studies.samples import open_judge, sample, scores_of, test_questions
from experiments.studies.shares import SHARES, folder_of, name_of, without_checkpoints
from experiments.studies.slopes import mean_slope, said
from experiments.studies.study import Model, Result, Study, StudyFlags, find_models, main, open_study
from experiments.tinyweb_lab.family import Plan, Say, clone, demonstrations_of
from experiments.train_bc import BCFlags
from webgpt_jax.datasets.splits import is_in_split
from webgpt_jax.env import read_episodes
from webgpt_jax.evaluation.stats import mean_over_questions
from webgpt_jax.flags import option

NAME = "fig06"
CAPTION = (
    "Score: the validation reward model's of the largest size, in logits of preference; mean over held-out questions,"
    " and over seeds; error bars ± 1 standard error over questions. Synthetic data (TinyWeb). The paper: +0.13 for each"
    " doubling of demonstrations, +0.09 for each doubling of parameters."
)


@dataclass(frozen=True)
class DemonstrationsFlags(StudyFlags):
    """The flags of this study."""

    samples: int = option(2, "answers to each held-out question")
    seeds: int = option(1, "trainings of each point, each with another order of the data and other samples")


@dataclass(frozen=True)
class DemonstrationsPoint:
    """One policy.

    Attributes:
      size: the model.
      parameters: it has.
      share: of the demonstrations' questions, 1/8 … 1.
      demonstrations: episodes that it was trained on.
      seed: of the training.
      score: the validation reward model's, the mean over questions.
      score_error: its standard error over questions.
      questions: measured on.
      answered: the share of the episodes that have an answer.
    """

    size: str
    parameters: int
    share: float
    demonstrations: int
    seed: int
    score: float
    score_error: float
    questions: int
    answered: float


def run(flags: DemonstrationsFlags, *, plan: Plan | None = None, say: Say = print) -> Result[DemonstrationsPoint]:
    """The study. Raises: see `open_study`, and what training raises.

    Args:
      flags: checked.
      plan: of how much to train, in place of the flags'.
      say: told what each step came to.
    """
    judge = find_models(flags)[-1].name
    settings = {"test_questions": flags.asked, "samples": flags.samples, "judge": judge}
    with open_study(NAME, flags, settings, plan=plan, say=say) as study:
        points = Points(study.workdir / f"{NAME}.csv", DemonstrationsPoint)
        wanted = [(model, share, seed) for seed in range(flags.seeds) for model in study.models for share in SHARES]
        missing = [
            (model, share, seed)
            for model, share, seed in wanted
            if not points.find(size=model.name, share=share, seed=seed)
        ]
        for point in measure(study, missing, flags):
            points.add([point])
        rows = [row for model, share, seed in wanted for row in points.find(size=model.name, share=share, seed=seed)]
        png = study.workdir / f"{NAME}.png"
        plot(rows, png)
        return Result(rows, points.path, png, tuple(summary(rows)))


def measure(
    study: Study, missing: Sequence[tuple[Model, float, int]], flags: DemonstrationsFlags
) -> Iterator[DemonstrationsPoint]:
    """The points that are not there yet, as they are finished."""
    if not missing:
        return
    judge = open_judge(study, study.largest, study.policy(study.largest))
    asked = test_questions(study, flags.asked)
    for model, share, seed in missing:
        folder = study.folder(model) / "bc_shares" / folder_of(share, seed)
        demonstrations = demonstrations_of(study.workdir, model.pretrained, study.plan)
        if share == 1 and seed == 0:
            policy = study.policy(model)
        else:
            plan = replace(study.plan, seed=study.plan.seed + seed)
            policy = without_checkpoints(clone(model.pretrained, demonstrations, folder, plan, share)).final
        scores = scores_of(judge.scorer, sample(study, policy, asked, flags.samples, folder, seed))
        score = mean_over_questions(judge.with_floor(scores).mean(axis=1))
        study.say(f"{model.name}, {name_of(share)} of the demonstrations, seed {seed}: score {score}")
        yield DemonstrationsPoint(
            size=model.name,
            parameters=model.parameters,
            share=share,
            demonstrations=count_demonstrations(demonstrations, share),
            seed=seed,
            score=score.mean,
            score_error=score.standard_error,
            questions=len(asked),
            answered=float(np.isfinite(scores).mean()),
        )


def count_demonstrations(path: Path, share: float) -> int:
    """Episodes of a file that behaviour cloning on a share of the questions learns from."""
    return sum(is_in_split(episode.question, "train", BCFlags.held_out, share) for episode in read_episodes(path))


def summary(rows: Sequence[DemonstrationsPoint]) -> list[str]:
    """The slopes."""
    lines = [
        said(
            f"{size}: score for each doubling of demonstrations",
            mean_slope((0, row.demonstrations, row.score) for row in rows if row.size == size),
        )
        for size in dict.fromkeys(row.size for row in rows)
    ]
    return [
        *lines,
        said(
            "mean of the sizes, score for each doubling of demonstrations (paper: +0.13)",
            mean_slope((row.parameters, row.demonstrations, row.score) for row in rows),
        ),
        said(
            "score for each doubling of parameters (paper: +0.09)",
            mean_slope((row.share, row.parameters, row.score) for row in rows),
        ),
    ]


def plot(rows: Sequence[DemonstrationsPoint], path: Path) -> None:
    """The figure."""
    figure, axes = new_figure(
        "Behaviour cloning: more demonstrations", "demonstrations, episodes", "validation reward model's score, logits"
    )
    sizes: dict[str, dict[int, list[DemonstrationsPoint]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        sizes[row.size][row.demonstrations].append(row)
    draw(
        axes,
        [
            Line(
                size,
                list(by_count),
                [float(np.mean([row.score for row in own])) for own in by_count.values()],
                # The questions are the same for all seeds: their error does not shrink with more seeds.
                [float(np.mean([row.score_error for row in own])) for own in by_count.values()],
            )
            for size, by_count in sizes.items()
        ],
    )
    ticks = sorted({row.demonstrations for row in rows})
    powers_of_two(axes, ticks, [f"{count:,}" for count in ticks])
    axes.legend()
    save(figure, path, CAPTION)


if __name__ == "__main__":
    sys.exit(main("fig06_demonstrations", __doc__, DemonstrationsFlags, run))
