"""How a trainer places activations on a mesh without this package knowing meshes: it gives the model an object with two
methods, and the model names the axes of what it computes.

The names: "batch", "residual_length" (positions of the residual stream between blocks), "length" (positions within a
block), "embed", "heads", "kv_heads", "head_dim", "mlp", "vocab"; None is never split. The two lengths are apart so that
the residual stream can lie split along the sequence between blocks, where rematerialisation stores it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax

from webgpt_jax.models.parameters import Axes


class ActivationSharding(Protocol):
    """Where activations lie. Implementations are hashable and compare by value, so that programs are compiled once."""

    @property
    def platform(self) -> str:
        """What programs are compiled for: "cpu", "gpu" or "tpu"."""
        ...

    def constrain(self, array: jax.Array, axes: Axes) -> jax.Array:
        """The same array, placed as the rules say for its axis names."""
        ...

    def per_device(
        self, function: Callable[..., jax.Array], inputs: tuple[Axes, ...], output: Axes
    ) -> Callable[..., jax.Array]:
        """`function` run on each device's part of its inputs (`jax.shard_map`), for kernels that XLA cannot split."""
        ...


@dataclass(frozen=True)
class Unsharded:
    """All on one device, or wherever the compiler puts it."""

    @property
    def platform(self) -> str:
        """The platform of JAX's default backend."""
        return jax.default_backend()

    def constrain(self, array: jax.Array, axes: Axes) -> jax.Array:
        """The array itself."""
        return array

    def per_device(
        self, function: Callable[..., jax.Array], inputs: tuple[Axes, ...], output: Axes
    ) -> Callable[..., jax.Array]:
        """The function itself."""
        return function


UNSHARDED = Unsharded()
