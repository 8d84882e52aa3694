"""The live fetcher against servers that behave and servers that do not."""

from __future__ import annotations

import asyncio
import datetime
import gc
import gzip
import ssl
import time
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import brotli
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.web.stub_server import Request, Route, StubServer, World, reply
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.fetch import FetchConfig, LiveFetcher, Response


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


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "route",
    [
        reply(body=b"x" * 1001),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        sends(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1001),
        sends(CHUNKED, _chunk(b"x" * 600), _chunk(b"x" * 600), b"0\r\n\r\n"),
        endless(CHUNKED, _chunk(b"x" * 100)),
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


# ---- servers that take their time

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "route",
    [
        sends(then="silence"),
        sends(OK, then="silence"),
        sends(OK + b"Content-Length: 10\r\n\r\n12345", then="silence"),
        sends(CHUNKED, b"5\r\n123", then="silence"),
        endless(b"HTTP/1.1 200 ", b"O", 0.02),
        endless(OK, b"X", 0.02),
        endless(OK, b"X: y\r\n", 0.02),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
        endless(OK + b"Content-Length: 1000000\r\n\r\n", b"x", 0.02),
        endless(CHUNKED, _chunk(b"x"), 0.02),
        endless(CHUNKED + b"1;", b"x", 0.02),
        endless(CHUNKED + b"0\r\n", b"X: y\r\n", 0.02),
        endless(OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", _chunk(gzip.compress(b"")), 0.02),
    ],
)
def test_slow_servers_are_given_up(route: Route) -> None:
    assert failed({"/": route}, "/?key=secret", total_seconds=0.5, idle_seconds=0.2).kind == "timeout"


def test_time_spent_in_redirects_retries_and_waiting_is_counted() -> None:
    redirect = endless(b"HTTP/1.1 302 Found\r\nLocation: /\r\n", b"X: y\r\n", 0.02)
    assert (
        failed({"/": sends(reply(302, Location="/a"), pause=0.3), "/a": redirect}, total_seconds=0.5).kind == "timeout"
    )

    async def main() -> list[str]:
        async with (
            StubServer({"/": sends(then="silence")}) as server,
            fetcher(host_concurrency=1, total_seconds=0.3) as live,
        ):
            outcomes = await asyncio.gather(*(live.fetch(server.url()) for _ in range(4)), return_exceptions=True)
            assert len(server.requests) < 4  # one in its turn; a slow machine may send another as the first gives up
            return [outcome.kind for outcome in outcomes if isinstance(outcome, WebError)]

    assert asyncio.run(main()) == ["timeout"] * 4


@pytest.mark.parametrize(
    "route",
    [
        endless(OK, b"X-Padding: " + b"y" * 1000 + b"\r\n"),
        endless(OK + b"X: ", b"y" * 1000),
        endless(b"HTTP/1.1 200 ", b"y" * 1000),
        endless(CHUNKED + b"5;", b"y" * 1000),
        endless(CHUNKED + b"0\r\n", b"X: " + b"y" * 1000 + b"\r\n"),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        endless(b"", b"y" * 1000),
    ],
)
def test_endless_heads_take_no_memory(route: Route) -> None:
    tracemalloc.start()
    try:
        error = failed({"/": route}, total_seconds=1.0, max_retries=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.kind in ("protocol", "timeout", "connect")
    assert peak < 8 << 20


# ---- servers that do not speak HTTP


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/9.9.9 hello\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 99999 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nNo colon here\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: wrong\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nxx",
        b"",
    ],
)
@pytest.mark.parametrize("then", ["close", "reset"])
def test_what_is_no_http_is_an_error(data: bytes, then: str) -> None:
    outcome, _ = fetch({"/": sends(data, then=then)}, "/?key=secret", total_seconds=2.0)
    if isinstance(outcome, Response):  # a status of 101 is odd, and an answer all the same
        assert b"Switching" in data
    else:
        assert outcome.kind in ("protocol", "connect")
        assert "secret" not in outcome.message


def test_nobody_there() -> None:
    async def main() -> str:
        async with StubServer({}) as server:
            url = server.url("/p?key=secret")
        with pytest.raises(WebError) as raised:
            await fetcher().fetch(url)
        assert raised.value.kind == "connect"
        return raised.value.message

    assert "secret" not in asyncio.run(main())


def test_a_name_that_does_not_exist() -> None:
    async def lookup(host: str) -> list[str]:
        raise OSError("no such host")

    with pytest.raises(WebError, match=r"nowhere\.test/p .*was not found") as raised:
        asyncio.run(LiveFetcher(lookup=lookup, respect_robots=False).fetch("http://nowhere.test/p?key=secret"))
    assert raised.value.kind == "dns"
    assert "secret" not in str(raised.value)


# ---- retries


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_transient_answers_are_asked_for_again(status: int) -> None:
    outcome, server = fetch({"/": in_turn(reply(status), reply(status, Retry_After="0"), reply(body=b"at last"))})
    assert isinstance(outcome, Response)
    assert (outcome.body, len(server.requests)) == (b"at last", 3)
    outcome, server = fetch({"/": reply(status, b"busy")})
    assert isinstance(outcome, Response)
    assert (outcome.status, outcome.body, len(server.requests)) == (status, b"busy", 3)


@pytest.mark.parametrize(
    "broken", [sends(then="reset"), sends(then="close"), sends(OK + b"Content-Length: 9\r\n\r\nx")]
)
def test_broken_connections_are_made_again(broken: Route) -> None:
    outcome, server = fetch({"/": in_turn(broken, reply(body=b"at last"))})
    assert isinstance(outcome, Response)
    assert outcome.body == b"at last"
    outcome, server = fetch({"/": broken}, max_retries=1)
    assert isinstance(outcome, WebError)
    assert outcome.kind == "connect"
    # The library asks once more by itself where a connection breaks before the answer starts.
    assert len(server.requests) in (2, 4)


def test_a_server_is_not_asked_before_it_wants() -> None:
    for value in ("3600", "Fri, 31 Dec 9999 23:59:59 GMT", "9" * 500):
        outcome, server = fetch({"/": reply(503, b"later", Retry_After=value)})
        assert isinstance(outcome, Response)
        assert (outcome.status, outcome.body, len(server.requests)) == (503, b"later", 1)


def test_no_retry_beyond_the_deadline() -> None:
    outcome, server = fetch({"/": reply(503, Retry_After="5")}, total_seconds=2.0)
    assert isinstance(outcome, Response)
    assert (outcome.status, len(server.requests)) == (503, 1)


@pytest.mark.parametrize("value", ["soon", "-5", "1.5", "٣", "", "Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 99 Foo 2020"])
def test_senseless_waits_are_ignored(value: str) -> None:
    outcome, server = fetch({"/": in_turn(reply(503, Retry_After=value), reply(body=b"x"))})
    assert isinstance(outcome, Response)
    assert (outcome.status, len(server.requests)) == (200, 2)


# ---- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a self-signed certificate for secure.test, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "secure.test")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("secure.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "secure.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def _fetch_over_tls(tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, name: str) -> Response:
    async def main() -> Response:
        world = World(monkeypatch)
        async with StubServer({"/": reply(body=b"safe")}, tls=tls) as server:
            world.put("secure.test", server)
            world.put("other.test", server)
            return await LiveFetcher(lookup=world.lookup, respect_robots=False).fetch(f"https://{name}/?key=secret")

    return asyncio.run(main())


def test_unknown_certificates_are_refused(tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WebError, match="self-signed certificate") as raised:
        _fetch_over_tls(tls, monkeypatch, "secure.test")
    assert raised.value.kind == "tls"
    assert "secret" not in raised.value.message


def test_trusted_certificates_are_for_their_names(
    tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
    assert _fetch_over_tls(tls, monkeypatch, "secure.test").body == b"safe"
    with pytest.raises(WebError, match=r"other\.test") as raised:
        _fetch_over_tls(tls, monkeypatch, "other.test")
    assert raised.value.kind == "tls"


def test_tls_to_a_server_without_it() -> None:
    def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(WebError) as raised:
                await fetcher().fetch(f"https://127.0.0.1:{port}/")
            assert raised.value.kind == "tls"

    asyncio.run(main())


# ---- many at once


def test_requests_to_one_host_take_turns() -> None:
    async def main() -> None:
        async with StubServer({"/": sends(reply(body=b"x"), pause=0.02)}) as server:
            async with fetcher(host_concurrency=3) as live:
                responses = await asyncio.gather(*(live.fetch(server.url()) for _ in range(30)))
            assert [response.body for response in responses] == [b"x"] * 30
            assert server.most_at_once == 3

    asyncio.run(main())


def test_requests_to_one_host_are_spaced() -> None:
    async def main() -> None:
        started: list[float] = []

        async def route(request: Request, writer: asyncio.StreamWriter) -> None:
            started.append(time.monotonic())
            writer.write(reply())

        async with StubServer({"/": route}) as server, fetcher(host_requests_per_second=50.0) as live:
            began = time.monotonic()
            await asyncio.gather(*(live.fetch(server.url()) for _ in range(6)))
        # The last may not start before five gaps of 20 ms have passed; a busy machine makes it later, never earlier.
        assert started[-1] - began > 0.099

    asyncio.run(main())


def test_connections_are_kept_within_async_with_only() -> None:
    async def main() -> None:
        async with StubServer({"/": reply(body=b"x")}) as server:
            async with fetcher() as live:
                for _ in range(5):
                    await live.fetch(server.url())
                assert server.connections_made == server.connections == 1
            await server.idle()
            for _ in range(3):
                await live.fetch(server.url())
                await server.idle()
            assert server.connections_made == 4

    asyncio.run(main())


def test_cancelled_fetches_leave_nothing_behind() -> None:
    async def main() -> None:
        async with StubServer({"/": sends(then="silence"), "/ok": reply(body=b"x")}) as server:
            live = fetcher(host_concurrency=4)
            tasks = [asyncio.create_task(live.fetch(server.url())) for _ in range(40)]
            await server.asked(4)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
            await server.idle()
            # Every turn at the host has been given back: four are to be had at once, and four at most.
            answers = await asyncio.gather(*(live.fetch(server.url("/ok")) for _ in range(20)))
            assert all(answer.body == b"x" for answer in answers)
            await server.idle()

    asyncio.run(main())


def test_cancelling_one_fetch_leaves_the_others_their_turns() -> None:
    async def main() -> None:
        routes: dict[str, Route] = {"/": sends(then="silence"), "/ok": reply(body=b"x")}
        async with StubServer(routes) as server, fetcher(host_concurrency=1) as live:
            stuck = asyncio.create_task(live.fetch(server.url()))
            await server.asked()
            waiting = asyncio.create_task(live.fetch(server.url("/ok")))
            await asyncio.sleep(0.02)
            stuck.cancel()
            assert (await waiting).body == b"x"

    asyncio.run(main())


def test_closing_ends_fetches_under_way() -> None:
    async def main() -> None:
        async with StubServer({"/": sends(then="silence")}) as server:
            live = fetcher()
            task = asyncio.create_task(live.fetch(server.url()))
            await server.asked()
            await live.aclose()
            with pytest.raises(WebError) as raised:
                await task
            assert raised.value.kind in ("closed", "connect")
            await server.idle()

    asyncio.run(main())


def test_one_fetcher_in_one_loop_after_another() -> None:
    live = fetcher()

    async def main() -> bytes:
        async with StubServer({"/": reply(body=b"x")}) as server:
            return (await live.fetch(server.url())).body

    assert [asyncio.run(main()) for _ in range(3)] == [b"x"] * 3


def test_two_loops_at_a_time_are_an_error() -> None:
    live = fetcher()

    async def main() -> None:
        async with StubServer({"/": sends(then="silence")}) as server:
            task = asyncio.create_task(live.fetch(server.url()))
            await server.asked()

            def elsewhere() -> None:
                with pytest.raises(RuntimeError, match="one event loop"):
                    asyncio.run(live.fetch(server.url()))

            await asyncio.to_thread(elsewhere)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.filterwarnings("error")
def test_nothing_is_left_to_be_closed_by_hand() -> None:
    complaints: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with StubServer({"/": reply(body=b"x")}) as server:
            await fetcher().fetch(server.url())
            url = server.url()
        with pytest.raises(WebError):
            await fetcher().fetch(url)
        gc.collect()

    asyncio.run(main())
    gc.collect()
    assert complaints == []


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
