"""A search API of our own: a server on loopback that answers what a test tells it to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

SHAPES = Path(__file__).parent / "shapes"
KEY = "Sq7-Zeta0192837465xyz"


def shape(name: str, part: str) -> Any:
    """A recorded answer of an API, by its file and its place there."""
    return json.loads((SHAPES / f"{name}.json").read_text(encoding="utf-8"))[part]


@dataclass(frozen=True)
class Answer:
    body: Any = field(default_factory=dict)  # bytes are sent as they are, everything else as JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Reaction = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Stub:
    """Answers in turn; the last answer again and again."""

    answers: list[Answer | Reaction]
    url: str = ""
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not isinstance(answer, Answer):
            return await answer(request)
        raw = isinstance(answer.body, bytes)
        body = answer.body if raw else json.dumps(answer.body).encode()
        return web.Response(body=body, status=answer.status, headers=answer.headers)


@asynccontextmanager
async def serve(*answers: Answer | Reaction) -> AsyncIterator[Stub]:
    stub = Stub(list(answers))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        stub.url = f"http://{host}:{port}"
        yield stub
    finally:
        await runner.cleanup()
