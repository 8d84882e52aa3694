"""What BC is stopped by in the paper: the reward model's score of sampled episodes, which improves past the least
held-out loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import jax

from experiments.training_flags import RunError
from webgpt_jax.cli import CommandError
from webgpt_jax.cli.webs import WebFlags, open_web
from webgpt_jax.datasets import read_questions
from webgpt_jax.env import Episode
from webgpt_jax.flags import UsageError
from webgpt_jax.models import FolderSettings, Tokenizer, Transformer, load_reward_model, read_settings
from webgpt_jax.rollout import Scorer, Task, open_player

SLOTS = 16
NO_ANSWERS = -100.0  # where no episode has an answer: a finite number that no score is as low as


def make_judge(
    reward_model: Path, web: str, questions: Path, *, episodes: int = 64, seed: int = 0
) -> Callable[[Transformer, Tokenizer, FolderSettings], Mapping[str, float]]:
    """Plays episodes with the model as it is, always the same questions by the same keys, and scores their answers.

    An episode without an answer counts as the worst score of those that have one, so that silence never helps.

    Args:
      reward_model: its folder.
      web: as `webgpt ask --web=…` takes it.
      questions: a file of them, see `read_questions`; the first are taken.
      episodes: how many.
      seed: of what is sampled.

    Raises:
      UsageError: the run is on more than one device, or there are no questions.
      PretrainedError, DataError: a file cannot be used.
    """
    if jax.device_count() > 1:
        raise UsageError("--stop_by=rm_score samples on one device: give a mesh of one, or --stop_by=loss")
    asked = list(islice(read_questions(questions), episodes))
    if not asked:
        raise UsageError(f"{questions} holds no questions")
    scalar, tokenizer = load_reward_model(reward_model)
    if tokenizer is None:
        raise UsageError(f"{reward_model} has no tokenizer")
    scorer = Scorer(scalar, tokenizer, (read_settings(reward_model) or FolderSettings("reward_model")).context_tokens)
    key = jax.random.key(seed)
    tasks = [
        Task(question.question, jax.random.fold_in(key, number), question.reference_answer)
        for number, question in enumerate(asked)
    ]

    def judge(model: Transformer, tokenizer: Tokenizer, settings: FolderSettings) -> dict[str, float]:
        async def play() -> list[Episode]:
            async with open_web(WebFlags(web=web)) as opened:
                return await player.play_all(opened, tasks, concurrency=2 * SLOTS)

        try:
            with open_player(model, tokenizer, settings, slots=SLOTS) as player:
                played = asyncio.run(play())
        except CommandError as error:
            raise RunError(str(error)) from error
        scores = scorer.score(played)
        known = [score for score in scores if score is not None]
        worst = min(known, default=NO_ANSWERS)
        filled = [worst if score is None else score for score in scores]
        return {
            "validation/rm_score": sum(filled) / len(filled),
            "validation/answered": len(known) / len(scores),
        }

    return judge
