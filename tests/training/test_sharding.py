"""Meshes, the rules, and activations: what fits, what is refused and with what advice."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from tests.training.tiny import HEADS, LEARNED, ROTARY
from webgpt_jax.models import Transformer, logical_axes, parameter_specs, parameters
from webgpt_jax.models.parameters import map_tree
from webgpt_jax.training.sharding import (
    RULES,
    MeshConfig,
    MeshSharding,
    ShardingError,
    batch_sharding,
    check_alike,
    check_batch,
    make_mesh,
    parameter_shardings,
    partition_spec,
    place_batch,
    shardings_for,
)

MIXED = MeshConfig(data=2, fsdp=2, tensor=2)


@pytest.mark.parametrize(
    ("config", "devices", "expected"),
    [
        (MeshConfig(), 8, (8, 1, 1)),
        (MeshConfig(), 1, (1, 1, 1)),
        (MeshConfig(fsdp=4, tensor=2), 8, (1, 4, 2)),
        (MeshConfig(data=1, fsdp=-1, tensor=8), 512, (1, 64, 8)),
        (MeshConfig(data=2, fsdp=2, tensor=-1), 8, (2, 2, 2)),
    ],
)
def test_sizes(config: MeshConfig, devices: int, expected: tuple[int, int, int]) -> None:
    assert config.sizes(devices) == expected


@pytest.mark.parametrize(
    ("config", "devices", "message"),
    [
        (
            MeshConfig(tensor=3),
            8,
            "a mesh of data -1 × fsdp 1 × tensor 3 cannot be made of 8 devices; try data 2 × fsdp 1 × tensor 4",
        ),
        (MeshConfig(data=2, fsdp=2, tensor=4), 8, "try data 1 × fsdp 2 × tensor 4"),
        (MeshConfig(data=1), 8, "try data 8 × fsdp 1 × tensor 1"),
        (MeshConfig(data=1, fsdp=64, tensor=16), 512, "try data 1 × fsdp 32 × tensor 16"),
        (MeshConfig(fsdp=16), 8, "try data 1 × fsdp 8 × tensor 1"),
        (MeshConfig(fsdp=0), 8, "a mesh axis is at least 1, or -1 for the rest (one of them), not data -1 × fsdp 0"),
        (MeshConfig(fsdp=-1), 8, "or -1 for the rest (one of them), not data -1 × fsdp -1"),
        (MeshConfig(data=-2), 8, "not data -2 × fsdp 1"),
    ],
)
def test_meshes_that_cannot_be_made(config: MeshConfig, devices: int, message: str) -> None:
    with pytest.raises(ShardingError, match=re.escape(message)):
        config.sizes(devices)


def test_the_mesh_leaves_placing_to_the_compiler() -> None:
    mesh = make_mesh(MIXED)
    assert mesh.axis_names == ("data", "fsdp", "tensor")
    assert mesh.axis_types == (AxisType.Auto,) * 3
    assert [device.id for device in mesh.devices.flat] == list(range(8))
    assert make_mesh(MeshConfig(tensor=2), jax.devices()[:4]).devices.shape == (2, 1, 2)


def test_every_axis_of_a_model_has_its_rule() -> None:
    used: set[str | None] = set()
    for head in HEADS:
        map_tree(lambda spec: used.update(spec.axes), parameter_specs(LEARNED, head))
    assert used - {None} == {"layers", "position", "vocab", "embed", "heads", "kv_heads", "head_dim", "mlp"}
    assert used - {None} <= RULES.keys()


def spec(config: MeshConfig, axes: tuple[str | None, ...], shape: tuple[int, ...], kind: str) -> PartitionSpec:
    return partition_spec(make_mesh(config), "weight", axes, shape, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("axes", "shape", "kind", "expected"),
    [
        (("vocab", "embed"), (32, 16), "parameters", ("tensor", "fsdp")),
        (("layers", "embed", "kv_heads", None), (3, 16, 4, 3), "parameters", (None, "fsdp", "tensor", None)),
        (("kv_heads",), (1,), "parameters", (None,)),  # fewer than devices: each has it
        ((), (), "parameters", ()),
        (("batch", "residual_length", "embed"), (8, 6, 5), "activations", (("data", "fsdp"), "tensor", None)),
        (("batch", "residual_length", "embed"), (1, 1, 5), "activations", (None, None, None)),  # a decode step
        (("batch", "length", "mlp"), (4, 7, 6), "activations", (("data", "fsdp"), None, "tensor")),
    ],
)
def test_rules(axes: tuple[str | None, ...], shape: tuple[int, ...], kind: str, expected: tuple[object, ...]) -> None:
    assert spec(MIXED, axes, shape, kind) == PartitionSpec(*expected)


@pytest.mark.parametrize(
    ("axes", "shape", "message"),
    [
        (("mlp",), (12,), "weight: its axis mlp of 12 does not divide over tensor 8; 4 would"),
        (("heads",), (4,), "weight: its axis heads of 4 does not divide over tensor 8; 4 would"),
        (("width",), (8,), "weight has an axis 'width' that no rule knows; there are layers"),
        (("mlp",), (8, 8), "weight of shape (8, 8) has 2 axes, its names are ('mlp',)"),
    ],
)
def test_what_no_rule_places(axes: tuple[str, ...], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShardingError, match=re.escape(message)):
        spec(MeshConfig(tensor=8), axes, shape, "parameters")


def test_shardings_of_a_model_are_those_of_its_table() -> None:
    mesh = make_mesh(MIXED)
    model = Transformer(ROTARY, params=jax.tree.map(lambda spec: jnp.zeros(spec.shape), parameter_specs(ROTARY)))
    found = shardings_for(mesh, logical_axes(model), parameters(model))
    assert found == parameter_shardings(mesh, ROTARY)
    assert found["unembedding"] == NamedSharding(mesh, PartitionSpec("fsdp", "tensor"))


def test_fewer_key_value_heads_than_devices_are_on_each() -> None:
    mesh = make_mesh(MeshConfig(tensor=8))
    shardings: Any = parameter_shardings(mesh, ROTARY)
    attention = shardings["blocks"]["attention"]
    assert attention["qkv"].spec == PartitionSpec(None, "fsdp", None, None, None)
    assert attention["out"].spec == PartitionSpec(None, "tensor", None, "fsdp")
    with pytest.raises(ShardingError, match="blocks/attention/out: its axis heads of 4 does not divide over tensor 8"):
        parameter_shardings(mesh, replace(ROTARY, num_heads=4, num_kv_heads=None))


def test_activations_lie_as_the_rules_say() -> None:
    sharding = MeshSharding(make_mesh(MIXED))

    @jax.jit
    def place(stream: jax.Array) -> tuple[jax.Array, jax.Array]:
        between = sharding.constrain(stream, ("batch", "residual_length", "embed"))
        return between, sharding.constrain(between * 2, ("batch", "length", "mlp"))

    between, within = place(jnp.arange(4 * 6 * 8.0).reshape(4, 6, 8))
    assert {shard.data.shape for shard in between.addressable_shards} == {(1, 3, 8)}
    assert {shard.data.shape for shard in within.addressable_shards} == {(1, 6, 4)}
    np.testing.assert_array_equal(within, 2 * between)


def test_kernels_run_on_each_devices_part() -> None:
    sharding = MeshSharding(make_mesh(MIXED))
    seen = []

    def kernel(query: jax.Array, key: jax.Array) -> jax.Array:
        seen.append((query.shape, key.shape))
        return query + key.sum(axis=1, keepdims=True)

    axes = ("batch", "length", "kv_heads", "head_dim")
    query, key = jnp.arange(4 * 3 * 2 * 5.0).reshape(4, 3, 2, 5), jnp.ones((4, 3, 2, 5))
    mixed = jax.jit(sharding.per_device(kernel, (axes, axes), axes))(query, key)
    assert seen == [((1, 3, 1, 5), (1, 3, 1, 5))]
    np.testing.assert_array_equal(mixed, query + 3)
    assert {shard.data.shape for shard in mixed.addressable_shards} == {(1, 3, 1, 5)}


def test_equal_placings_compile_once() -> None:
    first, second = MeshSharding(make_mesh(MIXED)), MeshSharding(make_mesh(MIXED))
    assert first == second
    assert hash(first) == hash(second)
    assert first != MeshSharding(make_mesh(MeshConfig()))
    assert first.platform == "cpu"


@pytest.mark.parametrize(
    ("size", "microbatches", "message"),
    [(6, 1, "make it 4 or 8"), (3, 1, "make it 4"), (0, 1, "make it 4"), (12, 2, "make it 8 or 16")],
)
def test_batches_that_do_not_divide(size: int, microbatches: int, message: str) -> None:
    mesh = make_mesh(MIXED)
    check_batch(mesh, 8, 2)
    with pytest.raises(ShardingError, match=f"a batch of {size} .* {message}$"):
        check_batch(mesh, size, microbatches)


def test_a_batch_is_split_over_data_and_fsdp() -> None:
    mesh = make_mesh(MIXED)
    rows = np.arange(24).reshape(8, 3)
    placed = place_batch(mesh, {"tokens": rows, "label": np.arange(8)})
    assert placed["tokens"].sharding == batch_sharding(mesh)
    assert {shard.data.shape for shard in placed["tokens"].addressable_shards} == {(2, 3)}
    assert {shard.data.shape for shard in placed["label"].addressable_shards} == {(2,)}
    np.testing.assert_array_equal(placed["tokens"], rows)


def test_trees_that_are_not_alike() -> None:
    weight = jnp.zeros((4, 2))
    check_alike({"a": weight}, {"a": weight + 1}, "gradients")
    with pytest.raises(ShardingError, match="gradients are not nested as the parameters are"):
        check_alike({"a": weight}, {"b": weight}, "gradients")
    with pytest.raises(ShardingError, match=re.escape("gradients of a have shape (2, 4), the parameter (4, 2)")):
        check_alike({"a": weight}, {"a": weight.T}, "gradients")
