"""Where finished episodes are kept: JSON lines, one episode a line, written as soon as it ends."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TextIO

from webgpt_jax.cli import CommandError
from webgpt_jax.env import Episode, EpisodeEnd, episode_to_json
from webgpt_jax.env.episode import FORMAT, parse_episodes

TO_ASK_AGAIN = frozenset({EpisodeEnd.FAILURE, EpisodeEnd.DEADLINE})

_START = f'{{"format":"{FORMAT}"'.encode()  # of every episode's line


def data_folder() -> Path:
    """The user's data folder for this program (XDG base directories)."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "webgpt_jax"


class EpisodeFile:
    """An open file of episodes, ours alone while it is open.

    `answered` holds the questions that were in it when it was opened; those whose episode failed or ran out of time are
    not among them, so that they are asked again.
    """

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
          CommandError: the file cannot be written, is another run's just now, or holds something else than episodes.
        """
        path = _new_path() if output is None else Path(output)
        try:
            if output is None:
                path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():
                raise CommandError(f"{path} is no ordinary file; give another --output, or --json to print episodes")
            lines = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror}; give another --output") from None
        with lines:
            try:
                fcntl.flock(lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CommandError(f"another run is writing to {path}; wait for it or give another --output") from None
            try:
                yield cls(path, lines, _answered(path))
            finally:
                if not path.stat().st_size:
                    path.unlink()

    def write(self, episode: Episode) -> None:
        """Appends an episode; it is on the disk when this returns."""
        try:
            self._lines.write(episode_to_json(episode) + "\n")
            self._lines.flush()
            os.fsync(self._lines.fileno())
        except OSError as error:
            raise CommandError(f"cannot write {self.path}: {error.strerror}; free space, then run it again") from None
        self.written += 1


def _new_path() -> Path:
    """A file that is not there yet, named by the time."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    names = (f"{stamp}-{os.getpid()}-{number}.jsonl" for number in count(1))
    return next(path for path in (data_folder() / "episodes" / name for name in names) if not path.exists())


def _answered(path: Path) -> frozenset[str]:
    """The questions that need not be asked again. A last episode cut short by a crash is taken off the file."""
    body = path.read_bytes()
    whole = body.rfind(b"\n") + 1
    cut_short = body[whole:]
    if cut_short and not (cut_short.startswith(_START) or _START.startswith(cut_short)):
        raise CommandError(f"the last line of {path} is no episode; move the file, or give another --output")
    answered = set()
    try:
        for episode in parse_episodes(body[:whole].split(b"\n"), str(path)):
            if episode.end not in TO_ASK_AGAIN:
                answered.add(episode.question)
    except ValueError as error:
        raise CommandError(f"{error}; mend or move the file, or give another --output") from None
    if cut_short:
        print(f"the last episode in {path} was cut short: it is dropped and asked again", file=sys.stderr)
        os.truncate(path, whole)
    return frozenset(answered)
