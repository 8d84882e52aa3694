"""Checkpoints of a run: saved while training goes on, by all processes, and restored onto whatever mesh there is.

    with Checkpointer(folder, CheckpointConfig(keep_last=3), config) as checkpointer:
        if checkpointer.latest_step() is not None:
            restored = checkpointer.restore(like)
        ...
        checkpointer.save(step, state, rng, data_position, metrics={"loss": loss})

A checkpoint is a `TrainState`, the random key, the position in the data and the run's resolved settings: with them a
run that was killed goes on as if it had not been. `checkpoint_folder.py` says what lies in the folder. Orbax writes it,
by `CheckpointManager`: of its interfaces the stable one (the newer one is `experimental`), with arrays as nested
dictionaries and everything else as one JSON item, so that no format of Orbax's beyond those two is relied on.

A save copies the arrays to the host, then returns and writes beside training. What goes wrong there is raised by the
next `save`, `wait` or end of the `with`. A save that was cut short leaves a temporary folder, which is told of and
ignored.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import jax
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from webgpt_jax.models.checkpoint_folder import (
    EMA,
    FORMAT,
    MARKER,
    OPTIMIZER,
    PARAMS,
    RECORD,
    ArrayRecord,
    CheckpointError,
    Flat,
    Json,
    Record,
    abstract,
    check_targets,
    complete_steps,
    find_step,
    first_line,
    flatten,
    model_config,
    nest,
    read_arrays,
    read_record,
)
from webgpt_jax.models.checksums import checksums
from webgpt_jax.training.checkpoint_values import gather_positions, key_from_json, key_to_json, own_position
from webgpt_jax.training.train_state import TrainState

_LOG = logging.getLogger(__name__)

# What Orbax and TensorStore raise for what cannot be written.
_STORAGE_ERRORS = (OSError, ValueError, RuntimeError)


@dataclass(frozen=True)
class CheckpointConfig:
    """Which checkpoints are kept, and what a resumed run may change."""

    keep_last: int = 3  # newest checkpoints kept
    keep_best: int = 0  # checkpoints kept beside them for their metric
    best_metric: str | None = None  # keep_best: the name in `metrics` that ranks them
    best_mode: Literal["min", "max"] = "max"  # keep_best: whether less or more of it is better
    may_change: tuple[
        str, ...
    ] = ()  # settings that may differ on resuming, as "optimizer.learning_rate" or "optimizer"

    def validate(self) -> None:
        """Raises `ValueError` for settings that contradict each other."""
        if self.keep_last < 1:
            raise ValueError(f"keep_last must be at least 1, not {self.keep_last}: a run resumes from the newest")
        if self.keep_best < 0:
            raise ValueError(f"keep_best must not be negative: {self.keep_best}")
        if (self.keep_best > 0) != (self.best_metric is not None):
            raise ValueError("keep_best and best_metric go together: how many, and ranked by what")
        if self.best_mode not in ("min", "max"):
            raise ValueError(f"best_mode {self.best_mode!r} is none of min, max")


@dataclass(frozen=True)
class Restored:
    """What a checkpoint held."""

    state: TrainState  # in the shapes, types and shardings that were asked for
    rng: jax.Array  # the key given to `save`
    data_position: Json  # this process's
    config: dict[str, Json]  # the settings of the run that saved it
    step: int  # the number given to `save`


class Checkpointer:
    """The checkpoints of one run, in one folder. Used by all processes alike, each call by all of them.

    Args:
      folder: made where it is missing; seen by all processes.
      settings: which checkpoints are kept.
      config: the run's resolved settings, as JSON; `config["model"]` has the fields of its `TransformerConfig`.

    Raises:
      CheckpointError: the folder cannot be written, or holds something else.
    """

    def __init__(self, folder: str | Path, settings: CheckpointConfig, config: Mapping[str, Any]) -> None:
        settings.validate()
        self.folder = Path(folder).absolute()
        self._settings = settings
        self._config: dict[str, Json] = json.loads(json.dumps(config, allow_nan=False))
        model_config(self._config, self.folder)
        self._resumed = False  # whether the folder's checkpoints are known to be of this run
        self._saving: int | None = None  # the step that is being written
        with _failures(f"{self.folder} cannot be used for checkpoints"):
            self._tell_of_halves()
            self._mark()
            self._values = self._read_values()
            self._manager = ocp.CheckpointManager(
                self.folder,
                options=ocp.CheckpointManagerOptions(
                    preservation_policy=_Kept(settings, self._values), cleanup_tmp_directories=True
                ),
            )

    def save(
        self,
        step: int,
        state: TrainState,
        rng: jax.Array,
        data_position: Json,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Saves; returns when the arrays may be changed or donated, and writes on beside training.

        Args:
          step: the checkpoint's number, above all in the folder.
          state: its arrays.
          rng: the run's key, typed or raw.
          data_position: from where the input pipeline goes on; in several processes, each gives its own.
          metrics: numbers to keep with it; among them `best_metric` for it to be ranked.

        Raises:
          CheckpointError: this save, or the one before, failed; or the folder holds the checkpoints of another run.
          ValueError: an argument is not what it should be.
        """
        self.wait()
        self._check_metrics(metrics)
        self._check_place(step)
        trees = _trees(state)
        record = Record(
            step=step,
            config=self._config,
            metrics={name: float(value) for name, value in (metrics or {}).items()},
            data_positions=gather_positions(data_position),
            rng=key_to_json(rng),
            arrays={name: _array_records(arrays) for name, arrays in trees.items()},
        )
        self._values[step] = self._value(record.metrics)
        items: dict[str, Any] = {name: ocp.args.StandardSave(nest(arrays)) for name, arrays in trees.items()}
        items[RECORD] = ocp.args.JsonSave(record.to_json())
        with _failures(f"the checkpoint of step {step} could not be saved in {self.folder}"):
            self._manager.save(step, args=ocp.args.Composite(**items), force=True)
        self._saving = step

    def restore(self, like: TrainState, step: int | None = None) -> Restored:
        """A checkpoint, the latest by default.

        Args:
          like: arrays, or `jax.ShapeDtypeStruct`s with shardings: what is restored has their shapes, types and
            shardings, whatever mesh it was saved from. No device holds more than its own part.
          step: which checkpoint.

        Raises:
          CheckpointError: there is none, it is damaged, it is of another model (the first parameter that differs is
            named), or its settings differ from this run's beyond `may_change`.
        """
        self.wait()
        step_folder = find_step(self.folder, step)
        record = read_record(self.folder, int(step_folder.name))
        targets = {name: {path: _target(leaf) for path, leaf in tree.items()} for name, tree in _trees(like).items()}
        for name in sorted(targets.keys() | record.arrays.keys(), key=(PARAMS, EMA, OPTIMIZER).index):
            check_targets(step_folder, name, targets.get(name, {}), record)
        self._check_config(record)
        arrays = {name: read_arrays(step_folder, name, tree, record) for name, tree in targets.items()}
        self._resumed = True
        return Restored(
            state=_fill(like, arrays),
            rng=key_from_json(record.rng),
            data_position=own_position(record.data_positions, step_folder),
            config=record.config,
            step=record.step,
        )

    def latest_step(self) -> int | None:
        """The newest complete checkpoint's, or None. One that is being written is not complete."""
        steps = self.steps()
        return steps[-1] if steps else None

    def steps(self) -> list[int]:
        """Of all complete checkpoints, in order."""
        with _failures(f"{self.folder} cannot be read"):
            return complete_steps(self.folder)

    def wait(self) -> None:
        """Returns when nothing is being written. Raises `CheckpointError` where the last save failed."""
        step, self._saving = self._saving, None
        with _failures(f"the checkpoint of step {step} could not be saved in {self.folder}"):
            self._manager.wait_until_finished()
        if step is not None and step not in self.steps():
            raise CheckpointError(f"the checkpoint of step {step} is not in {self.folder}, though it was written there")

    def close(self) -> None:
        """Waits, and frees what it holds. Raises `CheckpointError` where the last save failed."""
        try:
            self.wait()
        finally:
            with _failures(f"the checkpoints in {self.folder} could not be closed"):
                self._manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_values(self) -> dict[int, float]:
        """What ranks each checkpoint in the folder."""
        values: dict[int, float] = {}
        for step in complete_steps(self.folder) if self._settings.keep_best else []:
            try:
                values[step] = self._value(read_record(self.folder, step).metrics)
            except CheckpointError as error:
                _LOG.warning("%s; it does not count as one of the best", error)
        return values

    def _value(self, metrics: Mapping[str, float]) -> float:
        """What ranks a checkpoint, more being better; NaN where its metric says nothing."""
        value = metrics.get(self._settings.best_metric or "", math.nan)
        return value if self._settings.best_mode == "max" else -value

    def _tell_of_halves(self) -> None:
        halves = sorted(path.name for path in self.folder.glob("*.orbax-checkpoint-tmp*"))
        if halves:
            _LOG.warning("%s: ignored and removed saves that were cut short: %s", self.folder, ", ".join(halves))

    def _mark(self) -> None:
        """Makes the folder and its marker. The settings of a folder's first run stand in it; each step has its own."""
        if jax.process_index() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            marker = self.folder / MARKER
            if not marker.exists():
                if any(self.folder.glob("*/_CHECKPOINT_METADATA")):
                    raise CheckpointError(f"{self.folder} holds checkpoints of another program; choose another folder")
                unfinished = marker.with_suffix(".tmp")
                text = json.dumps({"format": FORMAT, "config": self._config}, indent=2)
                unfinished.write_text(f"{text}\n", encoding="utf-8")
                unfinished.replace(marker)
        if jax.process_count() > 1:
            multihost_utils.sync_global_devices("webgpt_jax checkpoint folder")

    def _check_metrics(self, metrics: Mapping[str, float] | None) -> None:
        name = self._settings.best_metric
        if metrics is not None and name is not None and name not in metrics:
            raise ValueError(
                f"the metrics have no {name}, by which the best checkpoints are kept; they have {[*metrics]}"
            )

    def _check_place(self, step: int) -> None:
        """A folder holds one run, whose steps go up: what would be overwritten or mixed is refused."""
        latest = self.latest_step()
        if latest is None:
            self._resumed = True
            return
        if not self._resumed:
            raise CheckpointError(
                f"{self.folder} holds a run already, up to step {latest}: restore it first, or choose another folder"
            )
        if step <= latest:
            raise CheckpointError(
                f"step {step} is not after step {latest}, which {self.folder} holds; "
                "move later checkpoints out of the folder to go on from an earlier one"
            )

    def _check_config(self, record: Record) -> None:
        changed = [
            (name, then, now)
            for name, then, now in _differences(record.config, self._config)
            if not any(name == allowed or name.startswith(f"{allowed}.") for allowed in self._settings.may_change)
        ]
        if changed:
            name, then, now = changed[0]
            raise CheckpointError(
                f"the checkpoint of step {record.step} in {self.folder} is of a run with other settings: {name} was "
                f"{then}, now it is {now}; to go on with other settings, name them in may_change"
            )


@dataclass(frozen=True)
class _Kept:
    """Orbax asks it which checkpoints stay when a new one is complete."""

    settings: CheckpointConfig
    values: Mapping[int, float]  # by step; more is better

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """One answer for each, in order of steps."""
        steps = [checkpoint.step for checkpoint in checkpoints]
        ranked = [step for step in steps if not math.isnan(self.values.get(step, math.nan))]
        ranked.sort(key=lambda step: (self.values[step], step))  # of equals, the newer
        best = ranked[-self.settings.keep_best :] if self.settings.keep_best else []
        return [step in best or step in steps[-self.settings.keep_last :] for step in steps]


@contextmanager
def _failures(what: str) -> Iterator[None]:
    try:
        yield
    except _STORAGE_ERRORS as error:
        raise CheckpointError(f"{what}: {first_line(error)}") from error


def _trees(state: TrainState) -> dict[str, Flat]:
    """The trees a state is saved as, so that parameters can be read without the rest."""
    trees = {
        PARAMS: flatten(state.params),
        EMA: flatten(state.ema_params),
        OPTIMIZER: flatten({"step": state.step, "state": state.opt_state}),
    }
    return {name: tree for name, tree in trees.items() if tree}


def _fill(like: TrainState, trees: Mapping[str, Flat]) -> TrainState:
    def fill(part: Any, name: str) -> Any:
        structure = jax.tree.structure(part)
        return jax.tree.unflatten(structure, [trees[name][path] for path in flatten(part)])

    optimizer = fill({"step": like.step, "state": like.opt_state}, OPTIMIZER)
    return TrainState(
        step=optimizer["step"],
        params=fill(like.params, PARAMS),
        ema_params=fill(like.ema_params, EMA),
        opt_state=optimizer["state"],
    )


def _target(leaf: Any) -> jax.ShapeDtypeStruct:
    sharding = leaf.sharding or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return abstract(leaf.shape, leaf.dtype, sharding)


def _array_records(arrays: Mapping[str, jax.Array]) -> dict[str, ArrayRecord]:
    values = checksums(arrays)
    return {name: ArrayRecord(array.shape, array.dtype.name, values[name]) for name, array in arrays.items()}


def _differences(then: Json, now: Json, name: str = "") -> Iterator[tuple[str, Json, Json]]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in [*then, *(key for key in now if key not in then)]:
            path = f"{name}.{key}" if name else key
            yield from _differences(then.get(key), now.get(key), path)
    elif then != now or type(then) is not type(now):
        yield name, then, now
