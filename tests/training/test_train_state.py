"""Where the arrays of a state lie, read from the arrays."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from tests.training.tiny import LEARNED, ROTARY, random_parameters
from webgpt_jax.models import initial_parameters
from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
from webgpt_jax.training.sharding import MeshConfig, ShardingError, make_mesh
from webgpt_jax.training.train_state import (
    TrainState,
    abstract_train_state,
    check_state,
    create_train_state,
    train_state_from,
)

ADAM = make_optimizer(OptimizerConfig())
MIXED = MeshConfig(data=2, fsdp=2, tensor=2)

# The part of each parameter on a device of 2 × 2 × 2: `embed` halved by fsdp, heads, MLP and vocabulary by tensor.
PARTS = {
    "embedding": (16, 16),  # of 32 × 32
    "position_embedding": (16, 16),  # of 16 × 32
    "blocks/attention/qkv": (2, 16, 4, 3, 4),  # of 2 × 32 × 8 × 3 × 4
    "blocks/attention/qkv_bias": (2, 4, 3, 4),
    "blocks/attention/out": (2, 4, 4, 16),  # of 2 × 8 × 4 × 32
    "blocks/attention/out_bias": (2, 16),
    "blocks/attention_norm/scale": (2, 16),
    "blocks/attention_norm/bias": (2, 16),
    "blocks/mlp_norm/scale": (2, 16),
    "blocks/mlp_norm/bias": (2, 16),
    "blocks/mlp/up": (2, 16, 32),  # of 2 × 32 × 64
    "blocks/mlp/up_bias": (2, 32),
    "blocks/mlp/down": (2, 32, 16),  # of 2 × 64 × 32
    "blocks/mlp/down_bias": (2, 16),
    "final_norm/scale": (16,),
    "final_norm/bias": (16,),
}


def parts(tree: Any) -> dict[str, set[tuple[int, ...]]]:
    """The shapes that the devices hold of each array."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): {shard.data.shape for shard in array.addressable_shards}
        for path, array in jax.tree_util.tree_leaves_with_path(tree)
    }


@pytest.fixture(scope="module")
def state() -> TrainState:
    return create_train_state(LEARNED, ADAM, make_mesh(MIXED), jax.random.key(0))


def with_moment(state: TrainState, name: str, moment: jax.Array) -> TrainState:
    adam = state.opt_state[0]
    changed = adam._replace(nu={**adam.nu, name: moment})
    return replace(state, opt_state=(changed, *state.opt_state[1:]))


def test_parameters_average_and_moments_lie_alike(state: TrainState) -> None:
    expected = {name: {part} for name, part in PARTS.items()}
    adam = state.opt_state[0]
    for tree in (state.params, state.ema_params, adam.mu, adam.nu):
        assert parts(tree) == expected
    for counter in (state.step, adam.count):
        assert counter.sharding.is_fully_replicated
        assert len(counter.addressable_shards) == 8
    check_state(state)


def test_two_devices_of_data_hold_the_same_part_and_others_do_not(state: TrainState) -> None:
    shards = {shard.device.id: shard.index for shard in state.params["embedding"].addressable_shards}
    assert shards[0] == shards[4]  # the mesh is data × fsdp × tensor, the last moving fastest
    assert len({str(index) for index in shards.values()}) == 4


def test_first_weights_are_the_same_on_any_mesh(state: TrainState) -> None:
    expected = create_train_state(LEARNED, ADAM, make_mesh(MeshConfig(), jax.devices()[:1]), jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, state.params, expected.params)
    jax.tree.map(np.testing.assert_array_equal, state.ema_params, state.params)
    model = jax.jit(functools.partial(initial_parameters, LEARNED))(jax.random.key(0))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), state.params, model)
    assert all(not moment.any() for moment in jax.tree.leaves(state.opt_state[0].mu))


def test_a_replicated_moment_is_caught(state: TrainState) -> None:
    moment = state.opt_state[0].nu["embedding"]
    everywhere = jax.device_put(moment, NamedSharding(moment.sharding.mesh, PartitionSpec()))
    with pytest.raises(ShardingError, match=r"moments 2 of embedding lie as .*, the parameter as"):
        check_state(with_moment(state, "embedding", everywhere))


def test_a_moment_split_along_another_axis_is_caught(state: TrainState) -> None:
    moment = state.opt_state[0].nu["embedding"]  # 32 × 32: the parts' shapes are those of the right split
    turned = jax.device_put(moment, NamedSharding(moment.sharding.mesh, PartitionSpec("fsdp", "tensor")))
    assert {shard.data.shape for shard in turned.addressable_shards} == {(16, 16)}
    with pytest.raises(ShardingError, match="moments 2 of embedding"):
        check_state(with_moment(state, "embedding", turned))


def test_a_replicated_average_is_caught(state: TrainState) -> None:
    mesh = state.params["embedding"].sharding.mesh
    everywhere = jax.device_put(state.ema_params, NamedSharding(mesh, PartitionSpec()))
    with pytest.raises(ShardingError, match="averages of blocks/attention/out"):
        check_state(replace(state, ema_params=everywhere))


def test_the_abstract_state_is_the_real_ones_shape(state: TrainState) -> None:
    abstract = abstract_train_state(LEARNED, ADAM, make_mesh(MIXED))
    structure: Any = jax.tree.structure(abstract)
    assert structure == jax.tree.structure(state)

    def compare(shape: jax.ShapeDtypeStruct, array: jax.Array) -> None:
        assert (shape.shape, shape.dtype) == (array.shape, array.dtype)
        assert shape.sharding is not None
        assert shape.sharding.is_equivalent_to(array.sharding, array.ndim)

    jax.tree.map(compare, abstract, state)


def test_a_state_from_weights_that_are_there_spares_them() -> None:
    mesh = make_mesh(MIXED)
    params = create_train_state(ROTARY, ADAM, mesh, jax.random.key(1), head="scalar").params
    state = train_state_from(params, ROTARY, ADAM, mesh, head="scalar")
    assert parts(state.params) == parts(params)
    assert parts(state.params)["scalar_head/kernel"] == {(16,)}
    buffers = [array.unsafe_buffer_pointer() for shards in jax.tree.leaves((params, state)) for array in one(shards)]
    assert len(set(buffers)) == len(buffers)


def one(array: jax.Array) -> list[jax.Array]:
    """The part of the first device, an array of its own."""
    return [shard.data for shard in array.addressable_shards if shard.device.id == 0]


def test_weights_from_a_host_are_placed() -> None:
    params = random_parameters(LEARNED, "logits")
    state = train_state_from(params, LEARNED, ADAM, make_mesh(MIXED), keep_ema=False)
    assert parts(state.params) == {name: {part} for name, part in PARTS.items()}
    assert state.ema_params is None
    jax.tree.map(np.testing.assert_array_equal, state.params, params)


def test_the_average_is_float32_beside_half_precision_weights() -> None:
    config = replace(LEARNED, param_dtype="bfloat16")
    abstract = abstract_train_state(config, ADAM, make_mesh(MIXED))
    assert {array.dtype for array in jax.tree.leaves(abstract.params)} == {jnp.dtype("bfloat16")}
    assert {array.dtype for array in jax.tree.leaves(abstract.ema_params)} == {jnp.dtype("float32")}
    assert {array.dtype for array in jax.tree.leaves(abstract.opt_state[0].nu)} == {jnp.dtype("float32")}


def test_no_device_holds_the_whole_model_while_it_is_made() -> None:
    """What the compiler itself counts: the state and all it needs on the way, on each of 8 devices."""
    config = replace(LEARNED, vocab_size=1024, embed_dim=256, mlp_dim=1024, num_layers=1)
    mesh = make_mesh(MeshConfig(fsdp=8))
    state = abstract_train_state(config, ADAM, mesh)
    whole = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(state))

    def create(key: jax.Array) -> TrainState:
        params = initial_parameters(config, key)
        return TrainState(jnp.zeros((), jnp.int32), params, params, ADAM.init(params))

    shardings = jax.tree.map(lambda array: array.sharding, state)
    memory: Any = jax.jit(create, out_shardings=shardings).lower(jax.random.key(0)).compile().memory_analysis()
    assert memory.output_size_in_bytes < whole / 7
    assert memory.temp_size_in_bytes < whole / 7


def test_a_model_that_does_not_divide_is_refused_by_name() -> None:
    with pytest.raises(ShardingError, match="embedding: its axis embed of 20 does not divide over fsdp 8; 4 would"):
        create_train_state(replace(LEARNED, embed_dim=20), ADAM, make_mesh(MeshConfig(fsdp=8)), jax.random.key(0))
