"""Servers on loopback for tests: honest ones, broken ones and hostile ones, and a stand-in for the rest of the world.

    async with StubServer({"/page": reply(body=b"hello")}) as server:
        ... server.url("/page") ... server.requests

A route is bytes, sent as they are, or `async def route(request, writer)`, which writes what it likes. A path without a
route answers 404. Connections are kept open until the client closes them or the route does.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # with its query, as it came
    headers: Mapping[str, str]  # names in lower case


Route = bytes | Callable[[Request, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """An answer as it goes over the wire; `content_type="text/html"` makes the header Content-Type."""
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body


@dataclass
class StubServer:
    routes: dict[str, Route]
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0  # open now
    connections_made: int = 0
    most_at_once: int = 0  # requests being answered together, at most

    async def __aenter__(self) -> Self:
        self._at_once = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._change = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await self.idle()

    async def idle(self) -> None:
        """Returns when no connection is open any more."""
        async with asyncio.timeout(10):
            await self._idle.wait()

    async def asked(self, times: int = 1) -> None:
        """Returns when this many requests have come."""
        async with asyncio.timeout(10), self._change:
            await self._change.wait_for(lambda: len(self.requests) >= times)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._idle.clear()
        self.connections_made += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while not writer.is_closing():
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = lines[0].split(" ")
                pairs = (line.partition(":") for line in lines[1:] if line)
                request = Request(method, path, {name.lower(): value.strip() for name, _, value in pairs})
                async with self._change:
                    self.requests.append(request)
                    self._change.notify_all()
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                try:
                    route = self.routes.get(path.partition("?")[0], reply(404, b"not found"))
                    if isinstance(route, bytes):
                        writer.write(route)
                    else:
                        await self._answer(route(request, writer), reader)
                    await writer.drain()
                finally:
                    self._at_once -= 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, as clients do, or the test is over
        finally:
            self.connections -= 1
            if not self.connections:
                self._idle.set()
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, answering: Coroutine[Any, Any, None], reader: asyncio.StreamReader) -> None:
        """Runs a route until it is done or the client is gone."""
        route = asyncio.ensure_future(answering)
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((route, gone), return_when=asyncio.FIRST_COMPLETED)
            if not route.done():
                raise ConnectionResetError("the client is gone")
            await route
        finally:
            route.cancel()
            gone.cancel()
            await asyncio.gather(route, gone, return_exceptions=True)


_REAL_CONNECT = socket.socket.connect

PUBLIC = "93.184.215.14"  # any public address


class World:
    """Stands in for the internet: notes every address that a socket is connected to and leads it to a stub server.

    Make it with a pytest `monkeypatch`; give `LiveFetcher` its `lookup`. An address without a server refuses.
    """

    def __init__(self, monkeypatch: Any) -> None:
        self.connected: list[tuple[str, int]] = []
        self.names: dict[str, list[str]] = {}  # other names lead to `default`
        self.default = ["127.0.0.1"]
        self.looked_up: list[str] = []
        self._ports: dict[tuple[str, int], int] = {}

        def connect(sock: socket.socket, address: tuple[Any, ...]) -> None:
            self.connected.append(address[:2])
            port = self._ports.get(address[:2])
            if port is None:
                raise ConnectionRefusedError(111, "Connection refused")
            _REAL_CONNECT(sock, ("127.0.0.1", port))

        monkeypatch.setattr(socket.socket, "connect", connect)

    def put(self, name: str, server: StubServer, address: str = PUBLIC) -> None:
        """Lets a name lead to an address, and the address's web port to a server."""
        self.names[name] = [address]
        self._ports[address, 443 if server.tls else 80] = server.port

    async def lookup(self, host: str) -> list[str]:
        self.looked_up.append(host)
        return self.names.get(host, self.default)
