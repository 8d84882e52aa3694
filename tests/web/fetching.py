"""Fetches from servers of a test's own, and the routes of those that misbehave."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.web.stub_server import Request, Route, StubServer
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.fetch import FetchConfig, LiveFetcher, Response

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def fetcher(**changes: Any) -> LiveFetcher:
    """One for stub servers: quick, and without robots.txt, so that the requests seen are those for pages."""
    quick = {
        "allow_private_hosts": True,
        "respect_robots": False,
        "backoff_seconds": 0.01,
        "host_requests_per_second": 10_000.0,
    }
    return LiveFetcher(FetchConfig(**(quick | changes)))


def fetch(routes: dict[str, Route], path: str = "/", **changes: Any) -> tuple[Response | WebError, StubServer]:
    """Fetches one path from a server with these routes; afterwards no connection may be left open."""

    async def main() -> tuple[Response | WebError, StubServer]:
        async with StubServer(routes) as server:
            try:
                outcome: Response | WebError = await fetcher(**changes).fetch(server.url(path))
            except WebError as error:
                outcome = error
            await server.idle()
            return outcome, server

    return asyncio.run(main())


def answered(routes: dict[str, Route], path: str = "/", **changes: Any) -> Response:
    outcome, _ = fetch(routes, path, **changes)
    assert isinstance(outcome, Response), outcome
    return outcome


def failed(routes: dict[str, Route], path: str = "/", **changes: Any) -> WebError:
    outcome, _ = fetch(routes, path, **changes)
    assert isinstance(outcome, WebError), outcome
    assert outcome.message.endswith(".")
    assert "secret" not in outcome.message
    return outcome


def sends(*pieces: bytes, then: str = "close", pause: float = 0.0) -> Route:
    """A route that writes the pieces with pauses between them, and then closes, resets or stays silent."""

    async def route(request: Request, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        if then == "close":
            writer.close()
        elif then == "reset":
            writer.transport.abort()
        else:
            await asyncio.sleep(30)

    return route


def endless(start: bytes, piece: bytes, pause: float = 0.0) -> Route:
    async def route(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return route


def in_turn(*routes: Route) -> Route:
    """A route that answers with each of these in turn, and with the last one from then on."""
    left = list(routes)

    async def route(request: Request, writer: asyncio.StreamWriter) -> None:
        current = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(current, bytes):
            writer.write(current)
        else:
            await current(request, writer)

    return route


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
