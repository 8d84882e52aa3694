"""The HTTP half of every search back end: one polite, bounded request after another until there is an answer.

What is sent holds a key, so nothing of a request ever stands in an error: errors are made here from the kind of
failure alone, and the library's own exceptions, whose texts hold URLs, are not chained to them. Redirects are not
followed, since they would carry the key to another host. Proxy variables and netrc files are not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from webgpt_jax import __version__
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.limits import backoff

_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class HttpLimits:
    """How long, how often and how much. The defaults suit a person waiting as well as a training run."""

    request_seconds: float = 10.0  # for one request, from connecting to the last byte
    deadline_seconds: float = 30.0  # for a search in all: waiting for its turn, every attempt and every pause
    attempts: int = 4  # requests for one search, the first included; at most 100
    first_pause_seconds: float = 0.5  # before the second attempt, about; doubled before each further one
    max_bytes: int = 4 << 20  # of an answer, decompressed
    per_second: float | None = None  # requests a second over all searches at once; None for no cap

    def __post_init__(self) -> None:
        per_second = 1.0 if self.per_second is None else self.per_second
        if min(self.request_seconds, self.deadline_seconds, self.attempts, self.max_bytes, per_second) <= 0:
            raise ValueError(f"every limit must be above zero: {self}")
        if self.first_pause_seconds < 0:
            raise ValueError(f"a pause cannot be negative: {self}")
        if self.attempts > 100:
            raise ValueError(f"no service wants to be asked so often: {self}")


@dataclass(frozen=True)
class Request:
    """What is sent. Nothing of it shows in its repr: any part may hold the key."""

    method: str
    url: str = field(repr=False)
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    json: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Reply:
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Failure:
    """Why there is no answer, whether another attempt may help, and how many seconds to leave at least before it."""

    error: WebError
    retry: bool = False
    pause_seconds: float = 0.0


class HttpClient:
    """Sends requests to one service. Any number may be under way at once, in one event loop.

    Args:
      label: the service's name, for errors.
      limits: see `HttpLimits`.
    """

    def __init__(self, label: str, limits: HttpLimits) -> None:
        self._label = label
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._next_turn = 0.0  # the loop's time from which the next request may start

    async def send(self, request: Request, judge: Callable[[Reply], Failure | None]) -> Reply:
        """The first reply in which `judge` finds no failure; attempts and pauses stay within the deadline.

        Raises:
          WebError: of the last attempt, when no other is left, would help or would come in time; of the one before it
            where the deadline cut the last one short.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.deadline_seconds
        earlier: Failure | None = None
        attempt = 1
        while True:
            outcome = await self._attempt(request, deadline)
            if isinstance(outcome, Failure):
                failure = outcome
            elif (found := judge(outcome)) is None:
                return outcome
            else:
                failure = found
            if earlier is not None and loop.time() >= deadline:
                raise earlier.error
            wait = max(failure.pause_seconds, backoff(attempt - 1, self._limits.first_pause_seconds))
            if not failure.retry or attempt == self._limits.attempts or loop.time() + wait >= deadline:
                raise failure.error
            await asyncio.sleep(wait)
            earlier = failure
            attempt += 1

    async def _attempt(self, request: Request, deadline: float) -> Reply | Failure:
        # The outcome is returned and not raised, so that no exception of the library becomes an error's context.
        if self._closed:
            raise RuntimeError(f"the {self._label} client has been closed")
        loop = asyncio.get_running_loop()
        turn = self._take_turn(loop.time(), deadline)
        if turn is None:
            return Failure(
                WebError(
                    "rate_limit",
                    f"Too many searches are waiting for {self._label}, which is asked at most "
                    f"{self._limits.per_second:g} times a second. Play fewer episodes at once, or raise that number.",
                )
            )
        await asyncio.sleep(turn - loop.time())
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + self._limits.request_seconds)):
                return await self._exchange(request)
        except TimeoutError:
            return Failure(WebError("timeout", f"{self._label} did not answer in time. Try again later."), retry=True)
        except aiohttp.ClientSSLError:
            return Failure(
                WebError(
                    "connection",
                    f"The connection to {self._label} is not secure: its certificate does not hold. "
                    "Check the clock, the base URL and what stands between.",
                )
            )
        except (aiohttp.ClientError, OSError):
            error = WebError("connection", f"{self._label} cannot be reached. Check the network and the base URL.")
            return Failure(error, retry=True)

    def _take_turn(self, now: float, deadline: float) -> float | None:
        """When the next request may start; None, and no turn taken, if that is past the deadline."""
        turn = max(now, self._next_turn)
        if turn >= deadline:
            return None
        if self._limits.per_second is not None:
            self._next_turn = turn + 1 / self._limits.per_second
        return turn

    async def _exchange(self, request: Request) -> Reply | Failure:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"webgpt-jax/{__version__}", "Accept": "application/json"},
                timeout=aiohttp.ClientTimeout(total=None),  # `_attempt` keeps the time
            )
        async with self._session.request(
            request.method,
            request.url,
            params=request.params,
            headers=request.headers,
            json=request.json,
            allow_redirects=False,
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(_READ_BYTES):
                body += chunk
                if len(body) > self._limits.max_bytes:
                    return Failure(
                        WebError(
                            "too_large",
                            f"{self._label} answered with more than {self._limits.max_bytes:,} bytes, which is no list "
                            "of search results. Check the base URL.",
                        )
                    )
            return Reply(response.status, response.headers, bytes(body))

    async def aclose(self) -> None:
        """Closes the connections. No request can be sent afterwards."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None
