"""Behaviour cloning's loss against a slow transformer, and rows packed, padded, split and empty."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.reference import reference_logits
from tests.models.shapes import LEARNED, ROTARY, random_parameters
from tests.training.tiny import LEARNED as MESHED
from tests.training.tiny import random_parameters as meshed_parameters
from webgpt_jax.algorithms import bc_loss, bc_weight
from webgpt_jax.models import TransformerConfig, Unsharded
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
# (tokens, what each one's target counts), the last token being a target alone.
EXAMPLES = [
    ([3, 1, 4, 1, 5, 9], [0, 0, 1, 1, 1]),
    ([2, 7, 1, 8], [0, 0.5, 2]),
    ([6, 6, 2, 0, 7], [1, 0, 0, 3]),
]


def apart(examples: list[tuple[list[int], list[float]]], length: int = 8) -> dict[str, Any]:
    """An example a row, padding on the right."""
    batch: dict[str, Any] = {name: np.zeros((len(examples), length), np.int32) for name in ("tokens", "targets")}
    batch["mask"] = np.zeros((len(examples), length), np.float32)
    for row, (tokens, counts) in enumerate(examples):
        batch["tokens"][row, : len(counts)] = tokens[:-1]
        batch["targets"][row, : len(counts)] = tokens[1:]
        batch["mask"][row, : len(counts)] = counts
    return batch


def packed() -> dict[str, Any]:
    """The same in one row of 14, with two positions of padding at its end."""
    rows = apart(EXAMPLES)
    lengths = [len(counts) for _, counts in EXAMPLES]
    batch = {
        name: np.concatenate([*(rows[name][row, :size] for row, size in enumerate(lengths)), np.zeros(2)])[None]
        for name in rows
    }
    segments = np.repeat([1, 2, 3, 0], [*lengths, 2]).astype(np.int32)[None]
    tokens, targets = batch["tokens"].astype(np.int32), batch["targets"].astype(np.int32)
    return {"tokens": tokens, "targets": targets, "mask": batch["mask"].astype(np.float32), "segments": segments}


@functools.cache
def compiled(config: TransformerConfig) -> jax.stages.Wrapped:
    return jax.jit(bc_loss(config, Unsharded()))


def measured(config: TransformerConfig, batch: dict[str, Any]) -> dict[str, float]:
    loss, metrics = compiled(config)(random_parameters(config), batch, KEY)
    assert metrics.keys() <= METRICS.keys()
    return {name: float(value) for name, value in {"loss": loss, **metrics}.items()}


@pytest.mark.parametrize("config", [LEARNED, ROTARY, replace(LEARNED, vocab_multiple=8)], ids=["a", "b", "padded"])
def test_the_loss_is_the_mean_cross_entropy_by_weight(config: TransformerConfig) -> None:
    total = weights = right = 0.0
    for tokens, counts in EXAMPLES:
        logits = reference_logits(config, random_parameters(config), tokens[:-1])
        for row, target, weight in zip(logits, tokens[1:], counts, strict=True):
            total += weight * (np.log(np.exp(row).sum()) - row[target])
            right += weight * (np.argmax(row) == target)
            weights += weight
    found = measured(config, apart(EXAMPLES))
    assert found["loss"] == pytest.approx(total / weights, abs=2e-5)
    assert found["accuracy"] == pytest.approx(right / weights, abs=1e-6)
    assert found["tokens"] == 7
    assert float(bc_weight(apart(EXAMPLES))) == weights == 9.5


def greedy(config: TransformerConfig, begin: list[int], length: int) -> list[int]:
    """`begin` and what the slow transformer finds likeliest after it."""
    tokens = list(begin)
    while len(tokens) < length:
        tokens.append(int(np.argmax(reference_logits(config, random_parameters(config), tokens)[-1])))
    return tokens


def other_than(token: int) -> int:
    return (token + 1) % LEARNED.vocab_size


def test_tokens_and_examples_that_are_right_are_counted() -> None:
    """Three examples of a prompt of two tokens and a completion of three: the first is right, the second has its last
    token wrong, the third the last of its prompt, which does not count."""
    first, second, third = (greedy(LEARNED, begin, 5) for begin in ([3, 1], [9, 2], [4, 4]))
    second[4] = other_than(second[4])
    prompt = greedy(LEARNED, [5], 2)
    third = greedy(LEARNED, [5, other_than(prompt[1])], 5)
    counts = [0.0, 1.0, 1.0, 1.0]
    batch = apart([(tokens, counts) for tokens in (first, second, third)])
    found = measured(LEARNED, batch)
    assert found["accuracy"] == pytest.approx(8 / 9)
    assert found["exact"] == pytest.approx(2 / 3)
    assert found["tokens"] == 9

    row = {
        name: np.concatenate([rows[:, :4].reshape(1, 12), np.zeros((1, 2), rows.dtype)], 1)
        for name, rows in batch.items()
    }
    row["segments"] = np.array([[1] * 4 + [2] * 4 + [3] * 4 + [0] * 2], np.int32)
    again = measured(LEARNED, row)
    assert again == pytest.approx(found, abs=1e-5)


def test_an_example_is_exact_as_a_whole_though_its_counted_tokens_lie_apart() -> None:
    tokens = greedy(LEARNED, [3], 6)
    tokens[2] = other_than(
        tokens[2]
    )  # the rest is no longer what the model would say: right or wrong, it is one example
    right = measured(LEARNED, apart([(tokens[:2], [1.0])]))
    assert right["exact"] == 1
    wrong = measured(LEARNED, apart([(tokens[:3], [1.0, 1.0])]))
    assert (wrong["exact"], wrong["accuracy"]) == (0, 0.5)
    twice = measured(LEARNED, apart([(tokens[:4], [0.0, 1.0, 0.0]), (tokens[:2], [1.0])]))
    assert twice["exact"] == 0.5


@pytest.mark.parametrize("config", [LEARNED, ROTARY], ids=["learned", "rotary"])
def test_packed_rows_give_what_rows_apart_give(config: TransformerConfig) -> None:
    assert measured(config, packed()) == pytest.approx(measured(config, apart(EXAMPLES)), abs=1e-5)


def test_what_does_not_count_changes_nothing() -> None:
    batch = apart(EXAMPLES)
    other = {**batch, "targets": np.where(batch["mask"] > 0, batch["targets"], 11)}
    assert measured(LEARNED, other) == measured(LEARNED, batch)
    padded = {**batch, "tokens": np.where(np.arange(8) < [[5], [3], [4]], batch["tokens"], 12)}
    assert measured(LEARNED, padded) == pytest.approx(measured(LEARNED, batch), abs=1e-6)


def test_where_nothing_counts_all_is_0() -> None:
    batch = {**apart(EXAMPLES), "mask": np.zeros((3, 8), np.float32)}
    assert set(measured(LEARNED, batch).values()) == {0.0}
    assert float(bc_weight(batch)) == 0
    differentiate = jax.jit(jax.grad(bc_loss(LEARNED, Unsharded()), has_aux=True))
    gradients, _ = differentiate(random_parameters(LEARNED), batch, KEY)
    assert all((np.asarray(array) == 0).all() for array in jax.tree.leaves(gradients))


def test_the_key_is_the_dropout_s() -> None:
    def losses(dropout: float) -> list[float]:
        loss = compiled(replace(LEARNED, dropout=dropout))
        params, batch = random_parameters(LEARNED), apart(EXAMPLES)
        return [float(loss(params, batch, jax.random.key(seed))[0]) for seed in (1, 1, 2)]

    first, same, other = losses(0.3)
    assert first == same != other
    assert len(set(losses(0.0))) == 1


@pytest.mark.slow
def test_microbatches_on_a_mesh_make_up_the_batch_on_a_device() -> None:
    generator = np.random.default_rng(0)
    batch = {name: generator.integers(0, 29, (8, 12)).astype(np.int32) for name in ("tokens", "targets")}
    batch["mask"] = (generator.random((8, 12)) * (generator.random((8, 12)) < 0.6)).astype(np.float32)
    batch["mask"][5] = 0
    batch["segments"] = np.sort(generator.integers(1, 4, (8, 12))).astype(np.int32)
    params = meshed_parameters(MESHED, "logits")
    (loss, metrics), gradients = jax.jit(jax.value_and_grad(bc_loss(MESHED, Unsharded()), has_aux=True))(
        params, batch, KEY
    )

    mesh = make_mesh(MeshConfig(data=2, fsdp=2, tensor=2))
    state = train_state_from(params, MESHED, make_optimizer(OptimizerConfig()), mesh)
    step = make_gradient_step(bc_loss(MESHED, MeshSharding(mesh)), shardings_of(state), 2, bc_weight)
    found, measures, found_gradients = step(state.params, batch, KEY)
    assert float(found) == pytest.approx(float(loss), abs=1e-5)
    assert float(measures["accuracy"]) == pytest.approx(float(metrics["accuracy"]), abs=1e-6)
    jax.tree.map(lambda left, right: np.testing.assert_allclose(left, right, atol=1e-5), found_gradients, gradients)


def test_in_bfloat16_the_loss_is_still_float32() -> None:
    config = replace(LEARNED, dtype="bfloat16")
    loss, metrics = compiled(config)(random_parameters(config), apart(EXAMPLES), KEY)
    assert {array.dtype for array in (loss, *metrics.values())} == {jnp.dtype("float32")}
    assert float(loss) == pytest.approx(measured(LEARNED, apart(EXAMPLES))["loss"], rel=0.05)
