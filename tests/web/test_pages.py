"""The live web: what `open` makes of what comes, the cache, one fetch for many who ask, closing."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from webgpt_jax.env.page import Link, Page
from webgpt_jax.env.protocol import SearchResult, Web, WebError
from webgpt_jax.web.fetch import FetchConfig
from webgpt_jax.web.pages import Fetched, Fetcher, LiveWeb, PageCache, live_web


@dataclass(frozen=True)
class Response:
    url: str
    status: int = 200
    content_type: str | None = "text/plain"
    body: bytes = b"text"


@dataclass
class Parts:
    """A search back end, a fetcher and a converter that do as told and note what they were asked."""

    respond: Callable[[str], Awaitable[Response]] | None = None
    fetched: list[str] = field(default_factory=list)
    converted: list[tuple[bytes, str, str | None]] = field(default_factory=list)
    closed: int = 0
    entered: int = 0

    def check(self) -> None:
        raise WebError("key", "X_API_KEY is not set")

    async def search(self, query: str) -> list[SearchResult]:
        return [SearchResult(query, "https://a.test/", "")]

    async def fetch(self, url: str) -> Response:
        self.fetched.append(url)
        await asyncio.sleep(0)
        return Response(url) if self.respond is None else await self.respond(url)

    async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
        self.converted.append((body, url, content_type))
        if body == b"bad":
            raise WebError("encrypted", "The PDF is encrypted.")
        return Page(title="T", domain="a.test", url=url, text=body.decode())

    async def aclose(self) -> None:
        self.closed += 1

    async def __aenter__(self) -> Parts:
        self.entered += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def make(parts: Parts, **options: Any) -> LiveWeb:
    return LiveWeb(parts, parts, parts, **options)


def test_it_is_a_web() -> None:
    async def run() -> None:
        parts = Parts()
        live: Web = make(parts)
        assert await live.search("crows") == [SearchResult("crows", "https://a.test/", "")]
        page = await live.open("https://a.test/x")
        assert (page.title, page.url, page.text) == ("T", "https://a.test/x", "text")
        assert parts.converted == [(b"text", "https://a.test/x", "text/plain")]
        with pytest.raises(WebError, match="X_API_KEY"):
            make(parts).check()

    asyncio.run(run())


def test_a_page_stands_under_its_final_url() -> None:
    async def moved(url: str) -> Response:
        return Response("https://b.test/moved", content_type=None)

    async def run() -> None:
        parts = Parts(moved)
        page = await make(parts).open("https://a.test/x")
        assert page.url == "https://b.test/moved"
        assert parts.converted == [(b"text", "https://b.test/moved", None)]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "HTTP 404 Not Found"),
        (403, "HTTP 403 Forbidden"),
        (500, "HTTP 500 Internal Server Error"),
        (304, "HTTP 304 Not Modified"),
        (999, "HTTP 999:"),
    ],
)
def test_a_status_without_a_page(status: int, words: str) -> None:
    async def respond(url: str) -> Response:
        return Response(url, status)

    async def run() -> None:
        parts = Parts(respond)
        with pytest.raises(WebError, match=words) as raised:
            await make(parts).open("https://a.test/x")
        assert raised.value.kind == "http"
        assert parts.converted == []

    asyncio.run(run())


@pytest.mark.parametrize("status", [200, 203, 206])
def test_a_status_with_a_page(status: int) -> None:
    async def respond(url: str) -> Response:
        return Response(url, status)

    assert asyncio.run(make(Parts(respond)).open("https://a.test/")).text == "text"


@pytest.mark.parametrize("error", [WebError("timeout", "too slow"), ValueError("a bug")])
def test_errors_go_through_and_are_not_kept(error: Exception) -> None:
    answers: list[Exception | Response] = [error, Response("https://a.test/", body=b"bad"), Response("https://a.test/")]

    async def respond(url: str) -> Response:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run() -> None:
        live = make(Parts(respond))
        with pytest.raises(type(error), match=str(error)):
            await live.open("https://a.test/")
        with pytest.raises(WebError, match="encrypted"):
            await live.open("https://a.test/")
        assert (await live.open("https://a.test/")).text == "text"

    asyncio.run(run())


@pytest.mark.parametrize("url", ["", "http://[::1", "#", "javascript:x", "http://a.test/\ud800"])
def test_what_is_no_url_is_the_fetchers_to_refuse(url: str) -> None:
    async def refuse(url: str) -> Response:
        raise WebError("refused", "no URL")

    with pytest.raises(WebError, match="no URL"):
        asyncio.run(make(Parts(refuse)).open(url))


# ---- cache


def test_pages_are_kept_whatever_the_fragment() -> None:
    async def run() -> None:
        parts = Parts()
        live = make(parts)
        first = await live.open("https://a.test/x?q=1#part")
        assert await live.open("https://a.test/x?q=1") is first
        assert await live.open("https://a.test/x?q=1#other") is first
        assert await live.open("https://a.test/x?q=2") is not first
        assert parts.fetched == ["https://a.test/x?q=1", "https://a.test/x?q=2"]

    asyncio.run(run())


def test_no_cache() -> None:
    async def run() -> None:
        parts = Parts()
        live = make(parts, cache_chars=0)
        await live.open("https://a.test/")
        await live.open("https://a.test/")
        assert len(parts.fetched) == 2

    asyncio.run(run())


def page(name: str, chars: int, links: int = 0) -> Page:
    url = f"https://a.test/{name}"
    made = tuple(Link(at, "x", "https://b.test/", "b.test") for at in range(links))
    return Page("T", "a.test", url, "x" * chars, made)


def test_the_least_recently_used_page_goes_first() -> None:
    cache = PageCache(35_000)
    pages = {name: page(name, 10_000) for name in "abcd"}
    for name in "abc":
        cache.put(name, pages[name])
    assert cache.get("a") is pages["a"]  # used now; "b" is the oldest
    cache.put("d", pages["d"])
    assert [cache.get(name) is not None for name in "abcd"] == [True, False, True, True]


def test_the_cache_stays_within_its_bound() -> None:
    cache = PageCache(100_000)
    for at in range(1_000):
        cache.put(f"{at % 300}", page(str(at), at * 37 % 20_000, links=at % 50))
        assert 0 < cache.chars <= 100_000
    held = cache.chars
    cache.put("huge", page("huge", 200_000))
    assert cache.get("huge") is None
    assert cache.chars == held  # nothing else had to go
    cache.put("99", page("99", 50))
    held = cache.chars
    cache.put("99", page("99", 50))
    assert cache.chars == held
    cache.put("0", page("0", 200_000))  # a page that has grown too large leaves the cache
    assert cache.get("0") is None
    assert cache.chars <= held


def test_tiny_pages_and_links_are_counted() -> None:
    cache = PageCache(100_000)
    for at in range(10_000):
        cache.put(str(at), page(str(at), 0))
    assert sum(cache.get(str(at)) is not None for at in range(10_000)) < 100
    cache.put("links", page("links", 10, links=1_000))
    assert cache.get("links") is None


# ---- many who ask for one page


class Gate:
    """A fetcher's answer that waits until it is let go, and knows whether it was cancelled."""

    def __init__(self, error: Exception | None = None) -> None:
        self.open = asyncio.Event()
        self.started = asyncio.Event()
        self.cancelled = 0
        self.error = error

    async def __call__(self, url: str) -> Response:
        self.started.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return Response(url)


def test_one_fetch_for_all_who_ask() -> None:
    async def run() -> None:
        gate = Gate()
        parts = Parts(gate)
        live = make(parts)
        tasks = [asyncio.create_task(live.open(f"https://a.test/#{at}")) for at in range(50)]
        await gate.started.wait()
        gate.open.set()
        pages = await asyncio.gather(*tasks)
        assert all(found is pages[0] for found in pages)
        assert (len(parts.fetched), len(parts.converted)) == (1, 1)

    asyncio.run(run())


def test_all_who_ask_get_the_error() -> None:
    async def run() -> None:
        gate = Gate(WebError("timeout", "too slow"))
        parts = Parts(gate)
        live = make(parts)
        tasks = [asyncio.create_task(live.open("https://a.test/")) for _ in range(3)]
        await gate.started.wait()
        gate.open.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(outcome, WebError) for outcome in outcomes] == [True] * 3
        assert len(parts.fetched) == 1

    asyncio.run(run())


def test_one_who_gives_up_does_not_take_the_page_from_another() -> None:
    async def run() -> None:
        gate = Gate()
        live = make(Parts(gate))
        first, second = (asyncio.create_task(live.open("https://a.test/")) for _ in range(2))
        await gate.started.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert gate.cancelled == 0
        gate.open.set()
        assert (await second).text == "text"

    asyncio.run(run())


def test_what_nobody_waits_for_is_stopped_and_can_be_asked_for_anew() -> None:
    async def run() -> None:
        gate = Gate()
        parts = Parts(gate)
        live = make(parts)
        tasks = [asyncio.create_task(live.open("https://a.test/")) for _ in range(2)]
        await gate.started.wait()
        for task in tasks:
            task.cancel()
        again = asyncio.create_task(live.open("https://a.test/"))  # before the first fetch has ended
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2
        gate.open.set()
        assert (await again).text == "text"

    asyncio.run(run())


def test_a_time_limit_around_open_is_a_time_limit() -> None:
    async def run() -> None:
        gate = Gate()
        live = make(Parts(gate))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await live.open("https://a.test/")
        await asyncio.sleep(0)
        assert gate.cancelled == 1

    asyncio.run(run())


def test_nothing_is_reported_as_forgotten() -> None:
    reports: list[Mapping[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        gate = Gate(WebError("timeout", "too slow"))
        live = make(Parts(gate))
        task = asyncio.create_task(live.open("https://a.test/"))
        await gate.started.wait()
        gate.open.set()
        task.cancel()  # the fetch fails in the same moment
        await asyncio.gather(task, return_exceptions=True)
        await live.aclose()

    asyncio.run(run())
    gc.collect()
    assert reports == []


# ---- closing


def test_what_is_owned_is_opened_and_closed_with_the_web() -> None:
    async def run() -> None:
        theirs, ours = Parts(), Parts()
        async with make(theirs, owned=[ours]) as live:
            assert (ours.entered, ours.closed) == (1, 0)
            await live.open("https://a.test/")
        await live.aclose()
        assert (ours.entered, ours.closed) == (1, 1)
        assert (theirs.entered, theirs.closed) == (0, 0)
        with pytest.raises(RuntimeError, match="closed"):
            await live.open("https://a.test/")

    asyncio.run(run())


def test_closing_without_opening_closes_too() -> None:
    async def run() -> None:
        ours = Parts()
        await make(Parts(), owned=[ours]).aclose()
        assert (ours.entered, ours.closed) == (0, 1)

    asyncio.run(run())


def test_everything_owned_is_closed_even_if_something_fails_to() -> None:
    class Stubborn(Parts):
        async def aclose(self) -> None:
            raise OSError("will not close")

    async def run() -> None:
        before, after = Parts(), Parts()
        with pytest.raises(OSError, match="will not close"):
            await make(Parts(), owned=[before, Stubborn(), after]).aclose()
        assert (before.closed, after.closed) == (1, 1)

    asyncio.run(run())


def test_closing_ends_what_is_on_its_way_with_an_error() -> None:
    async def run() -> None:
        gate = Gate()
        live = make(Parts(gate))
        task = asyncio.create_task(live.open("https://a.test/"))
        await gate.started.wait()
        await live.aclose()
        with pytest.raises(WebError) as raised:
            await task
        assert raised.value.kind == "closed"
        assert gate.cancelled == 1

    asyncio.run(run())


# ---- with the parts that are used in earnest


def test_live_web_tells_a_missing_key_and_a_wrong_name() -> None:
    with pytest.raises(WebError, match="BRAVE_API_KEY") as raised:
        live_web("brave", {}).check()
    assert raised.value.kind == "key"
    with pytest.raises(ValueError, match="brave, searxng"):
        live_web("altavista", {})


def test_live_web_searches_fetches_and_converts() -> None:
    async def answer(request: web.Request) -> web.Response:
        base = f"http://{request.host}"
        if request.path == "/search":
            return web.json_response(
                {"results": [{"title": "Crows", "url": f"{base}/old#top", "content": "They fly."}]}
            )
        if request.path == "/old":
            raise web.HTTPFound("/crows")
        if request.path == "/crows":
            words = "Crows bring gifts to the people who feed them. " * 20
            html = (
                f"<title>On crows</title><body><article><p>{words}</p><p>{words}<a href='/more'>More</a></p></article>"
            )
            return web.Response(text=html, content_type="text/html")
        return web.Response(status=404)

    wrapped: list[str] = []

    class Noting:
        def __init__(self, fetcher: Fetcher) -> None:
            self._fetcher = fetcher

        async def fetch(self, url: str) -> Fetched:
            wrapped.append(url)
            return await self._fetcher.fetch(url)

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        base = "http://{}:{}".format(*runner.addresses[0][:2])
        try:
            config = FetchConfig(allow_private_hosts=True)
            async with live_web("searxng", {"SEARXNG_URL": base}, fetch_config=config, wrap_fetcher=Noting) as live:
                live.check()
                hits = await live.search("crows")
                assert hits == [SearchResult("Crows", f"{base}/old#top", "They fly.")]
                found = await live.open(hits[0].url)
                assert found.url == f"{base}/crows"
                assert found.title == "On crows"
                assert "Crows bring gifts to the people who feed them." in found.plain
                assert [link.url for link in found.links] == [f"{base}/more"]
                assert wrapped == [f"{base}/old"]
                with pytest.raises(WebError, match="HTTP 404 Not Found"):
                    await live.open(f"{base}/nothing")
            async with live_web("searxng", {"SEARXNG_URL": base}) as guarded:  # the search may be private, pages not
                assert len(await guarded.search("crows")) == 1
                with pytest.raises(WebError):
                    await guarded.open(f"{base}/crows")
        finally:
            await runner.cleanup()

    asyncio.run(run())
