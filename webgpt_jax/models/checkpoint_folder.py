"""What a folder of checkpoints holds, and reading it: for training, for sampling, for starting one model from another.

    run/
      webgpt_checkpoint.json    marks the folder: {"format": 1, "config": the run's resolved settings}
      1200/                     a step, renamed into place when all of it is written
        params/                 Orbax trees: nested dictionaries of arrays, named as in the model
        ema_params/             where a moving average is kept
        optimizer/              the optimizer's state and its count of updates
        record/                 JSON: everything else, and the shape, type and checksum of every array

`config["model"]` holds the fields of `TransformerConfig`, so a checkpoint says what model it is of. This file needs
nothing of training: it reads into whatever arrays it is asked for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np
import orbax.checkpoint as ocp

from webgpt_jax.models.checksums import checksums
from webgpt_jax.models.config import RotaryScaling, TransformerConfig
from webgpt_jax.models.parameters import Params

FORMAT = 1
MARKER = "webgpt_checkpoint.json"
PARAMS, EMA, OPTIMIZER, RECORD = "params", "ema_params", "optimizer", "record"

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Flat: TypeAlias = dict[str, Any]  # leaves by their path, as in "blocks/attention/qkv"


class CheckpointError(Exception):
    """A checkpoint that cannot be written or read; the message says which, why and what to do."""


@dataclass(frozen=True)
class ArrayRecord:
    """What a checkpoint says of one array."""

    shape: tuple[int, ...]
    dtype: str
    checksum: int  # see `checksums.py`


@dataclass(frozen=True)
class Record:
    """The part of a checkpoint that is JSON."""

    step: int
    config: dict[str, Json]  # the run's resolved settings
    metrics: dict[str, float]  # what the best checkpoints are kept by, and whatever else was given with it
    data_positions: list[Json]  # of each process's input pipeline
    rng: dict[str, Json]  # the key; see `checkpoint_values.py`
    arrays: dict[str, dict[str, ArrayRecord]]  # by tree, then by name

    def to_json(self) -> dict[str, Json]:
        """With a digest, because JSON with a flipped bit is JSON still."""
        body: dict[str, Json] = json.loads(json.dumps(dataclasses.asdict(self)))
        return {"format": FORMAT, "body": body, "sha256": _digest(body)}

    @classmethod
    def from_json(cls, value: Any) -> Record:
        """Raises `ValueError` for what is no undamaged record of this format."""
        if not isinstance(value, dict) or not {"format", "body", "sha256"} <= value.keys():
            raise ValueError("its record is damaged")
        if value["format"] != FORMAT:
            raise ValueError(f"its format is {value['format']}, this program reads {FORMAT}")
        body = value["body"]
        if value["sha256"] != _digest(body):
            raise ValueError("its record is damaged: the digest differs")
        arrays = {
            tree: {
                name: ArrayRecord(tuple(entry["shape"]), entry["dtype"], entry["checksum"])
                for name, entry in entries.items()
            }
            for tree, entries in body["arrays"].items()
        }
        return cls(**{**body, "arrays": arrays})


def _digest(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def is_checkpoint(path: str | Path) -> bool:
    """Whether `path` is a folder of checkpoints, or one step's folder in it."""
    folder, _ = _split(path)
    return (folder / MARKER).is_file()


def complete_steps(folder: str | Path) -> list[int]:
    """The steps whose checkpoints were written to their end, in order. Raises `CheckpointError` for other folders."""
    _check_folder(Path(folder))
    found = ocp.path.step.standard_name_format().find_all(Path(folder).absolute())
    return sorted(metadata.step for metadata in found)


def read_record(folder: str | Path, step: int | None = None) -> Record:
    """The JSON part of a step's checkpoint, the latest by default. Raises `CheckpointError`."""
    step_folder = find_step(folder, step)
    try:
        value = json.loads((step_folder / RECORD / "metadata").read_text(encoding="utf-8"))
        return Record.from_json(value)
    except FileNotFoundError as error:
        raise _damaged(step_folder, f"{error.filename} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(step_folder, str(error)) from error


def find_step(folder: str | Path, step: int | None = None) -> Path:
    """The folder of a step's checkpoint, the latest by default. Raises `CheckpointError` where there is none."""
    root, named = _split(folder)
    steps = complete_steps(root)
    if not steps:
        raise CheckpointError(f"{root} holds no complete checkpoint; start the run without restoring")
    wanted = (steps[-1] if named is None else named) if step is None else step
    if wanted not in steps:
        raise CheckpointError(f"{root} holds no checkpoint of step {wanted}; it holds {', '.join(map(str, steps))}")
    return root.absolute() / str(wanted)


def read_config(path: str | Path, step: int | None = None) -> TransformerConfig:
    """Which model a checkpoint is of. Raises `CheckpointError`."""
    return model_config(read_record(path, step).config, path)


def restore_params(
    path: str | Path,
    *,
    step: int | None = None,
    shardings: Callable[[TransformerConfig], Any] | jax.sharding.Sharding | None = None,
    ema: bool | None = None,
) -> tuple[TransformerConfig, Params]:
    """The parameters alone: to sample from them, or to start another model (a reward model from behaviour cloning).

    Args:
      path: a folder of checkpoints, or one step's folder in it.
      step: which; None is the latest.
      shardings: where the arrays go, each read straight into its shards: one sharding for all, or a function of the
        model's settings that gives nested dictionaries of them; None is the first device.
      ema: the moving average (True) or the weights that learn (False); None is the average where it is kept, which is
        what the paper evaluates.

    Raises:
      CheckpointError: there is no such checkpoint, it holds no moving average, or it is damaged.
    """
    step_folder = find_step(path, step)
    root, number = step_folder.parent, int(step_folder.name)
    record = read_record(root, number)
    if ema and EMA not in record.arrays:
        raise CheckpointError(f"{step_folder} holds no moving average of the parameters; ask for the parameters")
    tree = PARAMS if ema is False or EMA not in record.arrays else EMA
    config = model_config(record.config, path)
    places = shardings(config) if callable(shardings) else shardings
    named = flatten(places) if isinstance(places, Mapping) else {}
    default = places if isinstance(places, jax.sharding.Sharding) else None
    first = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    targets = {
        name: abstract(entry.shape, entry.dtype, named.get(name, default or first))
        for name, entry in record.arrays[tree].items()
    }
    return config, nest(read_arrays(step_folder, tree, targets, record))


def read_arrays(step_folder: Path, tree: str, targets: Mapping[str, jax.ShapeDtypeStruct], record: Record) -> Flat:
    """The arrays of one tree in the shapes, types and shardings of `targets`; each device reads its own part alone.

    Raises:
      CheckpointError: naming the first array that is missing, of another shape or type, or damaged.
    """
    check_targets(step_folder, tree, targets, record)
    try:
        with ocp.StandardCheckpointer() as reader:
            arrays = flatten(reader.restore(step_folder / tree, nest(targets)))
    except Exception as error:  # Orbax's own is of no narrower type, where a file is missing
        raise _damaged(step_folder, f"{tree} cannot be read: {first_line(error)}") from error
    for name, checksum in checksums({name: arrays[name] for name in targets}).items():
        if checksum != record.arrays[tree][name].checksum:
            raise _damaged(step_folder, f"the checksum of {tree}/{name} differs")
    return arrays


def check_targets(step_folder: Path, tree: str, targets: Mapping[str, jax.ShapeDtypeStruct], record: Record) -> None:
    """Raises `CheckpointError` naming the first array of which the checkpoint and the targets do not say the same."""
    saved = record.arrays.get(tree, {})
    for name in sorted(targets.keys() | saved.keys()):
        path = f"{tree}/{name}"
        if name not in saved:
            raise CheckpointError(f"{step_folder} is of another model: it has no {path}, which this run has")
        if name not in targets:
            raise CheckpointError(f"{step_folder} is of another model: it has {path}, which this run has not")
        for what, theirs, ours in (
            ("shape", saved[name].shape, tuple(targets[name].shape)),
            ("type", saved[name].dtype, np.dtype(targets[name].dtype).name),
        ):
            if theirs != ours:
                raise CheckpointError(
                    f"{step_folder} is of another model: its {path} has {what} {theirs}, this run's has {ours}"
                )


def model_config(config: Mapping[str, Json], path: str | Path) -> TransformerConfig:
    """The model's settings in a run's settings. Raises `CheckpointError` where they are none."""
    fields = config.get("model")
    if not isinstance(fields, dict):
        raise CheckpointError(f'{path}: the settings have no "model", the fields of TransformerConfig')
    scaling = fields.get("rotary_scaling")
    try:
        model = TransformerConfig(
            **{**fields, "rotary_scaling": RotaryScaling(**scaling) if isinstance(scaling, dict) else None}  # type: ignore[arg-type]
        )
        model.validate()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: its model's settings are not this program's: {error}") from error
    return model


def abstract(shape: tuple[int, ...], dtype: Any, sharding: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
    """An array to be read."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def flatten(tree: Any) -> Flat:
    """Leaves by their path. Empty parts and None leave no trace."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {"/".join(jax.tree_util.keystr((entry,), simple=True) for entry in path): leaf for path, leaf in leaves}


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dictionaries of leaves by path."""
    nested: dict[str, Any] = {}
    for path, leaf in flat.items():
        *parents, name = path.split("/")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = leaf
    return nested


def first_line(error: BaseException) -> str:
    """An error's type and how what it says begins: TensorStore's go on for pages."""
    text = str(error).strip().partition("\n")[0].partition(" See full TensorStore details")[0]
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _split(path: str | Path) -> tuple[Path, int | None]:
    """The folder of checkpoints, and the step where `path` is a step's folder."""
    path = Path(path)
    if path.name.isdecimal() and not (path / MARKER).exists() and (path.absolute().parent / MARKER).exists():
        return path.absolute().parent, int(path.name)
    return path, None


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is no folder of checkpoints: there is no such folder")
    if not (folder / MARKER).is_file():
        raise CheckpointError(f"{folder} is no folder of checkpoints: it has no {MARKER}")


def _damaged(step_folder: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {step_folder} is damaged: {why}; restore another step, or move this one out of its folder"
    )
