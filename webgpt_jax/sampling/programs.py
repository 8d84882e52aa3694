"""The compiled programs of the engine and the arrays they work on: one cache, and the tokens sampled last.

Shapes never depend on what is being served: a decode step always runs all slots, a prompt is always prefilled alone and
in the chunks that its length says. So the numbers of a request are the same whatever else the engine does, to the bit
where the backend's matrix products treat rows alike.

Legend: B slots, S cache length, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from webgpt_jax.models import Params, TransformerConfig
from webgpt_jax.models.cache import (
    COMPILER_OPTIONS,
    KEY_AXES,
    VALUE_AXES,
    Cache,
    create_cache,
    decode_step,
    fork,
    prefill,
    unstack,
)
from webgpt_jax.models.parameters import Axes
from webgpt_jax.sampling.sampler import Settings, sample

ShardingOf: TypeAlias = Callable[[Axes], jax.sharding.Sharding]  # from logical axis names to a place on a mesh

CARRIED = -1  # stands for the token that the step before sampled


def use_compilation_cache(folder: str | Path) -> None:
    """Keeps compiled programs in a folder, so that the next process need not compile them; small ones too, which
    together take longest."""
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)


def chunks(length: int, buckets: Sequence[int], start: int = 0) -> list[tuple[int, int]]:
    """How `length` rows are prefilled from row `start`: (real tokens, bucket) of each chunk. All but the last fill the
    largest bucket; the last goes into the smallest that holds it."""
    largest = buckets[-1]
    sizes = [min(largest, length - at) for at in range(start, length, largest)]
    return [(size, next(bucket for bucket in buckets if bucket >= size)) for size in sizes]


def buckets_of(smallest: int, largest: int) -> list[int]:
    """Doubling lengths from `smallest` to `largest`."""
    buckets = [min(smallest, largest)]
    while buckets[-1] < largest:
        buckets.append(min(2 * buckets[-1], largest))
    return buckets


class Programs:
    """The device's side of the engine. Used from one thread.

    Args:
      config: the model's.
      params: its parameters, stacked or not, already placed where there is a mesh.
      slots: B.
      length: S.
      buckets: lengths of prefill chunks, ascending, none above `length`.
      sharding_of: where arrays with these logical axes lie; None for one device.
    """

    def __init__(
        self,
        config: TransformerConfig,
        params: Params,
        slots: int,
        length: int,
        buckets: Sequence[int],
        sharding_of: ShardingOf | None,
    ) -> None:
        self._config = config
        self._params = params if isinstance(params["blocks"], tuple) else unstack(params)
        self._buckets = tuple(buckets)
        self._cache = create_cache(config, slots, length)
        self._rows: jax.sharding.Sharding | None = None
        shardings = None
        if sharding_of is not None:
            keys, values, self._rows = sharding_of(KEY_AXES), sharding_of(VALUE_AXES), sharding_of(("batch",))
            shardings = Cache((keys,) * config.num_layers, (values,) * config.num_layers)  # type: ignore[arg-type]
            self._cache = jax.device_put(self._cache, shardings)
        self._tokens = self._put(np.zeros(slots, np.int32))
        self._everything = self._put(np.ones((slots, config.vocab_size), np.bool_))
        self._fork, self._prefill, self._decode = _compiled(config, shardings, self._rows)

    def _put(self, array: NDArray[Any]) -> jax.Array:
        placed: jax.Array = jax.device_put(array, self._rows)
        return placed

    def prefill(self, slot: int, prompt: Sequence[int], start: int) -> int:
        """Writes the next chunk of a prompt, from row `start` of its slot, and waits for it. The rows written."""
        size, bucket = chunks(len(prompt), self._buckets, start)[0]
        tokens = np.zeros((1, bucket), np.int32)
        tokens[0, :size] = prompt[start : start + size]
        where = (np.array([value], np.int32) for value in (slot, start, size))
        self._cache = self._prefill(self._params, self._cache, tokens, *where, fresh=start == 0)
        self._cache.keys[-1].block_until_ready()
        return size

    def fork(self, source: int, target: int) -> None:
        """Copies all rows of a slot into another."""
        self._cache = self._fork(self._cache, np.array([source], np.int32), np.array([target], np.int32))

    def settings(
        self, keys: NDArray[np.uint32], temperature: NDArray[np.float32], top_p: NDArray[np.float32]
    ) -> Settings:
        """Sampling settings on the device, to be used for as many steps as they hold."""
        return Settings(self._put(keys), self._put(temperature), self._put(top_p))

    def decode(
        self,
        tokens: NDArray[np.int32],  # [B]: what each slot is fed; `CARRIED` for what the step before sampled
        positions: NDArray[np.int32],  # [B]: where it stands; S for an idle slot
        settings: Settings,
        mask: NDArray[np.bool_] | None,  # [B, V]: tokens that may be sampled; None for all
    ) -> tuple[jax.Array, jax.Array]:
        """Starts a step of all slots: sampled tokens [B] and log-probabilities [B], which may not be there yet."""
        allowed = self._everything if mask is None else self._put(mask)
        self._tokens, logprobs, self._cache = self._decode(
            self._params, self._cache, self._tokens, tokens, positions, settings, allowed
        )
        return self._tokens, logprobs

    def warm_up(self) -> None:
        """Compiles every program by running it on nothing."""
        slots, length = self._cache.slots, self._cache.length
        for bucket in self._buckets:
            for fresh in (True, False):
                nothing = np.zeros((1, bucket), np.int32)
                zero = np.zeros(1, np.int32)
                self._cache = self._prefill(self._params, self._cache, nothing, zero, zero, zero, fresh=fresh)
        self.fork(0, slots)
        key = np.zeros((slots, *jax.random.key_data(jax.random.key(0)).shape), np.uint32)
        settings = self.settings(key, np.ones(slots, np.float32), np.ones(slots, np.float32))
        idle = np.full(slots, length, np.int32)
        self.decode(np.zeros(slots, np.int32), idle, settings, None)[0].block_until_ready()


@functools.lru_cache(maxsize=8)
def _compiled(
    config: TransformerConfig, cache: Cache | None, rows: jax.sharding.Sharding | None
) -> tuple[Callable[..., Cache], Callable[..., Cache], Callable[..., tuple[jax.Array, jax.Array, Cache]]]:
    """The programs for a model and the places of their results, shared by all engines that have them in common."""
    jit = functools.partial(
        jax.jit,
        donate_argnames=("cache",),
        compiler_options=dict(COMPILER_OPTIONS) if jax.default_backend() == "cpu" else None,
    )
    return (
        jit(_fork, out_shardings=cache),
        jit(functools.partial(_prefill, config), static_argnames=("fresh",), out_shardings=cache),
        jit(functools.partial(_decode, config), out_shardings=None if cache is None else (rows, rows, cache)),
    )


def _fork(cache: Cache, sources: jax.Array, targets: jax.Array) -> Cache:
    return fork(cache, sources, targets)


def _prefill(
    config: TransformerConfig,
    params: Params,
    cache: Cache,
    tokens: jax.Array,
    slots: jax.Array,
    starts: jax.Array,
    lengths: jax.Array,
    fresh: bool,
) -> Cache:
    # The logits are not wanted, and so not computed: a prompt's last token is decoded, as all that follow it.
    return prefill(config, params, cache, tokens, slots, starts, lengths, fresh=fresh)[1]


def _decode(
    config: TransformerConfig,
    params: Params,
    cache: Cache,
    carried: jax.Array,
    tokens: jax.Array,
    positions: jax.Array,
    settings: Settings,
    mask: jax.Array,
) -> tuple[jax.Array, jax.Array, Cache]:
    fed = jnp.where(tokens == CARRIED, carried, tokens)
    logits, cache = decode_step(config, params, cache, fed, positions)
    sampled, logprobs = sample(logits, mask, settings, positions + 1)
    return sampled, logprobs, cache
