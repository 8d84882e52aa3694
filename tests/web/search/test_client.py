"""The HTTP half: retries, deadlines, caps, hostile servers, and that no key gets out."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import traceback
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from search_stub import ALL, CROWS, FAST, KEY, KEYED, Answer, Reaction, ask, failure, make, serve, shape

from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.web.search.client import HttpClient, HttpLimits


def good(name: str) -> Answer:
    return Answer(shape(name, "results"))


async def drop(request: web.Request) -> web.StreamResponse:
    """Closes the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def half(request: web.Request) -> web.StreamResponse:
    """Promises 1,000 bytes, sends some, and closes the connection."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"web": ')
    assert request.transport is not None
    request.transport.close()
    return response


async def never(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def trickle(request: web.Request) -> web.StreamResponse:
    """A byte now and then, for ever."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.01)


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "fault", [Answer(status=429), Answer(status=500), Answer(b"<h1>Bad Gateway</h1>", status=502), drop, half]
)
def test_a_fault_that_passes_is_tried_again(name: str, fault: Answer | Reaction) -> None:
    outcome, stub = ask(name, fault, fault, good(name))
    assert outcome == CROWS
    assert len(stub.requests) == 3


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (Answer(status=429), "rate_limit", "too often (HTTP 429)"),
        (Answer(status=503), "http", "HTTP 503 Service Unavailable"),
        (Answer(status=599), "http", "HTTP 599)"),
        (drop, "connection", "cannot be reached"),
        (half, "connection", "cannot be reached"),
    ],
)
def test_a_fault_that_stays_is_an_error_after_the_last_attempt(
    name: str, fault: Answer | Reaction, kind: str, words: str
) -> None:
    outcome, stub = ask(name, fault)
    assert isinstance(outcome, WebError)
    assert outcome.kind == kind
    assert words in outcome.message
    if fault is drop:  # the library itself asks again, once, where a GET loses its connection
        assert len(stub.requests) in (4, 8)
    else:
        assert len(stub.requests) == 4


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("status", [400, 404, 405, 410, 451])
def test_a_fault_of_the_request_is_not_tried_again(name: str, status: int) -> None:
    outcome, stub = ask(name, Answer(status=status))
    assert isinstance(outcome, WebError)
    assert outcome.kind == "http"
    assert f"HTTP {status}" in outcome.message
    assert len(stub.requests) == 1


def test_a_pause_that_is_asked_for_is_kept() -> None:
    times: list[float] = []

    async def timed(request: web.Request) -> web.StreamResponse:
        times.append(asyncio.get_running_loop().time())
        return web.Response(status=429, headers={"Retry-After": "1"})

    async def then(request: web.Request) -> web.StreamResponse:
        times.append(asyncio.get_running_loop().time())
        return web.json_response(shape("brave", "results"))

    outcome, _ = ask("brave", timed, then)
    assert outcome == CROWS
    assert times[1] - times[0] >= 1


@pytest.mark.parametrize("value", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT", "9" * 400])
def test_a_pause_past_the_deadline_ends_the_search_at_once(value: str) -> None:
    outcome, stub = ask("brave", Answer(shape("brave", "rate"), status=429, headers={"Retry-After": value}))
    assert isinstance(outcome, WebError)
    assert outcome.kind == "rate_limit"
    assert "pause of" in outcome.message
    assert len(stub.requests) == 1


@pytest.mark.parametrize("value", ["", "soon", "-5", "1e9", "٣", "Fri, 99 Dec 2100 99:59:59 GMT"])
def test_a_pause_that_makes_no_sense_is_ignored(value: str) -> None:
    outcome, _ = ask("brave", Answer(status=503, headers={"Retry-After": value}), good("brave"))
    assert outcome == CROWS


@pytest.mark.parametrize("fault", [never, trickle])
def test_a_slow_server_is_given_up_and_asked_again(fault: Reaction) -> None:
    limits = HttpLimits(request_seconds=0.1, deadline_seconds=20, attempts=2, first_pause_seconds=0.001)
    outcome, stub = ask("brave", fault, limits=limits)
    assert isinstance(outcome, WebError)
    assert outcome.kind == "timeout"
    assert len(stub.requests) == 2


def test_the_deadline_ends_everything() -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.Response(status=500)

    limits = HttpLimits(request_seconds=60, deadline_seconds=2, attempts=100, first_pause_seconds=0)
    assert failure("brave", never, limits=replace(limits, deadline_seconds=0.2)).kind == "timeout"
    assert failure("brave", late, limits=limits).kind == "http", "what it was before the time was up says more"


@pytest.mark.parametrize(
    "flood", [endless, Answer(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"})]
)
def test_an_answer_is_read_up_to_its_cap(flood: Answer | Reaction) -> None:
    outcome, stub = ask("brave", flood)
    assert isinstance(outcome, WebError)
    assert outcome.kind == "too_large"
    assert "4,194,304 bytes" in outcome.message
    assert len(stub.requests) == 1


def test_an_answer_below_the_cap_is_read_compressed_or_not() -> None:
    body = gzip.compress(json.dumps(shape("brave", "results")).encode())
    outcome, _ = ask("brave", Answer(body, headers={"Content-Encoding": "gzip"}))
    assert outcome == CROWS


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"no gzip", headers={"Content-Encoding": "gzip"}),
        Answer(headers={"X-Long": "x" * 100_000}),
    ],
)
def test_broken_http_is_an_error(answer: Answer) -> None:
    assert failure("brave", answer).kind == "connection"


def test_raw_bytes_that_are_no_http() -> None:
    async def run() -> str:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\x00\xffSSH-2.0-hello\r\n\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            backend = make("brave", f"http://127.0.0.1:{port}")
            with pytest.raises(WebError) as raised:
                await backend.search("crows")
            await backend.aclose()
            return raised.value.kind

    assert asyncio.run(run()) == "connection"


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:{port}", "https://127.0.0.1:{port}", "http://no-such-host.invalid", "http://127.0.0.1:99999"],
)
def test_a_server_that_is_not_there(url: str) -> None:
    async def run() -> BaseException:
        backend = make("brave", url.format(port=closed_port()))
        try:
            with pytest.raises((WebError, ValueError)) as raised:
                await backend.search("crows")
            return raised.value
        finally:
            await backend.aclose()

    error = asyncio.run(run())
    if "99999" in url:
        assert isinstance(error, ValueError)  # no port: the address itself is wrong
    else:
        assert isinstance(error, WebError)
        slow_names = ["timeout"] if "invalid" in url else []  # some networks swallow look-ups
        assert error.kind in ["connection", *slow_names]


def test_tls_that_does_not_hold_is_not_tried_again() -> None:
    async def run() -> WebError:
        async with serve(Answer()) as stub:  # speaks plain HTTP
            backend = make("brave", stub.url.replace("http:", "https:"))
            try:
                with pytest.raises(WebError) as raised:
                    await backend.search("crows")
                assert stub.requests == []
                return raised.value
            finally:
                await backend.aclose()

    error = asyncio.run(run())
    assert error.kind == "connection"
    assert "secure" in error.message


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_do_not_carry_the_key_away(name: str, status: int) -> None:
    async def run() -> None:
        async with serve(Answer()) as other:
            outcome_answer = Answer(status=status, headers={"Location": other.url + "/steal"})
            async with serve(outcome_answer) as stub:
                backend = make(name, stub.url)
                with pytest.raises(WebError, match="another address") as raised:
                    await backend.search("crows")
                await backend.aclose()
                assert raised.value.kind == "setup"
                assert other.requests == []

    asyncio.run(run())


def test_cookies_are_not_kept() -> None:
    async def run() -> None:
        async with serve(Answer(shape("brave", "none"), headers={"Set-Cookie": "id=1"})) as stub:
            backend = make("brave", stub.url.replace("127.0.0.1", "localhost"))  # addresses have no cookies anyway
            await backend.search("one")
            await backend.search("two")
            await backend.aclose()
            assert "Cookie" not in stub.requests[1].headers

    asyncio.run(run())


def test_proxy_variables_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    outcome, _ = ask("brave", good("brave"))
    assert outcome == CROWS


# ---- many at once


def run_many(name: str, queries: int, *answers: Answer | Reaction, limits: HttpLimits) -> tuple[list[Any], list[float]]:
    """The outcomes of searches made at once, and when each request came to the server."""
    times: list[float] = []

    async def run() -> list[Any]:
        async def noted(request: web.Request) -> web.StreamResponse:
            times.append(asyncio.get_running_loop().time())
            return web.json_response(shape(name, "results"))

        async with serve(*(answers or (noted,))) as stub:
            backend = make(name, stub.url, limits=limits)
            searches: list[Coroutine[Any, Any, list[SearchResult]]] = [
                backend.search(f"query {at}") for at in range(queries)
            ]
            outcomes = await asyncio.gather(*searches, return_exceptions=True)
            await backend.aclose()
            return outcomes

    return asyncio.run(run()), times


def test_many_searches_at_once() -> None:
    outcomes, times = run_many("brave", 200, limits=FAST)
    assert outcomes == [CROWS] * 200
    assert len(times) == 200


def test_turns_are_spaced_and_none_is_taken_past_the_deadline() -> None:
    client = HttpClient("x", HttpLimits(per_second=2))
    assert [client._take_turn(10.0, 11.0) for _ in range(4)] == [10.0, 10.5, None, None]
    assert client._take_turn(10.1, 99.0) == 11.0  # the two that were refused took no turn
    assert client._take_turn(50.0, 99.0) == 50.0  # quiet times are not saved up
    assert client._take_turn(50.1, 99.0) == 50.5
    free = HttpClient("x", HttpLimits())
    assert [free._take_turn(10.0, 11.0) for _ in range(3)] == [10.0, 10.0, 10.0]


def test_a_queue_longer_than_the_deadline_is_refused_and_the_rest_served() -> None:
    outcomes, times = run_many("brave", 100, limits=HttpLimits(per_second=10, deadline_seconds=1))
    refused = [outcome for outcome in outcomes if isinstance(outcome, WebError)]
    assert outcomes[0] == CROWS
    assert outcomes.count(CROWS) + len(refused) == 100
    assert len(times) < 50
    assert {error.kind for error in refused} <= {"rate_limit", "timeout"}
    assert "10 times a second" in refused[-1].message


def test_every_attempt_takes_a_turn() -> None:
    async def run() -> None:
        async with serve(Answer(status=500)) as stub:
            backend = make("brave", stub.url, limits=HttpLimits(per_second=20, attempts=3, first_pause_seconds=0))
            start = asyncio.get_running_loop().time()
            with pytest.raises(WebError):
                await backend.search("crows")
            await backend.aclose()
            assert len(stub.requests) == 3
            assert backend._client._next_turn >= start + 3 / 20

    asyncio.run(run())


def test_a_cancelled_search_leaves_the_others_alone() -> None:
    async def run() -> None:
        gate, both = asyncio.Event(), asyncio.Barrier(3)

        async def wait(request: web.Request) -> web.StreamResponse:
            await both.wait()
            await gate.wait()
            return web.json_response(shape("brave", "results"))

        async with serve(wait) as stub:
            backend = make("brave", stub.url)
            first = asyncio.create_task(backend.search("one"))
            second = asyncio.create_task(backend.search("two"))
            await both.wait()
            first.cancel()
            gate.set()
            assert await second == CROWS
            with pytest.raises(asyncio.CancelledError):
                await first
            await backend.aclose()

    asyncio.run(run())


def test_a_closed_backend_says_so() -> None:
    async def run() -> None:
        backend = make("brave", "http://127.0.0.1:9")
        await backend.aclose()
        await backend.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await backend.search("crows")

    asyncio.run(run())


# ---- secrets


async def echo(request: web.Request) -> web.StreamResponse:
    """A server that sends the key back in every place it can."""
    said = f"the key {KEY} at {request.url} is bad"
    body = {
        "message": said,
        "error": {"code": KEY, "detail": said, "message": said},
        "errors": [{"message": said}],
        "detail": {"error": said},
        "response": {"status": f"ERROR: {said}"},
    }
    return web.json_response(body, status=int(request.headers.get("X-Status", "400")), headers={"X-Key": KEY})


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize(
    "fault",
    [
        echo,
        drop,
        half,
        never,
        Answer(status=401),
        Answer(status=429),
        Answer(status=302, headers={"Location": f"http://127.0.0.1:1/{KEY}"}),
        Answer(f"<html>{KEY}</html>".encode()),
        Answer(f'{{"{KEY}'.encode()),
        Answer({"response": {"status": f"ERROR: {KEY}"}}),
        Answer({"response": {"status": f"ERROR: nothing for {KEY[3:14]} today"}}),
        Answer({"message": f"no {KEY[-8:]}"}, status=400),
        Answer(headers={"X-Long": KEY * 10_000}),
    ],
)
def test_no_key_in_an_error_a_traceback_a_repr_or_a_log(
    name: str, fault: Answer | Reaction, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    limits = HttpLimits(request_seconds=0.2, deadline_seconds=5, attempts=2, first_pause_seconds=0.001)

    async def run() -> tuple[WebError, str]:
        asyncio.get_running_loop().set_debug(True)
        async with serve(fault) as stub:
            backend = make(name, stub.url, limits=limits)
            try:
                await backend.search("crows")
            except WebError as error:
                shown = "".join(traceback.format_exception(error))
                context: BaseException | None = error
                while context is not None:
                    shown += repr(context) + str(context)
                    context = context.__context__ or context.__cause__
                return error, shown + repr(backend) + repr(backend._request("q")) + repr(backend._client)
            finally:
                await backend.aclose()
            raise AssertionError("no error")

    error, shown = asyncio.run(run())
    pieces = [KEY[at : at + 6] for at in range(len(KEY) - 5)]
    for text in (error.message, error.kind, shown, caplog.text):
        assert not [piece for piece in pieces if piece in text]
