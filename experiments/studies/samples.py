"""Answers to the questions of the set "test", which nothing is trained on, and what reward models make of them.

Only questions that can be answered are asked: labelers flag nonsense and compare no answers to it, so no reward model
knows what to make of them.

Legend: Q questions, N samples of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.studies.study import Model, Study
from experiments.tinyweb_lab.answers import open_scorer, sample_answers
from experiments.tinyweb_lab.family import validation_reward_model_of
from experiments.training_flags import RunError
from webgpt_jax.env import Episode, read_episodes
from webgpt_jax.rollout import Scorer
from webgpt_jax.tinyweb.questions import TinyQuestion, questions

Array = npt.NDArray[np.float64]

FLOOR_EPISODES = 256  # that the score of no answer is taken from


def test_questions(study: Study, count: int) -> list[TinyQuestion]:
    """The first questions of the set that can be answered.

    Raises:
      RunError: there are not so many.
    """
    answerable = (question for question in questions(study.world, "test", study.plan.seed) if question.needs)
    found = list(islice(answerable, count))
    if len(found) < count:
        raise RunError(f'the set "test" has {len(found)} questions: give --test_questions={len(found)} at most')
    return found


def sample(
    study: Study, policy: Path, asked: Sequence[TinyQuestion], n: int, folder: Path, seed: int = 0
) -> list[list[Episode]]:
    """n answers of a policy to each question, [Q][N], from the folder as far as they are there.

    Args:
      seed: beside the study's.
    """
    path = folder / f"test-{len(asked)}x{n}-{seed}.jsonl"
    key = 1_000_003 * (1 + study.plan.seed) + seed  # no other answers' seed
    return sample_answers(policy, study.world, asked, n, path, seed=key)


def scores_of(scorer: Scorer, episodes: Sequence[Sequence[Episode]]) -> Array:
    """A reward model's scores [Q, N]; NaN where there is no answer."""
    flat = scorer.score([episode for row in episodes for episode in row])
    return np.array([np.nan if score is None else score for score in flat]).reshape(len(episodes), -1)


@dataclass(frozen=True)
class Judge:
    """A validation reward model.

    Attributes:
      scorer: the model.
      floor: what no answer scores: the lowest score of its own set's answers (our reading: the paper does not say), so
        that a policy does not gain by keeping silent.
    """

    scorer: Scorer
    floor: float

    def with_floor(self, scores: Array) -> Array:
        """Its scores with a number for no answer."""
        return np.where(np.isnan(scores), self.floor, scores)


def open_judge(study: Study, model: Model, policy: Path) -> Judge:
    """A model's validation reward model, trained where it is not there.

    Raises:
      RunError: there is no answer to be found among those that it was trained on.
    """
    folder = study.folder(model)
    scorer = open_scorer(validation_reward_model_of(model.name, policy, folder, study.plan, study.say))
    own = list(islice(read_episodes(folder / "validation_rm" / "answers.jsonl"), FLOOR_EPISODES))
    scores = [score for score in scorer.score(own) if score is not None]
    if not scores:
        raise RunError(f"the policy of {model.name} answers no question: it needs more pre-training or demonstrations")
    return Judge(scorer, min(scores))
