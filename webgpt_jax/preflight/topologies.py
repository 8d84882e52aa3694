"""TPU chips, GPUs, and what of them can be had together: what `webgpt preflight` reckons with.

Figures of a TPU chip are from its page in Google's TPU documentation (docs.cloud.google.com/tpu/docs/v4, v5e, v5p,
v6e); the memory that a program may use is what libtpu's compiler states when it refuses a larger one. Figures of a GPU
are from NVIDIA's data sheet of it in its SXM form (H100, H200) and of DGX systems; its memory is what CUDA counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GIB = 2**30

GPU_SHARE = 0.92  # of a GPU's memory given to JAX (XLA_PYTHON_CLIENT_MEM_FRACTION): CUDA and NCCL need the rest


class TopologyError(ValueError):
    """A topology that cannot be had; the message names those that can."""


@dataclass(frozen=True)
class Torus:
    """How TPU chips are joined: each to two neighbours along every axis."""

    link_bandwidth: float  # bytes a second of one link, one way
    small_slices: tuple[tuple[int, ...], ...]  # below one cube
    largest_slice: tuple[int, ...]
    step: int  # sides of larger slices are multiples of it

    @property
    def shapes(self) -> set[tuple[int, ...]]:
        """The sides of all slices, each in rising order."""
        sides = [range(self.step, largest + 1, self.step) for largest in self.largest_slice]
        large = (sizes for sizes in itertools.product(*sides) if list(sizes) == sorted(sizes))
        return {*self.small_slices, *large}

    def name(self, shape: tuple[int, ...]) -> str:
        """As in "8x8x8"."""
        return "x".join(map(str, shape))


@dataclass(frozen=True)
class Nodes:
    """How GPUs are joined: those of a node by a switch, nodes by a network in which each GPU has a link of its own."""

    size: int  # GPUs of a node
    switch_bandwidth: float  # bytes a second of a GPU to others of its node, one way
    network_bandwidth: float  # to GPUs of other nodes, one way
    largest: int  # nodes; ours, to bound the search

    @property
    def shapes(self) -> set[tuple[int, ...]]:
        """Nodes and GPUs of each. A single node may be had in part."""
        parts = {(1, 2**power) for power in range(self.size.bit_length() - 1)}
        return {*parts, *((nodes, self.size) for nodes in range(1, self.largest + 1))}

    def name(self, shape: tuple[int, ...]) -> str:
        """As in "16x8": nodes × GPUs; "8": those of one node."""
        nodes, gpus = shape
        return str(gpus) if nodes == 1 else f"{nodes}x{gpus}"


@dataclass(frozen=True)
class Chip:
    """One kind of TPU chip or GPU. Rates are a second's, and peaks: no program reaches them."""

    name: str  # as topologies begin
    memory: float  # bytes that a program may use
    peak_flops: float  # bfloat16 operations
    memory_bandwidth: float  # bytes to and from HBM
    links: Torus | Nodes
    compiler_options: Mapping[str, str]  # how the compiler is told what one device is

    @property
    def platform(self) -> str:
        """Whose compiler it takes: "tpu" (libtpu) or "cuda" (the CUDA plugin)."""
        return "tpu" if isinstance(self.links, Torus) else "cuda"

    @property
    def slices(self) -> tuple[Topology, ...]:
        """All that can be had, the smaller first and of equal size the more compact."""
        shapes = sorted(self.links.shapes, key=lambda shape: (math.prod(shape), max(shape)))
        return tuple(Topology(self, shape) for shape in shapes)


_CUBES = ((1, 1, 1), (2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
_SQUARES = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
_ONE_DEVICE = MappingProxyType({"chip_config_name": "megacore"})  # its two cores together
_NONE: Mapping[str, str] = MappingProxyType({})

# Eight GPUs on NVLink of the fourth generation (900 GB/s both ways), a 400 Gbit/s InfiniBand adapter for each.
_DGX = Nodes(8, 450e9, 50e9, 256)


def _hopper(name: str, memory: int, memory_bandwidth: float) -> Chip:
    """A GPU of compute capability 9.0; its description is a GpuTargetConfigProto of XLA's, as text."""
    target = f"""
        platform_name: "CUDA"
        device_description_str: "NVIDIA {name.upper()}"
        dnn_version_info {{ major: 9 minor: 8 }}
        runtime_version {{ major: 12 minor: 8 }}
        gpu_device_info {{
          cuda_compute_capability {{ major: 9 }}
          core_count: 132
          fpus_per_core: 128
          clock_rate_ghz: 1.98
          device_memory_size: {memory}
          memory_bandwidth: {memory_bandwidth:.0f}
          l2_cache_size: {50 * 2**20}
          shared_memory_per_core: {228 * 2**10}
          shared_memory_per_block: {48 * 2**10}
          shared_memory_per_block_optin: {227 * 2**10}
          registers_per_core_limit: {2**16}
          registers_per_block_limit: {2**16}
          threads_per_warp: 32
          threads_per_block_limit: 1024
          threads_per_core_limit: 2048
          block_dim_limit_x: {2**31 - 1}
          block_dim_limit_y: {2**16 - 1}
          block_dim_limit_z: {2**16 - 1}
        }}
    """
    options = MappingProxyType({"target_config": target})
    return Chip(name, GPU_SHARE * memory, 989e12, memory_bandwidth, _DGX, options)


CHIPS: Mapping[str, Chip] = MappingProxyType(
    {
        chip.name: chip
        for chip in (
            # Links: of six, 2400 Gbit/s in all.
            Chip("v4", 30.75 * GIB, 275e12, 1.2e12, Torus(50e9, _CUBES, (12, 16, 16), 4), _ONE_DEVICE),
            # Links: of four, 400 GB/s both ways.
            Chip("v5e", 15.75 * GIB, 197e12, 0.819e12, Torus(50e9, _SQUARES, (16, 16), 16), _NONE),
            # Links: of six, 4800 Gbit/s in all.
            Chip("v5p", 95.73 * GIB, 459e12, 2.765e12, Torus(100e9, _CUBES, (16, 16, 24), 4), _ONE_DEVICE),
            # Links: of four, 800 GB/s both ways.
            Chip("v6e", 31.24 * GIB, 918e12, 1.638e12, Torus(100e9, _SQUARES, (16, 16), 16), _NONE),
            _hopper("h100", 81_008 * 2**20, 3.35e12),
            _hopper("h200", 143_168 * 2**20, 4.8e12),
        )
    }
)


@dataclass(frozen=True)
class Topology:
    """A slice or a cluster: chips of one kind."""

    chip: Chip
    shape: tuple[int, ...]  # chips along each axis of the torus; nodes and GPUs of each

    @property
    def name(self) -> str:
        """As it is written: "v5p:8x8x8", "h100:16x8"."""
        return f"{self.chip.name}:{self.chip.links.name(self.shape)}"

    @property
    def chips(self) -> int:
        """How many."""
        return math.prod(self.shape)


EXAMPLE = "v5p:8x8x8 or h100:16x8"


def parse_topology(text: str) -> Topology:
    """The slice or cluster of that name; the order of a torus's sides does not matter.

    Raises:
      TopologyError: there is no such chip or no such slice of it.
    """
    name, _, sides = text.partition(":")
    if name not in CHIPS:
        raise TopologyError(f"no chip {name!r} in topology {text!r}; there are {', '.join(CHIPS)}, as in {EXAMPLE}")
    chip = CHIPS[name]
    parts = sides.split("x")
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise TopologyError(f"topology {text!r} has no sides; {name} has {_examples(chip.slices)}")
    shape = tuple(int(part) for part in parts)
    wanted = _written(chip, shape)
    for topology in chip.slices:
        if _written(chip, topology.shape) == wanted:
            return topology
    nearest = sorted(chip.slices, key=lambda topology: _distance(topology, shape))[:4]
    raise TopologyError(f"there is no {text!r}; the nearest of {name} are {_examples(nearest)}")


def _written(chip: Chip, shape: tuple[int, ...]) -> tuple[int, ...]:
    """What tells one shape from another: sides in any order, nodes × GPUs as they stand, GPUs alone of one node."""
    if isinstance(chip.links, Torus):
        return tuple(sorted(shape))
    return (1, *shape) if len(shape) == 1 else shape


def _distance(topology: Topology, wanted: tuple[int, ...]) -> float:
    chips = max(math.prod(wanted), 1)
    return abs(math.log(topology.chips / chips))


def _examples(topologies: tuple[Topology, ...] | list[Topology]) -> str:
    names = [topology.name for topology in topologies]
    return ", ".join(names if len(names) <= 8 else [*names[:7], "…", names[-1]])
