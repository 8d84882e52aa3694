"""A tiny model for the engine's tests, and completions by the definition: a full forward pass for each token."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tests.models.shapes import ROTARY, random_parameters
from webgpt_jax.models import Transformer
from webgpt_jax.sampling import EngineConfig

CONFIG = replace(ROTARY, max_length=64, num_layers=2)
VOCAB = CONFIG.vocab_size
SIZE = EngineConfig(slots=4, max_length=64, prefill_chunk=8, smallest_bucket=4)


def tiny_model() -> Transformer:
    return Transformer(CONFIG, params=random_parameters(CONFIG))


def distribution(model: Transformer, sequence: list[int], temperature: float) -> NDArray[np.float64]:
    """[V]: probabilities of what follows, by a forward pass over a padded sequence (so that it compiles once)."""
    padded = np.zeros((1, CONFIG.max_length), np.int32)
    padded[0, : len(sequence)] = sequence
    logits = np.asarray(model(jnp.asarray(padded))[0, len(sequence) - 1], np.float64) / temperature
    weights = np.exp(logits - logits.max())
    result: NDArray[np.float64] = weights / weights.sum()
    return result


def truncated(probabilities: NDArray[np.float64], top_p: float) -> NDArray[np.float64]:
    """The most likely tokens whose probabilities sum to `top_p` or more, normalised again."""
    order = np.argsort(-probabilities)
    count = int(np.searchsorted(np.cumsum(probabilities[order]), top_p)) + 1
    kept = np.zeros_like(probabilities)
    kept[order[:count]] = probabilities[order[:count]]
    result: NDArray[np.float64] = kept / kept.sum()
    return result


def uniform(key: jax.Array, position: int) -> float:
    return float(jax.random.uniform(jax.random.fold_in(key, position)))


def by_definition(
    model: Transformer, prompt: list[int], key: jax.Array, max_tokens: int, temperature: float = 1.0, top_p: float = 1.0
) -> tuple[list[int], list[float]]:
    """Tokens and log-probabilities that the engine must give."""
    sequence, logprobs = list(prompt), []
    for _ in range(max_tokens):
        kept = distribution(model, sequence, temperature or 1.0)
        if temperature == 0:
            token = int(np.argmax(kept))
        else:
            kept = truncated(kept, top_p) if top_p < 1 else kept
            token = int(np.searchsorted(np.cumsum(kept), uniform(key, len(sequence)), side="right"))
        sequence.append(token)
        logprobs.append(float(np.log(kept[token])))
    return sequence[len(prompt) :], logprobs
