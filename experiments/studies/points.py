"""The finished points of a study: a CSV file, a row a point, that a run adds to and the next one reads."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, get_type_hints

from experiments.training_flags import RunError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = TypeVar("P", bound="DataclassInstance")


class Points(Generic[P]):
    """The points of one file, which is written anew, whole, whenever some are added.

    Args:
      path: the file, where there may be none yet.
      kind: what a row is: a dataclass of texts, whole numbers and floats, whose fields are the columns.

    Raises:
      RunError: the file is none of such points.
    """

    def __init__(self, path: Path, kind: type[P]) -> None:
        self.path, self._kind = path, kind
        self._columns = [field.name for field in dataclasses.fields(kind)]
        self._rows = self._read() if path.exists() else []

    @property
    def rows(self) -> list[P]:
        """All of them, in the order in which they were finished."""
        return list(self._rows)

    def find(self, **columns: str | int | float) -> list[P]:
        """The points that have these values."""
        return [row for row in self._rows if all(getattr(row, name) == value for name, value in columns.items())]

    def add(self, rows: Sequence[P]) -> None:
        """Keeps finished points: all of them or, where the run is ended meanwhile, none."""
        self._rows = [*self._rows, *rows]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self._columns)
            writer.writerows([getattr(row, name) for name in self._columns] for row in self._rows)
        partial.replace(self.path)

    def _read(self) -> list[P]:
        types = get_type_hints(self._kind)
        with self.path.open(encoding="utf-8", newline="") as file:
            header, *lines = list(csv.reader(file)) or [[]]
        try:
            if header != self._columns:
                raise ValueError(f"its columns are {', '.join(header)}")
            return [
                self._kind(**{name: types[name](text) for name, text in zip(header, line, strict=True)})
                for line in lines
            ]
        except ValueError as error:
            raise RunError(f"{self.path} holds no points of this study ({error}): move it away") from None
