"""A TinyWeb as a `Web`: its pages come through the same conversion, search index and cache as those of the live web.

async with open_tinyweb(seed=0) as web:
    browser = Browser(web, TINYWEB_BROWSER)
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.env.state import BrowserConfig
from webgpt_jax.env.urls import host_of
from webgpt_jax.tinyweb.html import Draft, plain_page, write_page
from webgpt_jax.tinyweb.sites import SITES, draft_pages
from webgpt_jax.tinyweb.world import WORLD_ANIMALS, World, make_world
from webgpt_jax.web.convert import convert
from webgpt_jax.web.index import Document, IndexFault, SearchIndex, build_index
from webgpt_jax.web.pages import LiveWeb

RESULTS = 5  # of a search
SNIPPET_CHARS = 40

_VERSION = 1  # of what is indexed of a page
_HTML = "text/html; charset=utf-8"
_TOKEN = re.compile(r"[A-Za-z]+|[^A-Za-z ]")

Progress = Callable[[int, int], None]


def approximate_tokens(text: str) -> int:
    """The length of a text in tokens of a vocabulary that holds every word: words, signs and line ends."""
    return len(_TOKEN.findall(text))


TINYWEB_BROWSER = BrowserConfig(
    max_actions=30,  # a question of three facts takes a careful reader some 16
    count_tokens=approximate_tokens,  # replace it by the tokenizer's
    max_observation_tokens=320,
    max_reference_tokens=128,
    window_chars=400,
)
"""The browser that TinyWeb's models are shown: terse pages, and observations that, with three quotes and
eight past actions, keep a full window within 320 tokens of a vocabulary that holds every word."""


class Library:
    """A world's pages at hand, all of them, and its search engine: what reading tasks and scripts are made from.

    The pages are those of the web, but written directly and not converted, see `plain_page`. Made by `open_library`,
    which loads nothing that a fork would not survive.
    """

    def __init__(self, world: World, drafts: Sequence[Draft], index: SearchIndex) -> None:
        self.world = world
        self._drafts = drafts
        self._index = index

    @cached_property
    def by_url(self) -> Mapping[str, Page]:
        """All pages by URL: each animal's, its article first, then lists and home pages."""
        return {draft.url: plain_page(draft) for draft in self._drafts}

    @cached_property
    def pages(self) -> Mapping[str, Sequence[Page]]:
        """By animal, its pages on all sites, the article first."""
        found: dict[str, list[Page]] = {animal: [] for animal in self.world.animals}
        for draft in self._drafts:
            if draft.animal is not None:
                found[draft.animal].append(self.by_url[draft.url])
        return found

    def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, best first, at most `RESULTS`. Any string is a query."""
        hits = self._index.search(query, RESULTS)
        return [SearchResult(hit.title, hit.key, _snippet(self.by_url[hit.key].plain, query)) for hit in hits]

    def close(self) -> None:
        """Closes the index. Nothing can be searched afterwards."""
        self._index.close()


def _snippet(text: str, query: str) -> str:
    """The first sentence that holds the most words of the query, cut at a blank."""
    words = query.lower().split()
    best, most = "", -1
    for line in text.split("\n"):
        for part in line.replace(". ", ".\n").split("\n"):
            held = part.lower().split()
            count = sum(any(other.startswith(word) for other in held) for word in words)
            if count > most:
                best, most = part, count
    return best if len(best) <= SNIPPET_CHARS else f"{best[:SNIPPET_CHARS].rpartition(' ')[0]}…"


def open_library(seed: int = 0, *, animals: int = WORLD_ANIMALS) -> Library:
    """The pages of a world, in a fraction of a second and without a trace on the disk.

    Raises:
      ValueError: more animals than there are names.
      WebError: kind "index" when the index cannot be written to the folder for temporary files.
    """
    world = make_world(seed, animals)
    drafts = draft_pages(world)
    return Library(world, drafts, _temporary_index(map(plain_page, drafts)))


class TinyWeb:
    """A generated web as a `Web`, best as `async with`; for use in one event loop. Made by `open_tinyweb`."""

    def __init__(self, library: Library, drafts: Iterable[Draft]) -> None:
        self.library = library
        fetcher = _Fetcher({draft.url: draft for draft in drafts}, self.title)
        self._pages = LiveWeb(_Search(library), fetcher, _Converter())

    @property
    def title(self) -> str:
        """What the web is called."""
        return f"TinyWeb {self.library.world.seed}, a synthetic web"

    async def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, best first, at most `RESULTS`. Any string is a query."""
        return await self._pages.search(query)

    async def open(self, url: str) -> Page:
        """The page at a URL.

        Raises:
          WebError: kind "http" for a page that is not there, "offline" for a URL of another site.
        """
        return await self._pages.open(url)

    async def aclose(self) -> None:
        """Closes the index. No page can be opened afterwards."""
        await self._pages.aclose()
        self.library.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def open_tinyweb(seed: int = 0, *, animals: int = WORLD_ANIMALS, progress: Progress | None = None) -> TinyWeb:
    """The web of a seed. The first time, its pages are converted and indexed, which takes some ten seconds; the index
    is kept in the user's cache folder, where there is one. Meant for a program's start: it holds up the event loop.

    Args:
      progress: called with the number of pages converted and of all of them.

    Raises:
      ValueError: more animals than there are names.
      WebError: kind "index" when the index can be written nowhere.
    """
    world = make_world(seed, animals)
    drafts = draft_pages(world)
    index = _kept_index(world, drafts, progress or (lambda done, total: None))
    return TinyWeb(Library(world, drafts, index), drafts)


# ---- the index


def _kept_index(world: World, drafts: Sequence[Draft], progress: Progress) -> SearchIndex:
    """The index in the cache folder, built first where it is not there or damaged; a temporary one where it cannot be
    kept."""
    path = _index_path(world, drafts)
    pages = _converted(drafts, progress)
    if path is None:
        return _temporary_index(pages)
    try:
        return SearchIndex(path)
    except IndexFault:
        pass
    kept = list(pages)
    try:
        build_index(path, map(_document, kept))
        return SearchIndex(path)
    except IndexFault:
        return _temporary_index(kept)


def _index_path(world: World, drafts: Sequence[Draft]) -> Path | None:
    """A name of its own for whatever these pages say, in the cache folder; None where there is no such folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # the XDG specification: a relative path is to be ignored
        try:
            cache = Path.home() / ".cache"
        except RuntimeError:
            return None
    digest = hashlib.sha256(f"{_VERSION}".encode())
    for draft in drafts:
        digest.update(repr(draft).encode())
    return cache / "webgpt_jax" / "tinyweb" / f"{world.seed}-{digest.hexdigest()[:16]}.sqlite"


def _converted(drafts: Sequence[Draft], progress: Progress) -> Iterator[Page]:
    for done, draft in enumerate(drafts, 1):
        yield convert(write_page(draft).html, draft.url, _HTML)
        progress(done, len(drafts))


def _document(page: Page) -> Document:
    return Document(page.url, page.title, page.plain)


def _temporary_index(pages: Iterable[Page]) -> SearchIndex:
    """An index whose file is gone once it is open."""
    with tempfile.TemporaryDirectory(prefix="webgpt-tinyweb-") as folder:
        path = Path(folder) / "index.sqlite"
        build_index(path, map(_document, pages))
        return SearchIndex(path)


# ---- the parts of a LiveWeb


class _Search:
    """The index as a search back end."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def check(self) -> None:
        """Nothing is missing: no key is needed."""

    async def search(self, query: str) -> list[SearchResult]:
        return self._library.search(query)  # a few milliseconds

    async def aclose(self) -> None:
        """The library is its owner's to close."""


@dataclass(frozen=True)
class _Response:
    url: str
    body: bytes = b""
    status: int = 200
    content_type: str | None = _HTML


class _Fetcher:
    """The sites' server."""

    def __init__(self, drafts: Mapping[str, Draft], title: str) -> None:
        self._drafts = drafts
        self._title = title

    async def fetch(self, url: str) -> _Response:
        if host_of(url) not in SITES:
            raise WebError("offline", f"This is {self._title}: it holds only {', '.join(SITES)}.")
        draft = self._drafts.get(url)
        return _Response(url, status=404) if draft is None else _Response(url, write_page(draft).html)


class _Converter:
    """Converts in this process: the pages are our own, and take a few milliseconds."""

    async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
        return convert(body, url, content_type)
