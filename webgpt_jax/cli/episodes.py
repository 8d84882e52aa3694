"""Where finished episodes are kept: JSON lines, one episode a line, written as soon as it ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TextIO

from webgpt_jax.cli import CommandError
from webgpt_jax.env import Episode, episode_to_json, read_episodes


def data_folder() -> Path:
    """The user's data folder for this program (XDG base directories)."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "webgpt_jax"


class EpisodeFile:
    """An open file of episodes. `answered` holds the questions that were in it when it was opened."""

    def __init__(self, path: Path, lines: TextIO, answered: frozenset[str]) -> None:
        self.path = path
        self.answered = answered
        self.written = 0
        self._lines = lines

    @classmethod
    @contextmanager
    def open(cls, output: str | None) -> Iterator[EpisodeFile]:
        """Opens the named file for appending, or a new one in the user's data folder.

        Raises:
          CommandError: the file cannot be written, or holds something else than episodes.
        """
        path = _new_path() if output is None else Path(output)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            answered = _answered(path) if path.exists() else frozenset()
            lines = path.open("a", encoding="utf-8")
        except ValueError as error:
            raise CommandError(f"{error}; mend or move the file, or give another --output") from None
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror}; give another --output") from None
        with lines:
            yield cls(path, lines, answered)
        if not path.stat().st_size:
            path.unlink()

    def write(self, episode: Episode) -> None:
        """Appends an episode; it is on the disk when this returns."""
        self._lines.write(episode_to_json(episode) + "\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())
        self.written += 1


def _new_path() -> Path:
    """A file that is not there yet, named by the time."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    names = (f"{stamp}-{os.getpid()}-{number}.jsonl" for number in count(1))
    return next(path for path in (data_folder() / "episodes" / name for name in names) if not path.exists())


def _answered(path: Path) -> frozenset[str]:
    """The questions of the finished episodes. A last line cut short by a crash is taken off."""
    body = path.read_bytes()
    whole = body.rfind(b"\n") + 1
    if whole < len(body):
        print(f"the last line of {path} is cut short: dropped", file=sys.stderr)
        os.truncate(path, whole)
    return frozenset(episode.question for episode in read_episodes(path))
