"""From the JSON of a search API to `SearchResult`s, whatever is missing from it or wrong with it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from webgpt_jax.env.protocol import SearchResult
from webgpt_jax.env.text import clean_line
from webgpt_jax.env.urls import resolve

MAX_TITLE = 300  # characters; longer ones are cut (our reading, as the next one)
MAX_SNIPPET = 1_000
MAX_URL = 8_000  # characters; no server takes longer ones, the result is skipped

# The tags by which engines mark the words that were found. Others are left alone: in a snippet about C++ or HTML,
# `vector<int>` and `<table>` are the text.
_HIGHLIGHTS = "b|strong|em|i|u|mark|span|font"
_HIGHLIGHT = re.compile(rf"</?(?:{_HIGHLIGHTS})(?:\s[^<>]*)?>", re.IGNORECASE)
_HIGHLIGHTED = re.compile(rf"<({_HIGHLIGHTS})(?:\s[^<>]*)?>([^<>]*)</\1>", re.IGNORECASE)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def dig(value: Any, *path: str | int) -> Any:
    """What stands in nested JSON at a path of names and places; None where the path leads nowhere."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def plain_text(value: Any, max_chars: int, is_html: bool) -> str:
    """One line of plain text: highlighting is taken out, entities are unescaped once, the length is capped.

    Where an API's texts are not HTML by its documentation, only whole pairs of tags count as highlighting: a single
    `<b>` is then what the page talks about. Empty for what is no string.
    """
    if not isinstance(value, str):
        return ""
    value = value[: 4 * max_chars]  # markup may take its share; what is left is cut below
    bare = _HIGHLIGHT.sub("", value) if is_html else _HIGHLIGHTED.sub(r"\2", value)
    text = clean_line(html.unescape(_BREAK.sub(" ", bare)))
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + "…"


def _web_url(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_URL:
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return ""
    return resolve("", value)


def to_results(
    entries: Iterable[Any],
    count: int,
    *,
    title: str,
    url: str,
    snippet: str,
    is_html: bool,
    refuse: Callable[[SearchResult], bool],
) -> list[SearchResult]:
    """The first `count` usable entries of an answer.

    `title`, `url` and `snippet` are the API's names of these fields; `is_html` says whether its texts are HTML.
    An entry without an http(s) URL, one whose page is already in the list, and one that `refuse` is true of is skipped.
    One without a title is given its URL as title.
    """
    results: list[SearchResult] = []
    pages: set[str] = set()
    for entry in entries:
        if len(results) == count:
            break
        address = _web_url(dig(entry, url))
        page = address.partition("#")[0]
        if not address or page in pages:
            continue
        result = SearchResult(
            title=plain_text(dig(entry, title), MAX_TITLE, is_html) or clean_line(address)[:MAX_TITLE],
            url=address,
            snippet=plain_text(dig(entry, snippet), MAX_SNIPPET, is_html),
        )
        if not refuse(result):
            pages.add(page)
            results.append(result)
    return results


def cut_query(query: str, max_chars: int, max_words: int | None = None, max_encoded: int | None = None) -> str:
    """The query on one line, cut between words to what an API takes; within a word where there is no other way.

    Args:
      query: any text.
      max_chars: characters.
      max_words: words separated by white space; None for any number.
      max_encoded: characters of the query as it stands in a URL, percent-encoded; None for any number.
    """
    words = clean_line(query).split(" ")[:max_words]
    text = " ".join(words)
    limit = max_chars
    if max_encoded is not None:
        room = max_encoded
        for at, character in enumerate(text):
            room -= len(quote(character, safe=""))
            if room < 0:
                limit = min(limit, at)
                break
    if len(text) <= limit:
        return text
    cut = text.rfind(" ", 0, limit + 1)
    return text[: cut if cut > 0 else limit]
