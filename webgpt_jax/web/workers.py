"""Conversion of pages in worker processes: `Converter` for many at a time, `to_page` for one.

The conversion itself is `webgpt_jax.web.convert`; `webgpt_jax.web.worker` is the child it runs in. A page that takes
too long or too much memory, or that brings its parser down, costs its worker, which is replaced, and becomes an error;
the program and the other pages go on.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from webgpt_jax.env.filters import BLOCKED_DOMAINS, without_blocked_links
from webgpt_jax.env.page import Page, error_page
from webgpt_jax.env.protocol import EpisodeError, WebError
from webgpt_jax.web.worker import OUT_OF_MEMORY, Settings, page_from_json, receive, send

_log = logging.getLogger(__name__)

_CONVERT = "webgpt_jax.web.convert:convert"
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


class _Worker:
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
            reason = self._last_words().strip().rpartition("\n")[2] or f"{type(error).__name__}: {error}"
            raise WorkerStartError(
                f"A process that converts pages could not be started ({sys.executable} -m webgpt_jax.web.worker): "
                f"{reason}. Check that the package and what it depends on are installed for this Python."
            ) from error

    def _why_dead(self) -> WebError:
        if not self._usable:
            return WebError("closed", "The reading of this page was given up.")
        assert self._process is not None
        try:
            status: int | None = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            status = None
        words = self._last_words()
        if status == OUT_OF_MEMORY or "out of memory" in words:  # Go's own words before it aborts
            return self._too_large()
        if status in (-signal.SIGXCPU, -signal.SIGALRM):
            return self._too_slow()
        _log.warning("a conversion worker died (status %s): %s", status, words or "it left no message")
        return self._broken_down()

    def _too_slow(self) -> WebError:
        seconds = self._config.wall_seconds
        return WebError("timeout", f"Reading this page took longer than the {seconds:g} seconds a page may take.")

    def _too_large(self) -> WebError:
        megabytes = self._config.memory_bytes >> 20
        return WebError("memory", f"Reading this page took more than the {megabytes} MB of memory a page may take.")

    def _broken_down(self) -> WebError:
        return WebError("crashed", "The program that reads pages broke down on this page.")

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL_BYTES))
        return self._errors.read().decode("utf-8", "replace")


class _Job:
    """One conversion, which another thread may give up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._given_up = False

    def hold(self, worker: _Worker) -> None:
        with self._lock:
            self._worker = worker
            if self._given_up:
                worker.interrupt()

    def release(self) -> None:
        with self._lock:
            self._worker = None

    def give_up(self) -> None:
        with self._lock:
            self._given_up = True
            if self._worker is not None:
                self._worker.interrupt()


class _Workers:
    """The processes of one converter: those at work and the idle ones. Safe to use from any thread."""

    def __init__(self, config: ConverterConfig, function: str) -> None:
        self._config = config
        self._function = function
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self.closed = False
        self._owner = os.getpid()

    def convert(self, job: _Job, body: bytes, url: str, content_type: str | None) -> Page:
        worker = self._take()
        job.hold(worker)
        try:
            return worker.convert(body, url, content_type)
        finally:
            job.release()
            self._give_back(worker)

    def _take(self) -> _Worker:
        with self._lock:
            if self.closed:
                raise RuntimeError("this Converter is closed")
            while self._idle:
                worker = self._idle.pop()
                if worker.usable:
                    break
                worker.close()
            else:
                worker = _Worker(self._config, self._function)
            self._busy.add(worker)
            return worker

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            self._busy.remove(worker)
            if worker.usable and not self.closed:
                self._idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """Ends the idle workers and interrupts the others, which their threads then end."""
        if os.getpid() != self._owner:  # a fork's exit must not end its parent's workers
            return
        with self._lock:
            self.closed = True
            for worker in self._busy:
                worker.interrupt()
            while self._idle:
                self._idle.pop().close()


class Converter:
    """Converts pages in parallel worker processes, which are started when they are first needed.

    For use from one event loop. Conversions beyond the number of workers wait their turn, first come, first served;
    whoever awaits them is thereby held back.
    """

    def __init__(self, config: ConverterConfig | None = None, *, function: str = _CONVERT) -> None:
        config = config or ConverterConfig()
        config.validate()
        self._workers = _Workers(config, function)
        # A thread a worker waits for its answers; what it does besides (JSON, cleaning) stays off the event loop.
        self._threads = ThreadPoolExecutor(config.workers, thread_name_prefix="convert")
        self._turn = asyncio.Semaphore(config.workers)
        # For a loop that is closed, or a program that ends, without aclose().
        self._finalizer = weakref.finalize(self, self._workers.close)

    async def __aenter__(self) -> Converter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def convert(self, body: bytes, url: str, content_type: str | None = None) -> Page:
        """The page that the bytes at a URL mean.

        Args:
          body: the bytes.
          url: where they are from; links are resolved against it.
          content_type: the Content-Type header, if there was one.

        Raises:
          WebError: "timeout", "memory" or "crashed" for what happened to the worker, or what the conversion raised.
          WorkerStartError: no worker can be started.
          RuntimeError: the converter is closed.
        """
        async with self._turn:
            if self._workers.closed:
                raise RuntimeError("this Converter is closed")
            job = _Job()
            answer = self._threads.submit(self._workers.convert, job, body, url, content_type)
            try:
                return await asyncio.wrap_future(answer)
            except asyncio.CancelledError:
                job.give_up()
                raise

    async def aclose(self) -> None:
        """Ends the workers. Conversions under way fail."""
        self._finalizer()
        await asyncio.to_thread(self._threads.shutdown)


# ---- one page at a time


class _Shared:
    """The one worker behind `to_page`."""

    def __init__(self) -> None:
        self.renew()
        atexit.register(lambda: self.workers.close())

    def renew(self) -> None:
        self.turn = threading.Lock()
        self.workers = _Workers(ConverterConfig(workers=1), _CONVERT)


_shared = _Shared()
os.register_at_fork(after_in_child=_shared.renew)  # two programs on one connection would mix up their pages


def to_page(
    body: bytes, url: str, content_type: str | None, *, blocked_domains: Collection[str] = BLOCKED_DOMAINS
) -> Page:
    """The page that the bytes at a URL mean, as the browser shows it (paper, Appendix A).

    One worker process serves the whole program, one page at a time, under the limits of `ConverterConfig`'s defaults;
    it starts with the first page (some tenths of a second) and ends with the program. Safe to call from any thread;
    inside an event loop it blocks the loop, where `Converter` does not.

    Args:
      body: the bytes.
      url: where they are from; links are resolved against it.
      content_type: the Content-Type header, if there was one.
      blocked_domains: links to these domains and their subdomains are dropped.

    Returns the page, or an error page (`page.error` is its kind) where the bytes cannot be shown. Raises
    `WorkerStartError` where no worker process can be started.
    """
    try:
        with _shared.turn:
            page = _shared.workers.convert(_Job(), body, url, content_type)
    except WebError as error:
        return error_page(url, error.kind, error.message)
    return without_blocked_links(page, blocked_domains)
