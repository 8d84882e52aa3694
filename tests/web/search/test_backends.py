"""Each API: what is sent, what is read, and what its own errors become."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from search_stub import ALL, CROWS, FAST, KEY, KEYED, Answer, ask, failure, make, serve, shape

from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.web.search import BACKEND_NAMES
from webgpt_jax.web.search.bing import Bing
from webgpt_jax.web.search.brave import Brave
from webgpt_jax.web.search.client import HttpLimits
from webgpt_jax.web.search.mojeek import Mojeek
from webgpt_jax.web.search.searxng import SearXNG
from webgpt_jax.web.search.serper import Serper
from webgpt_jax.web.search.tavily import Tavily


def test_every_name_is_tried_here() -> None:
    assert sorted(BACKEND_NAMES) == sorted(ALL)


@pytest.mark.parametrize("name", ALL)
def test_results_are_read_from_the_recorded_shape(name: str) -> None:
    outcome, _ = ask(name, Answer(shape(name, "results")))
    assert outcome == CROWS


@pytest.mark.parametrize("name", ALL)
def test_no_hits_are_an_empty_list(name: str) -> None:
    outcome, _ = ask(name, Answer(shape(name, "none")))
    assert outcome == []


@pytest.mark.parametrize("name", ALL)
def test_count_cuts_the_list(name: str) -> None:
    outcome, _ = ask(name, Answer(shape(name, "results")), count=1)
    assert outcome == CROWS[:1]


@pytest.mark.parametrize(
    ("name", "method", "path", "params", "header", "body"),
    [
        (
            "brave",
            "GET",
            "/web/search",
            {"q": "crows & gifts", "count": "10", "result_filter": "web", "text_decorations": "false"},
            ("X-Subscription-Token", KEY),
            None,
        ),
        ("searxng", "GET", "/search", {"q": "crows & gifts", "format": "json"}, ("Accept", "application/json"), None),
        ("serper", "POST", "/search", {}, ("X-API-KEY", KEY), {"q": "crows & gifts", "num": 10}),
        (
            "tavily",
            "POST",
            "/search",
            {},
            ("Authorization", f"Bearer {KEY}"),
            {"query": "crows & gifts", "max_results": 10, "search_depth": "basic"},
        ),
        (
            "mojeek",
            "GET",
            "/search",
            {"api_key": KEY, "q": "crows & gifts", "fmt": "json", "t": "10"},
            ("Accept", "application/json"),
            None,
        ),
        (
            "bing",
            "GET",
            "/search",
            {
                "q": "crows & gifts",
                "count": "10",
                "responseFilter": "Webpages",
                "textDecorations": "false",
                "textFormat": "Raw",
            },
            ("Ocp-Apim-Subscription-Key", KEY),
            None,
        ),
    ],
)
def test_the_request_is_the_documented_one(
    name: str, method: str, path: str, params: dict[str, str], header: tuple[str, str], body: dict[str, Any] | None
) -> None:
    _, stub = ask(name, Answer(shape(name, "none")), query="  crows &\n gifts ")
    assert len(stub.requests) == 1
    request = stub.requests[0]
    assert (request.method, request.path, dict(request.query)) == (method, path, params)
    assert request.headers[header[0]] == header[1]
    assert (json.loads(stub.bodies[0]) if stub.bodies[0] else None) == body
    assert (KEY in str(request.url)) == (name == "mojeek")


@pytest.mark.parametrize(
    ("cls", "address"),
    [
        (Brave, "https://api.search.brave.com/res/v1/web/search"),
        (Serper, "https://google.serper.dev/search"),
        (Tavily, "https://api.tavily.com/search"),
        (Mojeek, "https://www.mojeek.com/search"),
        (Bing, "https://api.bing.microsoft.com/v7.0/search"),
    ],
)
def test_default_addresses(cls: type[Brave | Serper | Tavily | Mojeek | Bing], address: str) -> None:
    assert cls("k")._request("q").url == address


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("brave", 50),  # 50 words
        ("tavily", 80),  # 400 characters
    ],
)
def test_long_queries_are_cut_to_the_documented_limit(name: str, words: int) -> None:
    _, stub = ask(name, Answer(shape(name, "none")), query="word " * 1_000)
    sent = stub.requests[0].query.get("q") or json.loads(stub.bodies[0])["query"]
    assert sent == " ".join(["word"] * words)
    assert len(sent) <= 400


def test_bing_stays_under_its_limit_of_a_url_whatever_the_script() -> None:
    _, stub = ask("bing", Answer(shape("bing", "none")), query="からすの おくりもの " * 300)
    assert stub.requests[0].query["q"].startswith("からすの おくりもの からすの")
    assert 1_000 < len(stub.requests[0].rel_url.raw_query_string) < 1_500


# ---- keys


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("key", ["", "  \n"])
def test_a_missing_key_names_the_variable_and_where_to_get_one(name: str, key: str) -> None:
    outcome, stub = ask(name, Answer(), key=key)
    assert isinstance(outcome, WebError)
    assert outcome.kind == "key"
    assert f"{name.upper()}_API_KEY" in outcome.message
    assert "https://" in outcome.message
    assert stub.requests == []
    with pytest.raises(WebError, match=f"{name.upper()}_API_KEY"):
        make(name, stub.url, key=key).check()


@pytest.mark.parametrize("key", ["two words", "line\r\nX-Injected: yes", "ключ", "tab\there"])
def test_a_key_that_is_none_is_refused_before_it_is_sent(key: str) -> None:
    outcome, stub = ask("brave", Answer(), key=key)
    assert isinstance(outcome, WebError)
    assert outcome.kind == "key"
    assert key not in outcome.message
    assert stub.requests == []


@pytest.mark.parametrize(
    ("url", "words"), [("", "SEARXNG_URL is not set"), ("localhost:8080", "no http"), ("ftp://x.test", "no http")]
)
def test_searxng_needs_an_address(url: str, words: str) -> None:
    backend = SearXNG(url)
    with pytest.raises(WebError, match=words) as raised:
        backend.check()
    assert raised.value.kind == "key"
    with pytest.raises(WebError, match=words):
        asyncio.run(backend.search("crows"))


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key(name: str, status: int) -> None:
    outcome, stub = ask(name, Answer({"message": f"bad key {KEY}"}, status=status))
    assert isinstance(outcome, WebError)
    assert outcome.kind == "key"
    assert f"{name.upper()}_API_KEY" in outcome.message
    assert KEY not in outcome.message
    assert len(stub.requests) == 1, "asking again with the same key cannot help"


@pytest.mark.parametrize(
    ("name", "part", "status"),
    [
        ("brave", "bad_key", 422),
        ("brave", "bad_key_as_documented", 404),
        ("serper", "bad_key", 403),
        ("tavily", "bad_key", 401),
        ("mojeek", "bad_key", 200),
        ("bing", "bad_key", 401),
    ],
)
def test_a_refused_key_in_the_words_of_each_api(name: str, part: str, status: int) -> None:
    assert failure(name, Answer(shape(name, part), status=status)).kind == "key"


@pytest.mark.parametrize("name", ALL)
def test_payment_required_is_quota(name: str) -> None:
    outcome, stub = ask(name, Answer({}, status=402))
    assert isinstance(outcome, WebError)
    assert outcome.kind == "quota"
    assert len(stub.requests) == 1


@pytest.mark.parametrize(
    ("name", "status"), [("brave", 429), ("serper", 400), ("tavily", 432), ("tavily", 433), ("mojeek", 200)]
)
def test_a_quota_in_the_words_of_each_api(name: str, status: int) -> None:
    outcome, stub = ask(name, Answer(shape(name, "quota"), status=status))
    assert isinstance(outcome, WebError)
    assert outcome.kind == "quota"
    assert len(stub.requests) == 1, "asking again cannot help"


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("brave", 422, "Unable to validate request parameter(s)"),
        ("serper", 400, "Query not allowed"),
        ("tavily", 400, "Query is too long. Max query length is 400 characters."),
        ("mojeek", 200, "ERROR: No Query"),
        ("mojeek", 400, "ERROR: No Query"),
        ("bing", 400, "Required parameter is missing."),
    ],
)
def test_other_refusals_quote_the_service(name: str, status: int, words: str) -> None:
    error = failure(name, Answer(shape(name, "bad_request"), status=status))
    assert error.kind == "http"
    assert words in error.message


def test_bing_says_that_it_is_retired_in_every_error() -> None:
    errors = [
        failure("bing", Answer(), key=""),
        failure("bing", Answer(shape("bing", "bad_key"), status=401)),
        failure("bing", Answer({}, status=404)),
        failure("bing", Answer(b"<html>gone</html>")),
        failure("bing", Answer({}, status=500)),
    ]
    assert all("retired by Microsoft in August 2025" in error.message for error in errors)


def test_searxng_says_how_to_turn_json_on() -> None:
    error = failure("searxng", Answer(b"<h1>Forbidden</h1>", status=403))
    assert error.kind == "setup"
    assert "search.formats" in error.message


def test_searxng_tells_no_hits_from_engines_that_failed() -> None:
    error = failure("searxng", Answer(shape("searxng", "unresponsive")))
    assert "did not answer" in error.message


def test_searxng_takes_a_path_and_a_login_and_shows_neither() -> None:
    async def run() -> None:
        async with serve(Answer(shape("searxng", "none"))) as stub:
            url = stub.url.replace("http://", "http://someone:pass-word-1@") + "/searx/"
            backend = SearXNG(url, limits=FAST)
            assert await backend.search("crows") == []
            assert stub.requests[0].path == "/searx/search"
            assert stub.requests[0].headers["Authorization"] == "Basic c29tZW9uZTpwYXNzLXdvcmQtMQ=="
            assert "pass-word-1" not in repr(backend) + repr(backend._request("q"))
            await backend.aclose()

    asyncio.run(run())


# ---- answers that are no answers


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b" \r\n", "empty"),
        (b"<!DOCTYPE html><title>Log in</title>", "HTML"),
        (b'{"web": {"results": [{"title": "cut o', "broken JSON"),
        (b"\xff\xfe\x00garbage", "broken JSON"),
        (b"[" * 200_000, "broken JSON"),
        (b"[]", "no object"),
        (b"null", "no object"),
        (b'"text"', "no object"),
        (b"17", "no object"),
        (b"{}", "has no"),
    ],
)
def test_an_answer_that_cannot_be_read(name: str, body: bytes, words: str) -> None:
    error = failure(name, Answer(body))
    assert error.kind == "bad_answer"
    assert words in error.message


def around(name: str, entries: Any) -> dict[str, Any]:
    """A valid answer with that in the place of its results."""
    return {
        "brave": {"type": "search", "web": {"results": entries}},
        "searxng": {"results": entries},
        "serper": {"searchParameters": {}, "organic": entries},
        "tavily": {"results": entries},
        "mojeek": {"response": {"status": "OK", "results": entries}},
        "bing": {"_type": "SearchResponse", "webPages": {"value": entries}},
    }[name]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("entries", ["text", 5, {"0": {}}, True])
def test_results_of_a_wrong_type(name: str, entries: Any) -> None:
    error = failure(name, Answer(around(name, entries)))
    assert error.kind == "bad_answer"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("brave", {"type": "search", "web": "text"}),
        ("bing", {"_type": "SearchResponse", "webPages": ["text"]}),
        ("mojeek", {"response": "text"}),
        ("mojeek", {"response": {"status": ["OK"]}}),
    ],
)
def test_what_should_hold_the_results_has_a_wrong_type(name: str, body: Any) -> None:
    assert failure(name, Answer(body)).kind == "bad_answer"


@pytest.mark.parametrize("name", ALL)
def test_null_for_results_is_no_hits(name: str) -> None:
    outcome, _ = ask(name, Answer(around(name, None)))
    assert outcome == []


@pytest.mark.parametrize("name", ALL)
def test_unusable_entries_are_skipped_and_the_others_kept(name: str) -> None:
    good = next(iter(_entries(name, shape(name, "results"))))
    url = "link" if name == "serper" else "url"
    bad: list[Any] = [None, 5, "text", [], {}, {**good, url: None}, {**good, url: 7}, {**good, url: ""}]
    bad += [{**good, url: address} for address in ("javascript:alert(1)", "ftp://a.test/", "/relative", "http://[::1")]
    bad += [{**good, url: "https://a.test/\ud800"}, {**good, url: "https://a.test/" + "x" * 9_000}]
    twice = {**good, url: good[url] + "#comments"}
    outcome, _ = ask(name, Answer(around(name, [*bad, good, good, twice])))
    assert outcome == CROWS[:1]


def _entries(name: str, answer: Any) -> list[dict[str, Any]]:
    path = {"brave": "web.results", "serper": "organic", "mojeek": "response.results", "bing": "webPages.value"}
    for step in path.get(name, "results").split("."):
        answer = answer[step]
    return list(answer)


@pytest.mark.parametrize("name", ALL)
def test_a_result_with_only_a_url_is_a_result(name: str) -> None:
    url = "link" if name == "serper" else "url"
    outcome, _ = ask(name, Answer(around(name, [{url: "https://a.test/page"}])))
    assert outcome == [SearchResult(title="https://a.test/page", url="https://a.test/page", snippet="")]


@pytest.mark.parametrize("query", ["", "   ", "\u200b\x00"])
def test_a_query_without_words_is_not_sent(query: str) -> None:
    outcome, stub = ask("tavily", Answer(), query=query)
    assert isinstance(outcome, WebError)
    assert outcome.kind == "query"
    assert stub.requests == []


def test_wrong_settings_are_errors_of_the_program() -> None:
    with pytest.raises(ValueError, match="1 to 20"):
        Brave(KEY, count=21)
    with pytest.raises(ValueError, match="1 to 100"):
        Serper(KEY, count=0)
    with pytest.raises(ValueError, match="base URL"):
        Brave(KEY, base_url="api.search.brave.com").check()
    with pytest.raises(ValueError, match="above zero"):
        HttpLimits(attempts=0)
    with pytest.raises(ValueError, match="above zero"):
        HttpLimits(per_second=0)
    with pytest.raises(ValueError, match="negative"):
        HttpLimits(first_pause_seconds=-1)
    with pytest.raises(ValueError, match="so often"):
        HttpLimits(attempts=101)
