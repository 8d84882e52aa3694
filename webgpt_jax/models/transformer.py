"""The decoder-only transformer: pure functions over named arrays, and the Flax NNX module that holds the arrays.

`forward` and `unembed` are the model; `Transformer` is what a caller builds, splits, merges and calls.

Legend: B batch, T length, D embed_dim, K key-value heads, G query heads of each, N = K G, H head_dim, F mlp_dim,
V vocabulary, L layers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from webgpt_jax.models.activations import UNSHARDED, ActivationSharding
from webgpt_jax.models.attention import MASKED, attention
from webgpt_jax.models.config import Activation, TransformerConfig
from webgpt_jax.models.parameters import (
    Axes,
    Head,
    ParameterSpec,
    Params,
    check_parameters,
    initial_parameters,
    map_named,
    parameter_specs,
    parameters,
)
from webgpt_jax.models.rotary import rotary_angles, rotate

Angles = tuple[jax.Array, jax.Array] | None  # cosines and sines of rotary positions

RESIDUAL: Axes = ("batch", "residual_length", "embed")
ACTIVATIONS: dict[Activation, Callable[[jax.Array], jax.Array]] = {
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}


class Transformer(nnx.Module):
    """The model: `model(tokens) -> logits`.

    Its parameters are `nnx.Param`s under the names of `parameter_specs`, each with its logical axes as `param.axes`.

    Args:
      config: what it is; validated here.
      rngs: where first values are drawn from, or
      params: the arrays themselves, nested as `parameter_specs` names them. One of the two.
      sharding: where a trainer places activations; an attribute that may be set later.
    """

    head: Head = "logits"

    def __init__(
        self,
        config: TransformerConfig,
        *,
        rngs: nnx.Rngs | None = None,
        params: Params | None = None,
        sharding: ActivationSharding | None = None,
    ) -> None:
        config.validate()
        self.config = config
        self.sharding: ActivationSharding = UNSHARDED if sharding is None else sharding
        specs = parameter_specs(config, self.head)
        if (rngs is None) == (params is None):
            raise ValueError("give a model either rngs to draw its parameters from or params, and not both")
        if rngs is not None:
            params = initial_parameters(config, rngs.params(), self.head)
        check_parameters(specs, params or {})
        for name, entry in map_named(functools.partial(_variable, params or {}), specs).items():
            setattr(self, name, _dictionary(entry))

    def __call__(
        self,
        tokens: jax.Array,  # [B, T] int
        *,
        mask: jax.Array | None = None,  # [B, T]: 1 or True for real tokens, 0 for padding on either side
        segments: jax.Array | None = None,  # [B, T] int: tokens attend within equal numbers (packed sequences)
        positions: jax.Array | None = None,  # [B, T] int: default, counted from each sequence's first real token
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        """Logits [B, T, V] in float32, cut to the true vocabulary. Padding on the right alone needs no mask."""
        hidden = self.hidden(tokens, mask=mask, segments=segments, positions=positions, dropout_key=dropout_key)
        return self.unembed(hidden)[..., : self.config.vocab_size]

    def hidden(
        self,
        tokens: jax.Array,
        *,
        mask: jax.Array | None = None,
        segments: jax.Array | None = None,
        positions: jax.Array | None = None,
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        """What the last norm gives out, [B, T, D] in the compute type; arguments as in the call."""
        hidden: jax.Array = forward(
            self.config,
            parameters(self),
            tokens,
            mask=mask,
            segments=segments,
            positions=positions,
            dropout_key=dropout_key,
            sharding=self.sharding,
        )
        return hidden

    def unembed(self, hidden: jax.Array) -> jax.Array:
        """Logits [..., padded V] of `hidden` [..., D]; those of the vocabulary's padding are `MASKED`."""
        logits: jax.Array = unembed(self.config, parameters(self), hidden, sharding=self.sharding)
        return logits


def _variable(arrays: Params, path: str, spec: ParameterSpec) -> nnx.Param[jax.Array]:
    array: Any = functools.reduce(lambda entry, name: entry[name], path.split("/"), arrays)
    return nnx.Param(array, axes=spec.axes)


def _dictionary(entry: Any) -> Any:
    """NNX's own dictionaries for nested names: a plain one would not be searched for parameters."""
    return nnx.Dict({name: _dictionary(part) for name, part in entry.items()}) if isinstance(entry, dict) else entry


@functools.partial(jax.jit, static_argnames=("config", "sharding"))
def forward(
    config: TransformerConfig,
    params: Params,
    tokens: jax.Array,  # [B, T]
    *,
    mask: jax.Array | None = None,
    segments: jax.Array | None = None,
    positions: jax.Array | None = None,
    dropout_key: jax.Array | None = None,
    sharding: ActivationSharding = UNSHARDED,
) -> jax.Array:
    """Hidden states [B, T, D] after the last norm. Arguments as in `Transformer.__call__`."""
    if mask is not None and segments is not None:
        raise ValueError("give mask or segments, not both: a segment of padding is the mask's 0")
    if positions is None:
        if segments is None and tokens.shape[1] > config.max_length:
            raise ValueError(f"{tokens.shape[1]} tokens are more than the model's max_length {config.max_length}")
        positions = token_positions(tokens, mask, segments)
    if mask is not None:
        segments = mask.astype(jnp.int32)
    embed_key, block_key = (None, None) if dropout_key is None else jax.random.split(dropout_key)
    stream = dropout(config, embed(config, params, tokens, positions), embed_key)
    stream = sharding.constrain(stream, RESIDUAL)
    angles = rotary_angles(config, positions) if config.positions == "rotary" else None
    stream = _run_blocks(config, params["blocks"], stream, angles, segments, block_key, sharding)
    return norm(config, params["final_norm"], stream)


def token_positions(tokens: jax.Array, mask: jax.Array | None, segments: jax.Array | None) -> jax.Array:
    """[B, T], or [1, T] where all rows are alike: 0 at each sequence's first real token. Padding gets a valid one."""
    steps = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    if mask is not None:
        return jnp.maximum(jnp.cumsum(mask.astype(jnp.int32), axis=1) - 1, 0)
    if segments is None:
        return steps
    begins = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))
    return steps - jax.lax.cummax(jnp.where(begins, steps, 0), axis=1)


def embed(config: TransformerConfig, params: Params, tokens: jax.Array, positions: jax.Array) -> jax.Array:
    """The residual stream [..., D] that enters the first block. A token or position outside its table gives NaN."""
    stream = jnp.take(params["embedding"], tokens, axis=0, mode="fill").astype(config.dtype)
    if config.embedding_scale != 1.0:
        stream = stream * jnp.asarray(config.embedding_scale, config.dtype)
    if config.positions == "learned":
        rows = positions + config.position_offset
        stream = stream + jnp.take(params["position_embedding"], rows, axis=0, mode="fill").astype(config.dtype)
    return stream


@functools.partial(jax.jit, static_argnames=("config", "sharding"))
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


def _run_blocks(
    config: TransformerConfig,
    blocks: Params,
    stream: jax.Array,
    angles: Angles,
    segments: jax.Array | None,
    dropout_key: jax.Array | None,
    sharding: ActivationSharding,
) -> jax.Array:
    def run(stream: jax.Array, layer: tuple[Params, jax.Array]) -> tuple[jax.Array, None]:
        weights, index = layer
        key = None if dropout_key is None else jax.random.fold_in(dropout_key, index)
        return block(config, weights, stream, angles, segments, key, sharding), None

    run = _rematerialized(config, run)
    layers = (blocks, jnp.arange(config.num_layers))
    if config.scan_layers:
        return jax.lax.scan(run, stream, layers)[0]
    for index in range(config.num_layers):
        stream, _ = run(stream, jax.tree.map(lambda array, index=index: array[index], layers))
    return stream


def _rematerialized(config: TransformerConfig, run: Callable[..., Any]) -> Callable[..., Any]:
    """What the backward pass computes again. Inside a scan the compiler cannot undo it, so nothing need prevent it."""
    if config.remat == "none":
        return run
    policies = jax.checkpoint_policies
    policy = policies.nothing_saveable if config.remat == "full" else policies.dots_with_no_batch_dims_saveable
    return jax.checkpoint(run, policy=policy, prevent_cse=not config.scan_layers)


def block(
    config: TransformerConfig,
    params: Params,  # of one layer
    stream: jax.Array,  # [B, T, D]
    angles: Angles,
    segments: jax.Array | None,
    dropout_key: jax.Array | None,
    sharding: ActivationSharding,
) -> jax.Array:
    """One layer: attention and MLP, each added to the residual stream."""
    keys = (None, None) if dropout_key is None else tuple(jax.random.split(dropout_key))

    def attend(normed: jax.Array) -> jax.Array:
        query, key, value = project_qkv(config, params["attention"], normed, angles)
        query = sharding.constrain(query, ("batch", "length", "kv_heads", None, "head_dim"))
        mixed = attention(config, query, key, value, segments, sharding)
        return dropout(config, project_out(config, params["attention"], mixed), keys[0])

    def feed(normed: jax.Array) -> jax.Array:
        return dropout(config, mlp(config, params["mlp"], normed, sharding), keys[1])

    return sharding.constrain(residual(config, params, stream, attend, feed), RESIDUAL)


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
