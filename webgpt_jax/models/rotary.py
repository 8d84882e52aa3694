"""Rotary positions (Su et al., arXiv:2104.09864): queries and keys turn by angles that grow with their position."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from webgpt_jax.models.config import RotaryScaling, TransformerConfig


def rotary_frequencies(config: TransformerConfig) -> NDArray[np.float32]:
    """Radians a token for each of the `rotary_dim / 2` pairs, fastest first, stretched as the config says. Float32."""
    exponents = np.arange(0, config.rotary_dim, 2, dtype=np.float32) / config.rotary_dim
    frequencies = np.asarray(1.0 / np.power(np.float32(config.rotary_theta), exponents), np.float32)
    scaling = config.rotary_scaling
    if scaling is None:
        return frequencies
    if scaling.kind == "linear":
        return np.asarray(frequencies / scaling.factor, np.float32)
    return _llama3(frequencies, scaling)


def _llama3(frequencies: NDArray[np.float32], scaling: RotaryScaling) -> NDArray[np.float32]:
    """Llama 3.1's: waves that fit often into the original context stay, long ones slow down, the rest is blended."""
    turns = scaling.original_length * frequencies / (2 * math.pi)
    span = scaling.high_frequency_factor - scaling.low_frequency_factor
    kept = np.clip((turns - scaling.low_frequency_factor) / span, 0.0, 1.0)
    return np.asarray((1 - kept) * frequencies / scaling.factor + kept * frequencies, np.float32)


def rotary_angles(config: TransformerConfig, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines [..., rotary_dim / 2] of the angles at `positions` [...]. Float32."""
    angles = positions.astype(jnp.float32)[..., None] * _broadcast(jnp.asarray(rotary_frequencies(config)), positions)
    return jnp.cos(angles), jnp.sin(angles)


def _broadcast(frequencies: jax.Array, positions: jax.Array) -> jax.Array:
    return frequencies.reshape((1,) * positions.ndim + frequencies.shape)


def rotate(config: TransformerConfig, heads: jax.Array, angles: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Turns the first `rotary_dim` entries of `heads` [B, ..., H] by `angles` [B, rotary_dim / 2] or [B, T, ...]:
    axes that the angles lack stand before the last one of `heads`, and all along them turn alike."""
    missing = tuple(range(angles[0].ndim - 1, heads.ndim - 1))
    cosine, sine = (jnp.expand_dims(part, missing) for part in angles)
    turning = heads[..., : config.rotary_dim].astype(jnp.float32)
    half = config.rotary_dim // 2
    if config.rotary_style == "half":
        first, second = turning[..., :half], turning[..., half:]
    else:
        first, second = turning[..., 0::2], turning[..., 1::2]
    turned = first * cosine - second * sine, second * cosine + first * sine
    if config.rotary_style == "half":
        joined = jnp.concatenate(turned, axis=-1)
    else:
        joined = jnp.stack(turned, axis=-1).reshape(turning.shape)
    joined = joined.astype(heads.dtype)
    if config.rotary_dim == config.head_dim:
        return joined
    return jnp.concatenate([joined, heads[..., config.rotary_dim :]], axis=-1)
