"""What a layer is made of, and what stands before the first and after the last.

Pure functions of a config, the arrays of one layer and activations with any leading axes, so that training ([B, T, D])
and decoding ([B, D]) run the same ones.

Legend: B batch, T length, D embed_dim, K key-value heads, G query heads of each, N = K G, H head_dim, F mlp_dim,
V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from webgpt_jax.models.activations import UNSHARDED, ActivationSharding
from webgpt_jax.models.attention import MASKED
from webgpt_jax.models.config import Activation, TransformerConfig
from webgpt_jax.models.parameters import Params
from webgpt_jax.models.rotary import rotate

Angles = tuple[jax.Array, jax.Array] | None  # cosines and sines of rotary positions

ACTIVATIONS: dict[Activation, Callable[[jax.Array], jax.Array]] = {
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}


def embed(config: TransformerConfig, params: Params, tokens: jax.Array, positions: jax.Array) -> jax.Array:
    """The residual stream [..., D] that enters the first block. A token or position outside its table gives NaN."""
    stream = jnp.take(params["embedding"], tokens, axis=0, mode="fill").astype(config.dtype)
    if config.embedding_scale != 1.0:
        stream = stream * jnp.asarray(config.embedding_scale, config.dtype)
    if config.positions == "learned":
        rows = positions + config.position_offset
        stream = stream + jnp.take(params["position_embedding"], rows, axis=0, mode="fill").astype(config.dtype)
    return stream


def unembed(
    config: TransformerConfig, params: Params, hidden: jax.Array, sharding: ActivationSharding = UNSHARDED
) -> jax.Array:
    """Logits [..., padded V] in float32 of `hidden` [..., D]; those of the vocabulary's padding are `MASKED`."""
    if config.tied_embeddings:
        weights, pattern = params["embedding"], "...d,vd->...v"
    else:
        weights, pattern = params["unembedding"], "...d,dv->...v"
    logits = jnp.einsum(pattern, hidden, weights.astype(config.dtype), preferred_element_type=jnp.float32)
    if config.unembedding_bias:
        logits = add_bias(logits, params["unembedding_bias"])
    if config.padded_vocab_size != config.vocab_size:
        real = jnp.arange(config.padded_vocab_size) < config.vocab_size
        logits = jnp.where(_right_aligned(real, logits), logits, MASKED)
    if logits.ndim == 3:
        logits = sharding.constrain(logits, ("batch", "length", "vocab"))
    return logits


def residual(
    config: TransformerConfig,
    params: Params,
    stream: jax.Array,
    attend: Callable[[jax.Array], jax.Array],
    feed: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """How a block adds its two branches: one after the other, or both from the block's input (parallel residual)."""
    attention_input = norm(config, params["attention_norm"], stream)
    if config.parallel_residual:
        mlp_input = attention_input if config.shared_norm else norm(config, params["mlp_norm"], stream)
        return stream + attend(attention_input) + feed(mlp_input)
    stream = stream + attend(attention_input)
    return stream + feed(norm(config, params["mlp_norm"], stream))


def project_qkv(
    config: TransformerConfig, params: Params, normed: jax.Array, angles: Angles
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries [..., K, G, H], keys and values [..., K, H] of `normed` [..., D], with q/k norm and rotary positions."""
    heads = jnp.einsum("...d,dkgh->...kgh", normed, params["qkv"].astype(config.dtype))
    if config.qkv_bias:
        heads = add_bias(heads, params["qkv_bias"])
    query, key, value = heads[..., :-2, :], heads[..., -2:-1, :], heads[..., -1, :]
    if config.qk_norm:
        query = rms_norm(config, params["query_norm"], query)
        key = rms_norm(config, params["key_norm"], key)
    if angles is not None:
        query, key = rotate(config, query, angles), rotate(config, key, angles)
    return query, key[..., 0, :], value


def project_out(config: TransformerConfig, params: Params, mixed: jax.Array) -> jax.Array:
    """[..., K, G, H] -> [..., D], as one flat product: XLA transposes, and so copies, weights summed over two axes."""
    heads = mixed.reshape(*mixed.shape[:-3], config.num_heads * config.head_dim)
    out = heads @ params["out"].reshape(config.num_heads * config.head_dim, config.embed_dim).astype(config.dtype)
    return add_bias(out, params["out_bias"]) if config.out_bias else out


def mlp(config: TransformerConfig, params: Params, normed: jax.Array, sharding: ActivationSharding) -> jax.Array:
    """[..., D] -> [..., F] -> [..., D]."""
    activation = ACTIVATIONS[config.activation]
    if config.gated_mlp:
        both = jnp.einsum("...d,dcf->...cf", normed, params["gate_up"].astype(config.dtype))
        if config.mlp_bias:
            both = add_bias(both, params["gate_up_bias"])
        inner = activation(both[..., 0, :]) * both[..., 1, :]
    else:
        inner = jnp.einsum("...d,df->...f", normed, params["up"].astype(config.dtype))
        inner = activation(add_bias(inner, params["up_bias"]) if config.mlp_bias else inner)
    if inner.ndim == 3:
        inner = sharding.constrain(inner, ("batch", "length", "mlp"))
    out = jnp.einsum("...f,fd->...d", inner, params["down"].astype(config.dtype))
    return add_bias(out, params["down_bias"]) if config.mlp_bias else out


def norm(config: TransformerConfig, params: Params, stream: jax.Array) -> jax.Array:
    """LayerNorm or RMSNorm over the last axis, in float32."""
    if config.norm == "rmsnorm":
        return rms_norm(config, params["scale"], stream)
    wide = stream.astype(jnp.float32)
    centered = wide - jnp.mean(wide, axis=-1, keepdims=True)
    normed = centered * jax.lax.rsqrt(jnp.mean(jnp.square(centered), axis=-1, keepdims=True) + config.norm_eps)
    normed = normed * _right_aligned(params["scale"].astype(jnp.float32), normed)
    if config.norm_bias:
        normed = add_bias(normed, params["bias"])
    return normed.astype(config.dtype)


def rms_norm(config: TransformerConfig, scale: jax.Array, stream: jax.Array) -> jax.Array:
    """RMSNorm over the last axis, in float32."""
    wide = stream.astype(jnp.float32)
    normed = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + config.norm_eps)
    return (normed * _right_aligned(scale.astype(jnp.float32), normed)).astype(config.dtype)


def dropout(config: TransformerConfig, array: jax.Array, key: jax.Array | None) -> jax.Array:
    """Zeroes a part of the entries and scales up the rest; without a key, the array itself."""
    if key is None or config.dropout == 0:
        return array
    kept = jax.random.bernoulli(key, 1 - config.dropout, array.shape)
    return jnp.where(kept, array / jnp.asarray(1 - config.dropout, array.dtype), jnp.zeros((), array.dtype))


def add_bias(array: jax.Array, bias: jax.Array) -> jax.Array:
    """`array` [..., *bias.shape] plus the bias, in the array's type."""
    return array + _right_aligned(bias.astype(array.dtype), array)


def _right_aligned(small: jax.Array, large: jax.Array) -> jax.Array:
    """`small` with leading axes of 1, as many axes as `large`: what rank promotion would do unseen."""
    return small.reshape((1,) * (large.ndim - small.ndim) + small.shape)
