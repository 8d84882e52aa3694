"""Keys and values of past tokens, and the programs that use them: `prefill` reads prompts, `decode_step` adds a token.

A cache has B slots of S positions; a slot holds one sequence from position 0. All functions are pure: the caller jits
them with the config static and the cache donated, and keeps the cache that comes back.

What the layout and the order of operations are for, measured on the CPU with SmolLM2-135M in float32:
- keys lie as [B, K, H, S] and values as [B, K, S, H], so that both products read memory in its order;
- layers are unrolled, over parameters that lie apart (`unstack`): a slice of stacked ones is copied every step (B = 1:
  134 ms and not 27);
- attention reads the old cache and the new token's row apart and all writes come last, so that with
  `COMPILER_OPTIONS` XLA updates the donated cache in place. Without the option, and with the naive order, it copies
  every buffer (B = 8: 114 ms and not 35).

Legend: B slots, C prompts, T chunk length, S cache length, K key-value heads, G query heads of each, H head_dim,
D embed_dim, V vocabulary, L layers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from webgpt_jax.models.activations import UNSHARDED
from webgpt_jax.models.attention import MASKED, attention_scale, causal_mask, plain_attention
from webgpt_jax.models.config import TransformerConfig
from webgpt_jax.models.layers import embed, mlp, norm, project_out, project_qkv, residual, unembed
from webgpt_jax.models.parameters import Axes, Params
from webgpt_jax.models.rotary import rotary_angles

# For `jax.jit(..., compiler_options=COMPILER_OPTIONS)` of programs that update a cache; no effect but on the CPU.
COMPILER_OPTIONS: Mapping[str, bool] = {"xla_cpu_copy_insertion_use_region_analysis": True}

KEY_AXES: Axes = ("batch", "kv_heads", "head_dim", None)
VALUE_AXES: Axes = ("batch", "kv_heads", None, "head_dim")


class Cache(NamedTuple):
    """Keys and values, an array a layer, in the compute type."""

    keys: tuple[jax.Array, ...]  # L times [B, K, H, S]
    values: tuple[jax.Array, ...]  # L times [B, K, S, H]

    @property
    def slots(self) -> int:
        """Sequences it holds, B."""
        return int(self.keys[0].shape[0])

    @property
    def length(self) -> int:
        """Positions a sequence may have, S."""
        return int(self.keys[0].shape[3])


# What a layer reads its tokens' attention with: (layer, query, key, value) -> mixed values, shaped as the query.
_Read = Callable[[int, jax.Array, jax.Array, jax.Array], jax.Array]


def create_cache(config: TransformerConfig, slots: int, length: int) -> Cache:
    """An empty cache. Learned positions end at `max_length`, and so must the cache."""
    if config.positions == "learned" and length > config.max_length:
        raise ValueError(f"a cache of {length} positions is longer than the model's max_length {config.max_length}")
    keys = (slots, config.kv_heads, config.head_dim, length)
    values = (slots, config.kv_heads, length, config.head_dim)
    return Cache(
        tuple(jnp.zeros(keys, config.dtype) for _ in range(config.num_layers)),
        tuple(jnp.zeros(values, config.dtype) for _ in range(config.num_layers)),
    )


def resize(cache: Cache, length: int) -> Cache:
    """The same sequences in a cache of another length. Decoding reads the whole length, so a short one is faster."""
    change = length - cache.length

    def resized(array: jax.Array, axis: int) -> jax.Array:
        if change <= 0:
            return jax.lax.slice_in_dim(array, 0, length, axis=axis)
        return jnp.pad(array, [(0, change if at == axis else 0) for at in range(array.ndim)])

    return Cache(tuple(resized(keys, 3) for keys in cache.keys), tuple(resized(values, 2) for values in cache.values))


def fork(cache: Cache, sources: jax.Array, targets: jax.Array) -> Cache:
    """Copies slots `sources` [C] into slots `targets` [C], all read before any is written. A target outside: none."""

    def copied(array: jax.Array) -> jax.Array:
        return array.at[targets].set(array[sources], mode="drop")

    return Cache(tuple(copied(keys) for keys in cache.keys), tuple(copied(values) for values in cache.values))


def unstack(params: Params) -> Params:
    """The parameters with each layer's blocks apart, as both programs want them; stacked ones serve too, but slower."""
    blocks = params["blocks"]
    layers = jax.tree.leaves(blocks)[0].shape[0]
    return {**params, "blocks": tuple(jax.tree.map(lambda array, at=at: array[at], blocks) for at in range(layers))}


def decode_step(
    config: TransformerConfig,
    params: Params,
    cache: Cache,
    tokens: jax.Array,  # [B] int
    positions: jax.Array,  # [B] int: where each slot's token stands; everything before it is in the cache
) -> tuple[jax.Array, Cache]:
    """One token for every slot: logits [B, V] of what follows it, in float32, and the cache with it.

    A slot at a position of S or more writes nothing: that is how an idle slot is run along.
    """
    positions = positions.astype(jnp.int32)

    def read(layer: int, query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        return _decode_attention(config, query, key, value, cache.keys[layer], cache.values[layer], positions)

    hidden, new = _run_layers(config, params, tokens, positions, read)
    logits = unembed(config, params, hidden)[:, : config.vocab_size]
    return logits, _write_tokens(cache, new, positions)


def prefill(
    config: TransformerConfig,
    params: Params,
    cache: Cache,
    tokens: jax.Array,  # [C, T] int: a chunk of each prompt, padded on the right
    slots: jax.Array,  # [C] int: where each goes; no slot twice
    starts: jax.Array,  # [C] int: position of the chunk's first token; what comes before is in the cache
    lengths: jax.Array,  # [C] int: real tokens of the chunk, up to T; 0 leaves the slot as it is
    *,
    fresh: bool = False,  # all starts are 0: the cache need not be read
) -> tuple[jax.Array, Cache]:
    """A chunk of C prompts at once: logits [C, V] after each chunk's last real token, float32, and the cache with it.

    Padding is never written, and of a chunk that does not fit into S, what does not fit is not.
    """
    if tokens.shape[1] > cache.length:
        raise ValueError(f"a chunk of {tokens.shape[1]} tokens is longer than the cache's {cache.length} positions")
    starts, lengths = starts.astype(jnp.int32), lengths.astype(jnp.int32)
    positions = starts[:, None] + jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    if config.positions == "learned":  # padding may run past the table
        positions = jnp.minimum(positions, config.max_length - 1)

    def read(layer: int, query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        old = None if fresh else (cache.keys[layer][slots], cache.values[layer][slots])
        return _chunk_attention(config, query, key, value, old, starts)

    hidden, new = _run_layers(config, params, tokens, positions, read)
    last = jnp.take_along_axis(hidden, jnp.maximum(lengths - 1, 0)[:, None, None], axis=1)[:, 0]
    logits = unembed(config, params, last)[:, : config.vocab_size]
    return logits, _write_chunks(cache, new, slots, starts, lengths)


def _run_layers(
    config: TransformerConfig, params: Params, tokens: jax.Array, positions: jax.Array, read: _Read
) -> tuple[jax.Array, list[tuple[jax.Array, jax.Array]]]:
    """What the last norm gives out, [..., D], and the tokens' keys and values [..., K, H] of every layer."""
    angles = rotary_angles(config, positions) if config.positions == "rotary" else None
    stream = embed(config, params, tokens, positions)
    new: list[tuple[jax.Array, jax.Array]] = []

    def attend(layer: int, weights: Params, normed: jax.Array) -> jax.Array:
        query, key, value = project_qkv(config, weights["attention"], normed, angles)
        new.append((key, value))
        return project_out(config, weights["attention"], read(layer, query, key, value))

    def feed(weights: Params, normed: jax.Array) -> jax.Array:
        return mlp(config, weights["mlp"], normed, UNSHARDED)

    for layer in range(config.num_layers):
        weights = _layer(params["blocks"], layer)
        stream = residual(
            config, weights, stream, functools.partial(attend, layer, weights), functools.partial(feed, weights)
        )
    return norm(config, params["final_norm"], stream), new


def _layer(blocks: Any, layer: int) -> Params:
    if isinstance(blocks, tuple):
        apart: Params = blocks[layer]
        return apart
    sliced: Params = jax.tree.map(lambda array: array[layer], blocks)
    return sliced


def _decode_attention(
    config: TransformerConfig,
    query: jax.Array,  # [B, K, G, H]
    key: jax.Array,  # [B, K, H]
    value: jax.Array,  # [B, K, H]
    old_keys: jax.Array,  # [B, K, H, S]
    old_values: jax.Array,  # [B, K, S, H]
    positions: jax.Array,  # [B]
) -> jax.Array:  # [B, K, G, H]
    """Attention over the cache's rows before each token, and the token itself."""
    scale = attention_scale(config.head_dim)
    old = jnp.einsum("bkgh,bkhs->bkgs", query, old_keys, preferred_element_type=jnp.float32) * scale
    own = jnp.einsum("bkgh,bkh->bkg", query, key, preferred_element_type=jnp.float32)[..., None] * scale
    seen = _seen_rows(config, positions[:, None], old_keys.shape[-1], positions[:, None])  # [B, 1, S]
    old = jnp.where(seen[:, :, None], old, MASKED)
    top = jnp.maximum(jnp.max(old, axis=-1, keepdims=True), own)
    old, own = jnp.exp(old - top), jnp.exp(own - top)
    mixed = jnp.einsum("bkgs,bksh->bkgh", old.astype(value.dtype), old_values, preferred_element_type=jnp.float32)
    mixed = mixed + own * value[:, :, None].astype(jnp.float32)
    return (mixed / (jnp.sum(old, axis=-1, keepdims=True) + own)).astype(value.dtype)


def _chunk_attention(
    config: TransformerConfig,
    query: jax.Array,  # [C, T, K, G, H]
    key: jax.Array,  # [C, T, K, H]
    value: jax.Array,  # [C, T, K, H]
    old: tuple[jax.Array, jax.Array] | None,  # [C, K, H, S], [C, K, S, H]
    starts: jax.Array,  # [C]
) -> jax.Array:  # [C, T, K, G, H]
    """Attention over the cache's rows before the chunk, and the chunk's own up to each token."""
    if old is None:
        return plain_attention(query, key, value, None, config.sliding_window)
    old_keys, old_values = old
    length, scale = query.shape[1], attention_scale(config.head_dim)
    query = jnp.transpose(query, (0, 2, 3, 1, 4))  # [C, K, G, T, H]
    own = jnp.einsum("ckgth,cskh->ckgts", query, key, preferred_element_type=jnp.float32) * scale
    own = jnp.where(causal_mask(length, None, config.sliding_window)[:, None, None], own, MASKED)
    before = jnp.einsum("ckgth,ckhs->ckgts", query, old_keys, preferred_element_type=jnp.float32) * scale
    queries = starts[:, None] + jnp.arange(length, dtype=jnp.int32)[None]  # [C, T]
    seen = _seen_rows(config, starts[:, None], old_keys.shape[-1], queries)  # [C, T, S]
    before = jnp.where(seen[:, None, None], before, MASKED)
    top = jnp.maximum(jnp.max(before, axis=-1, keepdims=True), jnp.max(own, axis=-1, keepdims=True))
    before, own = jnp.exp(before - top), jnp.exp(own - top)
    total = jnp.sum(before, axis=-1, keepdims=True) + jnp.sum(own, axis=-1, keepdims=True)
    mixed = jnp.einsum(
        "ckgts,cksh->ckgth", before.astype(value.dtype), old_values, preferred_element_type=jnp.float32
    ) + jnp.einsum("ckgts,cskh->ckgth", own.astype(value.dtype), value, preferred_element_type=jnp.float32)
    return jnp.transpose((mixed / total).astype(value.dtype), (0, 3, 1, 2, 4))


def _seen_rows(config: TransformerConfig, filled: jax.Array, length: int, positions: jax.Array) -> jax.Array:
    """[B, T, S] bool: which of S rows a token at `positions` [B, T] sees, the first `filled` [B, 1] being written."""
    rows = jnp.arange(length, dtype=jnp.int32)[None, None]
    seen = rows < filled[:, :, None]
    if config.sliding_window is not None:
        seen = seen & (rows > positions[:, :, None] - config.sliding_window)
    return seen


def _write_tokens(cache: Cache, new: list[tuple[jax.Array, jax.Array]], positions: jax.Array) -> Cache:
    """The cache with a row more in every slot."""

    def write_key(keys: jax.Array, key: jax.Array, position: jax.Array) -> jax.Array:
        return keys.at[:, :, position].set(key, mode="drop")

    def write_value(values: jax.Array, value: jax.Array, position: jax.Array) -> jax.Array:
        return values.at[:, position].set(value, mode="drop")

    return Cache(
        tuple(jax.vmap(write_key)(keys, key, positions) for keys, (key, _) in zip(cache.keys, new, strict=True)),
        tuple(
            jax.vmap(write_value)(values, value, positions)
            for values, (_, value) in zip(cache.values, new, strict=True)
        ),
    )


def _write_chunks(
    cache: Cache, new: list[tuple[jax.Array, jax.Array]], slots: jax.Array, starts: jax.Array, lengths: jax.Array
) -> Cache:
    """The cache with a chunk's real rows in the given slots."""
    keys, values = list(cache.keys), list(cache.values)
    for layer, (key, value) in enumerate(new):
        for chunk in range(key.shape[0]):
            where = (slots[chunk], starts[chunk], lengths[chunk])
            keys[layer] = _write_rows(keys[layer], jnp.transpose(key[chunk], (1, 2, 0)), 2, *where)
            values[layer] = _write_rows(values[layer], jnp.transpose(value[chunk], (1, 0, 2)), 1, *where)
    return Cache(tuple(keys), tuple(values))


def _write_rows(
    array: jax.Array,  # [B, ...], with S positions along `axis` of a slot
    rows: jax.Array,  # [...], with T positions along `axis`
    axis: int,
    slot: jax.Array,
    start: jax.Array,
    length: jax.Array,
) -> jax.Array:
    """Writes the first `length` rows from position `start` of a slot, through a window of T positions that lies wholly
    inside the cache: where the chunk's end would hang out, the window lies earlier and the rows later in it."""
    size = rows.shape[axis]
    window_start = jnp.minimum(start, array.shape[axis + 1] - size)
    corner = [slot, *(window_start if at == axis else jnp.zeros_like(start) for at in range(rows.ndim))]
    window = jax.lax.dynamic_slice(array, corner, (1, *rows.shape))[0]
    shift = start - window_start
    index = jnp.arange(size, dtype=jnp.int32) - shift
    real = (index >= 0) & (index < length)
    shape = tuple(size if at == axis else 1 for at in range(rows.ndim))
    written = jnp.where(real.reshape(shape), jnp.roll(rows, shift, axis=axis), window)
    return jax.lax.dynamic_update_slice(array, written[None], corner)
