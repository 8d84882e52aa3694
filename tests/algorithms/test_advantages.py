"""Advantages by hand, and against their definition as sums, in NumPy and float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from webgpt_jax.algorithms import gae


def row(*arrays: list[float]) -> list[Any]:
    return [np.array([array]) for array in arrays]


def test_two_timesteps_and_the_next_episode_by_hand() -> None:
    rewards, values, timesteps, episodes = row(
        [0, 0.5, 1, 2, 4],
        [1, 3, 2, 5, 7],
        [0, 0, 1, 0, 0],
        [8, 8, 8, 9, 9],
    )
    advantages, returns = gae(rewards, values, timesteps, episodes, np.ones((1, 5)), np.array([10.0]), 0.5, 0.25)
    last = 4 + 0.5 * 10 - 7  # γ and the bootstrap
    fourth = 2 + 7 - 5 + last  # of one timestep with it: neither γ nor λ
    third = 1 - 2  # its episode ends
    second = 0.5 + 0.5 * 2 - 3 + 0.5 * 0.25 * third
    first = 0 + 3 - 1 + second
    np.testing.assert_allclose(advantages, [[first, second, third, fourth, last]], rtol=1e-6)
    np.testing.assert_allclose(returns, [[first + 1, second + 3, third + 2, fourth + 5, last + 7]], rtol=1e-6)


def test_within_a_completion_nothing_is_bootstrapped_or_discounted() -> None:
    """What its later tokens were thought worth does not matter."""
    rewards, timesteps, episodes = row([0.1, 0.2, 0.3, 0.4], [5, 5, 5, 6], [1, 1, 1, 1])
    for middle in ([0.0, 0.0], [7.0, -9.0]):
        values = np.array([[2.0, *middle, 3.0]])
        advantages, _ = gae(rewards, values, timesteps, episodes, np.ones((1, 4)), np.zeros(1), 0.9, 0.0)
        assert float(advantages[0, 0]) == pytest.approx(0.1 + 0.2 + 0.3 + 0.9 * 3 - 2, abs=1e-5)


def test_lambda_1_is_the_sum_of_what_follows() -> None:
    rewards, values, timesteps, episodes = row([1, 0, 2, 0, 3], [9, 8, 7, 6, 5], [0, 1, 1, 2, 3], [0, 0, 0, 0, 0])
    _, returns = gae(rewards, values, timesteps, episodes, np.ones((1, 5)), np.zeros(1), 1.0, 1.0)
    np.testing.assert_allclose(returns, [[6, 5, 5, 3, 3]], rtol=1e-6)


def by_definition(
    rewards: Any, values: Any, timesteps: Any, episodes: Any, mask: Any, bootstrap: Any, gamma: float, lam: float
) -> tuple[Any, Any]:
    """Each advantage as the sum of the later errors of its episode, each weighted by what lies between."""
    advantages, returns = np.zeros(rewards.shape), np.zeros(rewards.shape)
    for number in range(len(rewards)):
        places = [place for place in range(rewards.shape[1]) if mask[number, place]]
        for episode in {episodes[number, place] for place in places}:
            own = [place for place in places if episodes[number, place] == episode]
            after = float(bootstrap[number]) if own[-1] == places[-1] else 0.0
            worth = [float(values[number, place]) for place in own] + [after]
            step = [timesteps[number, place] for place in own] + [None]
            inside = [step[at] == step[at + 1] for at in range(len(own))]
            errors = [
                float(rewards[number, place]) + (1 if inside[at] else gamma) * worth[at + 1] - worth[at]
                for at, place in enumerate(own)
            ]
            for at, place in enumerate(own):
                advantages[number, place] = math.fsum(
                    errors[later] * math.prod(1 if inside[between] else gamma * lam for between in range(at, later))
                    for later in range(at, len(own))
                )
                returns[number, place] = advantages[number, place] + worth[at]
    return advantages, returns


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.8), (1.0, 0.0), (0.0, 0.5)])
def test_ragged_episodes_against_the_definition(seed: int, gamma: float, lam: float) -> None:
    """Episodes count their timesteps anew, so that the same number stands on both sides of an end."""
    generator = np.random.default_rng(seed)
    shape = (5, 24)
    mask = generator.random(shape) < 0.75
    mask[0], mask[1] = True, False
    ends = generator.random(shape) < 0.15
    episodes = np.cumsum(ends, axis=1)
    changes = generator.random(shape) < 0.3
    timesteps = np.stack([changes[number].cumsum() for number in range(5)])
    for number in range(5):
        for episode in set(episodes[number]):
            own = episodes[number] == episode
            timesteps[number, own] -= timesteps[number, own].min()
    rewards, values = generator.standard_normal((2, *shape))
    bootstrap = generator.standard_normal(5) * (generator.random(5) < 0.6)
    arguments = (rewards, values, timesteps, episodes, mask, bootstrap, gamma, lam)
    expected = by_definition(*arguments)
    for found, right in zip(gae(*arguments), expected, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, right, atol=1e-5)


def test_masked_positions_are_passed_over_whatever_stands_there() -> None:
    rewards, values, timesteps, episodes, mask = row(
        [math.nan, 1.0, math.nan, 2.0, math.inf],
        [math.inf, 3.0, math.nan, 4.0, math.nan],
        [7, 0, 9, 0, 3],
        [1, 2, 5, 2, 6],
        [0, 1, 0, 1, 0],
    )
    advantages, returns = gae(rewards, values, timesteps, episodes, mask, np.array([1.0]), 1.0, 0.5)
    np.testing.assert_array_equal(advantages, [[0, 1 + 4 - 3 - 1, 0, 2 + 1 - 4, 0]])
    np.testing.assert_array_equal(returns, [[0, 4, 0, 3, 0]])


def test_rewards_of_whole_numbers_lose_nothing() -> None:
    ones = np.ones((1, 2), np.int32)
    advantages, _ = gae(ones, np.full((1, 2), 0.75), ones * [[0, 1]], ones, ones, np.zeros(1, np.int32), 1, 0.5)
    np.testing.assert_array_equal(advantages, [[1 + 0.5 * 0.25, 0.25]])


@pytest.mark.parametrize(("values", "bootstrap"), [((2, 4), (2,)), ((2, 3), (3,)), ((2, 3), (2, 1))])
def test_shapes_that_do_not_fit_are_an_error(values: tuple[int, ...], bootstrap: tuple[int, ...]) -> None:
    ones = np.ones((2, 3), int)
    with pytest.raises(ValueError, match=r"arrays \[B, T\] and bootstrap \[B\]"):
        gae(ones, np.ones(values), ones, ones, ones, np.ones(bootstrap), 1.0, 0.95)
