"""Figure 7: how a reward model's accuracy grows with comparisons and with its size, beside that of people.

    python -m experiments.fig07_comparisons --seeds=3         # TinyWeb's family, runs/studies: not yet timed
    python -m experiments.fig07_comparisons --small           # the smallest size
    python -m experiments.fig07_comparisons --models=DIR,DIR --workdir=runs/other

To see: the accuracy rises with both, to within 5 points of what labelers reach. The paper: +1.8 points for each
doubling of the comparisons, +0.4 for each doubling of parameters; two labelers agree in 73%. Everything here is
synthetic: questions, web and labelers.

Reward models are trained on 1/8, 1/4, 1/2 and all of the comparisons' questions, a smaller share's being among a
larger's, as in figure 6. The comparisons, and the answers to held-out questions that accuracy is measured on, are of
one policy, the largest size's, so that sizes differ in the reward model alone (our reading). Accuracy is how often a
labeler is expected to agree, a tie against a difference counting half, on all pairs of different answers to a
question; it is not measured on what training stops by. The lines are a labeler against another one, and against the
majority of several.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.studies.figures import Line, draw, new_figure, powers_of_two, save
from experiments.studies.labelers import Pair, accuracy_of_labelers, accuracy_of_scores, pairs_of
from experiments.studies.points import Points
from experiments.studies.samples import sample, scores_of, test_questions
from experiments.studies.shares import SHARES, folder_of, name_of, without_checkpoints
from experiments.studies.slopes import mean_slope, said
from experiments.studies.study import Model, Result, Study, StudyFlags, find_models, main, open_study
from experiments.tinyweb_lab.answers import open_scorer
from experiments.tinyweb_lab.family import Plan, Say, comparisons_of, train_reward_model
from experiments.train_rm import RMFlags
from experiments.training_flags import RunError
from webgpt_jax.datasets import read_comparisons
from webgpt_jax.evaluation.stats import mean_over_questions
from webgpt_jax.flags import option
from webgpt_jax.tinyweb.preferences import LabelerConfig

NAME = "fig07"
LABELERS = (1, 3, 5)  # whose majority is held against another one; our reading, the paper's ensemble has no number
CAPTION = (
    "Accuracy on held-out comparisons, a tie against a difference counting half; mean over seeds; error bars ± 1"
    " standard error over questions. Grey lines: a labeler against the majority of so many others. Synthetic data"
    " (TinyWeb). The paper: +1.8 points for each doubling of comparisons, +0.4 for each doubling of parameters; two"
    " labelers agree in 73%."
)


@dataclass(frozen=True)
class ComparisonsFlags(StudyFlags):
    """The flags of this study."""

    samples: int = option(4, "answers to each held-out question, all pairs of which are compared")
    seeds: int = option(1, "trainings of each point, each with another order of the data and another new head")


@dataclass(frozen=True)
class ComparisonsPoint:
    """One reward model, or labelers.

    Attributes:
      size: the model, or "labelers".
      parameters: it has; of labelers, how many vote.
      share: of the comparisons' questions, 1/8 … 1.
      comparisons: that it was trained on; of labelers 0.
      seed: of the training.
      accuracy: how often a labeler is expected to agree, 0 … 1.
      accuracy_error: its standard error over questions.
      questions: measured on.
      pairs: of answers to them.
    """

    size: str
    parameters: int
    share: float
    comparisons: int
    seed: int
    accuracy: float
    accuracy_error: float
    questions: int
    pairs: int


LABELERS_NAME = "labelers"


def run(flags: ComparisonsFlags, *, plan: Plan | None = None, say: Say = print) -> Result[ComparisonsPoint]:
    """The study. Raises: see `open_study`, and what training raises.

    Args:
      flags: checked.
      plan: of how much to train, in place of the flags'.
      say: told what each step came to.
    """
    policy = find_models(flags)[-1].name
    settings = {"test_questions": flags.asked, "samples": flags.samples, "policy": policy}
    with open_study(NAME, flags, settings, plan=plan, say=say) as study:
        points = Points(study.workdir / f"{NAME}.csv", ComparisonsPoint)
        wanted = [(model, share, seed) for seed in range(flags.seeds) for model in study.models for share in SHARES]
        missing = [
            (model, share, seed)
            for model, share, seed in wanted
            if not points.find(size=model.name, share=share, seed=seed)
        ]
        for found in measure(study, missing, flags, labelers=not points.find(size=LABELERS_NAME)):
            points.add(found)
        rows = points.find(size=LABELERS_NAME) + [
            row for model, share, seed in wanted for row in points.find(size=model.name, share=share, seed=seed)
        ]
        png = study.workdir / f"{NAME}.png"
        plot(rows, png)
        return Result(rows, points.path, png, tuple(summary(rows)))


def measure(
    study: Study, missing: Sequence[tuple[Model, float, int]], flags: ComparisonsFlags, *, labelers: bool
) -> Iterator[list[ComparisonsPoint]]:
    """The points that are not there yet, as they are finished."""
    if not missing and not labelers:
        return
    policies = {model.name: study.policy(model) for model in {study.largest, *(model for model, _, _ in missing)}}
    answering = policies[study.largest.name]
    data = comparisons_of(answering, study.world, "rm", study.plan, study.folder(study.largest) / "rm")
    asked = test_questions(study, flags.asked)
    episodes = sample(study, answering, asked, flags.samples, study.folder(study.largest))
    pairs = pairs_of(study.world, asked, episodes, LabelerConfig())
    if not pairs:
        raise RunError("no question has two different answers: there is nothing to compare")
    if labelers:
        yield [_labelers(pairs, count) for count in LABELERS]
    for model, share, seed in missing:
        plan = replace(study.plan, seed=study.plan.seed + seed)
        if share == 1 and seed == 0 and model == study.largest:
            reward_model = train_reward_model(answering, data, data.parent, plan).final
        else:
            folder = study.folder(model) / "rm_shares" / folder_of(share, seed)
            reward_model = without_checkpoints(
                train_reward_model(policies[model.name], data, folder, plan, share)
            ).final
        right = accuracy_of_scores(pairs, scores_of(open_scorer(reward_model), episodes))
        accuracy = mean_over_questions(right, [pair.question for pair in pairs])
        study.say(f"{model.name}, {name_of(share)} of the comparisons, seed {seed}: accuracy {accuracy}")
        yield [
            ComparisonsPoint(
                size=model.name,
                parameters=model.parameters,
                share=share,
                comparisons=count_comparisons(data, share),
                seed=seed,
                accuracy=accuracy.mean,
                accuracy_error=accuracy.standard_error,
                questions=accuracy.count,
                pairs=len(pairs),
            )
        ]


def _labelers(pairs: Sequence[Pair], count: int) -> ComparisonsPoint:
    accuracy = mean_over_questions(
        [accuracy_of_labelers(pair.chances, count) for pair in pairs], [pair.question for pair in pairs]
    )
    return ComparisonsPoint(
        size=LABELERS_NAME,
        parameters=count,
        share=1.0,
        comparisons=0,
        seed=0,
        accuracy=accuracy.mean,
        accuracy_error=accuracy.standard_error,
        questions=accuracy.count,
        pairs=len(pairs),
    )


def count_comparisons(path: Path, share: float) -> int:
    """Comparisons of a file that a reward model learns from with a share of the questions."""
    return sum(1 for _ in read_comparisons([path], split="train", held_out=RMFlags.held_out, share=share))


def summary(rows: Sequence[ComparisonsPoint]) -> list[str]:
    """The slopes, and what labelers reach."""
    people = [row for row in rows if row.size == LABELERS_NAME]
    models = [row for row in rows if row.size != LABELERS_NAME]
    lines = [
        f"{row.parameters} labeler(s) against another: {row.accuracy:.1%} ± {row.accuracy_error:.1%}" for row in people
    ]
    lines += [
        said(
            f"{size}: accuracy for each doubling of comparisons",
            mean_slope((0, row.comparisons, 100 * row.accuracy) for row in models if row.size == size),
            " points",
        )
        for size in dict.fromkeys(row.size for row in models)
    ]
    return [
        *lines,
        said(
            "mean of the sizes, accuracy for each doubling of comparisons (paper: +1.8)",
            mean_slope((row.parameters, row.comparisons, 100 * row.accuracy) for row in models),
            " points",
        ),
        said(
            "accuracy for each doubling of parameters (paper: +0.4)",
            mean_slope((row.share, row.parameters, 100 * row.accuracy) for row in models),
            " points",
        ),
    ]


def plot(rows: Sequence[ComparisonsPoint], path: Path) -> None:
    """The figure."""
    figure, axes = new_figure("Reward models: more comparisons", "comparisons trained on", "accuracy, %")
    sizes: dict[str, dict[int, list[ComparisonsPoint]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.size == LABELERS_NAME:
            who = "a labeler" if row.parameters == 1 else f"majority of {row.parameters} labelers"
            dashes = (0, (2 * row.parameters, 2))
            axes.axhline(100 * row.accuracy, color="#777777", linewidth=0.9, linestyle=dashes, label=who)
        else:
            sizes[row.size][row.comparisons].append(row)
    draw(
        axes,
        [
            Line(
                size,
                list(by_count),
                [100 * float(np.mean([row.accuracy for row in own])) for own in by_count.values()],
                # The questions are the same for all seeds: their error does not shrink with more seeds.
                [100 * float(np.mean([row.accuracy_error for row in own])) for own in by_count.values()],
            )
            for size, by_count in sizes.items()
        ],
    )
    ticks = sorted({row.comparisons for row in rows if row.size != LABELERS_NAME})
    powers_of_two(axes, ticks, [f"{count:,}" for count in ticks])
    axes.legend(fontsize=8)
    save(figure, path, CAPTION)


if __name__ == "__main__":
    sys.exit(main("fig07_comparisons", __doc__, ComparisonsFlags, run))
