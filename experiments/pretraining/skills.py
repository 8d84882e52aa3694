"""How exactly a model reads: the share of completions that are right in every token, skill by skill, on a held-out
world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from experiments.pretraining.batches import HELD_OUT_WORLD, WORLD_ANIMALS, Batch, browser_config, encode, pad
from webgpt_jax.models import Params, Tokenizer, TransformerConfig, forward, unembed
from webgpt_jax.tinyweb.reading import SKILLS, Reader
from webgpt_jax.tinyweb.web import open_library

ROWS = 64  # of a batch

Measure = Callable[[Params], Mapping[str, float]]


def skill_measure(config: TransformerConfig, tokenizer: Tokenizer, tasks: int) -> Measure:
    """Gives the rates of a model's parameters by skill, each token being the likeliest after the right ones before.

    Args:
      config: the model's.
      tokenizer: its own.
      tasks: of each skill, a multiple of 64.
    """
    held_out = _held_out(tokenizer, tasks)

    @jax.jit
    def likeliest(params: Params, tokens: jax.Array) -> jax.Array:
        return jnp.argmax(unembed(config, params, forward(config, params, tokens)), axis=-1)

    def right(params: Params, rows: Batch, answers: NDArray[np.bool_]) -> float:
        said = np.asarray(likeliest(params, rows["tokens"]))
        return float(np.where(answers, said == rows["targets"], True).all(axis=1).mean())

    def measure(params: Params) -> dict[str, float]:
        return {skill: sum(right(params, *part) for part in parts) / len(parts) for skill, parts in held_out.items()}

    return measure


def _held_out(tokenizer: Tokenizer, tasks: int) -> dict[str, list[tuple[Batch, NDArray[np.bool_]]]]:
    """Tasks by skill, in batches of one length a skill, and which tokens answer."""
    reader = Reader(open_library(HELD_OUT_WORLD, animals=WORLD_ANIMALS), browser_config(tokenizer), 0)
    found = {}
    for skill in SKILLS:
        examples = [encode(reader.task(skill), tokenizer) for _ in range(tasks)]
        length = max(len(tokens) for tokens, _ in examples) - 1
        parts = []
        for first in range(0, tasks, ROWS):
            part = examples[first : first + ROWS]
            answers = np.zeros((len(part), length), bool)
            for row, (tokens, given) in enumerate(part):
                answers[row, given - 1 : len(tokens) - 1] = True
            parts.append((pad(part, length), answers))
        found[skill] = parts
    return found
