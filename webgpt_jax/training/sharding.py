"""Where arrays lie on a mesh of devices: its axes, one table from logical names to them, and what checks the result.

The mesh has three axes. `data` copies the model and splits the batch; `fsdp` splits the batch too, and the parameters
with their gradients and moments along the residual stream's width; `tensor` splits heads, MLP and vocabulary, and
between blocks the residual stream along the sequence. Models name the axes of their arrays; only `RULES` knows meshes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from webgpt_jax.models import TransformerConfig, parameter_specs
from webgpt_jax.models.parameters import Axes, Head, Tree, map_named, map_tree

MESH_AXES = ("data", "fsdp", "tensor")

Kind: TypeAlias = Literal["parameters", "activations"]


class ShardingError(ValueError):
    """Arrays or devices that do not fit each other; the message names them and what would fit."""


@dataclass(frozen=True)
class MeshConfig:
    """How devices are arranged. The three numbers multiply to the number of devices; one may be -1, for the rest."""

    data: int = field(default=-1, metadata={"help": "copies of the model, each with its part of the batch"})
    fsdp: int = field(default=1, metadata={"help": "devices that share the batch and split the parameters by width"})
    tensor: int = field(default=1, metadata={"help": "devices that split heads, MLP, vocabulary and sequence"})

    def sizes(self, device_count: int) -> tuple[int, int, int]:
        """The mesh's shape (data, fsdp, tensor) on so many devices.

        Raises:
          ShardingError: the numbers do not multiply to `device_count`; the message has the nearest that do.
        """
        wanted = (self.data, self.fsdp, self.tensor)
        if any(size < 1 and size != -1 for size in wanted) or wanted.count(-1) > 1:
            raise ShardingError(f"a mesh axis is at least 1, or -1 for the rest (one of them), not {_describe(wanted)}")
        given = math.prod(size for size in wanted if size != -1)
        if device_count % given or (-1 not in wanted and given != device_count):
            nearest = _describe(_nearest_sizes(wanted, device_count))
            raise ShardingError(
                f"a mesh of {_describe(wanted)} cannot be made of {device_count} devices; try {nearest}"
            )
        data, fsdp, tensor = (device_count // given if size == -1 else size for size in wanted)
        return data, fsdp, tensor


def _describe(sizes: tuple[int, ...]) -> str:
    return " × ".join(f"{name} {size}" for name, size in zip(MESH_AXES, sizes, strict=True))


def _nearest_sizes(wanted: tuple[int, int, int], device_count: int) -> tuple[int, int, int]:
    """Of all meshes of so many devices, the one off by the smallest factors, in `data` sooner than in the others."""

    def distances(sizes: tuple[int, int, int]) -> tuple[float, float, float]:
        data, fsdp, tensor = (
            0.0 if want == -1 else abs(math.log(size / want)) for size, want in zip(sizes, wanted, strict=True)
        )
        return round(data + fsdp + tensor, 6), tensor, fsdp

    divisors = [size for size in range(1, device_count + 1) if device_count % size == 0]
    choices = [(data, fsdp, device_count // data // fsdp) for data in divisors for fsdp in divisors]
    return min((sizes for sizes in choices if math.prod(sizes) == device_count), key=distances)


def make_mesh(config: MeshConfig, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """The mesh of these devices, or of all there are on all hosts, with the compiler in charge of what lies where.

    Neighbours along `tensor`, then along `fsdp`, are the devices with the fastest links: on TPUs those of the torus, on
    GPUs those of one host. TPU slices are joined along `data`, which needs the least of the network between them.

    Raises:
      ShardingError: the devices cannot be arranged so.
    """
    devices = jax.devices() if devices is None else devices
    sizes = config.sizes(len(devices))
    return Mesh(_arrange(sizes, devices), MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES))


def _arrange(sizes: tuple[int, int, int], devices: Sequence[jax.Device]) -> np.ndarray[Any, Any]:
    if devices[0].platform != "tpu":  # JAX lists them host by host
        return np.asarray(devices).reshape(sizes)
    slices = len({getattr(device, "slice_index", 0) for device in devices})
    data, fsdp, tensor = sizes
    if data % slices:
        raise ShardingError(f"{slices} TPU slices are joined along data, and data {data} is not a multiple of {slices}")
    within, between = (data // slices, fsdp, tensor), (slices, 1, 1)
    try:
        if slices == 1:
            return mesh_utils.create_device_mesh(sizes, devices, allow_split_physical_axes=True)
        return mesh_utils.create_hybrid_device_mesh(within, between, devices, allow_split_physical_axes=True)
    except (ValueError, TypeError, NotImplementedError) as error:  # what it raises for sizes that cut a torus oddly
        raise ShardingError(
            f"JAX cannot lay a mesh of {_describe(sizes)} on this TPU's torus: choose sizes that are powers of 2, "
            "or multiples of the torus's sides"
        ) from error


@dataclass(frozen=True)
class Rule:
    """Which mesh axes split a logical axis, in a parameter and in an activation."""

    parameters: tuple[str, ...] = ()
    activations: tuple[str, ...] = ()
    else_whole: bool = False  # where they do not divide it: it is left whole, and not an error


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "layers": Rule(),  # the scan walks along them
        "position": Rule(),
        "vocab": Rule(parameters=("tensor",), activations=("tensor",)),
        "embed": Rule(parameters=("fsdp",)),
        "heads": Rule(parameters=("tensor",), activations=("tensor",)),
        # Fewer key-value heads than tensor devices: each device holds, and attends with, all of them. Models with as
        # many of these as of `heads` never get here unseen, because those then do not divide either.
        "kv_heads": Rule(parameters=("tensor",), activations=("tensor",), else_whole=True),
        "head_dim": Rule(),
        "mlp": Rule(parameters=("tensor",), activations=("tensor",)),
        "batch": Rule(activations=("data", "fsdp"), else_whole=True),  # a training step is stricter: `check_batch`
        "length": Rule(),
        "residual_length": Rule(activations=("tensor",), else_whole=True),  # one token of a decode step
    }
)


def _mesh_axes(mesh: Mesh, name: str, axis: str | None, size: int, kind: Kind) -> tuple[str, ...]:
    if axis is None:
        return ()
    if axis not in RULES:
        raise ShardingError(f"{name} has an axis {axis!r} that no rule knows; there are {', '.join(RULES)}")
    rule = RULES[axis]
    mesh_axes = rule.parameters if kind == "parameters" else rule.activations
    shards = math.prod(mesh.shape[mesh_axis] for mesh_axis in mesh_axes)
    if size % shards == 0:
        return mesh_axes
    if rule.else_whole:
        return ()
    over = " × ".join(f"{mesh_axis} {mesh.shape[mesh_axis]}" for mesh_axis in mesh_axes)
    raise ShardingError(
        f"{name}: its axis {axis} of {size} does not divide over {over}; {math.gcd(size, shards)} would"
    )


def partition_spec(mesh: Mesh, name: str, axes: Axes, shape: Sequence[int], kind: Kind) -> PartitionSpec:
    """The rules applied to one array with these logical axes and this shape; `name` is for errors.

    Raises:
      ShardingError: an axis that no rule knows, or one that its mesh axes do not divide.
    """
    if len(axes) != len(shape):
        raise ShardingError(f"{name} of shape {tuple(shape)} has {len(shape)} axes, its names are {axes}")
    entries = [_mesh_axes(mesh, name, axis, size, kind) for axis, size in zip(axes, shape, strict=True)]
    return PartitionSpec(*(_entry(entry) for entry in entries))


def _entry(mesh_axes: tuple[str, ...]) -> str | tuple[str, ...] | None:
    """As JAX writes it itself, so that specs compare as equal: None, a name, or names."""
    if len(mesh_axes) > 1:
        return mesh_axes
    return mesh_axes[0] if mesh_axes else None


def shardings_for(mesh: Mesh, axes: Tree[Axes], shapes: Tree[Any]) -> Tree[NamedSharding]:
    """Where each parameter lies.

    Args:
      mesh: of `make_mesh`.
      axes: the logical axis names of each parameter, nested by name.
      shapes: arrays, or anything else with a `shape`, nested alike.

    Raises:
      ShardingError: a parameter that cannot be split as the rules say, by name.
    """
    flat: dict[str, tuple[int, ...]] = {}
    map_named(lambda path, entry: flat.__setitem__(path, entry.shape), shapes)

    def sharding(path: str, names: Axes) -> NamedSharding:
        if path not in flat:
            raise ShardingError(f"{path} has axis names and no shape")
        return NamedSharding(mesh, partition_spec(mesh, path, names, flat[path], "parameters"))

    return map_named(sharding, axes)


def parameter_shardings(mesh: Mesh, config: TransformerConfig, head: Head = "logits") -> Tree[NamedSharding]:
    """`shardings_for` the parameters of a model, from its table."""
    specs = parameter_specs(config, head)
    return shardings_for(mesh, map_tree(lambda spec: spec.axes, specs), specs)


def replicated(mesh: Mesh) -> NamedSharding:
    """A whole copy on each device: steps, keys, metrics."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Arrays [B, ...] split along their first axis over `data` and `fsdp`."""
    return NamedSharding(mesh, PartitionSpec(RULES["batch"].activations))


def check_batch(mesh: Mesh, size: int, microbatches: int = 1) -> None:
    """Raises `ShardingError` unless every device has equally many of a batch's `size` rows in each microbatch."""
    unit = math.prod(mesh.shape[axis] for axis in RULES["batch"].activations) * microbatches
    if size % unit == 0 and size > 0:
        return
    below = f"{size - size % unit} or " if size > unit else ""
    over = " × ".join(f"{axis} {mesh.shape[axis]}" for axis in RULES["batch"].activations)
    raise ShardingError(
        f"a batch of {size} does not divide over {over} × {microbatches} microbatches: "
        f"make it {below}{size - size % unit + unit}"
    )


def place_batch(mesh: Mesh, batch: Any) -> Any:
    """This process's rows of a batch (NumPy arrays [b, ...] in any nesting) as global arrays [B, ...] on the mesh.

    With one process these are all rows. With more, each gives the rows of its own devices, in the order of processes.
    """
    sharding = batch_sharding(mesh)
    return jax.tree.map(lambda rows: jax.make_array_from_process_local_data(sharding, np.asarray(rows)), batch)


@dataclass(frozen=True)
class MeshSharding:
    """Activations placed on a mesh by the rules: what models take as `ActivationSharding`."""

    mesh: Mesh

    @property
    def platform(self) -> str:
        """What the mesh's devices are: "cpu", "gpu" or "tpu"."""
        return str(self.mesh.devices.flat[0].platform)

    def constrain(self, array: jax.Array, axes: Axes) -> jax.Array:
        """The same array, placed as the rules say for its axis names."""
        spec = partition_spec(self.mesh, "an activation", axes, array.shape, "activations")
        placed: jax.Array = jax.lax.with_sharding_constraint(array, NamedSharding(self.mesh, spec))
        return placed

    def per_device(
        self, function: Callable[..., jax.Array], inputs: tuple[Axes, ...], output: Axes
    ) -> Callable[..., jax.Array]:
        """`function` run on each device's part of its inputs; each axis of the output is one of an input, unchanged."""

        def run(*arrays: jax.Array) -> jax.Array:
            sizes: dict[str | None, int] = {None: 1}
            for array, axes in zip(arrays, inputs, strict=True):
                sizes.update(zip(axes, array.shape, strict=True))
            shapes = [array.shape for array in arrays]
            out_shape = [sizes[axis] for axis in output]

            def spec(axes: Axes, shape: Sequence[int]) -> PartitionSpec:
                return partition_spec(self.mesh, "a kernel's array", axes, shape, "activations")

            mapped = jax.shard_map(
                function,
                mesh=self.mesh,
                in_specs=tuple(spec(axes, shape) for axes, shape in zip(inputs, shapes, strict=True)),
                out_specs=spec(output, out_shape),
                check_vma=False,  # kernels do not say along which mesh axes their outputs vary
            )
            result: jax.Array = mapped(*arrays)
            return result

        return run


def check_alike(params: Any, others: Any, what: str) -> None:
    """Compares where two trees of arrays lie, read from the arrays themselves.

    Args:
      params: parameters.
      others: arrays nested and shaped as `params`: gradients, moments, averages.
      what: their name, for the error.

    Raises:
      ShardingError: one does not lie on the devices as its parameter does: a copy on each device where the parameter is
        split costs the memory that splitting was for, and nothing else would tell.
    """
    structure: Any = jax.tree.structure(params)
    if structure != jax.tree.structure(others):
        raise ShardingError(f"{what} are not nested as the parameters are")

    def check(path: Any, param: jax.Array, other: jax.Array) -> None:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if param.shape != other.shape:
            raise ShardingError(f"{what} of {name} have shape {other.shape}, the parameter {param.shape}")
        if _parts(param) != _parts(other):
            raise ShardingError(f"{what} of {name} lie as {other.sharding}, the parameter as {param.sharding}")

    jax.tree_util.tree_map_with_path(check, params, others)


def _parts(array: jax.Array) -> dict[jax.Device, tuple[tuple[int, int, int], ...]]:
    """Which part of the array each of this process's devices holds, as (start, stop, step) of each axis."""
    return {
        shard.device: tuple(part.indices(size) for part, size in zip(shard.index, array.shape, strict=True))
        for shard in array.addressable_shards
    }
