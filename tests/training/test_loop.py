"""The loop: an interrupted run ends with the bits of an undisturbed one, and no poisoned state is ever the latest."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from tests.training.processes import run_processes
from tests.training.tiny import LEARNED, loss_of, random_batch, weight_of
from webgpt_jax.models import Params, TransformerConfig
from webgpt_jax.models.checkpoint_folder import complete_steps, read_record, restore_params
from webgpt_jax.models.config import FloatType
from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer
from webgpt_jax.training.loop import (
    LoopConfig,
    LoopError,
    NonFiniteError,
    Position,
    Result,
    batch_shard,
    make_evaluate,
    resume,
    train,
)
from webgpt_jax.training.metrics import MetricsWriter, read_metrics
from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
from webgpt_jax.training.preemption import PREEMPTED
from webgpt_jax.training.sharding import MeshConfig, MeshSharding, make_mesh
from webgpt_jax.training.train_state import TrainState, abstract_train_state, create_train_state, shardings_of
from webgpt_jax.training.train_step import Batch, LossFunction, Metrics, StepConfig, make_train_step

ROOT = Path(__file__).resolve().parents[2]
MODEL = replace(LEARNED, num_layers=1)
OPTIMIZER = make_optimizer(OptimizerConfig(base_step_size=0.01))
KEY = jax.random.key(7)


class Source:
    """Random batches, `an_epoch` of them an epoch, of which one may be spoilt or be the moment of a signal."""

    def __init__(self, start: int = 0, *, end: int = 100, an_epoch: int = 4, poisoned: int = -1, signal_at: int = -1):
        self.taken = start
        self.end, self.an_epoch, self.poisoned, self.signal_at = end, an_epoch, poisoned, signal_at

    @property
    def epoch(self) -> float:
        return self.taken / self.an_epoch

    def __next__(self) -> dict[str, Any]:
        if self.taken >= self.end:
            raise StopIteration
        batch: dict[str, Any] = random_batch(seed=self.taken)
        if self.taken == self.poisoned:
            batch["target"][3] = math.nan
        if self.taken == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)
        self.taken += 1
        return batch


def one_device() -> Mesh:
    return make_mesh(MeshConfig(), jax.devices()[:1])


def embedding_loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
    """Without the blocks, so that it compiles at once; with noise, so that it depends on the key."""
    hidden = params["embedding"][batch["tokens"]].mean(axis=1)
    scores = hidden @ params["scalar_head"]["kernel"] + 0.1 * jax.random.normal(key, batch["target"].shape)
    return jnp.square(scores - batch["target"]).mean(), {"score": scores.mean()}


def transformer_loss(model: TransformerConfig, mesh: Mesh) -> LossFunction:
    loss = loss_of(model, "scalar", MeshSharding(mesh))

    def documented(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        value, metrics = loss(params, batch, key)
        return value, {"score": metrics["mean"]}

    return documented


def run(
    folder: Path,
    config: LoopConfig,
    *,
    evaluate: Callable[[TrainState], Mapping[str, float]] | None = None,
    mesh: Mesh | None = None,
    microbatches: int = 1,
    dtype: FloatType = "float32",
    loss: Callable[[TransformerConfig, Mesh], LossFunction] | None = None,
    **source: Any,
) -> Result:
    """Trains a scalar model in the folder, from where it was left."""
    mesh = one_device() if mesh is None else mesh
    model = replace(MODEL, dtype=dtype)
    like = abstract_train_state(model, OPTIMIZER, mesh, head="scalar")
    loss = embedding_loss if loss is None else loss(model, mesh)
    step = make_train_step(
        loss,
        OPTIMIZER,
        shardings_of(like),
        StepConfig(microbatches=microbatches),
        weight_of("scalar"),
    )
    keep = CheckpointConfig(
        keep_last=1,
        keep_best=1 if evaluate else 0,
        best_metric=config.best_metric if evaluate else None,
        best_mode="min",
    )
    with Checkpointer(folder / "checkpoints", keep, {"model": dataclasses.asdict(model)}) as checkpointer:
        resumed = resume(checkpointer, like)
        if resumed is None:
            state = create_train_state(model, OPTIMIZER, mesh, jax.random.key(0), head="scalar")
            key, position = KEY, Position()
        else:
            state, key, position = resumed.state, resumed.key, resumed.position
        with MetricsWriter(folder, after=0 if resumed is None else resumed.step) as metrics:
            return train(
                state,
                step,
                Source(position.batches, **source),
                key,
                config,
                checkpointer,
                position=position,
                evaluate=evaluate,
                metrics=metrics,
            )


def arrays(tree: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(array) for array in jax.tree.leaves(tree)]


def assert_same_bits(one: Any, other: Any) -> None:
    for first, second in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(first, second)


class Scores:
    """An evaluation that gives these losses one after the other, by the step: a resumed run sees what it should."""

    def __init__(self, by_step: Mapping[int, float]) -> None:
        self.by_step = by_step
        self.steps: list[int] = []

    def __call__(self, state: TrainState) -> dict[str, float]:
        self.steps.append(int(state.step))
        return {"validation/loss": self.by_step[int(state.step)], "validation/accuracy": 0.5}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, run(folder, LoopConfig(total_steps=7, log_every=1))


def test_a_run_to_its_end(undisturbed: tuple[Path, Result]) -> None:
    folder, result = undisturbed
    assert (result.step, int(result.state.step), result.ended) == (7, 7, "total")
    assert result.position == Position(batches=7)
    record = read_record(folder / "checkpoints")
    assert (record.step, record.metrics) == (7, {})
    assert record.data_positions == [{"batches": 7, "best_step": None, "best_score": None, "without_better": 0}]
    lines = read_metrics(folder)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert [line["epoch"] for line in lines] == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]
    assert {*lines[0]} == {"step", "epoch", "loss", "gradient_norm", "score"}


def test_a_run_until_the_data_end(tmp_path: Path, undisturbed: tuple[Path, Result]) -> None:
    result = run(tmp_path, LoopConfig(log_every=3), end=7)
    assert (result.step, result.ended) == (7, "total")
    assert_same_bits(result.state, undisturbed[1].state)
    assert [line["step"] for line in read_metrics(tmp_path)] == [3, 6, 7]


@pytest.mark.parametrize("signal_at", [0, 3, 6])
def test_a_signal_saves_and_the_run_goes_on_at_the_exact_batch(
    tmp_path: Path, undisturbed: tuple[Path, Result], signal_at: int
) -> None:
    config = LoopConfig(total_steps=7, log_every=1)
    with pytest.raises(SystemExit) as left:
        run(tmp_path, config, signal_at=signal_at)
    assert left.value.code == PREEMPTED == 75
    saved = read_record(tmp_path / "checkpoints")
    assert saved.step == max(signal_at, 1)  # batches are taken while the update before is computed
    result = run(tmp_path, config)
    assert result.position == Position(batches=7)
    assert_same_bits(result.state, undisturbed[1].state)
    assert read_metrics(tmp_path) == read_metrics(undisturbed[0])


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    config = LoopConfig(total_steps=2)
    first = run(tmp_path, config)
    again = run(tmp_path, config, poisoned=2)
    assert (again.step, again.ended) == (2, "total")
    assert_same_bits(first.state, again.state)


@pytest.mark.parametrize("broken", [0, 4])
def test_a_loss_that_is_not_finite(tmp_path: Path, undisturbed: tuple[Path, Result], broken: int) -> None:
    config = LoopConfig(total_steps=7, save_every=2)
    with pytest.raises(
        NonFiniteError, match=rf"update {broken + 1}, of batch {broken + 1}: loss is nan; the state after"
    ):
        run(tmp_path, config, poisoned=broken)
    assert read_record(tmp_path / "checkpoints").step == broken
    with pytest.raises(NonFiniteError, match=f"update {broken + 1}, of batch"):  # so again
        run(tmp_path, config, poisoned=broken)
    result = run(tmp_path, config)  # the batch was mended
    assert_same_bits(result.state, undisturbed[1].state)


def test_a_gradient_that_is_not_finite(tmp_path: Path) -> None:
    mesh = one_device()
    state = create_train_state(MODEL, OPTIMIZER, mesh, jax.random.key(0), head="scalar")
    before = arrays(state.params)

    def loss(params: Any, batch: Any, key: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        bias = params["scalar_head"]["bias"]
        return jnp.sqrt(jnp.abs(bias)), {}  # finite at 0, with a slope that is not

    step = make_train_step(loss, OPTIMIZER, shardings_of(state))
    with Checkpointer(tmp_path, CheckpointConfig(), {"model": dataclasses.asdict(MODEL)}) as checkpointer:
        with pytest.raises(NonFiniteError, match="gradient_norm is"):
            train(state, step, Source(), KEY, LoopConfig(total_steps=3), checkpointer)
        assert checkpointer.steps() == [0]
    _, params = restore_params(tmp_path, ema=False)
    assert_same_bits(params, before)


def test_evaluations_at_the_ends_of_epochs_and_the_best_is_kept(tmp_path: Path) -> None:
    scores = Scores({4: 3.0, 8: 1.0, 12: 2.0, 14: 1.5})
    result = run(tmp_path, LoopConfig(total_steps=14), evaluate=scores)
    assert scores.steps == [4, 8, 12, 14]
    assert result.position == Position(batches=14, best_step=8, best_score=1.0, without_better=2)
    with Checkpointer(tmp_path / "checkpoints", CheckpointConfig(), {"model": dataclasses.asdict(MODEL)}) as kept:
        assert kept.steps() == [8, 14]
    evaluated = [
        (line["step"], line["validation/loss"]) for line in read_metrics(tmp_path) if "validation/loss" in line
    ]
    assert evaluated == [(4, 3.0), (8, 1.0), (12, 2.0), (14, 1.5)]


def test_evaluations_so_many_updates_apart(tmp_path: Path) -> None:
    scores = Scores({3: 1.0, 6: 1.0, 7: 1.0})
    result = run(tmp_path, LoopConfig(total_steps=7, evaluate_every=3), evaluate=scores)
    assert scores.steps == [3, 6, 7]
    assert result.position == Position(batches=7, best_step=7, best_score=1.0, without_better=2)
    assert complete_steps(tmp_path / "checkpoints") == [7]  # of equals, the newer is kept


def test_early_stopping_counts_on_over_an_interruption(tmp_path: Path) -> None:
    config = LoopConfig(total_steps=100, patience=2)
    scores = Scores({4: 3.0, 8: 1.0, 12: math.nan, 16: 1.0})
    with pytest.raises(SystemExit):
        run(tmp_path, config, evaluate=scores, signal_at=13)
    result = run(tmp_path, config, evaluate=scores)
    assert scores.steps == [4, 8, 12, 16]
    assert (result.step, result.ended) == (16, "patience")
    assert result.position == Position(batches=16, best_step=16, best_score=1.0, without_better=2)
    again = run(tmp_path, config, evaluate=scores)
    assert (again.step, again.ended) == (16, "patience")


def test_a_signal_at_an_epochs_end_loses_no_evaluation(tmp_path: Path) -> None:
    scores = Scores({4: 3.0, 6: 2.0})
    with pytest.raises(SystemExit):
        run(tmp_path, LoopConfig(total_steps=6), evaluate=scores, signal_at=4)
    record = read_record(tmp_path / "checkpoints")
    assert (record.step, record.metrics["validation/loss"]) == (4, 3.0)


def test_an_evaluation_without_the_metric_that_ranks(tmp_path: Path) -> None:
    with pytest.raises(LoopError, match="best_metric validation/rm_score is none of the evaluation's: validation/"):
        run(tmp_path, LoopConfig(total_steps=1, best_metric="validation/rm_score"), evaluate=Scores({1: 1.0}))


def test_more_is_better_where_it_is_said(tmp_path: Path) -> None:
    config = LoopConfig(total_steps=12, best_mode="max")
    result = run(tmp_path, config, evaluate=Scores({4: 3.0, 8: 1.0, 12: 4.0}))
    assert (result.position.best_step, result.position.best_score) == (12, 4.0)


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of a transformer on one device."""
    folder = tmp_path_factory.mktemp("transformer")
    run(folder, LoopConfig(total_steps=3, log_every=1), loss=transformer_loss)
    return [line["loss"] for line in read_metrics(folder)]


@pytest.mark.slow
def test_on_a_mesh_in_microbatches(tmp_path: Path, transformer: list[float]) -> None:
    mesh = make_mesh(MeshConfig(data=2, fsdp=2, tensor=2))
    config = LoopConfig(total_steps=3, log_every=1)
    result = run(tmp_path, config, mesh=mesh, microbatches=2, loss=transformer_loss)
    np.testing.assert_allclose([line["loss"] for line in read_metrics(tmp_path)], transformer, rtol=1e-4)
    embedding = result.state.params["embedding"]
    assert embedding.addressable_shards[0].data.size * 4 == embedding.size


@pytest.mark.slow
def test_bfloat16_arithmetic_keeps_float32_weights(tmp_path: Path, transformer: list[float]) -> None:
    config = LoopConfig(total_steps=3, log_every=1)
    result = run(tmp_path, config, dtype="bfloat16", loss=transformer_loss)
    assert {array.dtype.name for array in jax.tree.leaves(result.state.params)} == {"float32"}
    losses = [line["loss"] for line in read_metrics(tmp_path)]
    assert losses != transformer
    np.testing.assert_allclose(losses, transformer, rtol=0.1)


def test_evaluation_is_the_mean_over_all_rows_by_the_average_of_weights() -> None:
    state = create_train_state(MODEL, OPTIMIZER, one_device(), jax.random.key(0))
    average = jax.tree.map(lambda array: array * 1.5, state.params)
    state = replace(state, ema_params=average)
    loss = loss_of(MODEL, "logits")
    whole = random_batch(rows=8, seed=1)
    parts = [jax.tree.map(lambda array, at=at: array[at : at + 2], whole) for at in range(0, 8, 2)]
    parts.append(jax.tree.map(np.zeros_like, parts[0]))  # rows left over, of which nothing counts
    evaluate = make_evaluate(loss, state, lambda: iter(parts), weight_of("logits"))
    expected, metrics = loss(average, whole, KEY)
    for _ in range(2):
        found = evaluate(state)
        assert found.keys() == {"validation/loss", "validation/accuracy"}
        np.testing.assert_allclose(found["validation/loss"], expected, rtol=1e-5)
        np.testing.assert_allclose(found["validation/accuracy"], metrics["accuracy"], rtol=1e-5)


def test_one_process_gives_the_whole_batch() -> None:
    assert batch_shard(make_mesh(MeshConfig(data=2, fsdp=2, tensor=2))) == (0, 1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LoopConfig(total_steps=0), "total_steps must be at least 1, not 0"),
        (LoopConfig(save_every=0), "save_every must be at least 1, not 0"),
        (LoopConfig(patience=0), "patience must be at least 1, not 0"),
        (LoopConfig(best_mode="most"), "best_mode 'most' is none of min, max"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_mean_nothing(config: LoopConfig, message: str) -> None:
    with pytest.raises(LoopError, match=message):
        config.validate()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    (alone,) = run_processes("tests.training.loop_process", 1, tmp_path / "alone")
    first, second = run_processes("tests.training.loop_process", 2, tmp_path / "both")
    assert [mesh["shard"] for mesh in alone] == [[0, 1], [0, 1]]
    assert [mesh["shard"] for mesh in first] == [[0, 2], [0, 1]]
    assert [mesh["shard"] for mesh in second] == [[1, 2], [0, 1]]
    for one, other, whole in zip(first, second, alone, strict=True):
        assert one["score"] == other["score"]
        np.testing.assert_allclose(one["score"], whole["score"], rtol=1e-5)
    for name in ("batch", "model"):
        found, expected = read_metrics(tmp_path / "both" / name), read_metrics(tmp_path / "alone" / name)
        assert [line["step"] for line in found] == [1, 2, 3]
        np.testing.assert_allclose([line["loss"] for line in found], [line["loss"] for line in expected], rtol=1e-4)
