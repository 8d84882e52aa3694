"""`webgpt ask --best_of=N`: several attempts at a question, of which a reward model picks the answer that is given.

Nothing here imports NumPy or JAX before a reward model is loaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from webgpt_jax.cli import CommandError
from webgpt_jax.cli.report import answer_text
from webgpt_jax.env import Episode, episode_to_json

if TYPE_CHECKING:
    from webgpt_jax.algorithms.best_of_n import BestOfN

FORMAT = "webgpt-best-of-1"

Attempts: TypeAlias = "BestOfN[Episode]"


def load_scorer(folder: Path) -> Callable[[Episode], float | None]:
    """The score that a reward model gives an episode's answer, None where there is none. It reads what it was trained
    on: the answering prompt, the answer and the end token; of what is too long, the end.

    Raises:
      CommandError: the folder holds no reward model, or none with a tokenizer. Scoring raises it for a score that is no
        number.
    """
    from webgpt_jax.models import FolderSettings, PretrainedError, load_reward_model, read_settings
    from webgpt_jax.rollout import Scorer

    try:
        settings = read_settings(folder) or FolderSettings("reward_model")
        model, tokenizer = load_reward_model(folder)
    except (PretrainedError, ValueError) as error:
        raise CommandError(f"--reward_model: {error}") from None
    if tokenizer is None or tokenizer.eos_id is None:
        raise CommandError(f"--reward_model: {folder} has no tokenizer with an end token: put tokenizer.json beside it")
    scorer = Scorer(model, tokenizer, settings.context_tokens, rows=1)

    def scored(episode: Episode) -> float | None:
        (value,) = scorer.score([episode])
        if value is not None and not math.isfinite(value):
            raise CommandError(f"--reward_model: the score of {folder} is no number: its weights are broken")
        return value

    return scored


def chosen_episode(attempts: Attempts, reward_model: str) -> Episode | None:
    """The best attempt's episode, with a note of how it was chosen; None before any has ended."""
    if attempts.best is None or attempts.episode is None:
        return None
    score = attempts.scores[attempts.best]
    note = {"best_of": f"{len(attempts.ended)}", "attempt": f"{attempts.best + 1}", "reward_model": reward_model}
    if score is not None:
        note["score"] = f"{score:.6g}"
    return replace(attempts.episode, info={**attempts.episode.info, **note})


def attempts_text(attempts: Attempts, chosen: Episode) -> str:
    """The best answer with its references, and a line of all scores."""
    return f"{answer_text(chosen)}\n{scores_line(attempts)}\n"


def scores_line(attempts: Attempts) -> str:
    """All scores from the best to the worst, which attempt each is of, and which attempts have none. Counted from 1."""
    scored = [(score, number) for number, score in enumerate(attempts.scores) if score is not None]
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    parts = [
        ", ".join(
            f"{score:.3f} (attempt {number + 1}{', given above' if number == attempts.best else ''})"
            for score, number in scored
        )
        or "none"
    ]
    ended = set(attempts.ended)
    silent = [number for number in sorted(ended) if attempts.scores[number] is None]
    running = [number for number in range(len(attempts.episodes)) if number not in ended]
    for what, numbers in (("no answer", silent), ("not ended", running)):
        if numbers:
            parts.append(f"{what}: {', '.join(f'attempt {number + 1}' for number in numbers)}")
    return f"Scores of {len(attempts.episodes)} attempts: {'; '.join(parts)}"


def attempts_to_json(question: str, attempts: Attempts) -> str:
    """One line of JSON: scores and episodes [N] by attempt, and `best`, the place of the one chosen. Of an attempt that
    has not ended both are null, of one without an answer the score is."""
    episodes = [None if episode is None else json.loads(episode_to_json(episode)) for episode in attempts.episodes]
    record = {
        "format": FORMAT,
        "question": question,
        "best": attempts.best,
        "scores": attempts.scores,
        "episodes": episodes,
    }
    return json.dumps(record, separators=(",", ":"))
