"""TPU chips and the slices of them that can be had: what `webgpt preflight` reckons with.

Figures of a chip are from its page in Google's TPU documentation (docs.cloud.google.com/tpu/docs/v4, v5e, v5p, v6e);
the memory that a program may use is what libtpu's compiler states when it refuses a larger one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GIB = 2**30


class TopologyError(ValueError):
    """A topology that cannot be had; the message names those that can."""


@dataclass(frozen=True)
class Chip:
    """One kind of TPU chip. Rates are a second's, and peaks: no program reaches them."""

    name: str  # as topologies begin
    memory: float  # bytes that a program may use
    peak_flops: float  # bfloat16 operations
    memory_bandwidth: float  # bytes to and from HBM
    link_bandwidth: float  # bytes of one link to a neighbour, one way; two links an axis of the torus
    small_slices: tuple[tuple[int, ...], ...]  # below one cube
    largest_slice: tuple[int, ...]
    step: int  # sides of larger slices are multiples of it
    compiler_options: Mapping[str, str]  # how libtpu is told to treat a chip as one device

    @property
    def torus_axes(self) -> int:
        """2 or 3."""
        return len(self.largest_slice)

    @property
    def slices(self) -> tuple[Topology, ...]:
        """All that can be had, the smaller first and of equal size the more compact."""
        sides = [range(self.step, largest + 1, self.step) for largest in self.largest_slice]
        large = (sizes for sizes in itertools.product(*sides) if list(sizes) == sorted(sizes))
        shapes = {*self.small_slices, *large}
        return tuple(
            Topology(self, shape) for shape in sorted(shapes, key=lambda shape: (math.prod(shape), max(shape)))
        )


_CUBES = ((1, 1, 1), (2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
_SQUARES = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
_ONE_DEVICE = MappingProxyType({"chip_config_name": "megacore"})  # its two cores together
_NONE: Mapping[str, str] = MappingProxyType({})

CHIPS: Mapping[str, Chip] = MappingProxyType(
    {
        chip.name: chip
        for chip in (
            # Links: of six, 2400 Gbit/s in all.
            Chip("v4", 30.75 * GIB, 275e12, 1.2e12, 50e9, _CUBES, (12, 16, 16), 4, _ONE_DEVICE),
            # Links: of four, 400 GB/s both ways.
            Chip("v5e", 15.75 * GIB, 197e12, 0.819e12, 50e9, _SQUARES, (16, 16), 16, _NONE),
            # Links: of six, 4800 Gbit/s in all.
            Chip("v5p", 95.73 * GIB, 459e12, 2.765e12, 100e9, _CUBES, (16, 16, 24), 4, _ONE_DEVICE),
            # Links: of four, 800 GB/s both ways.
            Chip("v6e", 31.24 * GIB, 918e12, 1.638e12, 100e9, _SQUARES, (16, 16), 16, _NONE),
        )
    }
)


@dataclass(frozen=True)
class Topology:
    """A slice: chips of one kind in a torus."""

    chip: Chip
    shape: tuple[int, ...]  # chips along each axis

    @property
    def name(self) -> str:
        """As it is written: "v5p:8x8x8"."""
        return f"{self.chip.name}:{'x'.join(map(str, self.shape))}"

    @property
    def chips(self) -> int:
        """How many."""
        return math.prod(self.shape)


def parse_topology(text: str) -> Topology:
    """The slice of that name; the order of its sides does not matter.

    Raises:
      TopologyError: there is no such chip or no such slice of it.
    """
    name, _, sides = text.partition(":")
    if name not in CHIPS:
        raise TopologyError(f"no chip {name!r} in topology {text!r}; there are {', '.join(CHIPS)}, as in v5p:8x8x8")
    chip = CHIPS[name]
    parts = sides.split("x")
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise TopologyError(f"topology {text!r} has no sides; {name} has {_examples(chip.slices)}")
    wanted = sorted(int(part) for part in parts)
    for topology in chip.slices:
        if sorted(topology.shape) == wanted:
            return topology
    nearest = sorted(chip.slices, key=lambda topology: _distance(topology, wanted))[:4]
    raise TopologyError(f"there is no slice {text!r}; the nearest of {name} are {_examples(nearest)}")


def _distance(topology: Topology, wanted: list[int]) -> float:
    chips = max(math.prod(wanted), 1)
    return abs(math.log(topology.chips / chips))


def _examples(topologies: tuple[Topology, ...] | list[Topology]) -> str:
    names = [topology.name for topology in topologies]
    return ", ".join(names if len(names) <= 8 else [*names[:7], "…", names[-1]])
