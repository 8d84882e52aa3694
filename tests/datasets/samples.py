"""Small episodes, comparisons and a tokenizer of bytes, for tests of data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from webgpt_jax.datasets import Comparison, Side
from webgpt_jax.env import (
    Action,
    Episode,
    EpisodeEnd,
    ParsedObservation,
    Quote,
    Step,
    episode_to_json,
    render_answer_prompt,
    write_observation,
)

QUOTE = Quote("Blue light scatters.", "Sky", "sky.test", "", 0, 0)


class ByteTokenizer:
    """UTF-8 as it is, and 256 for the end."""

    vocab_size = 257
    eos_id: int | None = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))


def text_of(tokens: Sequence[int]) -> str:
    """What a ByteTokenizer made tokens of; the end token is `$`."""
    return b"".join(b"$" if token == 256 else bytes([token]) for token in tokens).decode("utf-8")


def observation(question: str, past_actions: Sequence[str] = (), actions_left: int = 9, text: str = "") -> str:
    return write_observation(ParsedObservation(question, (), tuple(past_actions), "", (0, 1), text, actions_left))


def episode(
    question: str, actions: Sequence[str] = ("Search sky", "End: Answer"), answer: str | None = "Blue."
) -> Episode:
    """An episode of searches and scrolls, with an answer from one quote unless that is None."""
    steps = [
        Step(observation(question, actions[:number], 9 - number, f"page {number}"), Action(text))
        for number, text in enumerate(actions)
    ]
    quotes = () if answer is None else (QUOTE,)
    return Episode(
        question=question,
        steps=tuple(steps),
        quotes=quotes,
        end=EpisodeEnd.NO_REFERENCES if answer is None else EpisodeEnd.ANSWER,
        answer_prompt=None if answer is None else render_answer_prompt(question, quotes),
        answer=None if answer is None else Action(answer),
    )


def write_episodes(path: Path, episodes: Sequence[Episode]) -> Path:
    path.write_text("".join(f"{episode_to_json(one)}\n" for one in episodes), encoding="utf-8")
    return path


def comparison(number: int, label: float = 1.0, question: str | None = None) -> Comparison:
    return Comparison(
        f"c-{number}",
        question or f"Why {number}?",
        Side((QUOTE,), f"Because of {number} [1]."),
        Side((), f"No idea {number}."),
        label,
    )
