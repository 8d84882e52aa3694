"""The answers that a recording holds, as JSON and back, every field checked.

A recording may come from anybody, and its text stands in a prompt as if the web had said it. Its pages must therefore
name the sites that their URLs lead to: a link to one site under the name of another, or a quote under a heading of a
site that it does not come from, would be a forgery that no cleaning of text can find.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from webgpt_jax.env.codec import encode
from webgpt_jax.env.page import Link, Page
from webgpt_jax.env.protocol import SearchResult
from webgpt_jax.env.urls import host_of


@dataclass(frozen=True)
class Failure:
    """The kind and message of a `WebError`."""

    kind: str
    message: str


@dataclass(frozen=True)
class Results:
    """The hits of a search, best first."""

    hits: tuple[SearchResult, ...]


Answer = Results | Page | Failure


def check_domains(page: Page) -> None:
    """Raises `ValueError` where the page, or a link on it, names another domain than the host of its URL.

    A page without a domain (the page of a search) claims nothing.
    """
    if page.domain and page.domain != host_of(page.url):
        raise ValueError("the page names another domain than that of its URL")
    for link in page.links:
        if link.domain != host_of(link.url):
            raise ValueError("a link on the page names another domain than that of its URL")


def encode_answer(answer: Answer) -> str:
    """The answer as JSON in ASCII: lone surrogates, which hostile URLs may hold, survive the way there and back.

    Raises:
      ValueError: it is a page that names false domains.
    """
    match answer:
        case Results(hits):
            return json.dumps({"results": encode(hits)})
        case Failure():
            return json.dumps({"error": encode(answer)})
        case Page():
            check_domains(answer)
            return json.dumps({"page": encode(answer)})


def decode_answer(kind: Literal["search", "open"], text: str) -> Answer:
    """The answer to a search or to the opening of a page which `encode_answer` made `text` of.

    Raises:
      ValueError: it is none; the message says why, in words of ours alone.
    """
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (ValueError, TypeError):  # the latter: a damaged file may hold anything in the place of text
        raise ValueError("it is no JSON") from None
    match content:
        case {"error": {"kind": str(error), "message": str(message), **inner}, **outer} if not inner and not outer:
            return Failure(error, message)
        case {"results": list(hits), **unknown} if kind == "search" and not unknown:
            return Results(tuple(_hit(hit) for hit in hits))
        case {"page": page, **unknown} if kind == "open" and not unknown:
            return _page(page)
    raise ValueError("it is neither a failure nor an answer to what was asked")


def _hit(value: Any) -> SearchResult:
    match value:
        case {"title": str(title), "url": str(url), "snippet": str(snippet), **unknown} if not unknown:
            return SearchResult(title, url, snippet)
    raise ValueError("one of its search results has a field that is missing, unknown or of another type")


def _link(value: Any) -> Link:
    match value:
        case {"id": int(number), "text": str(text), "url": str(url), "domain": str(domain), **unknown} if (
            not unknown and not isinstance(number, bool)
        ):
            return Link(number, text, url, domain)
    raise ValueError("one of its links has a field that is missing, unknown or of another type")


def _page(value: Any) -> Page:
    match value:
        case {
            "title": str(title),
            "domain": str(domain),
            "url": str(url),
            "text": str(text),
            "links": list(links),
            "error": str() | None as error,
            **unknown,
        } if not unknown:
            read = tuple(_link(link) for link in links)
            if len({link.id for link in read}) != len(read):
                raise ValueError("two links on its page have one ID")
            page = Page(title, domain, url, text, read, error)
            check_domains(page)
            return page
    raise ValueError("its page has a field that is missing, unknown or of another type")
