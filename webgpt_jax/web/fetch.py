"""Pages of the live web: `LiveFetcher.fetch(url)` gives a `Response` or raises a `WebError` that says why not.

Every server is taken for a hostile one. Where a request may go is the guard's to say (`guard.py`), on every redirect
anew; how much may come back, unpacked, and how long it may take are capped here; how often a host is asked is the
limiter's (`limits.py`); what a site asks programs not to read is left unread (`robots.py`). Only GET, no cookies, no
proxy, TLS verified.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from types import TracebackType
from typing import Any, Self

import aiohttp
from yarl import URL

from webgpt_jax import __version__
from webgpt_jax.env.protocol import WebError
from webgpt_jax.env.urls import resolve
from webgpt_jax.web.decoding import ACCEPT_ENCODING, DecodingError, decoder_for
from webgpt_jax.web.failures import explain, is_transient
from webgpt_jax.web.guard import Guard, GuardedResolver, Lookup
from webgpt_jax.web.limits import HostLimiter, backoff, parse_retry_after
from webgpt_jax.web.robots import MAX_ROBOTS_BYTES, RobotsRules
from webgpt_jax.web.target import Target, parse_target

AGENT = "webgpt-jax"  # the product token that robots.txt files can name

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRANSIENT = frozenset({429, 502, 503, 504})
_ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,*/*;q=0.5"
_CONTACT = re.compile(r"[!-'*-~]*")  # printable ASCII without blanks and brackets
_MAX_CONTENT_TYPE = 200  # characters
_MAX_ERROR_BYTES = 64 * 1024  # of the body of an error


@dataclass(frozen=True)
class FetchConfig:
    """Settings of the live fetcher. Raises `ValueError` for those that make no sense."""

    allow_private_hosts: bool = False  # lift the rules about addresses and ports; for tests
    blocked_networks: tuple[str, ...] = ()  # networks never reached, such as your own public ones ("198.51.100.0/24")
    max_bytes: int = 10 * 1024 * 1024  # of a body, unpacked
    total_seconds: float = 30.0  # of a fetch in all: waiting, redirects and retries too
    connect_seconds: float = 10.0  # of a connection, TLS too
    idle_seconds: float = 10.0  # without a byte from the server
    dns_seconds: float = 10.0  # of a look-up
    max_redirects: int = 5  # followed in a row
    max_retries: int = 2  # after a reset connection and 429, 502, 503 and 504
    backoff_seconds: float = 0.5  # before the first retry; doubles, with jitter
    max_retry_after_seconds: float = 10.0  # a server that asks for a longer wait is not asked again
    max_connections: int = 256  # open at a time, to all hosts
    host_concurrency: int = 8  # requests to one host under way at a time
    host_requests_per_second: float = 20.0  # requests to one host started in a second
    respect_robots: bool = True  # leave unread what a site's robots.txt asks programs to leave
    robots_seconds: float = 3600.0  # how long a robots.txt is remembered
    contact: str = ""  # a URL or an e-mail address in the User-Agent, by which a site's owner can reach you

    def __post_init__(self) -> None:
        for name in ("max_redirects", "max_retries", "backoff_seconds", "max_retry_after_seconds", "robots_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative")
        for name in (
            "max_bytes",
            "total_seconds",
            "connect_seconds",
            "idle_seconds",
            "dns_seconds",
            "max_connections",
            "host_concurrency",
            "host_requests_per_second",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0")
        if not _CONTACT.fullmatch(self.contact):
            raise ValueError("contact must be a URL or an e-mail address without blanks and brackets")
        Guard(blocked_networks=self.blocked_networks)

    @property
    def user_agent(self) -> str:
        """Who we say we are: the project, its version and, where it is set, a contact."""
        return f"{AGENT}/{__version__}" + (f" (+{self.contact})" if self.contact else "")


@dataclass(frozen=True)
class Response:
    """What a server answered in the end, whatever its status.

    `url` is the final one after redirects, without its fragment; `content_type` the header as it came, parameters
    and all, or None; `body` is unpacked. Its text form shows no query.
    """

    url: str
    status: int
    content_type: str | None
    body: bytes

    def __repr__(self) -> str:
        url = self.url.partition("?")[0]
        return (
            f"Response(url={url!r}, status={self.status}, content_type={self.content_type!r}, {len(self.body)} bytes)"
        )


@dataclass(frozen=True)
class _Answer:
    """One answer of a server, with the headers that matter. The body of a redirect is not read."""

    status: int
    content_type: str | None
    location: str | None
    retry_after: str
    body: bytes


@dataclass(frozen=True)
class _Limit:
    """How much of a body is read, in bytes unpacked, and whether a longer one is cut there or refused."""

    size: int
    cut: bool


@dataclass
class _Client:
    """What is bound to one event loop: connections, look-ups, turns at hosts."""

    session: aiohttp.ClientSession
    resolver: GuardedResolver
    limiter: HostLimiter
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def close(self) -> None:
        try:
            await self.session.close()
        finally:
            await self.resolver.close()


class LiveFetcher:
    """Fetches pages of the live web, hundreds at a time.

    Within `async with LiveFetcher() as fetcher` connections are kept between fetches. Without it they are kept while
    fetches are under way and closed with the last of them, so that nothing has to be closed by hand. One event loop at
    a time: using it in a second one while a first still fetches raises `RuntimeError`.

    Args:
      config: the settings; the default ones where it is None.
      lookup: what resolves host names, for tests; the system's resolver where it is None.
      changes: fields of the settings to replace, as in `LiveFetcher(max_bytes=1_000_000)`.
    """

    def __init__(self, config: FetchConfig | None = None, *, lookup: Lookup | None = None, **changes: Any) -> None:
        self.config = replace(config or FetchConfig(), **changes)
        self._guard = Guard(self.config.allow_private_hosts, self.config.blocked_networks)
        self._lookup = lookup
        self._robots = RobotsRules(AGENT, self.config.robots_seconds)
        self._client: _Client | None = None
        self._entered = False
        self._under_way = 0

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections; fetches under way fail. A later fetch opens new ones."""
        self._entered = False
        await self._close_client()

    async def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @asynccontextmanager
    async def _open_client(self) -> AsyncIterator[_Client]:
        loop = asyncio.get_running_loop()
        if self._client is not None and self._client.loop is not loop:
            if not self._client.loop.is_closed():
                raise RuntimeError("a LiveFetcher belongs to one event loop at a time; make one for each")
            self._client, self._under_way = None, 0
        if self._client is None:
            self._client = self._new_client()
        self._under_way += 1
        try:
            yield self._client
        finally:
            self._under_way -= 1
            if not self._under_way and not self._entered:
                await self._close_client()

    def _new_client(self) -> _Client:
        config = self.config
        resolver = GuardedResolver(self._guard, config.dns_seconds, self._lookup)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=resolver,
                socket_factory=self._guard.open_socket,
                limit=config.max_connections,
            ),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=config.connect_seconds, sock_read=config.idle_seconds
            ),
            headers={
                "User-Agent": config.user_agent,
                "Accept": _ACCEPT,
                "Accept-Language": "en,*;q=0.5",
                "Accept-Encoding": ACCEPT_ENCODING,
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,  # no proxy and no netrc: a proxy would connect where the guard does not see
            auto_decompress=False,  # decoding.py does it, with a cap
        )
        return _Client(session, resolver, HostLimiter(config.host_concurrency, config.host_requests_per_second))

    async def fetch(self, url: str) -> Response:
        """Fetches a URL with GET, following redirects.

        Returns:
          The final answer, whatever its HTTP status.

        Raises:
          WebError: nothing could or might be fetched. Its kind is "refused" (address, port, scheme, credentials),
            "robots", "dns", "connect", "tls", "timeout", "too_large", "redirects", "protocol" or "closed".
        """
        target = parse_target(url, self._guard)
        async with self._open_client() as client:
            answer, final = await self._follow(client, target, _Limit(self.config.max_bytes, cut=False), pages=True)
        return Response(final.url, answer.status, answer.content_type, answer.body)

    async def _follow(self, client: _Client, target: Target, limit: _Limit, pages: bool) -> tuple[_Answer, Target]:
        """The answer at the end of the redirects, and where that is. Pages need the leave of robots.txt."""

        async def download_robots(robots: Target) -> tuple[int, bytes]:
            answer, _ = await self._follow(client, robots, _Limit(MAX_ROBOTS_BYTES, cut=True), pages=False)
            return answer.status, answer.body

        first = target
        seen = set()
        try:
            async with asyncio.timeout(self.config.total_seconds) as deadline:
                while True:
                    seen.add(target.url)
                    if pages and self.config.respect_robots:
                        await self._robots.check(target, download_robots)
                    answer = await self._get(client, target, limit, deadline.when() or 0.0)
                    if answer.location is None:
                        return answer, target
                    target = parse_target(resolve(target.url, answer.location) or "nowhere:", self._guard)
                    if target.url in seen:
                        raise WebError(
                            "redirects",
                            f"{first.shown} redirects in a circle; it may want cookies, which are not kept.",
                        )
                    if len(seen) > self.config.max_redirects:
                        raise WebError(
                            "redirects",
                            f"{first.shown} redirects more than {self.config.max_redirects} times; try another page.",
                        )
        except TimeoutError:
            raise WebError(
                "timeout",
                f"{target.shown} was not read within {self.config.total_seconds:g} s; try again later or another page.",
            ) from None

    async def _get(self, client: _Client, target: Target, limit: _Limit, deadline: float) -> _Answer:
        """One answer, asked for again after transient failures as long as the deadline allows."""
        for attempt in count():
            wait = backoff(attempt, self.config.backoff_seconds)
            outcome: _Answer | WebError
            try:
                async with client.limiter.turn(target.host):
                    outcome = await self._get_once(client, target, limit)
            except aiohttp.ClientError as error:
                outcome = explain(error, target)
                again = is_transient(error)
            else:
                again = outcome.status in _TRANSIENT
                asked = parse_retry_after(outcome.retry_after, datetime.now(UTC))
                wait = wait if asked is None else asked
            again = again and attempt < self.config.max_retries
            again = again and wait <= self.config.max_retry_after_seconds and client.loop.time() + wait < deadline
            if not again:
                break
            await asyncio.sleep(wait)
        if isinstance(outcome, WebError):
            raise outcome
        return outcome

    async def _get_once(self, client: _Client, target: Target, limit: _Limit) -> _Answer:
        """One request. Raises `WebError`, and `aiohttp.ClientError` where the connection or the answer is at fault."""
        if client.session.closed:
            raise WebError("closed", f"{target.shown} was not read because the fetcher was closed meanwhile.")
        url = URL(target.url, encoded=True)
        if url.raw_host != target.host:  # two readings of one URL: the library's is the one that would be sent
            raise WebError("refused", f"{target.shown} is spelt ambiguously, so it was not fetched.")
        async with client.session.get(url, allow_redirects=False) as answer:
            location = answer.headers.get("Location") if answer.status in _REDIRECTS else None
            if answer.status >= 400:
                limit = _Limit(min(limit.size, _MAX_ERROR_BYTES), cut=True)
            content_type = answer.headers.get("Content-Type")
            return _Answer(
                status=answer.status,
                content_type=None if content_type is None else content_type[:_MAX_CONTENT_TYPE],
                location=location,
                retry_after=answer.headers.get("Retry-After", ""),
                body=b"" if location is not None else await _read(answer, target, limit),
            )


async def _read(answer: aiohttp.ClientResponse, target: Target, limit: _Limit) -> bytes:
    """The body, unpacked. Raises `WebError` where it is too large or its encoding is at fault."""
    too_large = WebError(
        "too_large", f"{target.shown} is larger than {limit.size:,} bytes; raise max_bytes to read it all the same."
    )
    if (answer.content_length or 0) > limit.size and not limit.cut:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    try:
        decoder = decoder_for(",".join(answer.headers.getall("Content-Encoding", ())))
        async for chunk in answer.content.iter_any():
            for piece in decoder.feed(chunk):
                pieces.append(piece)
                size += len(piece)
                if size > limit.size:
                    if not limit.cut:
                        raise too_large
                    return b"".join(pieces)[: limit.size]
        decoder.finish()
    except DecodingError as error:
        raise WebError("protocol", f"{target.shown} cannot be read because {error}; try another page.") from None
    return b"".join(pieces)
