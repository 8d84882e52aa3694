"""The live fetcher against servers that are slow, broken, busy or not to be trusted, one or many at once."""

from __future__ import annotations

import asyncio
import datetime
import gc
import gzip
import ssl
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.web.fetching import CHUNKED, chunk, endless, failed, fetch, fetcher, in_turn, sends
from tests.web.stub_server import Request, Route, StubServer, World, reply
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.fetch import LiveFetcher, Response

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
        endless(CHUNKED, chunk(b"x"), 0.02),
        endless(CHUNKED + b"1;", b"x", 0.02),
        endless(CHUNKED + b"0\r\n", b"X: y\r\n", 0.02),
        endless(OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(gzip.compress(b"")), 0.02),
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
