"""Logits to tokens, on the device: masks, temperature, top-p, one uniform number a token, log-probabilities.

Each row is computed from itself alone and with the same operations whatever the others want, so that a token does not
depend on what it was batched with. Nothing is sorted: XLA sorts a vocabulary in milliseconds a row on the CPU.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from webgpt_jax.models.attention import MASKED

LOWEST_TEMPERATURE = 1e-3  # below it logits would overflow; 0 itself is greedy


class Settings(NamedTuple):
    """How each row is sampled."""

    keys: jax.Array  # [B, ...] uint32: key data of each request
    temperature: jax.Array  # [B] float32, 0 for greedy
    top_p: jax.Array  # [B] float32 in (0, 1]


def sample(
    logits: jax.Array,  # [B, V] float32
    mask: jax.Array,  # [B, V] bool: tokens that may be sampled, at least one a row
    settings: Settings,
    positions: jax.Array,  # [B] int32: where the sampled tokens will stand; folded into the keys
) -> tuple[jax.Array, jax.Array]:
    """Tokens [B] int32 and their log-probabilities [B] float32 in the distribution that they were sampled from.

    The distribution is the softmax of the unmasked logits over temperature, cut to the smallest set of most likely
    tokens whose probabilities sum to `top_p` or more (ties with the least of them stay in), and normalised again.
    Greedy rows take the first of the most likely tokens, with its log-probability at temperature 1.
    """
    logits = jnp.where(mask, logits, MASKED)
    greedy = settings.temperature == 0
    temperature = jnp.where(greedy, 1.0, settings.temperature)
    highest = jnp.max(logits, axis=-1, keepdims=True)
    scaled = (logits - highest) / temperature[:, None]
    weights = jnp.where(mask, jnp.exp(scaled), 0.0)  # the likeliest token weighs 1
    threshold = _threshold(weights, jnp.where(greedy, 1.0, settings.top_p))
    kept = jnp.where(weights >= threshold[:, None], weights, 0.0)
    drawn = _draw(kept, _uniform(settings.keys, positions))
    # The first of the highest; XLA's own argmax takes four times as long on the CPU.
    vocab = jnp.arange(logits.shape[-1], dtype=jnp.int32)[None]
    likeliest = jnp.min(jnp.where(logits == highest, vocab, logits.shape[-1]), axis=-1)
    tokens = jnp.where(greedy, likeliest, drawn)
    logprobs = jnp.take_along_axis(scaled, tokens[:, None], axis=-1)[:, 0] - jnp.log(jnp.sum(kept, axis=-1))
    return tokens, logprobs


def _uniform(keys: jax.Array, positions: jax.Array) -> jax.Array:
    """[B] float32 in [0, 1), each of its key and position alone."""

    def one(key: jax.Array, position: jax.Array) -> jax.Array:
        return jax.random.uniform(jax.random.fold_in(jax.random.wrap_key_data(key), position))

    return jax.vmap(one)(keys, positions)


def _threshold(weights: jax.Array, top_p: jax.Array) -> jax.Array:
    """[B]: the highest weight t such that the weights of at least t make up `top_p` of all; 0 where `top_p` is 1.

    Found by bisection over the bits of the float, which are ordered as the floats are: 31 rounds find it exactly, and
    none is done where no row asks for it.
    """
    wanted = top_p * jnp.sum(weights, axis=-1)
    whole = top_p >= 1
    low = jnp.zeros_like(top_p, jnp.int32)  # a threshold that keeps enough
    high = jnp.where(whole, low + 1, jax.lax.bitcast_convert_type(jnp.max(weights, axis=-1), jnp.int32) + 1)  # too few

    def unfinished(bounds: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.any(bounds[1] - bounds[0] > 1)

    def halve(bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = low + (high - low) // 2
        least = jax.lax.bitcast_convert_type(middle, jnp.float32)
        enough = jnp.sum(jnp.where(weights >= least[:, None], weights, 0.0), axis=-1) >= wanted
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    low, _ = jax.lax.while_loop(unfinished, halve, (low, high))
    return jnp.where(whole, 0.0, jax.lax.bitcast_convert_type(low, jnp.float32))


def _draw(weights: jax.Array, uniform: jax.Array) -> jax.Array:
    """[B]: indices drawn in proportion to `weights` [B, V], by inverting the sums up to each: first of blocks of about
    sqrt(V), then within one, since a running sum over all of V is slow."""
    rows, vocab = weights.shape
    width = math.isqrt(vocab - 1) + 1
    blocks = -(-vocab // width)
    blocked = jnp.pad(weights, ((0, 0), (0, blocks * width - vocab))).reshape(rows, blocks, width)
    sums = jnp.cumsum(jnp.sum(blocked, axis=-1), axis=-1)  # [B, blocks]
    block, rest = _invert(sums, uniform * sums[:, -1])
    inner = jnp.cumsum(jnp.take_along_axis(blocked, block[:, None, None], axis=1)[:, 0], axis=-1)  # [B, width]
    within, _ = _invert(inner, rest)
    return block * width + within


def _invert(sums: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first index whose running sum exceeds `target`, which adds something; and the target less the sum before."""
    target = jnp.clip(target, 0.0, jnp.nextafter(sums[:, -1], jnp.zeros_like(target)))  # rounding may reach the end
    index = jnp.sum(sums <= target[:, None], axis=-1, dtype=jnp.int32)
    before = jnp.where(index > 0, jnp.take_along_axis(sums, jnp.maximum(index - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    return index, target - before
