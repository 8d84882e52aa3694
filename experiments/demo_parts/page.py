"""The demo's page: what was measured, the figures, and each question with all of its answers.

Legend: Q questions, N + 1 answers to each, the first of them the policy's single one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.demo_parts.targets import Check
from experiments.studies.samples import Array
from experiments.tinyweb_lab.answers import judgement, preference
from webgpt_jax.algorithms import select_best
from webgpt_jax.env import Episode
from webgpt_jax.feedback import Figure, PageContents, QuestionSection, Shown
from webgpt_jax.tinyweb.preferences import LabelerConfig
from webgpt_jax.tinyweb.questions import TinyQuestion
from webgpt_jax.tinyweb.world import World

NOTE = (
    "TinyWeb is synthetic: its animals, their facts and the questions are made up. The people who demonstrated and the"
    " labelers who compared are simulated."
)


def contents(
    world: World,
    asked: Sequence[TinyQuestion],
    answers: Sequence[Sequence[Episode]],
    scores: Array,
    rows: Sequence[Check],
    figures: Sequence[tuple[str, Path, str]],
) -> PageContents:
    """The page.

    Args:
      answers: [Q][N + 1].
      scores: [Q, N + 1], the reward model's; NaN where there is no answer.
      rows: what was measured.
      figures: title, PNG file and what it shows.
    """
    return PageContents(
        title="WebGPT on TinyWeb: behaviour cloning, a reward model, best-of-n",
        note=NOTE,
        summary=[(row.what, f"{row.measured} (target: {row.target}; {row.verdict})") for row in rows],
        figures=[Figure(title, path.read_bytes(), alt) for title, path, alt in figures],
        sections=[
            QuestionSection(question.text, _answers(world, question, episodes, row.tolist()))
            for question, episodes, row in zip(asked, answers, scores, strict=True)
        ],
    )


def _answers(world: World, question: TinyQuestion, episodes: Sequence[Episode], scores: Sequence[float]) -> list[Shown]:
    """The answers to a question: the pick of the last N, the single one, the others."""
    picked = 1 + select_best(scores[1:])
    liked = preference(world, question, episodes[picked], episodes[0], LabelerConfig())
    shown = []
    for number, (episode, score) in enumerate(zip(episodes, scores, strict=True)):
        utility = f"The labeler's utility: {judgement(world, question, episode).utility:.2f}."
        label = "behaviour cloning's single answer" if number == 0 else f"attempt {number} of {len(episodes) - 1}"
        note = utility
        if number == picked:
            note = f"{utility} Preferred to the single answer by {liked:.0%} of labelers, a tie counting half."
        shown.append(Shown(episode, label, score, best=number == picked, note=note))
    return shown
