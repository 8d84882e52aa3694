"""Causal attention, in the implementations that a config can choose between.

"plain" is written out here and runs everywhere; "xla" is `jax.nn.dot_product_attention`; "cudnn" the same by cuDNN's
fused kernel (NVIDIA GPUs, 16-bit types); "splash" the TPU's splash kernel, which never holds the [T, S] scores.

Legend: B batch, T query length, S key length, K key-value heads, G query heads of each, H head_dim.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from webgpt_jax.models.activations import ActivationSharding
from webgpt_jax.models.config import ConfigError, TransformerConfig
from webgpt_jax.models.parameters import Axes

MASKED = -1e30  # a score that softmax turns into exactly 0; finite, so that no 0 * inf arises

SPLASH_LANES = 128  # the kernel's lengths are multiples of this
SPLASH_BLOCKS = (512, 256, 128)  # queries and keys worked on at once, the largest that divides the length


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
    """The definition: scores and softmax in float32. Queries are brought into the order of the scores, which are the
    larger arrays, so that no score is copied."""
    query = jnp.transpose(query, (0, 2, 3, 1, 4))  # [B, K, G, T, H]
    scores = jnp.einsum("bkgth,bskh->bkgts", query, key, preferred_element_type=jnp.float32)
    mask = causal_mask(key.shape[1], segments, window)[:, None, None]  # [1 or B, 1, 1, T, S]
    scores = jnp.where(mask, scores * attention_scale(key.shape[-1]), MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    return jnp.transpose(jnp.einsum("bkgts,bskh->bkgth", weights, value), (0, 3, 1, 2, 4))


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
    heads: Axes = ("batch", "length", "kv_heads", None, "head_dim")
    kv_heads: Axes = ("batch", "length", "kv_heads", "head_dim")
    if segments is None:
        kernel = functools.partial(splash_attention, segments=None, window=config.sliding_window)
        return sharding.per_device(kernel, (heads, kv_heads, kv_heads), heads)(query, key, value)
    kernel = functools.partial(splash_attention, window=config.sliding_window)
    axes: tuple[Axes, ...] = (heads, kv_heads, kv_heads, ("batch", "length"))
    return sharding.per_device(kernel, axes, heads)(query, key, value, segments)


def splash_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    segments: jax.Array | None,
    window: int | None,
    *,
    interpret: bool = False,  # run the kernel step by step anywhere: for tests
) -> jax.Array:
    """JAX's splash kernel on one device's heads. Lengths are padded to its blocks on the right, which no token sees."""
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    batch, length, kv_heads, group, head_dim = query.shape
    padded = -(-length // SPLASH_LANES) * SPLASH_LANES
    query = jnp.transpose(query * attention_scale(head_dim), (0, 2, 3, 1, 4)).reshape(batch, -1, length, head_dim)
    key, value = jnp.transpose(key, (0, 2, 1, 3)), jnp.transpose(value, (0, 2, 1, 3))  # [B, K, T, H]
    grow = ((0, 0), (0, 0), (0, padded - length), (0, 0))
    query, key, value = jnp.pad(query, grow), jnp.pad(key, grow), jnp.pad(value, grow)

    seen: Any = splash.CausalMask((padded, padded))
    if window is not None:
        seen = splash.LocalMask((padded, padded), window_size=(window - 1, 0), offset=0)
    block = next(size for size in SPLASH_BLOCKS if padded % size == 0)
    kernel = splash.make_splash_mha(
        splash.MultiHeadMask([seen] * (kv_heads * group)),
        block_sizes=splash.BlockSizes(
            block_q=block,
            block_kv=block,
            block_kv_compute=block,
            block_q_dkv=block,
            block_kv_dkv=block,
            block_kv_dkv_compute=block,
            use_fused_bwd_kernel=True,
        ),
        head_shards=1,
        q_seq_shards=1,
        interpret=interpret,
    )
    if segments is None:
        mixed = jax.vmap(kernel)(query, key, value)
    else:
        ids = jnp.pad(segments, ((0, 0), (0, padded - length)))
        mixed = jax.vmap(kernel)(query, key, value, splash.SegmentIds(ids, ids))
    mixed = mixed[:, :, :length].reshape(batch, kv_heads, group, length, head_dim)
    return jnp.transpose(mixed, (0, 3, 1, 2, 4))
