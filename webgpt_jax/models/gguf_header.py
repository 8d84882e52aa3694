"""The header of a GGUF file: metadata and where each tensor lies. Every count and length in it is checked against the
file's size before anything is made of it, so that a broken or hostile file costs an error and no memory."""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from webgpt_jax.models.tensors import PretrainedError

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MAX_AXES = 4


@dataclass(frozen=True)
class GgufTensor:
    """Where one tensor lies."""

    kind: GGMLQuantizationType
    shape: tuple[int, ...]  # rows first; the file counts them last
    start: int  # byte in the file
    row_bytes: int  # of one row along the last axis

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape[:-1]) * self.row_bytes


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says before its numbers."""

    metadata: dict[str, Any]  # numbers, text, true or false, or lists of one of them
    tensors: dict[str, GgufTensor]


def read_header(path: Path) -> GgufHeader:
    """The header of a little-endian GGUF file of version 2 or 3; `PretrainedError` naming what is wrong with it."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).header()
    except (OSError, ValueError) as error:
        if isinstance(error, PretrainedError):
            raise
        raise PretrainedError(f"{path} cannot be read: {error}") from error


class _Reader:
    """A place in the file, and what is read there."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at = path, data, 0

    def header(self) -> GgufHeader:
        if self._bytes(4) != b"GGUF":
            raise self._error("is no GGUF file")
        version = self._number("I")
        if version not in (2, 3):
            raise self._error(f"has GGUF version {version}; 2 and 3 are read, little-endian")
        tensor_count, field_count = self._count(24), self._count(13)
        metadata: dict[str, Any] = {}
        for _ in range(field_count):
            name = self._string()
            if name in metadata:
                raise self._error(f"says {name} twice")
            metadata[name] = self._value(self._number("I"), name)
        found = [self._tensor() for _ in range(tensor_count)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._error(f"has general.alignment {alignment!r}, no power of two")
        begin = -(-self._at // alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for name, kind, shape, offset in found:
            if name in tensors:
                raise self._error(f"holds the tensor {name} twice")
            tensors[name] = self._placed(name, kind, shape, begin + offset)
        return GgufHeader(metadata, tensors)

    def _tensor(self) -> tuple[str, int, tuple[int, ...], int]:
        name, axes = self._string(), self._number("I")
        if not 1 <= axes <= MAX_AXES:
            raise self._error(f"gives the tensor {name} {axes} axes")
        shape = tuple(reversed([self._number("Q") for _ in range(axes)]))
        return name, self._number("I"), shape, self._number("Q")

    def _placed(self, name: str, number: int, shape: tuple[int, ...], start: int) -> GgufTensor:
        try:
            kind = GGMLQuantizationType(number)
        except ValueError as error:
            raise self._error(f"holds the tensor {name} in the unknown type {number}") from error
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if shape[-1] % block:
            raise self._error(f"holds the tensor {name} with rows of {shape[-1]}, no multiple of {kind.name}'s {block}")
        tensor = GgufTensor(kind, shape, start, shape[-1] // block * block_bytes)
        if start + tensor.size > len(self._data):
            raise self._error(
                f"is cut short: the tensor {name} ends at byte {start + tensor.size} of {len(self._data)}"
            )
        return tensor

    def _value(self, kind: int, name: str) -> Any:
        if kind == STRING:
            return self._string()
        if kind in SCALARS:
            return self._number(SCALARS[kind])
        if kind != ARRAY:
            raise self._error(f"gives {name} the unknown type {kind}")
        inner = self._number("I")
        if inner == STRING:
            return [self._string() for _ in range(self._count(8))]
        if inner not in SCALARS:
            raise self._error(f"gives {name} an array of type {inner}, which is not read")
        count = self._count(struct.calcsize(SCALARS[inner]))
        return list(struct.unpack(f"<{count}{SCALARS[inner]}", self._bytes(count * struct.calcsize(SCALARS[inner]))))

    def _count(self, least: int) -> int:
        """A count of things that take at least so many bytes each: never more than the rest of the file can hold."""
        count: int = self._number("Q")
        if count * least > len(self._data) - self._at:
            raise self._error(f"is cut short or broken: at byte {self._at} it promises {count} more entries")
        return count

    def _string(self) -> str:
        try:
            return self._bytes(self._count(1)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._error(f"has text before byte {self._at} that is no UTF-8") from error

    def _number(self, code: str) -> Any:
        number = struct.unpack(f"<{code}", self._bytes(struct.calcsize(f"<{code}")))[0]
        return float(str(np.float32(number))) if code == "f" else number  # 1e-05 and not 9.999999747378752e-06

    def _bytes(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise self._error(f"is cut short at byte {len(self._data)}")
        self._at += count
        return self._data[self._at - count : self._at]

    def _error(self, problem: str) -> PretrainedError:
        return PretrainedError(f"{self._path} {problem}")
