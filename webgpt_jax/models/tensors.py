"""Tensors in files, read slice by slice: a model larger than memory is never held whole, and no file is trusted.

Safetensors alone here: a header of names, types and offsets, then numbers. PyTorch's own `.bin` files are pickles,
which run whatever code they hold, so they are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError, safe_open

Slices = tuple[slice, ...]
MAX_JSON_BYTES = 64 << 20  # no config, index or tokenizer is larger; a larger file is not read into memory
SCALAR_HEAD_FILE = "scalar_head.safetensors"  # beside the weights of a reward or value model
READABLE_TYPES = {"F64", "F32", "F16", "BF16"}


class PretrainedError(ValueError):
    """Weights, a config or a tokenizer that cannot be used; the message names the file and the tensor or field."""


class TensorSource(Protocol):
    """Named tensors of known shapes, of which parts are read."""

    @property
    def path(self) -> Path:
        """The file or folder, for messages."""
        ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor."""
        ...

    def read(self, name: str, slices: Slices) -> np.ndarray[Any, Any]:
        """A part of a tensor, in its stored type or in float32."""
        ...


class SafetensorsFolder:
    """The safetensors of a folder: `model.safetensors`, or the shards that `model.safetensors.index.json` lists.

    Raises `PretrainedError` for a file that is missing, cut short, of types without floats, or not safetensors at all.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = {name: _open(path / name) for name in _file_names(path)}
        self._slices: dict[str, Any] = {}
        for file_name, file in self._files.items():
            for name in file.keys():  # noqa: SIM118 - the file is no mapping
                if name in self._slices:
                    raise PretrainedError(f"{path}: the tensor {name} stands in two files, one of them {file_name}")
                self._slices[name] = file.get_slice(name)
        self.shapes: dict[str, tuple[int, ...]] = {name: tuple(part.get_shape()) for name, part in self._slices.items()}
        for name in _indexed(path):
            if name not in self._slices:
                raise PretrainedError(f"{path}: the index lists the tensor {name}, and its file does not hold it")

    def read(self, name: str, slices: Slices) -> np.ndarray[Any, Any]:
        """A part of a tensor in its stored type; only its bytes are read."""
        part = self._slices[name]
        if part.get_dtype() not in READABLE_TYPES:
            known = ", ".join(sorted(READABLE_TYPES))
            raise PretrainedError(f"{self.path}: the tensor {name} is of type {part.get_dtype()}, none of {known}")
        array: np.ndarray[Any, Any] = part[slices] if slices else part[...]
        return array


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. `PretrainedError` if it is unreadable, huge, or no object."""
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise PretrainedError(f"{path} has {size} bytes, more than the {MAX_JSON_BYTES} that are read")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise PretrainedError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise PretrainedError(f"{path} holds no JSON object")
    return value


def _file_names(path: Path) -> list[str]:
    if (path / "model.safetensors.index.json").exists():
        return sorted(set(_indexed(path).values()))
    if (path / "model.safetensors").exists():
        return ["model.safetensors"]
    if any(path.glob("*.bin")) or any(path.glob("*.pt")) or any(path.glob("*.pth")):
        raise PretrainedError(f"{path} holds pickled PyTorch weights, which can run code: convert them to safetensors")
    raise PretrainedError(f"{path} holds neither model.safetensors nor model.safetensors.index.json")


def _indexed(path: Path) -> dict[str, str]:
    """Tensor -> file as the index says; empty without an index."""
    index = path / "model.safetensors.index.json"
    if not index.exists():
        return {}
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise PretrainedError(f"{index} has no weight_map")
    for name, file in files.items():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise PretrainedError(
                f"{index}: the tensor {name} is in {file!r}, which is no safetensors file of the folder"
            )
    return files


def _open(path: Path) -> Any:
    if not path.is_file():
        raise PretrainedError(f"{path} is missing")
    try:
        return safe_open(str(path), framework="numpy")
    except (SafetensorError, OSError) as error:
        raise PretrainedError(f"{path} is not a whole safetensors file: {error}") from error
