"""A worker process as its parent sees it: start it, give it a page, find out what it died of.

The child's side is `webgpt_jax.web.worker`.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import EpisodeError, WebError
from webgpt_jax.web.worker import OUT_OF_MEMORY, Settings, page_from_json, receive, send

_log = logging.getLogger(__name__)

_TAIL_BYTES = 4000  # how much of a dead worker's standard error is reported
_ORPHAN_SECONDS = 1.0  # how much longer than we let it a worker lets itself run, for when we are stopped or dead
# All of the environment that a worker gets to see: what an interpreter may need to start. No keys, no proxies.
_ENVIRONMENT = ("PATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@dataclass(frozen=True)
class ConverterConfig:
    """How pages are converted.

    Args:
      workers: how many processes convert at a time; by default one a core that this process may use.
      wall_seconds: how long a page may take, whatever its type, once a worker has it; then the worker is killed.
      cpu_seconds: processor time that all threads of a worker together may spend on a page.
      memory_bytes: what a worker may allocate. Some 50 MB of program text come on top, so that the default keeps the
        whole of it below 512 MB.
      pages_per_worker: after so many pages a worker is replaced, for the sake of what its libraries leak.
      start_seconds: how long a worker may take to start.
    """

    workers: int = field(default_factory=_cores)
    wall_seconds: float = 4.0
    cpu_seconds: int = 6
    memory_bytes: int = 448 << 20
    pages_per_worker: int = 500
    start_seconds: float = 60.0

    def validate(self) -> None:
        """Raises `ValueError` where a setting makes no sense."""
        for name in ("workers", "wall_seconds", "cpu_seconds", "memory_bytes", "pages_per_worker", "start_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"ConverterConfig.{name} must be a positive number, not {getattr(self, name)!r}")


class WorkerStartError(EpisodeError):
    """No worker process can be started: the installation or the machine is at fault, not a page."""


class WorkerProcess:
    """One child process. One thread at a time converts; any may `interrupt`."""

    def __init__(self, config: ConverterConfig, function: str) -> None:
        self._config = config
        self._function = function
        self._process: subprocess.Popen[bytes] | None = None
        self._connection, self._childs_end = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._usable = True
        self._pages = 0

    @property
    def usable(self) -> bool:
        """Whether another page may be given to it."""
        return (
            self._usable
            and self._pages < self._config.pages_per_worker
            and (self._process is None or self._process.poll() is None)
        )

    def interrupt(self) -> None:
        """Makes the conversion under way fail soon, from another thread."""
        self._usable = False
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:  # closed already
            return

    def close(self) -> None:
        """Ends the process and leaves nothing of it behind. May be called again."""
        self._usable = False
        self._connection.close()
        self._childs_end.close()
        self._errors.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
        """The page; raises `WebError`, or `WorkerStartError`. After an error of its own, the worker is closed."""
        if len(body) > self._config.memory_bytes:
            raise self._too_large()
        in_step = False
        try:
            if self._process is None:
                self._start()
            self._pages += 1
            outcome = self._ask(body, {"url": url, "content_type": content_type})
            self._errors.seek(0)  # the child's offset too: libraries that warn about every page must not fill the disk
            self._errors.truncate()
            in_step = True
        finally:
            if not in_step:  # whatever it was, KeyboardInterrupt too: an answer may still be under way
                self.close()
        if isinstance(outcome, WebError):
            raise outcome
        return outcome

    def _ask(self, body: bytes, request: dict[str, Any]) -> Page | WebError:
        deadline = time.monotonic() + self._config.wall_seconds
        try:
            self._connection.settimeout(self._config.wall_seconds)
            send(self._connection, request, body)
            answer, _ = receive(self._connection, deadline)
            return WebError(**answer["error"]) if "error" in answer else page_from_json(answer["page"])
        except TimeoutError:
            raise self._too_slow() from None
        except (EOFError, OSError):  # OSError: it died before it had read everything
            raise self._why_dead() from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # A page has taken its parser over, or we have a bug: in either case this is no answer.
            _log.warning("a conversion worker gave no valid answer: %r", error)
            raise self._broken_down() from error

    def _start(self) -> None:
        config = self._config
        settings = Settings(
            function=self._function,
            memory_bytes=config.memory_bytes,
            cpu_seconds=config.cpu_seconds,
            wall_seconds=config.wall_seconds + _ORPHAN_SECONDS,
            parent=os.getpid(),
        )
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # noqa: PTH100
        environment["PYTHONUTF8"] = "1"
        environment["GOMAXPROCS"] = "1"  # one worker, one core: Go's collector would take them all
        environment["GOGC"] = "200"  # let it collect half as often: 4 MB more, 4 % less time
        try:
            self._process = subprocess.Popen(
                # -P: not from the folder that we happen to be in, unless it is on our own path
                [sys.executable, "-P", "-m", "webgpt_jax.web.worker", str(settings)],
                stdin=self._childs_end.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=environment,
                process_group=0,  # Ctrl-C in the terminal is for us alone
            )
            self._childs_end.close()
            receive(self._connection, time.monotonic() + config.start_seconds)
        except (OSError, EOFError) as error:
            if not self._usable or self._status() in (-signal.SIGKILL, -signal.SIGTERM):  # somebody wanted it so
                raise self._why_dead() from None
            reason = self._last_words().strip().rpartition("\n")[2] or f"{type(error).__name__}: {error}"
            raise WorkerStartError(
                f"A process that converts pages could not be started ({sys.executable} -m webgpt_jax.web.worker): "
                f"{reason}. Check that the package and what it depends on are installed for this Python."
            ) from error

    def _status(self) -> int | None:
        """The exit status of a process whose connection has ended; None where it lives on, or never lived."""
        try:
            return self._process.wait(timeout=1) if self._process else None
        except subprocess.TimeoutExpired:
            return None

    def _why_dead(self) -> WebError:
        if not self._usable:
            return WebError("closed", "This page was not read because reading was given up.")
        status = self._status()
        words = self._last_words()
        if status == OUT_OF_MEMORY or "out of memory" in words:  # Go's own words before it aborts
            return self._too_large()
        if status in (-signal.SIGXCPU, -signal.SIGALRM):
            return self._too_slow()
        _log.warning("a conversion worker died (status %s): %s", status, words or "it left no message")
        return self._broken_down()

    def _too_slow(self) -> WebError:
        seconds = self._config.wall_seconds
        return WebError(
            "timeout", f"This page was not read because that took longer than {seconds:g} seconds; try another page."
        )

    def _too_large(self) -> WebError:
        megabytes = self._config.memory_bytes >> 20
        return WebError(
            "memory", f"This page was not read because that took more than {megabytes} MB of memory; try another page."
        )

    def _broken_down(self) -> WebError:
        return WebError("crashed", "This page was not read because it broke its reader; try another page.")

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL_BYTES))
        return self._errors.read().decode("utf-8", "replace")
