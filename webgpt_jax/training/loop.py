"""The training loop: updates, evaluations, early stopping, checkpoints, and going on where a run was left.

    with Checkpointer(...) as checkpointer, MetricsWriter(folder, after=resumed.step) as metrics:
        resumed = resume(checkpointer, abstract_train_state(...))
        state, key, position = ...  # resumed's, or the first ones
        batches = demonstration_batches(..., start=position.batches)
        result = train(state, step_function, batches, key, LoopConfig(), checkpointer, position=position, ...)

Each update is looked at before the next one begins: what a run that is interrupted anywhere leaves behind is a state
and the number of batches that made it. The next batch is prepared meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from webgpt_jax.models.checkpoint_folder import CheckpointError, complete_steps, is_checkpoint, read_record
from webgpt_jax.training.checkpoint import Checkpointer
from webgpt_jax.training.metrics import MetricsWriter, Progress
from webgpt_jax.training.preemption import PREEMPTED, Preemption
from webgpt_jax.training.sharding import batch_sharding, place_batch, replicated
from webgpt_jax.training.train_state import TrainState, shardings_of
from webgpt_jax.training.train_step import Batch, Metrics

Evaluate: TypeAlias = Callable[[TrainState], Mapping[str, float]]
ACROSS_PROCESSES = 10  # updates between two times at which several processes ask each other whether to leave


class LoopError(ValueError):
    """Settings that no loop can be run by; the message names the field and what it may be."""


class NonFiniteError(RuntimeError):
    """A loss or a gradient is no finite number; the message names update and metric, and what was saved."""


class Batches(Protocol):
    """A source of batches that knows where it is. `webgpt_jax.datasets.batches.Batches` is one."""

    @property
    def taken(self) -> int:
        """Batches that were given, those before the run was resumed included."""
        ...

    @property
    def epoch(self) -> float:
        """How often the data were gone through."""
        ...

    def __next__(self) -> Batch:
        """This process's rows of the next batch; `StopIteration` at the end."""
        ...


@dataclass(frozen=True)
class LoopConfig:
    """How long a run goes on, and when it saves and evaluates. All counts are of updates."""

    total_steps: int | None = field(default=None, metadata={"help": "updates, at most; None: until the data end"})
    evaluate_every: int | None = field(default=None, metadata={"help": "between evaluations; None: at epochs' ends"})
    save_every: int = field(default=500, metadata={"help": "between checkpoints; one is saved at evaluations too"})
    log_every: int = field(default=10, metadata={"help": "between lines of metrics"})
    best_metric: str = field(default="validation/loss", metadata={"help": "of the evaluation: what ranks states"})
    best_mode: Literal["min", "max"] = field(default="min", metadata={"help": "whether less or more of it is better"})
    patience: int | None = field(default=None, metadata={"help": "evaluations without a better one until it stops"})

    def validate(self) -> None:
        """Raises `LoopError` for a setting that means nothing."""
        for name in ("total_steps", "evaluate_every", "save_every", "log_every", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LoopError(f"{name} must be at least 1, not {value}")
        if self.best_mode not in ("min", "max"):
            raise LoopError(f"best_mode {self.best_mode!r} is none of min, max")


@dataclass(frozen=True)
class Position:
    """Where a run is, beside its state: what goes on after a checkpoint as if nothing had happened."""

    batches: int = 0  # taken for the updates that were made
    best_step: int | None = None  # the update after which the best evaluation was made
    best_score: float | None = None
    without_better: int = 0  # evaluations since the best


@dataclass(frozen=True)
class Resumed:
    """What a run goes on from."""

    state: TrainState
    key: jax.Array
    position: Position
    step: int


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    state: TrainState
    step: int
    position: Position
    ended: Literal["total", "patience"]  # all updates were made, or the last evaluations were no better


def resume(checkpointer: Checkpointer, like: TrainState, step: int | None = None) -> Resumed | None:
    """What the latest checkpoint holds, or the one of `step`; None where there is none yet.

    Args:
      checkpointer: of the run.
      like: arrays, or better an abstract state: see `Checkpointer.restore`, which also says what it raises.
      step: which checkpoint.
    """
    if checkpointer.latest_step() is None:
        return None
    restored = checkpointer.restore(like, step)
    return Resumed(restored.state, restored.rng, _position(restored.data_position), restored.step)


def position_in(folder: Path) -> Position:
    """Where the run in a folder of checkpoints is, before anything else of it is read; the beginning without one."""
    if not is_checkpoint(folder) or not complete_steps(folder):
        return Position()
    return _position(read_record(folder).data_positions[0])  # all processes save the same


def _position(value: Any) -> Position:
    try:
        return Position(**value)
    except TypeError as error:
        raise CheckpointError(f"these checkpoints are of another kind of run: {error}") from error


def train(
    state: TrainState,
    step_function: Callable[[TrainState, Batch, jax.Array], tuple[TrainState, Metrics]],
    batches: Batches,
    key: jax.Array,
    config: LoopConfig,
    checkpointer: Checkpointer,
    *,
    position: Position | None = None,
    evaluate: Evaluate | None = None,
    metrics: MetricsWriter | None = None,
    progress: Progress | None = None,
) -> Result:
    """Makes updates until all are made, or evaluations get no better. In several processes, called by all alike.

    A checkpoint is saved at each evaluation, with its metrics, each `save_every` updates, and at the end; give the
    checkpointer `keep_best=1` and the config's `best_metric` and `best_mode`, and the best is kept. SIGTERM and Ctrl-C
    save and leave after the update, and the evaluation where one is due. To be called in the main thread.

    Args:
      state: where to begin. It is given away: its arrays are overwritten.
      step_function: of `make_train_step`.
      batches: after those of `position`; this process's rows: see `batch_shard`.
      key: the run's, the same at each update.
      config: how long, and when what is done.
      checkpointer: where the run is saved.
      position: where the state is; without it, at the beginning.
      evaluate: gives metrics of a state by their names, `best_metric` among them.
      metrics: where they are written.
      progress: where they are told.

    Raises:
      SystemExit: with `PREEMPTED`, after SIGTERM or Ctrl-C.
      NonFiniteError: a loss or a gradient is not finite. The update was not made; the state before it is saved.
      CheckpointError: a save failed.
      LoopError, ShardingError: the settings mean nothing, or the batch does not divide.
    """
    config.validate()
    mesh: Mesh = state.step.sharding.mesh  # type: ignore[attr-defined]
    update = _guarded(step_function, state)
    position = Position(batches.taken) if position is None else position
    step = int(state.step)
    epoch = batches.epoch
    ended = _end(config, step, position)
    with Preemption() as preemption:
        following = None if ended else _take(mesh, batches)
        while following is not None and not ended:
            taken = following
            state, arrays = update(state, taken.rows, key)
            following = _take(mesh, batches)  # while the update is computed
            values = {name: float(value) for name, value in jax.device_get(arrays).items()}
            _check_finite(values, step, state, key, position, checkpointer)
            step += 1
            position = replace(position, batches=taken.number)
            values["epoch"] = taken.epoch
            last = following is None or step == config.total_steps
            scores: dict[str, float] = {}
            if evaluate is not None and (last or _is_due(config, step, epoch, taken.epoch)):
                scores = {name: float(value) for name, value in evaluate(state).items()}
                position = _judged(config, position, step, scores)
            epoch = taken.epoch
            leaving = (jax.process_count() == 1 or step % ACROSS_PROCESSES == 0) and preemption.requested()
            ended = "total" if last else _end(config, step, position)
            if scores or leaving or ended or step % config.save_every == 0:
                checkpointer.save(step, state, key, asdict(position), scores or None)
            _report(config, step, values, scores, bool(ended), metrics, progress)
            if leaving:
                raise SystemExit(PREEMPTED)
    return Result(state, step, position, ended or "total")


def make_evaluate(
    loss_function: Callable[[Any, Batch, jax.Array], tuple[jax.Array, Metrics]],
    state: TrainState,
    batches: Callable[[], Iterator[Batch]],
    weight: Callable[[Batch], jax.Array],
    prefix: str = "validation/",
) -> Evaluate:
    """The mean of a loss and its metrics over held-out data, by the average of weights where one is kept.

    Args:
      loss_function: as that of the training step, without dropout.
      state: or an abstract one, for where arrays lie.
      batches: begins the data anew: this process's rows of each batch.
      weight: what a batch's means count for, as in `make_train_step`.
      prefix: put before the metrics' names.
    """
    shardings = shardings_of(state)
    mesh: Mesh = shardings.step.mesh  # type: ignore[attr-defined]
    whole = replicated(mesh)

    def measure(params: Any, rows: Batch) -> tuple[Metrics, jax.Array]:
        loss, metrics = loss_function(params, rows, jax.random.key(0))
        return {**metrics, "loss": loss}, weight(rows).astype(jnp.float32)

    compiled = jax.jit(measure, in_shardings=(shardings.params, batch_sharding(mesh)), out_shardings=(whole, whole))

    def evaluate(state: TrainState) -> dict[str, float]:
        params = state.params if state.ema_params is None else state.ema_params
        sums: dict[str, float] = {}
        total = 0.0
        for rows in batches():
            values, share = jax.device_get(compiled(params, place_batch(mesh, rows)))
            if share > 0:  # the mean of nothing may be NaN
                total += float(share)
                for name, value in values.items():
                    sums[name] = sums.get(name, 0.0) + float(share) * float(value)
        return {prefix + name: value / total for name, value in sums.items()}

    return evaluate


def batch_shard(mesh: Mesh) -> tuple[int, int]:
    """Which part of each batch this process gives, as (its number, the number of parts).

    Processes whose devices split the model and not the batch give the same part.
    """
    rows = mesh.shape["data"] * mesh.shape["fsdp"]
    places = batch_sharding(mesh).addressable_devices_indices_map((rows,))
    own = sorted({(index or (slice(None),))[0].indices(rows)[0] for index in places.values()})
    return own[0] // len(own), rows // len(own)


@dataclass(frozen=True)
class _Taken:
    """A batch on its devices, and where the source was behind it."""

    rows: Batch
    number: int
    epoch: float


def _take(mesh: Mesh, batches: Batches) -> _Taken | None:
    try:
        rows = next(batches)
    except StopIteration:
        return None
    return _Taken(place_batch(mesh, rows), batches.taken, batches.epoch)


def _guarded(
    step_function: Callable[[TrainState, Batch, jax.Array], tuple[TrainState, Metrics]], state: TrainState
) -> jax.stages.Wrapped:
    """The same update, which changes nothing where its loss or its gradient is not finite."""
    shardings = shardings_of(state)

    def update(state: TrainState, batch: Batch, key: jax.Array) -> tuple[TrainState, Metrics]:
        changed, metrics = step_function(state, batch, key)
        finite = jnp.isfinite(metrics["loss"]) & jnp.isfinite(metrics["gradient_norm"])
        return jax.tree.map(lambda old, new: jnp.where(finite, new, old), state, changed), metrics

    mesh: Mesh = shardings.step.mesh  # type: ignore[attr-defined]
    return jax.jit(
        update,
        donate_argnums=0,
        in_shardings=(shardings, batch_sharding(mesh), replicated(mesh)),
        out_shardings=(shardings, replicated(mesh)),
    )


def _check_finite(
    values: Mapping[str, float],
    step: int,
    state: TrainState,
    key: jax.Array,
    position: Position,
    checkpointer: Checkpointer,
) -> None:
    """Raises `NonFiniteError`, when the state, which is the one before the update, is saved."""
    name = next((name for name in ("loss", "gradient_norm") if not math.isfinite(values[name])), None)
    if name is None:
        return
    checkpointer.wait()
    if checkpointer.latest_step() != step:
        checkpointer.save(step, state, key, asdict(position))
        checkpointer.wait()
    raise NonFiniteError(
        f"update {step + 1}, of batch {position.batches + 1}: {name} is {values[name]}; the state after update {step} "
        f"is saved in {checkpointer.folder}. A smaller step size, more warm-up or a look at that batch may help"
    )


def _is_due(config: LoopConfig, step: int, before: float, after: float) -> bool:
    """Whether to evaluate after this update, whose batch began and ended at these epochs."""
    if config.evaluate_every is not None:
        return step % config.evaluate_every == 0
    return math.floor(after) > math.floor(before)


def _judged(config: LoopConfig, position: Position, step: int, scores: Mapping[str, float]) -> Position:
    """The position after an evaluation."""
    if config.best_metric not in scores:
        raise LoopError(f"best_metric {config.best_metric} is none of the evaluation's: {', '.join(scores)}")
    score, best = scores[config.best_metric], position.best_score
    if math.isfinite(score) and (best is None or (score < best if config.best_mode == "min" else score > best)):
        return replace(position, best_step=step, best_score=score, without_better=0)
    best_step = step if score == best else position.best_step  # of equals, the newer, as the checkpointer has it
    return replace(position, best_step=best_step, without_better=position.without_better + 1)


def _end(config: LoopConfig, step: int, position: Position) -> Literal["total", "patience"] | None:
    if config.total_steps is not None and step >= config.total_steps:
        return "total"
    if config.patience is not None and position.without_better >= config.patience:
        return "patience"
    return None


def _report(
    config: LoopConfig,
    step: int,
    values: dict[str, float],
    scores: Mapping[str, float],
    ended: bool,
    metrics: MetricsWriter | None,
    progress: Progress | None,
) -> None:
    if progress is not None:
        progress.update(step, values)
        if scores:
            progress.say(f"step {step}: " + ", ".join(f"{name} {value:.4g}" for name, value in scores.items()))
    if metrics is not None and (scores or ended or step % config.log_every == 0):
        speed = {} if progress is None else {"steps_per_second": progress.speed(step)}
        metrics.write(step, {**values, **speed, **scores})
