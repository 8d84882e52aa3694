"""The reward model's score of an episode: it reads the answering prompt, the answer and the end of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from webgpt_jax.algorithms import score
from webgpt_jax.env import Episode
from webgpt_jax.models import ScalarTransformer, Tokenizer

LENGTHS = 64  # inputs are padded to a multiple of this


class Scorer:
    """A reward model, its parameters as they are now.

    Args:
      model: the reward model.
      tokenizer: its own.
      length: tokens of an input at most; a longer one loses its front, as in training. None: the model's.

      rows: scored at once; a batch that is not full is padded to it, so that few programs are compiled.

    Raises:
      ValueError: the tokenizer has no end token, which every answer ends with.
    """

    def __init__(
        self, model: ScalarTransformer, tokenizer: Tokenizer, length: int | None = None, rows: int = 64
    ) -> None:
        if tokenizer.eos_id is None:
            raise ValueError("the reward model's tokenizer has no end token (eos)")
        self._model, self._tokenizer, self._end = model, tokenizer, tokenizer.eos_id
        self._rows = rows
        self._length = min(length or model.config.max_length, model.config.max_length)

    def score(self, episodes: Sequence[Episode]) -> list[float | None]:
        """The score of each episode's answer; None where there is none. Independent of what is scored beside it."""
        inputs = {number: self._tokens(episode) for number, episode in enumerate(episodes) if _has_answer(episode)}
        scores: list[float | None] = [None] * len(episodes)
        by_length = sorted(inputs, key=lambda number: len(inputs[number]))
        for first in range(0, len(by_length), self._rows):
            chosen = by_length[first : first + self._rows]
            longest = max(len(inputs[number]) for number in chosen)
            width = min(math.ceil(longest / LENGTHS) * LENGTHS, self._model.config.max_length)
            tokens, mask = np.zeros((self._rows, width), np.int32), np.zeros((self._rows, width), np.int32)
            for row, number in enumerate(chosen):
                tokens[row, : len(inputs[number])], mask[row, : len(inputs[number])] = inputs[number], 1
            found = np.asarray(score(self._model, tokens, mask))
            for row, number in enumerate(chosen):
                scores[number] = float(found[row])
        return scores

    def _tokens(self, episode: Episode) -> list[int]:
        assert episode.answer is not None
        assert episode.answer_prompt is not None
        prompt = self._tokenizer.encode(episode.answer_prompt)
        return [*prompt, *self._tokenizer.encode(episode.answer.text), self._end][-self._length :]


def _has_answer(episode: Episode) -> bool:
    return episode.answer is not None and bool(episode.answer.text.strip())
