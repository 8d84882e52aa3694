"""Scores a position, and the one that is a reward: literals, and padding that changes nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.models.reference import reference_hidden
from tests.models.shapes import LEARNED, OPTIONS, ROTARY, random_parameters
from webgpt_jax.models import ScalarTransformer, Transformer, TransformerConfig, last_real, parameters, scalar_from

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]


def scalar_model(config: TransformerConfig) -> ScalarTransformer:
    return ScalarTransformer(config, params=random_parameters(config, head="scalar"))


@pytest.mark.parametrize("config", [LEARNED, ROTARY], ids=["tied", "untied"])
def test_a_score_is_the_last_hidden_state_times_the_head(config: TransformerConfig) -> None:
    params = random_parameters(config, head="scalar")
    scores = scalar_model(config)(jnp.array([TOKENS]))
    hidden = reference_hidden(config, params, TOKENS)
    expected = [sum(row * params["scalar_head"]["kernel"]) + params["scalar_head"]["bias"] for row in hidden]
    assert scores.dtype == jnp.float32
    np.testing.assert_allclose(scores, [expected], atol=2e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt"])
def test_a_reward_is_the_same_wherever_padding_stands(name: str) -> None:
    model = scalar_model(OPTIONS[name])
    alone = last_real(model(jnp.array([TOKENS])), jnp.ones((1, 8)))[0]
    rows, mask = np.full((4, 12), 7), np.zeros((4, 12), int)
    for row, start in enumerate([0, 4, 2, 0]):
        rows[row, start : start + 8], mask[row, start : start + 8] = TOKENS, 1
    rows[3], mask[3] = 5, 1  # a longer neighbour
    rewards = last_real(model(jnp.array(rows), mask=jnp.array(mask)), jnp.array(mask))
    np.testing.assert_allclose(rewards[:3], [alone] * 3, atol=1e-5)


def test_the_last_real_token_is_found() -> None:
    scores = jnp.array([[1.0, 2.0, 3.0, 4.0]] * 5)
    mask = jnp.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 0]])
    assert last_real(scores, mask).tolist() == [4.0, 2.0, 3.0, 4.0, 0.0]
    assert last_real(scores, mask.astype(bool)).tolist() == [4.0, 2.0, 3.0, 4.0, 0.0]


@pytest.mark.parametrize("config", [LEARNED, ROTARY], ids=["tied", "untied"])
def test_a_reward_model_starts_from_a_language_model(config: TransformerConfig) -> None:
    model = Transformer(config, params=random_parameters(config))
    scalar = scalar_from(model, nnx.Rngs(1))
    np.testing.assert_array_equal(scalar.hidden(jnp.array([TOKENS])), model.hidden(jnp.array([TOKENS])))
    names = set(parameters(scalar))
    assert "unembedding" not in names
    assert {"embedding", "blocks", "final_norm", "scalar_head"} <= names
    other = scalar_from(model, nnx.Rngs(2))
    assert not np.array_equal(*(parameters(either)["scalar_head"]["kernel"] for either in (scalar, other)))
    assert parameters(scalar)["blocks"]["mlp"]["down"] is parameters(model)["blocks"]["mlp"]["down"]


def test_a_score_has_gradients_through_the_whole_model() -> None:
    graph, params = nnx.split(scalar_model(ROTARY), nnx.Param)
    mask = jnp.array([[1, 1, 1, 1, 1, 0, 0, 0]])

    def reward(params: nnx.State) -> jax.Array:
        return last_real(nnx.merge(graph, params)(jnp.array([TOKENS]), mask=mask), mask).sum()

    gradients = parameters(jax.grad(reward)(params))
    assert all(np.abs(gradient).max() > 0 for gradient in jax.tree.leaves(gradients))
    changed = np.abs(gradients["embedding"]).max(axis=1) > 0
    assert set(np.flatnonzero(changed).tolist()) == {1, 3, 4, 5}  # the real tokens alone
