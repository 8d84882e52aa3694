"""One update on meshes of eight devices against the plain one on a single device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest

from tests.training.tiny import HEADS, MODELS, loss_of, quickly, random_batch, random_parameters
from webgpt_jax.models import Params, TransformerConfig
from webgpt_jax.models.parameters import Head
from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
from webgpt_jax.training.sharding import MeshConfig, MeshSharding, check_alike, make_mesh
from webgpt_jax.training.train_state import TrainState, check_state, shardings_of, train_state_from
from webgpt_jax.training.train_step import Batch, make_gradient_step, make_train_step

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

    return quickly(jax.jit(update), random_parameters(config, head), batch)


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
    """Equal but for float32 noise, which is as large as the sums it comes from: it is held against each array's largest."""

    def compare(path: Any, left: Any, right: Any) -> None:
        noise = 1e-5 * np.max(np.abs(right))
        np.testing.assert_allclose(left, right, rtol=0, atol=noise, err_msg=jax.tree_util.keystr(path))

    jax.tree_util.tree_map_with_path(compare, actual, expected)


FEW = [("gpt2", "logits"), ("llama", "scalar"), ("neox", "logits"), ("qwen", "logits")]
PAIRS = [(model, mesh, head) for model in MODELS for mesh in MESHES for head in HEADS]
QUICK = {(model, mesh, head) for (model, head), mesh in zip(FEW, MESHES, strict=True)} | {("llama", "mixed", "logits")}


@pytest.mark.parametrize(
    ("model", "mesh", "head"),
    [pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow) for pair in PAIRS],
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
    assert_close(state.opt_state[0].nu, adam.nu)
    assert_close(state.ema_params, jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new, before, params))
    check_state(state)
