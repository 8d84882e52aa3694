"""Conversion of pages in worker processes: `Converter` for many at a time, `to_page` for one.

The conversion itself is `webgpt_jax.web.convert`; `webgpt_jax.web.worker` is the child it runs in. A page that takes
too long or too much memory, or that brings its parser down, costs its worker, which is replaced, and becomes an error;
the program and the other pages go on.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from webgpt_jax.env.filters import BLOCKED_DOMAINS, without_blocked_links
from webgpt_jax.env.page import Page, error_page
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.worker_process import ConverterConfig, WorkerProcess, WorkerStartError

__all__ = ["Converter", "ConverterConfig", "WorkerStartError", "to_page"]

_CONVERT = "webgpt_jax.web.convert:convert"


class _Job:
    """One conversion, which another thread may give up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._given_up = False

    def hold(self, worker: WorkerProcess) -> None:
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
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
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

    def _take(self) -> WorkerProcess:
        with self._lock:
            if self.closed:
                raise RuntimeError("this Converter is closed")
            while self._idle:
                worker = self._idle.pop()
                if worker.usable:
                    break
                worker.close()
            else:
                worker = WorkerProcess(self._config, self._function)
            self._busy.add(worker)
            return worker

    def _give_back(self, worker: WorkerProcess) -> None:
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
