"""The decoder-only transformer: a pure function over named arrays, and the Flax NNX module that holds the arrays.

`forward` runs the blocks; `Transformer` is what a caller builds, splits, merges and calls.

Legend: B batch, T length, D embed_dim, V vocabulary, L layers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from webgpt_jax.models.activations import UNSHARDED, ActivationSharding
from webgpt_jax.models.attention import attention
from webgpt_jax.models.config import TransformerConfig
from webgpt_jax.models.layers import (
    Angles,
    dropout,
    embed,
    mlp,
    norm,
    project_out,
    project_qkv,
    residual,
    unembed,
)
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
from webgpt_jax.models.rotary import rotary_angles

RESIDUAL: Axes = ("batch", "residual_length", "embed")


class TransformerBase(nnx.Module):
    """What models share whatever they end in: the parameters, and the way through the blocks.

    Parameters are `nnx.Param`s under the names of `parameter_specs`, each with its logical axes as `param.axes`.

    Args:
      config: what it is; validated here.
      rngs: where first values are drawn from, or
      params: the arrays themselves, nested as `parameter_specs` names them. One of the two.
      sharding: where a trainer places activations; an attribute that may be set later.
    """

    head: Head

    def __init__(
        self,
        config: TransformerConfig,
        *,
        rngs: nnx.Rngs | None = None,
        params: Params | None = None,
        sharding: ActivationSharding = UNSHARDED,
    ) -> None:
        config.validate()
        self.config = config
        self.sharding = sharding
        if (rngs is None) == (params is None):
            raise ValueError("give a model either rngs to draw its parameters from or params, and not both")
        arrays = initial_parameters(config, rngs.params(), self.head) if rngs is not None else params or {}
        specs = parameter_specs(config, self.head)
        check_parameters(specs, arrays)
        for name, entry in map_named(functools.partial(_variable, arrays), specs).items():
            setattr(self, name, _dictionary(entry))

    def hidden(
        self,
        tokens: jax.Array,  # [B, T] int
        *,
        mask: jax.Array | None = None,  # [B, T]: 1 or True for real tokens, 0 for padding on either side
        segments: jax.Array | None = None,  # [B, T] int: tokens attend within equal numbers (packed sequences)
        positions: jax.Array | None = None,  # [B, T] int: default, counted from each sequence's first real token
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        """What the last norm gives out, [B, T, D] in the compute type. Padding on the right alone needs no mask."""
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


class Transformer(TransformerBase):
    """The language model: `model(tokens) -> logits`."""

    head: Head = "logits"

    def __call__(
        self,
        tokens: jax.Array,
        *,
        mask: jax.Array | None = None,
        segments: jax.Array | None = None,
        positions: jax.Array | None = None,
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        """Logits [B, T, V] in float32, cut to the true vocabulary; arguments as of `hidden`."""
        hidden = self.hidden(tokens, mask=mask, segments=segments, positions=positions, dropout_key=dropout_key)
        return self.unembed(hidden)[..., : self.config.vocab_size]

    def unembed(self, hidden: jax.Array) -> jax.Array:
        """Logits [..., padded V] of `hidden` [..., D]; those of the vocabulary's padding are `MASKED`.

        Uncut, they shard evenly; softmax, cross-entropy and entropy are those of the true vocabulary.
        """
        return unembed(self.config, parameters(self), hidden, sharding=self.sharding)


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
