"""Files of JSON lines: read line by line, every fault named by file, line and field, or counted and passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

FAULTS_SHOWN = 5


class DataError(ValueError):
    """Data that cannot be used. The message names file, line and field where there are such."""


@dataclass
class Report:
    """What was read and what was left out, for a trainer to print. Counts of one split alone, `records` apart."""

    records: int = 0  # lines read well, of all splits
    bad_records: int = 0  # lines passed over, under `skip_bad_records`
    questions: int = 0  # different ones
    examples: int = 0  # what is trained on in an epoch
    failed_episodes: int = 0  # ended by FAILURE or DEADLINE: not taught
    invalid_actions: int = 0  # not taught: no command of Table 1, or an answer without text
    merged_scrolls: int = 0  # actions that went into the one before them
    too_long: int = 0  # examples left out: the prompt of a demonstration or the answer of a comparison does not fit
    truncated: int = 0  # sides of comparisons whose prompt lost its front
    faults: list[str] = field(default_factory=list)  # the first few of the bad records

    def __str__(self) -> str:
        """One line with the counts that are not 0, and one a fault."""
        counts = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "faults"}
        shown = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
        return "\n".join([shown or "nothing was read", *self.faults])


def read_records(
    path: Path, decode: Callable[[str], T], *, report: Report | None = None, skip_bad_records: bool = False
) -> Iterator[T]:
    """The records of a file, one a line; blank lines are passed over.

    Args:
      path: the file, in UTF-8.
      decode: makes a record of a line; raises ValueError, naming the field, where it cannot.
      report: where records are counted.
      skip_bad_records: whether lines that are no record are counted and passed over.

    Raises:
      DataError: the file cannot be read, or a line is no record; the message names file, line and field.
    """
    report = Report() if report is None else report
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    record = decode(line.decode("utf-8"))
                except ValueError as error:
                    fault = f"{path}, line {number}: {error}"
                    if not skip_bad_records:
                        raise DataError(f"{fault} (skip_bad_records passes over such lines)") from None
                    report.bad_records += 1
                    if len(report.faults) < FAULTS_SHOWN:
                        report.faults.append(fault)
                    continue
                report.records += 1
                yield record
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def check_text(text: str, name: str) -> None:
    """Raises ValueError, naming the field, for a text that no tokenizer takes: one with half a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f'field "{name}": half a surrogate pair is no text') from None
