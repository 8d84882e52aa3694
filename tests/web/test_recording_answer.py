"""Answers from a recording that is damaged, or made to deceive, are refused by name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

import pytest
from damage import change, recorded

from webgpt_jax.env import Link, Page, SearchResult
from webgpt_jax.web.recording import Recording, RecordingError, ReplayWeb
from webgpt_jax.web.recording_answer import Failure, Results, decode_answer
from webgpt_jax.web.recording_file import Request

A_PAGE: dict[str, Any] = {
    "title": "T",
    "domain": "a.test",
    "url": "http://a.test/",
    "text": "x",
    "links": [],
    "error": None,
}
A_LINK: dict[str, Any] = {"id": 0, "text": "b", "url": "http://b.test/", "domain": "b.test"}
A_HIT: dict[str, Any] = {"title": "T", "url": "http://a.test/", "snippet": ""}

NO_FIELDS: list[Any] = [7, True, 2.5, ["x"], [], {"x": "y"}]  # of no type that a field has, but for a page's links
NO_LINKS: list[Any] = [None, 7, [], {}, {**A_LINK, "more": 1}]

NO_ANSWERS: list[object] = [
    *("{", "", "[]", "3", "null", "{}", "[" * 100_000, '{"error":' * 100_000, "9" * 5_000),
    *(b"\xff\xfe{}", 3, 2.5, "\0"),
    {"error": "text"},
    {"error": {"kind": None, "message": "x"}},
    {"error": {"kind": "http", "message": 7}},
    {"error": {"kind": "http"}},
    {"error": {"kind": "http", "message": "x", "more": 1}},
    {"error": {"kind": "http", "message": "x"}, "more": 1},
]
NO_RESULTS: list[object] = [
    *({"results": value} for value in [None, "text", *NO_FIELDS[:3], NO_FIELDS[-1]]),
    *({"results": [value]} for value in [None, "text", *NO_FIELDS, {}, {**A_HIT, "more": 1}]),
    *({"results": [{**A_HIT, name: value}]} for name in A_HIT for value in [None, *NO_FIELDS]),
    {"page": A_PAGE},
]
NO_PAGES: list[object] = [
    *({"page": value} for value in [None, "text", *NO_FIELDS, {}, {**A_PAGE, "more": 1}]),
    *({"page": {**A_PAGE, name: value}} for name in A_PAGE if name != "links" for value in NO_FIELDS),
    *({"page": {**A_PAGE, name: None}} for name in A_PAGE if name != "error"),
    *({"page": {**A_PAGE, "links": value}} for value in ["text", 7, A_LINK]),
    *({"page": {**A_PAGE, "links": [value]}} for value in NO_LINKS),
    *({"page": {**A_PAGE, "links": [{**A_LINK, name: value}]}} for name in A_LINK for value in [None, *NO_FIELDS[1:]]),
    {"page": {**A_PAGE, "url": "http://a.test/" + "x" * 100_000, "links": [A_LINK, A_LINK]}},  # two links, one ID
    {"results": [A_HIT]},
]


@pytest.mark.parametrize(
    ("kind", "damage"),
    [("search", damage) for damage in NO_ANSWERS + NO_RESULTS] + [("open", damage) for damage in NO_ANSWERS + NO_PAGES],
)
def test_what_is_no_answer_is_refused(kind: Literal["search", "open"], damage: Any) -> None:
    with pytest.raises(ValueError, match=r"^(it|its|one of its|two links on its page) ") as caught:
        decode_answer(kind, json.dumps(damage) if isinstance(damage, dict) else damage)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    "damage",
    [
        json.dumps({"results": [{**A_HIT, "title": None}]}),
        json.dumps({"page": {**A_PAGE, "url": 7}}),
        json.dumps({"error": {"kind": 7, "message": "x"}}),
        "[" * 100_000,
        b"\xff\xfe{}",
    ],
)
@pytest.mark.parametrize(
    ("asked", "shown"),
    [(Request.search("q  r"), "the search 'q r'"), (Request.open("http://a.test/"), "the page 'http://a.test/'")],
)
def test_a_damaged_answer_is_named(tmp_path: Path, asked: Request, shown: str, damage: object) -> None:
    path = tmp_path / "a.webrec"
    recorded(path, asked, Failure("http", "x"))
    change(path, "UPDATE answers SET answer = ?", damage)
    with Recording(path, write=False) as recording:
        web = ReplayWeb(recording)
        with pytest.raises(RecordingError, match="is damaged: its answer to") as caught:
            asyncio.run(web.search("q r") if asked.kind == "search" else web.open("http://a.test/"))
        assert str(path) in str(caught.value)
        assert shown in str(caught.value)
        assert len(str(caught.value)) < 500
        with pytest.raises(RecordingError, match="is damaged") as listed:
            list(recording.rows())
        assert str(listed.value) == str(caught.value)


def test_the_undamaged_forms_of_these_answers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.webrec"
    recorded(path, Request.search("q"), Failure("http", "x"))
    recorded(path, Request.open("http://a.test/"), Failure("http", "x"))
    change(path, "UPDATE answers SET answer = ? WHERE kind = 'search'", json.dumps({"results": [A_HIT]}))
    page = {**A_PAGE, "text": "x 【0†b†b.test】", "links": [A_LINK]}
    change(path, "UPDATE answers SET answer = ? WHERE kind = 'open'", json.dumps({"page": page}))
    with Recording(path, write=False) as recording:
        assert recording.find(Request.search("q")) == Results((SearchResult("T", "http://a.test/", ""),))
        opened = recording.find(Request.open("http://a.test/"))
    assert isinstance(opened, Page)
    assert opened.text == "x 【0†b†b.test】"
    assert opened.links[0].url == "http://b.test/"


FALSE_DOMAINS = [
    {**A_PAGE, "domain": "bbc.co.uk"},
    {**A_PAGE, "domain": "A.test"},
    {**A_PAGE, "domain": "bbc.co.uk", "url": "search:x"},
    {**A_PAGE, "text": "【0†click†bank.example】", "links": [{**A_LINK, "domain": "bank.example"}]},
    {**A_PAGE, "text": "【0†click】", "links": [{**A_LINK, "domain": "a.test"}]},  # as if it stayed on the page's site
    {**A_PAGE, "domain": "", "links": [{**A_LINK, "domain": ""}]},
    {**A_PAGE, "links": [{**A_LINK, "url": "http://b.test@evil.test/"}]},
    {**A_PAGE, "links": [{**A_LINK, "url": "javascript:x"}]},
]


@pytest.mark.parametrize("page", FALSE_DOMAINS)
def test_a_page_with_a_false_domain_is_damaged_and_is_not_recorded(tmp_path: Path, page: dict[str, Any]) -> None:
    path = tmp_path / "a.webrec"
    asked = Request.open("http://a.test/")
    recorded(path, asked, Failure("http", "x"))
    change(path, "UPDATE answers SET answer = ?", json.dumps({"page": page}))
    with Recording(path) as recording:
        with pytest.raises(RecordingError, match=r"is damaged.*names another domain than that of its URL"):
            asyncio.run(ReplayWeb(recording).open("http://a.test/"))
        made = Page(**{**page, "links": [Link(**link) for link in page["links"]]})
        with pytest.raises(RecordingError, match=r"the answer to the page 'http://b\.test/' cannot be recorded"):
            recording.keep(Request.open("http://b.test/"), made)
        assert recording.find(Request.open("http://b.test/")) is None


def test_a_page_without_a_domain_claims_nothing(tmp_path: Path) -> None:
    asked = Request.open("search:x")
    with Recording(tmp_path / "a.webrec") as recording:
        for url in ("search:x", "http://a.test/"):
            page = Page("T", "", url, "【0†b†b.test】", [Link(0, "b", "http://b.test/", "b.test")])
            asked = Request.open(url)
            assert recording.keep(asked, page) == recording.find(asked) == page
