"""Sampling on the device against the same written plainly in NumPy, and against the frequencies it must give."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sampling.models import truncated, uniform
from webgpt_jax.sampling.sampler import Settings, sample

run = jax.jit(sample)


def settings(rows: int, temperature: float = 1.0, top_p: float = 1.0, seed: int = 0) -> Settings:
    keys = jax.random.key_data(jax.random.split(jax.random.key(seed), rows))
    return Settings(keys, jnp.full(rows, temperature), jnp.full(rows, top_p))


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    result: NDArray[np.float64] = weights / weights.sum(axis=-1, keepdims=True)
    return result


@pytest.mark.parametrize("vocab", [1, 2, 3, 16, 17, 1000])
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.7), (1.0, 0.05)])
def test_tokens_and_logprobs_are_those_of_the_plain_sampler(vocab: int, temperature: float, top_p: float) -> None:
    rows = 40
    logits = np.random.default_rng(vocab).normal(size=(rows, vocab)).astype(np.float32) * 2
    mask = np.random.default_rng(1).random((rows, vocab)) < 0.8
    mask[:, 0] = True
    positions = np.arange(rows, dtype=np.int32) + 5
    how = settings(rows, temperature, top_p)
    tokens, logprobs = run(logits, mask, how, positions)
    for row in range(rows):
        kept = truncated(softmax(np.where(mask[row], logits[row] / temperature, -np.inf)), top_p)
        key = jax.random.wrap_key_data(how.keys[row])
        assert tokens[row] == np.searchsorted(np.cumsum(kept), uniform(key, int(positions[row])), side="right")
        assert logprobs[row] == pytest.approx(np.log(kept[tokens[row]]), abs=2e-5)


def test_greedy_takes_the_first_of_the_most_likely_whatever_top_p_says() -> None:
    logits = jnp.array([[0.0, 2.0, 1.0, 2.0], [3.0, 2.0, 9.0, 2.0]])
    mask = jnp.array([[True, True, True, True], [True, True, False, True]])
    tokens, logprobs = run(logits, mask, settings(2, temperature=0.0, top_p=0.1), jnp.zeros(2, jnp.int32))
    assert tokens.tolist() == [1, 0]
    expected = [-np.log(2 + np.exp(-1) + np.exp(-2)), -np.log(1 + 2 * np.exp(-1))]
    np.testing.assert_allclose(logprobs, expected, rtol=1e-5)


def test_frequencies_are_the_probabilities() -> None:
    rows = 40_000
    probabilities = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])
    logits = jnp.broadcast_to(jnp.log(jnp.asarray(probabilities, jnp.float32)), (rows, 5))
    tokens, _ = run(logits, jnp.ones((rows, 5), bool), settings(rows), jnp.zeros(rows, jnp.int32))
    counts = np.bincount(tokens, minlength=5)
    expected = rows * probabilities
    assert ((counts - expected) ** 2 / expected).sum() < 23.5  # chi-squared, 4 degrees of freedom, p = 0.0001


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.5, {0}), (0.51, {0, 1}), (0.75, {0, 1}), (0.8, {0, 1, 2}), (0.9, {0, 1, 2, 3, 4})]
)
def test_top_p_keeps_the_smallest_set_and_ties_with_its_last(top_p: float, kept: set[int]) -> None:
    rows = 2000  # 0.5, 0.25, 0.125, 0.0625, 0.0625: exact in float32
    logits = jnp.broadcast_to(jnp.log(jnp.array([0.5, 0.25, 0.125, 0.0625, 0.0625])), (rows, 5))
    tokens, _ = run(logits, jnp.ones((rows, 5), bool), settings(rows, top_p=top_p), jnp.zeros(rows, jnp.int32))
    assert set(tokens.tolist()) == kept


def test_a_masked_token_is_never_sampled() -> None:
    rows, vocab = 5000, 37
    mask = np.zeros((rows, vocab), bool)
    mask[np.arange(rows), np.arange(rows) % vocab] = True
    logits = np.random.default_rng(0).normal(size=(rows, vocab)).astype(np.float32) * 30
    tokens, logprobs = run(logits, mask, settings(rows, temperature=3.0), jnp.zeros(rows, jnp.int32))
    assert (np.asarray(tokens) == np.arange(rows) % vocab).all()
    np.testing.assert_array_equal(logprobs, 0.0)


def test_a_row_does_not_depend_on_the_others() -> None:
    logits = np.random.default_rng(0).normal(size=(6, 1000)).astype(np.float32) * 3
    temperature, top_p = jnp.array([0, 1, 2, 1, 0.5, 1]), jnp.array([1, 0.9, 0.5, 1, 0.2, 0.99])
    how = Settings(settings(6).keys, temperature, top_p)
    positions = jnp.arange(6, dtype=jnp.int32)
    tokens, logprobs = run(logits, jnp.ones((6, 1000), bool), how, positions)
    for row in range(6):
        others = np.random.default_rng(row + 1).normal(size=(6, 1000)).astype(np.float32)
        others[row] = logits[row]
        mixed = settings(6, 0.7, 0.3, seed=row + 1)
        mixed = Settings(*(field.at[row].set(mine[row]) for field, mine in zip(mixed, how, strict=True)))
        again, logprobs_again = run(others, jnp.ones((6, 1000), bool), mixed, positions)
        assert again[row] == tokens[row]
        assert logprobs_again[row] == logprobs[row]


def test_extreme_logits_give_finite_logprobs() -> None:
    logits = jnp.array([[1e30, -1e30, 0.0], [-3e38, 3e38, 3e38], [0.0, 1e-30, -1e-30]])
    for temperature in (0.001, 1.0, 1e30):
        tokens, logprobs = run(logits, jnp.ones((3, 3), bool), settings(3, temperature), jnp.zeros(3, jnp.int32))
        assert np.isfinite(logprobs).all()
        assert ((tokens >= 0) & (tokens < 3)).all()
