"""Patterns between the axes of files and ours: any part of any of our arrays, read alone, is that part of the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.shapes import LEARNED, ROTARY
from webgpt_jax.models.gguf_file import LLAMA_LAYOUT as GGUF_LAYOUT
from webgpt_jax.models.layout import Layout, Part, assemble, axis_sizes, disassemble, file_shape
from webgpt_jax.models.parameters import ParameterSpec, map_named, parameter_specs
from webgpt_jax.models.tensor_tables import GPT2_LAYOUT, LLAMA_LAYOUT, NEOX_LAYOUT, OPT_LAYOUT
from webgpt_jax.models.tensors import Slices

CASES: dict[str, tuple[Any, Layout]] = {
    "gpt2": (LEARNED, GPT2_LAYOUT),
    "neox": (LEARNED, NEOX_LAYOUT),
    "opt": (LEARNED, OPT_LAYOUT),
    "llama": (ROTARY, LLAMA_LAYOUT),
    "gguf": (ROTARY, GGUF_LAYOUT),
}


def specs_of(name: str) -> dict[str, ParameterSpec]:
    """Our parameters by path, those that the family has."""
    config, layout = CASES[name]
    flat: dict[str, ParameterSpec] = {}
    map_named(flat.__setitem__, parameter_specs(config))
    return {path: spec for path, spec in flat.items() if path in layout}


class Numbered:
    """Tensors whose entries are all different numbers, made on demand, with a note of what was read."""

    path = Path("numbered")

    def __init__(self, layout: Layout, sizes: Any, layers: int) -> None:
        self.shapes, self._starts, start = {}, {}, 0
        for parts in layout.values():
            for part in parts:
                for layer in range(layers):
                    name = part.name.format(layer)
                    self.shapes[name] = file_shape(part, sizes)
                    self._starts[name] = start
                    start += int(np.prod(self.shapes[name]))
        self.read_sizes: list[int] = []

    def read(self, name: str, slices: Slices) -> np.ndarray:
        whole = self._starts[name] + np.arange(np.prod(self.shapes[name])).reshape(self.shapes[name])
        self.read_sizes.append(whole[slices].size)
        return whole[slices]


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_part_read_alone_is_that_part_of_the_whole(name: str, data: st.DataObject) -> None:
    config, layout = CASES[name]
    sizes = axis_sizes(config)
    source = Numbered(layout, sizes, config.num_layers)
    path = data.draw(st.sampled_from(sorted(specs_of(name))))
    shape = specs_of(name)[path].shape
    whole = assemble(source, layout[path], sizes, shape, tuple(slice(0, size) for size in shape), np.int64)
    assert len(np.unique(whole)) == whole.size  # every entry of the tensors, once
    index = []
    for size in shape:
        start = data.draw(st.integers(0, size))
        index.append(slice(start, data.draw(st.integers(start, size))))
    part = assemble(source, layout[path], sizes, shape, tuple(index), np.int64)
    np.testing.assert_array_equal(part, whole[tuple(index)])


@pytest.mark.parametrize("name", CASES)
def test_backwards_gives_the_tensors_again(name: str) -> None:
    config, layout = CASES[name]
    sizes = axis_sizes(config)
    source = Numbered(layout, sizes, config.num_layers)
    for path, spec in specs_of(name).items():
        whole = assemble(
            source, layout[path], sizes, spec.shape, tuple(slice(0, size) for size in spec.shape), np.int64
        )
        layers = enumerate(whole) if path.startswith("blocks/") else [(None, whole)]
        for layer, array in layers:
            for tensor, back in disassemble(layout[path], sizes, array, layer):
                np.testing.assert_array_equal(back, source.read(tensor, ()), err_msg=tensor)


def test_a_pattern_by_hand() -> None:
    # Two key-value heads of one query, entries of 2, in GGUF's order: pairs next to each other.
    sizes = {"k": 2, "g": 1, "i": 1, "s": 2, "d": 1}
    source = Numbered({"q": (Part("q", "(k g i s) d -> d k g (s i)"),)}, sizes, 1)
    whole = tuple(slice(0, size) for size in (1, 2, 1, 2))
    array = assemble(source, (Part("q", "(k g i s) d -> d k g (s i)"),), sizes, (1, 2, 1, 2), whole, np.int64)
    np.testing.assert_array_equal(array, [[[[0, 1]], [[2, 3]]]])
    sizes = {**sizes, "i": 2}
    source = Numbered({"q": (Part("q", "(k g i s) d -> d k g (s i)"),)}, sizes, 1)
    whole = tuple(slice(0, size) for size in (1, 2, 1, 4))
    array = assemble(source, (Part("q", "(k g i s) d -> d k g (s i)"),), sizes, (1, 2, 1, 4), whole, np.int64)
    np.testing.assert_array_equal(array, [[[[0, 2, 1, 3]], [[4, 6, 5, 7]]]])


def test_rows_of_the_padded_vocabulary_are_zeros() -> None:
    sizes = {"v": 3, "d": 2}
    parts = (Part("e", "v d -> v d"),)
    source = Numbered({"e": parts}, sizes, 1)
    array = assemble(source, parts, sizes, (5, 2), (slice(2, 5), slice(0, 2)), np.int64)
    np.testing.assert_array_equal(array, [[4, 5], [0, 0], [0, 0]])
