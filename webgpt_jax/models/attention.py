"""Causal attention, in the implementations that a config can choose between.

"plain" is written out here and runs everywhere; "xla" is `jax.nn.dot_product_attention`; "cudnn" the same by cuDNN's
fused kernel (NVIDIA GPUs, 16-bit types); "splash" the TPU's splash kernel, which never holds the [T, S] scores.

Legend: B batch, T query length, S key length, K key-value heads, G query heads of each, H head_dim.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from webgpt_jax.models.activations import ActivationSharding
from webgpt_jax.models.config import ConfigError, TransformerConfig

MASKED = -1e30  # a score that softmax turns into exactly 0; finite, so that no 0 * inf arises


def attention(
    config: TransformerConfig,
    query: jax.Array,  # [B, T, K, G, H]
    key: jax.Array,  # [B, T, K, H]
    value: jax.Array,  # [B, T, K, H]
    segments: jax.Array | None,  # [B, T] int32; a token attends within its own segment
    sharding: ActivationSharding,
) -> jax.Array:  # [B, T, K, G, H]
    """What each token reads from itself and those before it. `ConfigError` where the implementation cannot run."""
    if config.attention == "plain":
        return plain_attention(query, key, value, segments, config.sliding_window)
    if config.attention == "splash":
        return _splash_attention(config, query, key, value, segments, sharding)
    return _library_attention(config, query, key, value, segments, sharding)


def attention_scale(head_dim: int) -> float:
    """What scores are multiplied by."""
    return float(head_dim**-0.5)


def causal_mask(length: int, segments: jax.Array | None, window: int | None) -> jax.Array:
    """[1 or B, T, S] bool: which keys a query sees."""
    query, key = jnp.arange(length)[:, None], jnp.arange(length)[None, :]
    mask = key <= query
    if window is not None:
        mask &= query - key < window
    if segments is None:
        return mask[None]
    return mask[None] & (segments[:, :, None] == segments[:, None, :])


def plain_attention(
    query: jax.Array, key: jax.Array, value: jax.Array, segments: jax.Array | None, window: int | None
) -> jax.Array:
    """The definition: scores and softmax in float32."""
    scores = jnp.einsum("btkgh,bskh->bkgts", query, key, preferred_element_type=jnp.float32)
    mask = causal_mask(query.shape[1], segments, window)[:, None, None]  # [1 or B, 1, 1, T, S]
    scores = jnp.where(mask, scores * attention_scale(query.shape[-1]), MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    return jnp.einsum("bkgts,bskh->btkgh", weights, value)


def _library_attention(
    config: TransformerConfig,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    segments: jax.Array | None,
    sharding: ActivationSharding,
) -> jax.Array:
    if config.attention == "cudnn" and sharding.platform not in ("gpu", "cuda"):
        raise ConfigError(f"attention='cudnn' needs an NVIDIA GPU, not {sharding.platform}: use 'plain' or 'xla'")
    batch, length, kv_heads, group, head_dim = query.shape
    window = None if config.sliding_window is None else (config.sliding_window - 1, 0)
    mask = None if segments is None else (segments[:, None, :, None] == segments[:, None, None, :])
    mixed = jax.nn.dot_product_attention(
        query.reshape(batch, length, kv_heads * group, head_dim),
        key,
        value,
        mask=mask,
        is_causal=True,
        local_window_size=window,
        scale=attention_scale(head_dim),
        implementation="cudnn" if config.attention == "cudnn" else "xla",
    )
    return mixed.reshape(query.shape)


def _splash_attention(
    config: TransformerConfig,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    segments: jax.Array | None,
    sharding: ActivationSharding,
) -> jax.Array:
    if sharding.platform != "tpu":
        raise ConfigError(f"attention='splash' needs a TPU, not {sharding.platform}: use 'plain' or 'xla'")
    raise NotImplementedError
