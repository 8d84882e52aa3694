"""How the tensors of a file become the arrays of our model, and back: one pattern a tensor.

A pattern such as "(k g h) d -> d k g h" says that the file's rows run over key-value heads, their queries and the
entries of a head, and where each of these axes stands in ours. The same pattern read backwards saves a model.

Letters: v vocabulary, p rows of positions, d embed_dim, n heads, k key-value heads, g queries of each, h head_dim,
f mlp_dim, t query-key-value (3), i half of head_dim, s 2, o 1.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from webgpt_jax.models.config import TransformerConfig
from webgpt_jax.models.tensors import Slices, TensorSource

Array: TypeAlias = np.ndarray[Any, Any]
Groups: TypeAlias = tuple[tuple[str, ...], ...]
Sizes: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Part:
    """One tensor of a file, which is one of our arrays in one layer, or a part of it."""

    name: str  # with {} for the layer
    pattern: str  # axes in the file -> axes in ours


Layout: TypeAlias = Mapping[str, tuple[Part, ...]]  # our path -> its parts, side by side along the axis that holds o


def axis_sizes(config: TransformerConfig) -> Sizes:
    """What each letter counts."""
    return {
        "v": config.vocab_size,
        "p": config.max_length + config.position_offset,
        "d": config.embed_dim,
        "n": config.num_heads,
        "k": config.kv_heads,
        "g": config.num_heads // config.kv_heads,
        "h": config.head_dim,
        "f": config.mlp_dim,
        "t": 3,
        "i": config.head_dim // 2,
        "s": 2,
        "o": 1,
    }


@functools.cache
def _axes(pattern: str) -> tuple[Groups, Groups]:
    sides = [re.findall(r"\(([^)]*)\)|(\w)", side) for side in pattern.split("->")]
    left, right = (tuple(tuple((group or letter).split()) for group, letter in side) for side in sides)
    return left, right


def _size(group: Sequence[str], sizes: Sizes) -> int:
    return math.prod(sizes[letter] for letter in group)


def file_shape(part: Part, sizes: Sizes) -> tuple[int, ...]:
    """The shape that the tensor must have in the file."""
    return tuple(_size(group, sizes) for group in _axes(part.pattern)[0])


def our_shape(part: Part, sizes: Sizes) -> tuple[int, ...]:
    """The shape of its place in our array."""
    return tuple(_size(group, sizes) for group in _axes(part.pattern)[1])


def assemble(
    source: TensorSource, parts: Sequence[Part], sizes: Sizes, shape: tuple[int, ...], index: Slices, dtype: Any
) -> Array:
    """The part `index` of our array of `shape`, reading only what it needs as far as rows and columns of the file go.

    Parameters of blocks (names with {}) have a leading layer axis. Rows of the vocabulary's padding are zeros.
    """
    ranges = [range(*piece.indices(size)) for piece, size in zip(index, shape, strict=True)]
    out = np.zeros([len(taken) for taken in ranges], dtype)
    if "{}" not in parts[0].name:
        _assemble_layer(source, parts, sizes, ranges, out, None)
        return out
    for position, layer in enumerate(ranges[0]):
        _assemble_layer(source, parts, sizes, ranges[1:], out[position, ...], layer)
    return out


def _assemble_layer(
    source: TensorSource, parts: Sequence[Part], sizes: Sizes, ranges: Sequence[range], out: Array, layer: int | None
) -> None:
    for part, offset, axis in _places(parts, sizes):
        wanted, place = [], []
        for number, (taken, size) in enumerate(zip(ranges, our_shape(part, sizes), strict=True)):
            shift = offset if number == axis else 0
            start, stop = max(taken.start - shift, 0), min(taken.stop - shift, size)
            wanted.append(slice(start, stop))
            place.append(slice(start + shift - taken.start, stop + shift - taken.start))
        if all(piece.start < piece.stop for piece in wanted):
            out[tuple(place)] = _take(source, part, sizes, wanted, layer)


def _places(parts: Sequence[Part], sizes: Sizes) -> Iterator[tuple[Part, int, int | None]]:
    """Each part with where it begins along the axis on which the parts lie side by side."""
    if len(parts) == 1:
        yield parts[0], 0, None
        return
    axis = _axes(parts[-1].pattern)[1].index(("o",))
    offset = 0
    for part in parts:
        yield part, offset, axis
        offset += our_shape(part, sizes)[axis]


def _take(source: TensorSource, part: Part, sizes: Sizes, wanted: Sequence[slice], layer: int | None) -> Array:
    """The part `wanted` of a tensor, in our order of axes. The first letter of each of the file's axes is cut in the
    file, the rest once its rows are here."""
    left, right = _axes(part.pattern)
    cuts = {group[0]: piece for group, piece in zip(right, wanted, strict=True) if len(group) == 1}
    slices, lengths = [], []
    for group in left:
        inner = _size(group[1:], sizes)
        first = cuts.pop(group[0], slice(0, sizes[group[0]]))
        slices.append(slice(first.start * inner, first.stop * inner))
        lengths += [first.stop - first.start, *(sizes[letter] for letter in group[1:])]
    array = source.read(part.name.format(layer), tuple(slices)).reshape(lengths)
    letters = [letter for group in left for letter in group]
    array = array[tuple(cuts.get(letter, slice(None)) for letter in letters)]
    array = array.transpose([letters.index(letter) for group in right for letter in group])
    axis, shape, late = 0, [], []
    for group, piece in zip(right, wanted, strict=True):
        shape.append(math.prod(array.shape[axis : axis + len(group)]))
        late.append(piece if len(group) > 1 else slice(None))
        axis += len(group)
    return array.reshape(shape)[tuple(late)]


def disassemble(parts: Sequence[Part], sizes: Sizes, array: Array, layer: int | None) -> Iterator[tuple[str, Array]]:
    """The tensors of a file that our array (of one layer) becomes, by name."""
    for part, offset, axis in _places(parts, sizes):
        left, right = _axes(part.pattern)
        shape = our_shape(part, sizes)
        place = [slice(0, size) for size in shape]
        if axis is not None:
            place[axis] = slice(offset, offset + shape[axis])
        letters = [letter for group in right for letter in group]
        block = array[tuple(place)].reshape([sizes[letter] for letter in letters])
        block = block.transpose([letters.index(letter) for group in left for letter in group])
        yield part.name.format(layer), np.ascontiguousarray(block.reshape(file_shape(part, sizes)))
