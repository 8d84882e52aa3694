"""Adam against its definition written out, schedules as literals."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from webgpt_jax.training.optimizer import OptimizerConfig, OptimizerError, make_optimizer, step_size


def test_updates_are_adams() -> None:
    """Kingma and Ba's algorithm, in float64."""
    config = OptimizerConfig(base_step_size=0.01, multiplier=0.5)
    optimizer = make_optimizer(config)
    params = {"weight": jnp.array([1.0, -2.0, 0.5])}
    state = optimizer.init(params)
    weight, mean, square = np.array([1.0, -2.0, 0.5]), np.zeros(3), np.zeros(3)
    for count, gradient in enumerate(([0.1, -3.0, 0.0], [0.2, 1.0, 0.5], [-0.1, 2.0, 4.0]), 1):
        updates, state = optimizer.update({"weight": jnp.array(gradient)}, state, params)
        params = optax.apply_updates(params, updates)
        mean = 0.9 * mean + 0.1 * np.array(gradient)
        square = 0.95 * square + 0.05 * np.array(gradient) ** 2
        corrected = (mean / (1 - 0.9**count)) / (np.sqrt(square / (1 - 0.95**count)) + 1e-8)
        weight = weight - 0.005 * corrected
        np.testing.assert_allclose(params["weight"], weight, rtol=1e-6)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (OptimizerConfig(), [2.5e-4] * 6),
        (OptimizerConfig(base_step_size=1e-4, multiplier=0.1), [1e-5] * 6),  # the paper's BC, 13B
        (OptimizerConfig(base_step_size=1.0, warmup_steps=4), [0.25, 0.5, 0.75, 1, 1, 1]),
        (OptimizerConfig(base_step_size=1.0, schedule="linear", total_steps=4), [1, 0.75, 0.5, 0.25, 0, 0]),
        (
            OptimizerConfig(base_step_size=2.0, schedule="linear", total_steps=4, warmup_steps=2, end_factor=0.5),
            [1, 2, 2, 1.5, 1, 1],
        ),
        (
            OptimizerConfig(base_step_size=1.0, schedule="cosine", total_steps=4),
            [1, 0.8535534, 0.5, 0.1464466, 0, 0],
        ),
        (OptimizerConfig(base_step_size=1.0, schedule="cosine", total_steps=2, end_factor=0.1), [1, 0.55, 0.1, 0.1]),
    ],
)
def test_step_sizes(config: OptimizerConfig, expected: list[float]) -> None:
    config.validate()
    sizes = [float(step_size(config, jnp.array(step))) for step in range(len(expected))]
    np.testing.assert_allclose(sizes, expected, rtol=1e-6, atol=1e-7)


def test_the_schedule_moves_with_the_updates() -> None:
    optimizer = make_optimizer(OptimizerConfig(base_step_size=1.0, epsilon=1e-12, warmup_steps=2))
    params = {"weight": jnp.array([0.0])}
    state = optimizer.init(params)
    moves = []
    for _ in range(3):
        updates, state = optimizer.update({"weight": jnp.array([4.0])}, state, params)
        moves.append(float(updates["weight"][0]))
    np.testing.assert_allclose(moves, [-0.5, -1.0, -1.0], rtol=1e-5)


def test_weight_decay_spares_biases_and_norms() -> None:
    config = OptimizerConfig(base_step_size=0.1, weight_decay=0.5)
    optimizer = make_optimizer(config)
    names = ("embedding", "qkv", "qkv_bias", "scale", "bias", "query_norm", "kernel")
    params = {"blocks": {name: jnp.full(2, 3.0) for name in names}}
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(zeros, optimizer.init(params), params)
    decayed = {name for name in names if (updates["blocks"][name] != 0).all()}
    assert decayed == {"embedding", "qkv", "kernel"}
    np.testing.assert_allclose(updates["blocks"]["qkv"], -0.15, rtol=1e-6)


def test_moments_of_half_precision_parameters_are_float32() -> None:
    optimizer = make_optimizer(OptimizerConfig())
    params = {"weight": jnp.ones(3, jnp.bfloat16)}
    state = optimizer.init(params)
    updates, after = optimizer.update({"weight": jnp.ones(3, jnp.bfloat16)}, state, params)
    assert updates["weight"].dtype == jnp.float32
    for moments in (state[0].mu, state[0].nu, after[0].mu, after[0].nu):
        assert moments["weight"].dtype == jnp.float32
    assert optax.apply_updates(params, updates)["weight"].dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (OptimizerConfig(base_step_size=0.0), "base_step_size must be above 0, not 0.0"),
        (OptimizerConfig(multiplier=float("nan")), "multiplier must be above 0, not nan"),
        (OptimizerConfig(beta2=1.0), "beta2 must be at least 0 and below 1, not 1.0"),
        (OptimizerConfig(weight_decay=-0.1), "weight_decay must not be negative: -0.1"),
        (OptimizerConfig(warmup_steps=-1), "warmup_steps must not be negative: -1"),
        (OptimizerConfig(end_factor=2.0), "end_factor must be from 0 to 1, not 2.0"),
        (OptimizerConfig(schedule="step"), "schedule 'step' is none of constant, linear, cosine"),  # type: ignore[arg-type]
        (OptimizerConfig(schedule="cosine"), "schedule 'cosine' needs total_steps above warmup_steps 0, not None"),
        (
            OptimizerConfig(schedule="linear", total_steps=5, warmup_steps=5),
            "schedule 'linear' needs total_steps above warmup_steps 5, not 5",
        ),
    ],
)
def test_settings_that_mean_nothing(config: OptimizerConfig, message: str) -> None:
    with pytest.raises(OptimizerError, match=re.escape(message)):
        make_optimizer(config)
