"""A checksum of an array's bits that does not depend on how the array is spread over devices.

Orbax and TensorStore notice a truncated file, but a flipped byte inside a chunk comes back as a different number and no
error. So each array's checksum is taken on its devices before it is saved and again after it is restored, whatever mesh
it is restored onto: it covers the disk, the network and the resharding. A change of one element always changes it; any
other change does but for one case in 2^32. It costs one pass over the memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def checksums(arrays: Mapping[str, jax.Array]) -> dict[str, int]:
    """The checksum of each array, by its name. In several processes, all of them must ask at once."""
    together: dict[frozenset[Any], dict[str, jax.Array]] = {}  # one program takes arrays of the same devices alone
    for name, array in arrays.items():
        together.setdefault(frozenset(array.sharding.device_set), {})[name] = array
    found: dict[str, int] = {}
    for group in together.values():
        found |= {name: int(np.asarray(value)) for name, value in _checksums(group).items()}
    return {name: found[name] for name in arrays}


@jax.jit
def _checksums(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {name: _checksum(array) for name, array in arrays.items()}


def _checksum(array: jax.Array) -> jax.Array:
    """[] uint32: the sum, modulo 2^32, of each word mixed with its place (the mixing steps of MurmurHash3)."""
    words = _words(array)
    mixed = (words ^ (_places(words.shape) * np.uint32(0x9E3779B1))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0xC2B2AE35)
    return jnp.sum(mixed ^ (mixed >> np.uint32(13)), dtype=jnp.uint32)


def _words(array: jax.Array) -> jax.Array:
    """The bits of each element as uint32; elements of 8 bytes give two, along a new last axis."""
    if array.dtype == jnp.bool_:
        return array.astype(jnp.uint32)
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}[array.dtype.itemsize]
    return jax.lax.bitcast_convert_type(array, unsigned).astype(jnp.uint32)


def _places(shape: tuple[int, ...]) -> jax.Array:
    """The place of each element in row-major order, modulo 2^32, made where the element is."""
    strides = [np.uint32(math.prod(shape[axis + 1 :]) % 2**32) for axis in range(len(shape))]
    places = [jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * stride for axis, stride in enumerate(strides)]
    return functools.reduce(jnp.add, places, jnp.zeros(shape, jnp.uint32))
