"""The loss of preferences by hand, and scores against a slow transformer, wherever padding stands."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.reference import reference_hidden
from tests.models.shapes import LEARNED, OPTIONS, ROTARY, random_parameters
from tests.training.tiny import LEARNED as MESHED
from tests.training.tiny import random_parameters as meshed_parameters
from webgpt_jax.algorithms import elo_loss, reward_model_loss, reward_model_weight, score
from webgpt_jax.models import ScalarTransformer, TransformerConfig, Unsharded
from webgpt_jax.training import (
    MeshConfig,
    MeshSharding,
    OptimizerConfig,
    make_gradient_step,
    make_mesh,
    make_optimizer,
    shardings_of,
    train_state_from,
)
from webgpt_jax.training.metrics import METRICS

KEY = jax.random.key(0)
TEXTS = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3], [5, 8, 9, 7, 9], [2, 7, 1], [1, 8, 2, 8, 1, 8], [0]]


@pytest.mark.parametrize(
    ("score_a", "score_b", "label", "expected"),
    [
        (0.0, 0.0, 1, math.log(2)),
        (0.0, 0.0, 0.5, math.log(2)),
        (1.0, -1.0, 1, math.log(1 + math.exp(-2))),
        (1.0, -1.0, 0, math.log(1 + math.exp(2))),
        (1.0, -1.0, 0.5, (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(2))) / 2),
        (math.log(3), 0.0, 0, math.log(4)),  # odds of 3 to 1
        (2.5, 2.5 + math.log(3), 0.75, 0.75 * math.log(4) + 0.25 * math.log(4 / 3)),
        (20.0, 0.0, 1, math.log1p(math.exp(-20))),
        (-500.0, 500.0, 1, 1000.0),
        (500.0, -500.0, 1, 0.0),
    ],
)
def test_a_preference_s_loss(score_a: float, score_b: float, label: float, expected: float) -> None:
    loss, _ = elo_loss(score_a, score_b, label)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    mirrored, _ = elo_loss(jnp.array([score_b]), jnp.array([score_a]), jnp.array([1 - label]))
    assert float(mirrored) == pytest.approx(expected, rel=1e-5)


def test_the_loss_is_a_mean_and_labels_may_be_integers() -> None:
    loss, _ = elo_loss(np.array([1, 0]), np.array([0, 2]), np.array([1, 0]))
    assert loss.dtype == jnp.float32
    assert float(loss) == pytest.approx((math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-2))) / 2)
    assert float(elo_loss(np.array([1, 0]), np.array([0, -1]), 1)[0]) == pytest.approx(math.log(1 + math.exp(-1)))


def test_a_gradient_is_by_how_much_the_preference_is_missed() -> None:
    label = jnp.array([1, 0.5, 0.0, 1])
    score_a, score_b = jnp.array([0.3, -1.0, 2.0, -900]), jnp.array([0.1, 0.5, 2.0, 900])
    for_a, for_b = jax.grad(lambda a, b: elo_loss(a, b, label)[0], argnums=(0, 1))(score_a, score_b)
    chance = [1 / (1 + math.exp(-0.2)), 1 / (1 + math.exp(1.5)), 0.5, 0]
    np.testing.assert_allclose(for_a, (np.array(chance) - label) / 4, rtol=1e-5)
    np.testing.assert_allclose(for_b, -for_a, rtol=1e-6)


@pytest.mark.parametrize(
    ("score_a", "label", "accuracy"),
    [
        (1, 1, 1),
        (1, 0, 0),
        (-1, 0, 1),
        (-1, 1, 0),
        (0, 1, 0.5),
        (0, 0, 0.5),
        (1, 0.5, 0.5),
        (-1, 0.5, 0.5),
        (0, 0.5, 1),
    ],
)
def test_a_tie_against_a_difference_is_half_right(score_a: float, label: float, accuracy: float) -> None:
    assert float(elo_loss(score_a, 0.0, label)[1]["accuracy"]) == accuracy


def test_the_measures_of_comparisons() -> None:
    score_a, score_b = np.array([1.0, 2.0, 0.0, 99.0]), np.array([3.0, 2.0, -4.0, -99.0])
    _, metrics = elo_loss(score_a, score_b, np.array([0, 1, 1, 0.5]), np.array([1, 1, 1, 0]))
    assert metrics.keys() <= METRICS.keys()
    sides = [1, 2, 0, 3, 2, -4]
    expected = {
        "accuracy": 2.5 / 3,
        "margin": (2 + 0 + 4) / 3,
        "score": 4 / 6,
        "score_std": math.sqrt(sum((side - 4 / 6) ** 2 for side in sides) / 6),
        "comparisons": 3,
    }
    assert {name: float(value) for name, value in metrics.items()} == pytest.approx(expected)


def test_shapes_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"one shape, not \(2,\), \(2, 1\), \(2,\)"):
        elo_loss(np.zeros(2), np.zeros((2, 1)), np.zeros(2))


def slow_score(config: TransformerConfig, tokens: list[int]) -> float:
    params = random_parameters(config, head="scalar")
    last = reference_hidden(config, params, tokens)[-1]
    return float(np.dot(last, params["scalar_head"]["kernel"]) + params["scalar_head"]["bias"])


def padded(texts: list[list[int]], length: int, side: str, padding: int = 0) -> tuple[Any, Any]:
    tokens, mask = np.full((len(texts), length), padding, np.int32), np.zeros((len(texts), length), np.float32)
    for row, text in enumerate(texts):
        begin = {"right": 0, "left": length - len(text), "both": (length - len(text)) // 2}[side]
        tokens[row, begin : begin + len(text)] = text
        mask[row, begin : begin + len(text)] = 1
    return tokens, mask


@pytest.mark.parametrize(
    "name", ["gpt2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama", "mistral"))]
)
def test_a_score_is_a_text_s_own_whatever_its_padding_and_company(name: str) -> None:
    config = OPTIONS[name]
    model = ScalarTransformer(config, params=random_parameters(config, head="scalar"))
    expected = [slow_score(config, text) for text in TEXTS]
    for side in ("right", "left", "both"):
        for length, padding in ((8, 0), (13, 11)):
            found = score(model, *padded(TEXTS, length, side, padding))
            np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.dtype == jnp.float32
    for text, value in zip(TEXTS[:2], expected[:2], strict=True):
        np.testing.assert_allclose(score(model, *padded([text], len(text), "right")), [value], atol=1e-5)
    backwards = score(model, *padded(TEXTS[::-1], 8, "right"))
    np.testing.assert_allclose(backwards[::-1], expected, atol=1e-5)


def test_masks_of_any_type_and_rows_of_padding_alone() -> None:
    model = ScalarTransformer(ROTARY, params=random_parameters(ROTARY, head="scalar"))
    tokens, mask = padded([[5, 3], [7, 7]], 3, "left")
    mask[1] = 0
    found = score(model, tokens, mask.astype(bool))
    np.testing.assert_allclose(found, [slow_score(ROTARY, [5, 3]), 0], atol=1e-5)
    np.testing.assert_array_equal(score(model, tokens.tolist(), mask.astype(np.int32)), found)


def comparisons(length: int = 8, side: str = "right") -> dict[str, Any]:
    """Of three pairs of texts."""
    batch: dict[str, Any] = {"label": np.array([1, 0.5, 0], np.float32)}
    for name, texts in (("a", TEXTS[:3]), ("b", TEXTS[3:])):
        batch[f"tokens_{name}"], batch[f"mask_{name}"] = padded(texts, length, side)
    return batch


@functools.cache
def compiled(config: TransformerConfig) -> jax.stages.Wrapped:
    return jax.jit(reward_model_loss(config, Unsharded()))


def measured(config: TransformerConfig, batch: dict[str, Any]) -> dict[str, float]:
    loss, metrics = compiled(config)(random_parameters(config, head="scalar"), batch, KEY)
    return {name: float(value) for name, value in {"loss": loss, **metrics}.items()}


@pytest.mark.parametrize("config", [LEARNED, ROTARY], ids=["learned", "rotary"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_the_loss_is_of_the_scores_at_the_last_real_tokens(config: TransformerConfig, side: str) -> None:
    scores = [slow_score(config, text) for text in TEXTS]
    differences = [scores[pair] - scores[pair + 3] for pair in range(3)]
    losses = [
        label * math.log(1 + math.exp(-difference)) + (1 - label) * math.log(1 + math.exp(difference))
        for difference, label in zip(differences, [1, 0.5, 0], strict=True)
    ]
    found = measured(config, comparisons(11, side))
    assert found["loss"] == pytest.approx(sum(losses) / 3, abs=1e-5)
    assert found["accuracy"] == pytest.approx(((differences[0] > 0) + 0.5 + (differences[2] < 0)) / 3)
    assert found["margin"] == pytest.approx(sum(map(abs, differences)) / 3, abs=1e-5)
    assert found["score"] == pytest.approx(sum(scores) / 6, abs=1e-5)
    assert found["comparisons"] == 3


def test_rows_that_only_fill_a_batch_do_not_count() -> None:
    batch = comparisons()
    filled = {name: np.concatenate([rows, np.zeros_like(rows[:2])]) for name, rows in batch.items()}
    filled["label"][3:] = 0.5
    assert measured(LEARNED, filled) == pytest.approx(measured(LEARNED, batch), abs=1e-6)
    assert float(reward_model_weight(filled)) == float(reward_model_weight(batch)) == 3
    nothing = {name: rows[3:] for name, rows in filled.items()}
    assert set(measured(LEARNED, nothing).values()) == {0.0}
    assert float(reward_model_weight(nothing)) == 0


def test_the_key_is_the_dropout_s() -> None:
    def losses(dropout: float) -> list[float]:
        loss = compiled(replace(LEARNED, dropout=dropout))
        params = random_parameters(LEARNED, head="scalar")
        return [float(loss(params, comparisons(), jax.random.key(seed))[0]) for seed in (1, 1, 2)]

    first, same, other = losses(0.3)
    assert first == same != other
    assert len(set(losses(0.0))) == 1


@pytest.mark.slow
def test_microbatches_on_a_mesh_make_up_the_batch_on_a_device() -> None:
    generator = np.random.default_rng(0)
    batch: dict[str, Any] = {"label": generator.choice([0, 0.5, 1], 8).astype(np.float32)}
    for side in "ab":
        batch[f"tokens_{side}"] = generator.integers(0, 29, (8, 12)).astype(np.int32)
        batch[f"mask_{side}"] = (np.arange(12) >= generator.integers(0, 11, (8, 1))).astype(np.float32)
    batch["mask_a"][6] = batch["mask_b"][6] = 0
    params = meshed_parameters(MESHED, "scalar")
    differentiate = jax.jit(jax.value_and_grad(reward_model_loss(MESHED, Unsharded()), has_aux=True))
    (loss, metrics), gradients = differentiate(params, batch, KEY)

    mesh = make_mesh(MeshConfig(data=2, fsdp=2, tensor=2))
    state = train_state_from(params, MESHED, make_optimizer(OptimizerConfig()), mesh, head="scalar")
    loss_function = reward_model_loss(MESHED, MeshSharding(mesh))
    step = make_gradient_step(loss_function, shardings_of(state), 2, reward_model_weight)
    found, measures, found_gradients = step(state.params, batch, KEY)
    assert float(found) == pytest.approx(float(loss), abs=1e-5)
    assert float(measures["accuracy"]) == pytest.approx(float(metrics["accuracy"]), abs=1e-6)
    jax.tree.map(lambda left, right: np.testing.assert_allclose(left, right, atol=1e-5), found_gradients, gradients)
