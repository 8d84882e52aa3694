"""Names of TPU slices and GPU clusters: those that can be had, and what is said of the others."""

from __future__ import annotations

import pytest

from webgpt_jax.preflight.topologies import CHIPS, Nodes, TopologyError, parse_topology


@pytest.mark.parametrize(
    ("text", "name", "chips"),
    [
        ("v5p:8x8x8", "v5p:8x8x8", 512),
        ("v5p:2x2x1", "v5p:2x2x1", 4),
        ("v5p:8x4x4", "v5p:4x4x8", 128),
        ("v4:4x4x4", "v4:4x4x4", 64),
        ("v5e:1x1", "v5e:1x1", 1),
        ("v5e:4x2", "v5e:2x4", 8),
        ("v6e:16x16", "v6e:16x16", 256),
        ("h100:1", "h100:1", 1),
        ("h100:8", "h100:8", 8),
        ("h100:1x8", "h100:8", 8),
        ("h100:12x8", "h100:12x8", 96),
        ("h200:64x8", "h200:64x8", 512),
    ],
)
def test_names_are_read(text: str, name: str, chips: int) -> None:
    topology = parse_topology(text)
    assert (topology.name, topology.chips) == (name, chips)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a100:8", "v4, v5e, v5p, v6e, h100, h200"),
        ("", "v5p"),
        ("v5p", "v5p:2x2x1"),
        ("v5p:", "v5p:2x2x1"),
        ("v5p:8xx8", "v5p:8x8x8"[:4]),
        ("v5p:3x3x3", "v5p:2x4x4"),  # 32 chips, of all slices the nearest to 27
        ("v5p:8x8", "v5p:4x4x4"),
        ("v5p:0x0x0", "v5p:1x1x1"),
        ("v5p:-8x8x8", "sides"),
        ("v5p:８x8x8", "sides"),
        ("v5e:32x32", "v5e:16x16"),
        ("v5p:99999x99999x99999", "v5p:16x16x24"),
        ("v5p:999999x1x1", "sides"),
        ("h100", "h100:4"),
        ("h100:3", "h100:4"),
        ("h100:64", "h100:8x8"),
        ("h100:8x4", "h100:4x8"),
        ("h100:0x8", "h100:1"),
        ("h100:999x8", "h100:256x8"),
        ("h100:2x2x2", "h100:8"),
    ],
)
def test_others_are_refused_with_what_there_is(text: str, named: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topology(text)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", CHIPS)
def test_slices_grow_and_have_as_many_sides_as_the_torus(name: str) -> None:
    chip = CHIPS[name]
    sizes = [topology.chips for topology in chip.slices]
    assert sizes == sorted(sizes)
    assert len({len(topology.shape) for topology in chip.slices}) == 1
    if isinstance(chip.links, Nodes):
        assert all(topology.shape[1] == 8 for topology in chip.slices if topology.chips > 8)
    assert all(parse_topology(topology.name) == topology for topology in chip.slices)
