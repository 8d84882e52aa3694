"""A search API of our own: a server on loopback that answers what a test tells it to; and the back ends that ask it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.web.search.backend import SearchApi
from webgpt_jax.web.search.bing import Bing
from webgpt_jax.web.search.brave import Brave
from webgpt_jax.web.search.client import HttpLimits
from webgpt_jax.web.search.mojeek import Mojeek
from webgpt_jax.web.search.searxng import SearXNG
from webgpt_jax.web.search.serper import Serper
from webgpt_jax.web.search.tavily import Tavily

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


ALL = ["brave", "searxng", "serper", "tavily", "mojeek", "bing"]
KEYED = [name for name in ALL if name != "searxng"]
CLASSES: dict[str, type[Brave | Serper | Tavily | Mojeek | Bing]] = {
    "brave": Brave,
    "serper": Serper,
    "tavily": Tavily,
    "mojeek": Mojeek,
    "bing": Bing,
}
FAST = HttpLimits(request_seconds=5, deadline_seconds=10, first_pause_seconds=0.001)

CROWS = [
    SearchResult(
        title="Gifts From Crows | Outside My Window",
        url="https://www.birdsoutsidemywindow.org/2015/03/19/gifts-from-crows/",
        snippet="Many animals give gifts, but crows & other corvids don't stop at <b>.",
    ),
    SearchResult(
        title="How to Make Friends With Crows - PetHelpful",
        url="https://pethelpful.com/birds/How-to-Make-Friends-With-Crows",
        snippet="If you did this a few times, your crows would learn your new place.",
    ),
]


def make(name: str, url: str, *, key: str = KEY, count: int = 10, limits: HttpLimits = FAST) -> SearchApi:
    if name == "searxng":
        return SearXNG(url, count=count, limits=limits)
    return CLASSES[name](key, base_url=url, count=count, limits=limits)


def ask(
    name: str, *answers: Answer | Reaction, query: str = "crows gifts", **options: Any
) -> tuple[list[SearchResult] | WebError, Stub]:
    """What one search gives, an error as a value, and what the server saw."""

    async def run() -> tuple[list[SearchResult] | WebError, Stub]:
        async with serve(*answers) as stub:
            backend = make(name, stub.url, **options)
            try:
                return await backend.search(query), stub
            except WebError as error:
                return error, stub
            finally:
                await backend.aclose()

    return asyncio.run(run())


def failure(name: str, *answers: Answer | Reaction, **options: Any) -> WebError:
    outcome, _ = ask(name, *answers, **options)
    assert isinstance(outcome, WebError), outcome
    return outcome
