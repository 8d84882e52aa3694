"""A run in stages: each is told of in one line, and kept, so that the next run passes over it."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from experiments.training_flags import RunError

NAME_COLUMNS = 26
TICK_S = 0.5  # between two looks at the clock, on a terminal
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # that moves the cursor, as progress lines do


class Stages:
    """The stages of a run, in the order in which they are asked for.

    Args:
      folder: where stages.json keeps what each came to, and demo.log what was said meanwhile on a terminal.
      settings: what the results depend on, as JSON has it.
      stream: where the lines go; by default standard output.

    Raises:
      RunError: what is kept was made with other settings.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], stream: TextIO | None = None) -> None:
        self._path, self._log = folder / "stages.json", folder / "demo.log"
        self._settings, self._stream = dict(settings), sys.stdout if stream is None else stream
        kept: dict[str, Any] = json.loads(self._path.read_text("utf-8")) if self._path.exists() else {}
        before = kept.get("settings", self._settings)
        if before != self._settings:
            raise RunError(f"{folder} was made with {before}, not {self._settings}: give another --workdir")
        self._kept: dict[str, str] = kept.get("results", {})

    def run(self, name: str, work: Callable[[], str], output: Path) -> None:
        """Does a stage and keeps its result; where it was done before, only says what it came to.

        Args:
          name: of the stage.
          work: does it, and says in words what it came to. What is said on standard error meanwhile is its progress.
          output: what it leaves: without it, it is done again.
        """
        if name in self._kept and output.exists():
            self._say(name, "kept", self._kept[name])
            return
        begin = time.monotonic()
        with Live(name, self._log) if sys.stderr.isatty() else contextlib.nullcontext():
            result = work()
        self._kept[name] = result
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps({"settings": self._settings, "results": self._kept}, indent=2) + "\n", "utf-8")
        partial.replace(self._path)
        self._say(name, f"{time.monotonic() - begin:.0f} s", result)

    def result(self, name: str) -> str:
        """What a stage that was done came to."""
        return self._kept[name]

    def _say(self, name: str, seconds: str, result: str) -> None:
        print(f"{name:<{NAME_COLUMNS}}{seconds:>6}  {result}", file=self._stream, flush=True)


class Live(io.TextIOBase):
    """Standard error, a terminal, during a stage: one line with the stage, its seconds and the last that was said,
    which is written over and at last taken away. Whole lines that were said go to a file."""

    def __init__(self, name: str, log: Path) -> None:
        self._name, self._path = name, log
        self._line = self._said = ""  # what is being said, and the last that was
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._terminal = sys.stderr
        self._log = self._path.open("a", encoding="utf-8")
        self._log.write(f"---- {self._name}\n")
        self._begin = time.monotonic()
        self._clock = threading.Thread(target=self._tick, name="seconds", daemon=True)
        self._clock.start()
        sys.stderr = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stderr = self._terminal
        self._ended.set()
        self._clock.join()
        self._terminal.write("\r\x1b[K")
        self._terminal.flush()
        self._log.close()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            for piece in re.split(r"(?<=[\r\n])", text):
                self._line += _ESCAPE.sub("", piece)
                self._said = self._line.strip() or self._said
                if piece.endswith("\n") and self._line.strip():
                    self._log.write(f"{self._line.strip()}\n")
                    self._log.flush()
                if piece.endswith(("\r", "\n")):
                    self._line = ""
        return len(text)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_S):
            with self._lock:
                columns = shutil.get_terminal_size((80, 0)).columns - 1
                line = f"{self._name:<{NAME_COLUMNS}}{time.monotonic() - self._begin:4.0f} s  {self._said}"
                self._terminal.write(f"\r\x1b[K{line[:columns]}")
                self._terminal.flush()
