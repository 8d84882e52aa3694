"""The live fetcher: what comes back of pages, redirects, encodings and sizes."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import brotli
import pytest

from tests.web.fetching import CHUNKED, answered, chunk, endless, failed, fetch, fetcher, sends
from tests.web.stub_server import Route, StubServer, World, reply
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.fetch import FetchConfig, LiveFetcher, Response

# ---- what comes back


def test_a_page() -> None:
    outcome, server = fetch(
        {"/page": reply(body=b"hello", Content_Type="text/html; charset=x")}, "/page?a=1&b=%C3%A9#end"
    )
    assert outcome == Response(server.url("/page?a=1&b=%C3%A9"), 200, "text/html; charset=x", b"hello")
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", "/page?a=1&b=%C3%A9")
    assert request.headers["user-agent"] == "webgpt-jax/0.1.0"
    assert request.headers["accept-encoding"] == "gzip, deflate, br"
    assert not {"cookie", "referer", "authorization", "origin"} & set(request.headers)


def test_a_response_is_frozen_and_its_text_form_has_no_query() -> None:
    response = Response("http://h.test/p?key=secret", 200, None, b"secret")
    assert repr(response) == "Response(url='http://h.test/p', status=200, content_type=None, 6 bytes)"
    with pytest.raises(FrozenInstanceError):
        response.status = 404  # type: ignore[misc]


@pytest.mark.parametrize("status", [200, 203, 204, 300, 304, 400, 401, 403, 404, 410, 418, 451, 500, 501, 599])
def test_any_final_status_is_a_response(status: int) -> None:
    outcome, server = fetch({"/": reply(status, b"" if status in (204, 304) else b"text")})
    assert isinstance(outcome, Response)
    assert outcome.status == status
    assert outcome.content_type is None
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", "/"),
        ("?q", "/?q"),
        ("/#fragment", "/"),
        ("/straße/日本 語?q=ü x", "/stra%C3%9Fe/%E6%97%A5%E6%9C%AC%20%E8%AA%9E?q=%C3%BC%20x"),
        ("/a%2Fb%20c%C3%A9%zz?x=%26&y=a+b", "/a%2Fb%20c%C3%A9%zz?x=%26&y=a+b"),
        ("/a;p=1/b,c!'()*~|[]@:$&=+", "/a;p=1/b,c!'()*~|[]@:$&=+"),
        ('/<script>"', "/%3Cscript%3E%22"),
        ("/back\\slash", "/back/slash"),
        ("/\x00\x01\x7f", "/%00%01%7F"),
        ("/x\r\nX-Injected: 1", "/xX-Injected:%201"),
        ("/x%0d%0aX-Injected:%201", "/x%0d%0aX-Injected:%201"),
        ("/x HTTP/1.1\r\nX-Injected: 1\r\n\r\nGET /y", "/x%20HTTP/1.1X-Injected:%201GET%20/y"),
        ("/\u2028\u0085\u560d\u560a", "/%E2%80%A8%C2%85%E5%98%8D%E5%98%8A"),
    ],
)
def test_what_a_url_becomes_on_the_wire(path: str, sent: str) -> None:
    outcome, server = fetch({}, path)
    assert isinstance(outcome, Response)
    assert server.paths == [sent]
    assert "x-injected" not in server.requests[0].headers


def test_international_names(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        async with StubServer({"/%C3%BC": reply(body=b"x")}) as server:
            world.put("xn--bcher-kva.test", server)
            live = LiveFetcher(lookup=world.lookup, respect_robots=False)
            assert (await live.fetch("http://Bücher.test/ü")).url == "http://xn--bcher-kva.test/%C3%BC"
        assert server.requests[0].headers["host"] == "xn--bcher-kva.test"
        assert world.looked_up == ["xn--bcher-kva.test"]

    asyncio.run(main())


def test_odd_urls_are_refused() -> None:
    for url in ("http://127.0.0.1/\ud800", "http://127.0.0.1/" + "x" * 9_000, "http://127.1/", "\x00"):
        with pytest.raises(WebError) as raised:
            asyncio.run(fetcher().fetch(url))
        assert raised.value.kind == "refused"


def test_headers_that_are_not_ascii() -> None:
    response = answered({"/": b"HTTP/1.1 200 OK\r\nContent-Type: text/\xff\r\nContent-Length: 1\r\n\r\nx"})
    assert response.body == b"x"
    response = answered(
        {"/": b"HTTP/1.1 302 OK\r\nLocation: /\xe9\xff\r\nContent-Length: 0\r\n\r\n", "/%E9%FF": reply(body=b"y")}
    )
    assert response.body == b"y"


# ---- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int) -> None:
    outcome, server = fetch({"/": reply(status, b"moved", Location="b/c?d#e"), "/b/c": reply(body=b"there")})
    assert outcome == Response(server.url("/b/c?d"), 200, None, b"there")
    assert [request.method for request in server.requests] == ["GET", "GET"]


def _chain(length: int) -> dict[str, Route]:
    return {f"/{n}": reply(302, Location=f"/{n + 1}") for n in range(length)} | {f"/{length}": reply(body=b"end")}


def test_five_redirects_and_no_more() -> None:
    assert answered(_chain(5), "/0").body == b"end"
    assert failed(_chain(6), "/0").kind == "redirects"
    assert failed(_chain(1), "/0", max_redirects=0).kind == "redirects"


def test_redirects_in_a_circle() -> None:
    error = failed({"/": reply(302, Location="/b?k=secret"), "/b": reply(302, Location="/")})
    assert error.kind == "redirects"
    assert "circle" in error.message


def test_a_redirect_without_a_place_is_an_answer() -> None:
    assert answered({"/": reply(302, b"where?")}).body == b"where?"


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "ftp://h.test/", "javascript:x", "http://u:secret@h.test/", "http://[::1"],
)
def test_redirects_are_checked(location: str) -> None:
    assert failed({"/": reply(302, Location=location)}).kind == "refused"


def test_cookies_are_not_kept() -> None:
    routes: dict[str, Route] = {
        "/": reply(302, Location="/b", Set_Cookie="id=1; Path=/"),
        "/b": reply(body=b"x", Set_Cookie="id=2; Path=/"),
    }

    async def main() -> StubServer:
        async with StubServer(routes) as server, fetcher() as live:
            await live.fetch(server.url())
            await live.fetch(server.url())
            return server

    assert all("cookie" not in request.headers for request in asyncio.run(main()).requests)


# ---- sizes and encodings

TEXT = b"The quick brown fox jumps over the lazy dog. " * 5_000


@pytest.mark.parametrize(
    ("header", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress), ("utf-8", bytes)]
)
def test_encoded_pages(header: str, pack: Callable[[bytes], bytes]) -> None:
    assert answered({"/": reply(body=pack(TEXT), Content_Encoding=header)}).body == TEXT


def test_damaged_and_unasked_encodings() -> None:
    for header, body in (
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(TEXT)[:-20]),
        ("zstd", b"x"),
        ("gzip, br", b"x"),
    ):
        error = failed({"/p": reply(body=body, Content_Encoding=header)}, "/p?key=secret")
        assert error.kind == "protocol"


def test_an_encoding_without_a_body_is_harmless() -> None:
    for header in ("gzip", "deflate", "br"):
        assert answered({"/": reply(404, Content_Encoding=header)}).body == b""


@pytest.mark.parametrize(
    "route",
    [
        reply(body=b"x" * 1001),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        sends(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1001),
        sends(CHUNKED, chunk(b"x" * 600), chunk(b"x" * 600), b"0\r\n\r\n"),
        endless(CHUNKED, chunk(b"x" * 100)),
        reply(body=gzip.compress(b"x" * 1001), Content_Encoding="gzip"),
        reply(body=brotli.compress(b"x" * 1001), Content_Encoding="br"),
        reply(body=zlib.compress(b"x" * 1001), Content_Encoding="deflate"),
    ],
)
def test_what_is_larger_than_the_cap_is_refused(route: Route) -> None:
    error = failed({"/p": route}, "/p?key=secret", max_bytes=1000)
    assert error.kind == "too_large"
    assert "1,000 bytes" in error.message


def test_what_is_as_large_as_the_cap_is_read() -> None:
    assert len(answered({"/": reply(body=b"x" * 1000)}, max_bytes=1000).body) == 1000


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_a_bomb_is_not_unpacked(encoding: str) -> None:
    """A quarter of a gigabyte of zeros in next to nothing: no more than the cap and a piece may be in memory."""
    if encoding == "gzip":
        pack = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
        bomb = b"".join(pack.compress(b"\0" * (1 << 20)) for _ in range(256)) + pack.flush()
    else:
        compressor = brotli.Compressor(quality=1)
        bomb = b"".join(compressor.process(b"\0" * (1 << 20)) for _ in range(256)) + compressor.finish()
    tracemalloc.start()
    try:
        error = failed({"/": reply(body=bomb, Content_Encoding=encoding)}, max_bytes=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.kind == "too_large"
    assert peak < 16 << 20


def test_the_body_of_an_error_is_cut() -> None:
    response = answered({"/": reply(404, b"x" * 1_000_000)}, max_bytes=1000)
    assert (response.status, len(response.body)) == (404, 1000)


# ---- settings


@pytest.mark.parametrize(
    "changes",
    [
        {"max_bytes": 0},
        {"total_seconds": -1.0},
        {"idle_seconds": float("nan")},
        {"host_requests_per_second": 0.0},
        {"max_redirects": -1},
        {"contact": "me\r\nX-Injected: 1"},
        {"contact": "(me)"},
        {"contact": "mé"},
        {"blocked_networks": ("nonsense",)},
    ],
)
def test_senseless_settings(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes)) if "blocked_networks" not in changes else "nonsense"):
        LiveFetcher(**changes)


def test_settings_can_be_changed_by_name() -> None:
    live = LiveFetcher(FetchConfig(max_bytes=5), contact="https://h.test/about")
    assert (live.config.max_bytes, live.config.user_agent) == (5, "webgpt-jax/0.1.0 (+https://h.test/about)")
    with pytest.raises(TypeError, match="max_byte"):
        LiveFetcher(max_byte=5)
