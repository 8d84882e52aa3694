"""Where requests wait for the engine: a bounded queue between any number of event loops and one thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from webgpt_jax.sampling.requests import EngineError, Request


class Inbox:
    """Requests in order of arrival, at most `limit` of them; the coroutines that bring more wait, in order too.

    Those whose slot is held for them come first and need no room: there are no more of them than such slots.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        # Dictionaries for their order and their quick removal.
        self._resumed: dict[Request, None] = {}
        self._queue: dict[Request, None] = {}
        self._promised = 0  # places given to coroutines that have not yet come back for them
        self._waiters: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()
        self._closed = False
        self._error: EngineError | None = None
        self._urgent = False

    # For callers, in any thread

    async def put(self, request: Request) -> None:
        """Hands over a request, when there is room. `EngineError` once the inbox is shut."""
        if request.claim is not None and not request.claim.released:
            with self._changed:
                if self._error is not None:
                    raise self._fresh_error()
                self._resumed[request] = None
                self._changed.notify()
            return
        await self._room()
        with self._changed:
            self._promised -= 1
            if self._error is not None:
                raise self._fresh_error()
            self._queue[request] = None
            self._changed.notify()

    async def _room(self) -> None:
        """Returns with a place promised."""
        with self._changed:
            if self._error is not None:
                raise self._fresh_error()
            if not self._waiters and len(self._queue) + self._promised < self._limit:
                self._promised += 1
                return
            loop = asyncio.get_running_loop()
            waiter = (loop, loop.create_future())
            self._waiters.append(waiter)
        try:
            await waiter[1]
        except asyncio.CancelledError:
            with self._changed:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                else:  # a place was promised in the same moment
                    self._promised -= 1
                    self._let_in()
            raise

    def withdraw(self, request: Request) -> None:
        """The caller of a request has gone: it leaves the queue, or the engine drops it at its next step."""
        with self._changed:
            request.cancelled = True
            self._remove(request)
            self._urgent = True
            self._changed.notify()

    def close(self) -> None:
        """Asks the engine's thread to end."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    @property
    def queued(self) -> int:
        """Requests to be taken."""
        return len(self._resumed) + len(self._queue)

    @property
    def waiting(self) -> int:
        """Callers that wait for room in the queue."""
        return len(self._waiters)

    # For the engine's thread

    def wait_until_any(self) -> None:
        """Returns when there is a request to take, one was withdrawn, or the engine is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._resumed or self._queue or self._closed or self._urgent)
            self._urgent = False

    @property
    def closed(self) -> bool:
        """The engine is to end."""
        return self._closed

    def first(self) -> Request | None:
        """The request that is next, if any; it stays in the queue."""
        with self._changed:
            return next(iter(self._resumed or self._queue), None)

    def take(self, request: Request) -> bool:
        """Takes a request out of the queue and lets the next caller in. False if it has just been withdrawn."""
        with self._changed:
            return self._remove(request)

    def shut(self, error: EngineError) -> list[Request]:
        """Refuses all requests from now on, those that wait for room too, and returns those that were not taken."""
        with self._changed:
            self._closed = True
            self._error = error
            left = [*self._resumed, *self._queue]
            self._resumed.clear()
            self._queue.clear()
            while self._waiters:
                self._let_in_first()
        return left

    def _remove(self, request: Request) -> bool:
        if request in self._resumed:
            del self._resumed[request]
            return True
        if request not in self._queue:
            return False
        del self._queue[request]
        self._let_in()
        return True

    def _let_in(self) -> None:
        while self._waiters and len(self._queue) + self._promised < self._limit:
            self._let_in_first()

    def _let_in_first(self) -> None:
        loop, future = self._waiters.popleft()
        try:
            loop.call_soon_threadsafe(_wake, future)
        except RuntimeError:  # its event loop is closed: nobody waits any more
            return
        self._promised += 1

    def _fresh_error(self) -> EngineError:
        """A new exception each time: one that many tasks raise would collect all their tracebacks."""
        error = EngineError(str(self._error))
        error.__cause__ = None if self._error is None else self._error.__cause__
        return error


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
