"""One update on meshes of eight devices against the plain one on a single device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.training.tiny import HEADS, LEARNED, MODELS, loss_of, quickly, random_batch, random_parameters, weight_of
from webgpt_jax.models import Params, TransformerConfig
from webgpt_jax.models.config import FloatType
from webgpt_jax.models.parameters import Head
from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
from webgpt_jax.training.sharding import MeshConfig, MeshSharding, ShardingError, check_alike, make_mesh
from webgpt_jax.training.train_state import TrainState, check_state, shardings_of, train_state_from
from webgpt_jax.training.train_step import (
    Batch,
    Metrics,
    StepConfig,
    StepError,
    clip_by_norm,
    make_gradient_step,
    make_train_step,
)

MESHES = {
    "data": MeshConfig(data=8),
    "fsdp": MeshConfig(fsdp=8),
    "tensor": MeshConfig(tensor=8),
    "mixed": MeshConfig(data=2, fsdp=2, tensor=2),
}
# Adam divides a gradient by its own size: where that is 0 but for rounding (a key's bias, which softmax cancels), its
# update is +-1 by chance. A large epsilon keeps noise noise.
ADAM = OptimizerConfig(base_step_size=0.1, epsilon=0.1)
KEY = jax.random.key(7)


def plain_update(config: TransformerConfig, head: Head, batch: Batch) -> tuple[jax.Array, Params, Params, Any]:
    """Loss, gradients, new parameters and Adam's state by optax alone, on one device."""
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1, b1=0.9, b2=0.95, eps=0.1))

    def update(params: Params, batch: Batch) -> tuple[jax.Array, Params, Params, Any]:
        (loss, _), gradients = jax.value_and_grad(loss_of(config, head), has_aux=True)(params, batch, KEY)
        updates, state = optimizer.update(gradients, optimizer.init(params), params)
        return loss, gradients, optax.apply_updates(params, updates), state[1][0]

    results: tuple[jax.Array, Params, Params, Any] = quickly(jax.jit(update), random_parameters(config, head), batch)
    return results


def start(
    config: TransformerConfig,
    head: Head,
    mesh_config: MeshConfig,
    optimizer: optax.GradientTransformation | None = None,
) -> tuple[TrainState, MeshSharding]:
    mesh = make_mesh(mesh_config)
    optimizer = make_optimizer(ADAM) if optimizer is None else optimizer
    state = train_state_from(random_parameters(config, head), config, optimizer, mesh, head=head)
    return state, MeshSharding(mesh)


def assert_close(actual: Any, expected: Any) -> None:
    """Equal but for float32 noise, which is as large as the sums it comes from: held against each array's largest."""

    def compare(path: Any, left: Any, right: Any) -> None:
        noise = 1e-5 * np.max(np.abs(right))
        np.testing.assert_allclose(left, right, rtol=0, atol=noise, err_msg=jax.tree_util.keystr(path))

    jax.tree_util.tree_map_with_path(compare, actual, expected)


CASES = [(model, mesh, head) for model in MODELS for mesh in MESHES for head in HEADS]
QUICK = {
    ("gpt2", "data", "logits"),
    ("neox", "fsdp", "scalar"),
    ("qwen", "tensor", "logits"),
    ("llama", "mixed", "logits"),
}


@pytest.mark.parametrize(
    ("model", "mesh", "head"),
    [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_an_update_on_a_mesh_is_the_plain_one(model: str, mesh: str, head: Head) -> None:
    config, batch = MODELS[model], random_batch()
    loss, gradients, params, adam = plain_update(config, head, batch)
    state, sharding = start(config, head, MESHES[mesh])
    gradient_step = make_gradient_step(loss_of(config, head, sharding), shardings_of(state))
    mesh_loss, _, mesh_gradients = quickly(gradient_step, state.params, batch, KEY)
    np.testing.assert_allclose(mesh_loss, loss, rtol=1e-5)
    assert_close(mesh_gradients, gradients)
    check_alike(state.params, mesh_gradients, "gradients")

    before = random_parameters(config, head)
    step = make_train_step(loss_of(config, head, sharding), make_optimizer(ADAM), shardings_of(state))
    state, metrics = quickly(step, state, batch, KEY)
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(metrics["gradient_norm"], optax.tree.norm(gradients), rtol=1e-5)
    assert int(state.step) == 1
    assert_close(state.params, params)
    assert_close(state.opt_state[0].mu, adam.mu)
    assert_close(
        jax.tree.map(np.sqrt, state.opt_state[0].nu), jax.tree.map(np.sqrt, adam.nu)
    )  # a square's noise is double
    assert_close(state.ema_params, jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new, before, params))
    check_state(state)


ONE = MeshConfig(data=1)


def start_on_one(config: TransformerConfig = LEARNED, head: Head = "logits") -> TrainState:
    mesh = make_mesh(ONE, jax.devices()[:1])
    return train_state_from(random_parameters(config, head), config, make_optimizer(ADAM), mesh, head=head)


@pytest.mark.parametrize("head", HEADS)
def test_microbatches_make_up_the_batch(head: Head) -> None:
    """Their numbers of tokens differ, and the eighth, the last row, has none that counts: its mean is 0 / 0."""
    state, batch = start_on_one(head=head), random_batch()
    loss = loss_of(LEARNED, head)
    whole = quickly(make_gradient_step(loss, shardings_of(state)), state.params, batch, KEY)
    step = make_gradient_step(loss, shardings_of(state), microbatches=8, weight=weight_of(head))
    parts = quickly(step, state.params, batch, KEY)
    assert_close(parts, whole)


def test_microbatches_of_unequal_weight_count_alike_without_one() -> None:
    state, batch = start_on_one(), random_batch()

    def loss(params: Params, rows: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        return (params["final_norm"]["bias"][0] * 0 + rows["target"] * rows["counts"][:, 0]).mean(), {}

    batch = {"target": np.arange(4.0, dtype=np.float32), "counts": np.ones((4, 1), np.float32)}
    step = make_gradient_step(loss, shardings_of(state), microbatches=2)
    assert float(step(state.params, batch, KEY)[0]) == 1.5


def test_microbatches_on_a_mesh() -> None:
    batch = random_batch()
    loss, _, params, _ = plain_update(LEARNED, "logits", batch)
    state, sharding = start(LEARNED, "logits", MESHES["mixed"])
    step = make_train_step(
        loss_of(LEARNED, "logits", sharding),
        make_optimizer(ADAM),
        shardings_of(state),
        StepConfig(microbatches=2),
        weight_of("logits"),
    )
    state, metrics = quickly(step, state, batch, KEY)
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-5)
    assert_close(state.params, params)
    check_state(state)


def test_the_state_is_given_away_and_the_key_follows_the_step() -> None:
    def noise(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        return jnp.square(params["final_norm"]["scale"]).sum(), {"noise": jax.random.uniform(key)}

    def run(steps: int) -> list[float]:
        state = start_on_one()
        step = make_train_step(noise, make_optimizer(ADAM), shardings_of(state))
        drawn = []
        for _ in range(steps):
            before = state
            state, metrics = step(state, random_batch(), KEY)
            assert all(array.is_deleted() for array in jax.tree.leaves(before.params))
            drawn.append(float(metrics["noise"]))
        return drawn

    first = run(3)
    assert len(set(first)) == 3
    assert run(3) == first
    expected = jax.random.uniform(jax.random.fold_in(jax.random.fold_in(KEY, 2), 0))
    assert first[2] == float(expected)


def test_clipping_scales_what_is_too_long() -> None:
    gradients = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([4.0])}  # of norm 5
    clipped = clip_by_norm(gradients, jnp.array(5.0), 1.0)
    np.testing.assert_allclose(clipped["a"], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped["b"], [0.8], rtol=1e-6)
    same = clip_by_norm(gradients, jnp.array(5.0), 7.0)
    np.testing.assert_array_equal(same["b"], [4.0])
    zero = clip_by_norm({"a": jnp.zeros(2)}, jnp.array(0.0), 1.0)
    np.testing.assert_array_equal(zero["a"], [0.0, 0.0])


@pytest.mark.parametrize("param_dtype", ["float32", "bfloat16"])
def test_half_precision(param_dtype: FloatType) -> None:
    """Arithmetic in bfloat16 leaves float32 weights float32; moments and average are float32 beside either."""
    config = replace(LEARNED, dtype="bfloat16", param_dtype=param_dtype)
    params = jax.tree.map(lambda array: array.astype(param_dtype), random_parameters(config, "logits"))
    mesh = make_mesh(ONE, jax.devices()[:1])
    state = train_state_from(params, config, make_optimizer(ADAM), mesh)
    step = make_train_step(loss_of(config, "logits"), make_optimizer(ADAM), shardings_of(state))
    state, metrics = quickly(step, state, random_batch(), KEY)
    assert {array.dtype for array in jax.tree.leaves(state.params)} == {jnp.dtype(param_dtype)}
    wide = (state.opt_state[0].mu, state.opt_state[0].nu, state.ema_params)
    assert {array.dtype for array in jax.tree.leaves(wide)} == {jnp.dtype("float32")}
    full, _, _, _ = plain_update(LEARNED, "logits", random_batch())
    np.testing.assert_allclose(metrics["loss"], full, rtol=0.02)


def test_no_average_is_kept_where_none_is_wanted() -> None:
    mesh = make_mesh(ONE, jax.devices()[:1])
    state = train_state_from(random_parameters(LEARNED, "logits"), LEARNED, make_optimizer(ADAM), mesh, keep_ema=False)
    step = make_train_step(loss_of(LEARNED, "logits"), make_optimizer(ADAM), shardings_of(state))
    state, _ = quickly(step, state, random_batch(), KEY)
    assert state.ema_params is None
    assert int(state.step) == 1


def test_a_batch_that_does_not_divide_is_refused() -> None:
    state, sharding = start(LEARNED, "logits", MESHES["mixed"])
    loss = loss_of(LEARNED, "logits", sharding)
    step = make_train_step(loss, make_optimizer(ADAM), shardings_of(state), StepConfig(microbatches=3))
    with pytest.raises(ShardingError, match=r"batch of 32 .* data 2 × fsdp 2 × 3 microbatches: make it 24 or 36"):
        step(state, random_batch(rows=32), KEY)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (StepConfig(microbatches=0), "microbatches must be at least 1, not 0"),
        (StepConfig(max_gradient_norm=0.0), "max_gradient_norm must be above 0, or None, not 0.0"),
        (StepConfig(ema_decay=1.0), "ema_decay must be at least 0 and below 1, not 1.0"),
    ],
)
def test_settings_that_mean_nothing(config: StepConfig, message: str) -> None:
    with pytest.raises(StepError, match=message):
        config.validate()
