"""The live web: a search back end, a fetcher and a converter make a `Web`.

Pages are kept in memory, since an episode goes back and forth and the episodes of one question open the same results,
and while a page is on its way everybody who asks for it waits for the same one. Failures are not kept: the next
request tries again. A page that is kept does not age, so that one run sees one version of it.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.web.search import search_backend
from webgpt_jax.web.status import status_line

if TYPE_CHECKING:
    from webgpt_jax.web.fetch import FetchConfig
    from webgpt_jax.web.search.backend import SearchBackend
    from webgpt_jax.web.search.client import HttpLimits
    from webgpt_jax.web.workers import ConverterConfig

# Characters of pages kept by default: 130 MB once finding and quoting have been over pages in English, at most twice
# that for other scripts.
CACHE_CHARS = 8_000_000

_ENTRY_CHARS = 1_000  # what a page costs besides its text, so that many tiny ones are bounded too
_LINK_CHARS = 200  # the same for a link


class Fetched(Protocol):
    """What a fetcher brings: the `Response` of `webgpt_jax.web.fetch`."""

    @property
    def url(self) -> str:
        """The final URL, after redirects."""
        ...

    @property
    def status(self) -> int: ...

    @property
    def content_type(self) -> str | None: ...

    @property
    def body(self) -> bytes: ...


class Fetcher(Protocol):
    """Brings what is at a URL, whatever its status."""

    async def fetch(self, url: str) -> Fetched:
        """May raise `WebError`."""
        ...


class PageConverter(Protocol):
    """Makes a page of bytes without holding up the event loop."""

    async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
        """May raise `WebError`."""
        ...


class PageCache:
    """Pages by URL; those that were used longest ago go first when there are more than `max_chars` characters."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self.chars = 0  # held now

    def get(self, url: str) -> Page | None:
        """The page at a URL, or None; it counts as used now."""
        page = self._pages.get(url)
        if page is not None:
            self._pages.move_to_end(url)
        return page

    def put(self, url: str, page: Page) -> None:
        """Keeps a page; one that is larger than the whole cache is not kept."""
        if url in self._pages:
            self.chars -= _cost(self._pages.pop(url))
        cost = _cost(page)
        if cost > self._max_chars:
            return
        self._pages[url] = page
        self.chars += cost
        while self.chars > self._max_chars:
            _, oldest = self._pages.popitem(last=False)
            self.chars -= _cost(oldest)


def _cost(page: Page) -> int:
    links = sum(len(link.url) + len(link.text) + _LINK_CHARS for link in page.links)
    return _ENTRY_CHARS + len(page.url) + len(page.title) + len(page.text) + links


@dataclass
class _Flight:
    """A page on its way, and how many wait for it."""

    task: asyncio.Task[Page]
    waiting: int = 0


class LiveWeb:
    """The web as it is, as a `Web`. For use in one event loop, best as `async with`.

    Args:
      search: where results come from.
      fetcher: brings the bytes of a URL.
      converter: makes a page of them.
      cache_chars: characters of pages kept in memory; 0 keeps none.
      owned: what is opened and closed together with this web; whatever else was passed is the caller's to close.
    """

    def __init__(
        self,
        search: SearchBackend,
        fetcher: Fetcher,
        converter: PageConverter,
        *,
        cache_chars: int = CACHE_CHARS,
        owned: Sequence[AbstractAsyncContextManager[Any]] = (),
    ) -> None:
        self._search = search
        self._fetcher = fetcher
        self._converter = converter
        self._cache = PageCache(cache_chars)
        self._flights: dict[str, _Flight] = {}
        self._owned = list(owned)
        self._exits = AsyncExitStack()
        self._closed = False

    def check(self) -> None:
        """Raises `WebError("key", …)` if the search back end lacks what the operator has to supply. Sends nothing."""
        self._search.check()

    async def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, best first. May raise `WebError`."""
        return await self._search.search(query)

    async def open(self, url: str) -> Page:
        """The page at a URL, under the URL that it was found at in the end.

        Raises:
          WebError: what the fetcher or the converter raises, and kind "http" for a status that brings no page.
        """
        if self._closed:
            raise RuntimeError("the web has been closed")
        key = url.partition("#")[0]  # a fragment is a place on a page
        page = self._cache.get(key)
        if page is not None:
            return page
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(self._load(key)))
            flight.task.add_done_callback(lambda _: self._land(key, flight))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or not current.cancelling():  # it is the fetch that was cancelled
                raise WebError("closed", "The web was closed while the page was on its way.") from None
            raise
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._land(key, flight)  # whoever asks from now on starts anew
                flight.task.cancel()

    def _land(self, key: str, flight: _Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    async def _load(self, url: str) -> Page:
        response = await self._fetcher.fetch(url)
        if not 200 <= response.status < 300:
            raise WebError("http", f"{status_line(response.status)}: the site did not give the page.")
        page = await self._converter.convert(response.body, response.url, response.content_type)
        self._cache.put(url, page)
        return page

    async def __aenter__(self) -> Self:
        while self._owned:
            await self._exits.enter_async_context(self._owned.pop(0))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stops what is on its way and closes what this web owns. No page can be opened afterwards."""
        self._closed = True
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._owned:  # without `async with`: not opened, but to be closed all the same
            self._exits.push_async_exit(self._owned.pop(0))
        await self._exits.aclose()


def live_web(
    backend: str,
    environ: Mapping[str, str] = os.environ,
    *,
    count: int = 10,
    search_limits: HttpLimits | None = None,
    fetch_config: FetchConfig | None = None,
    converter_config: ConverterConfig | None = None,
    cache_chars: int = CACHE_CHARS,
    wrap_fetcher: Callable[[Fetcher], Fetcher] | None = None,
) -> LiveWeb:
    """The live web with one of the search back ends. `check()` tells whether its key is there.

    Args:
      backend: one of `webgpt_jax.web.search.BACKEND_NAMES`.
      environ: where the key is looked up.
      count: how many results to ask for.
      search_limits: of requests to the search engine.
      fetch_config: of requests for pages.
      converter_config: of the worker processes that make pages.
      cache_chars: characters of pages kept in memory.
      wrap_fetcher: puts something before the fetcher, such as a `RecordingFetcher`.

    Raises:
      ValueError: for a back end that is not known.
    """
    from webgpt_jax.web.fetch import LiveFetcher
    from webgpt_jax.web.workers import Converter

    search = search_backend(backend, environ, count=count, limits=search_limits)
    live = LiveFetcher(fetch_config)
    converter = Converter(converter_config)
    fetcher: Fetcher = live if wrap_fetcher is None else wrap_fetcher(live)
    owned = (aclosing(search), live, converter)
    return LiveWeb(search, fetcher, converter, cache_chars=cache_chars, owned=owned)
