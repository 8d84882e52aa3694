"""An offline wiki as a web: an archive in the ZIM format, such as Kiwix offers of Wikipedia, read through libzim.

    web = WikiWeb.open_wiki(Path("wikipedia_en_simple.zim"), converter)

An entry's URL is `http://<name of the archive>.localhost/<path of the entry>`. Links between entries are relative, so
they lead to entries; and a host that cannot be anybody's site says what a quote was taken from: the copy, whose paths
and age are not those of the wiki on the web. Links to other sites are kept, and lead nowhere offline.

libzim is under the GPL, so it is an extra, and is only imported when a wiki is opened. It takes an archive's index on
trust, and ends the whole program over some kinds of damage: checksums are therefore verified first. An archive that was
made to do harm is not guarded against; its pages are, as all pages.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar
from urllib.parse import quote, unquote, urlsplit

from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.env.text import clean_line
from webgpt_jax.web.local_site import local_url, site_of
from webgpt_jax.web.pages import CACHE_CHARS, LiveWeb, PageConverter
from webgpt_jax.web.terms import Term, excerpt, terms_of

if TYPE_CHECKING:
    from libzim.reader import Archive, Entry

P = ParamSpec("P")
R = TypeVar("R")

MAX_TERMS = 8  # of a query: its rarest. Relaxing a query takes up to that many searches squared
MAX_REDIRECTS = 8
_SAFE_IN_PATH = "/:@!$&'()*+,;="


@dataclass(frozen=True)
class WikiSettings:
    """Limits of a wiki.

    Args:
      max_entry_bytes: larger entries are not read.
      results: hits a search gives at most.
      cache_chars: characters of pages kept in memory; 0 keeps none. Searches read the pages that they find.
      verify_bytes: archives up to this size are checked against their checksum when they are opened, at some hundreds
        of megabytes a second.
    """

    max_entry_bytes: int = 50_000_000
    results: int = 10
    cache_chars: int = CACHE_CHARS
    verify_bytes: int = 1_000_000_000

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < (0 if field.name in ("cache_chars", "verify_bytes") else 1):
                raise ValueError(f"WikiSettings.{field.name} is too small: {getattr(self, field.name)}")


@dataclass(frozen=True)
class WikiContent:
    """An entry as read, under the URL that it was found at after redirects. What a fetcher brings."""

    body: bytes
    url: str
    content_type: str
    status: int = 200


class WikiWeb:
    """A ZIM archive as a `Web`. Made by `open_wiki`; for use in one event loop."""

    def __init__(self, archive: _Archive, converter: PageConverter, settings: WikiSettings) -> None:
        self._archive = archive
        self._settings = settings
        self._pages = LiveWeb(archive, archive, converter, cache_chars=settings.cache_chars)

    @classmethod
    def open_wiki(cls, path: Path, converter: PageConverter, *, settings: WikiSettings | None = None) -> WikiWeb:
        """Opens an archive.

        Args:
          converter: makes pages of entries; the caller's to close.

        Raises:
          WebError: kind "wiki" when libzim is not installed, or there is no such file, or it is no sound ZIM archive.
        """
        settings = settings or WikiSettings()
        return cls(_Archive(_open(path, settings.verify_bytes), settings), converter, settings)

    @property
    def base_url(self) -> str:
        """The URL of the main page, under which the entries are."""
        return self._archive.base_url

    @property
    def title(self) -> str:
        """What the wiki is called."""
        return self._archive.title

    async def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, best first; the snippets are from the pages themselves, which are read for it."""
        results = await self._pages.search(query)
        snippets = await asyncio.gather(*(self._snippet(result.url, terms_of(query)) for result in results))
        return [dataclasses.replace(result, snippet=snippet) for result, snippet in zip(results, snippets, strict=True)]

    async def _snippet(self, url: str, terms: list[Term]) -> str:
        try:
            page = await self.open(url)
        except WebError:  # it is found all the same; whoever opens it learns why
            return ""
        return excerpt(page.plain, terms)

    async def open(self, url: str) -> Page:
        """The page at a URL, without regard to its fragment.

        Raises:
          WebError: kind "offline" for a URL outside the wiki, "not_found", "redirects", "too_large", "wiki" for a
            damaged archive, or what the converter raises.
        """
        return await self._pages.open(url)

    async def aclose(self) -> None:
        """Closes the archive. No page can be opened afterwards."""
        await self._pages.aclose()
        await self._archive.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def _open(path: Path, verify_bytes: int) -> Archive:
    try:
        if not path.is_file() and not path.with_name(path.name + "aa").is_file():  # archives may come in parts
            raise WebError("wiki", f"there is no file {path}: check its name")
    except (OSError, ValueError) as error:  # ValueError: a NUL or bytes that are no text in the name
        raise WebError("wiki", f"{path} cannot be read ({error}): check its name") from error
    try:
        from libzim.reader import Archive
    except ImportError as error:
        raise WebError("wiki", "an offline wiki needs libzim: pip install libzim") from error
    try:
        archive = Archive(path)
        if archive.has_checksum and archive.filesize <= verify_bytes and not archive.check():
            raise WebError("wiki", f"{path} is damaged, its checksum is wrong: download it again")
        return archive
    except (RuntimeError, OSError) as error:
        raise WebError("wiki", f"{path} cannot be read as a ZIM archive ({error}): download it again") from error


class _Archive:
    """The archive as a search back end and a fetcher. libzim does not allow for threads: one does all the work."""

    def __init__(self, archive: Archive, settings: WikiSettings) -> None:
        self._archive = archive
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wiki")
        self.base_url = local_url(self._metadata("Name") or Path(archive.filename).stem)
        self.title = clean_line(self._metadata("Title") or Path(archive.filename).stem)

    def _metadata(self, name: str) -> str:
        try:
            return bytes(self._archive.get_metadata(name)).decode(errors="replace")
        except (KeyError, RuntimeError):  # there is none, or it is damaged
            return ""

    async def _in_thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        future = self._thread.submit(function, *args, **kwargs)
        try:
            return await asyncio.wrap_future(future)
        except (RuntimeError, UnicodeDecodeError) as error:  # what libzim makes of an archive's faults
            raise WebError("wiki", f"The archive of this wiki is damaged ({error}): download it again.") from error

    def check(self) -> None:
        """Nothing is missing: no key is needed."""

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    # ---- reading

    async def fetch(self, url: str) -> WikiContent:
        """The entry at a URL. Raises `WebError`."""
        return await self._in_thread(self._read, url)

    def _read(self, url: str) -> WikiContent:
        entry = self._target(self._entry(url))
        item = entry.get_item()
        limit = self._settings.max_entry_bytes
        if item.size > limit:
            raise WebError("too_large", f"This page is larger than {limit:,} bytes, the most that is read.")
        return WikiContent(bytes(item.content), self._url(entry), item.mimetype)

    def _url(self, entry: Entry) -> str:
        return self.base_url + quote(entry.path, safe=_SAFE_IN_PATH)

    def _entry(self, url: str) -> Entry:
        if site_of(url) != site_of(self.base_url):
            raise WebError("offline", f"This web holds only the wiki {self.title!r}, at {self.base_url}.")
        for path in self._paths(url):
            if not path and self._archive.has_main_entry:
                return self._archive.main_entry
            try:
                return self._archive.get_entry_by_path(path)
            except (KeyError, UnicodeEncodeError):  # the latter: bytes that are no UTF-8
                continue
        raise WebError("not_found", "This wiki has no page at this address: search for it.")

    def _paths(self, url: str) -> Iterator[str]:
        """The paths of entries that a URL may mean. A query belongs to the path in archives of other sites than wikis,
        and to nothing elsewhere."""
        parts = urlsplit(url)
        path = unquote(parts.path.removeprefix("/"), errors="surrogateescape")
        if parts.query:
            yield f"{path}?{unquote(parts.query, errors='surrogateescape')}"
        yield path
        if not self._archive.has_new_namespace_scheme:
            yield f"A/{path}"

    def _target(self, entry: Entry) -> Entry:
        for _ in range(MAX_REDIRECTS):
            if not entry.is_redirect:
                return entry
            entry = entry.get_redirect_entry()
        raise WebError("redirects", f"This page is only reached through more than {MAX_REDIRECTS} redirects.")

    # ---- searching

    async def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, without snippets."""
        return await self._in_thread(self._search, query)

    def _search(self, query: str) -> list[SearchResult]:
        results: dict[str, SearchResult] = {}
        for hits in self._relaxed(terms_of(query)):
            for path in hits:
                try:
                    entry = self._target(self._archive.get_entry_by_path(path))
                except (KeyError, WebError):  # the index is older than the archive, or in error
                    continue
                url = self._url(entry)
                results.setdefault(url, SearchResult(title=clean_line(entry.title), url=url, snippet=""))
            if len(results) >= self._settings.results:
                break
        return list(results.values())[: self._settings.results]

    def _relaxed(self, terms: list[Term]) -> Iterator[list[str]]:
        """What is found for all terms together, then for fewer and fewer of them. The archive's index knows no "or",
        and questions rarely stand on a page word by word. The commonest term is let go first; when the rarest has been
        looked for alone, the others are, without it."""
        counts = {term.text: self._hits(term.text, 0)[0] for term in terms}
        known = sorted((text for text, count in counts.items() if count), key=lambda text: counts[text])[:MAX_TERMS]
        for start in range(len(known)):
            for stop in range(len(known), start, -1):
                yield self._hits(" ".join(known[start:stop]), self._settings.results)[1]

    def _hits(self, words: str, limit: int) -> tuple[int, list[str]]:
        """About how many entries hold all the words, and the paths of the best; by titles where the archive has no
        full-text index."""
        if self._archive.has_fulltext_index:
            from libzim.search import Query, Searcher

            search = Searcher(self._archive).search(Query().set_query(words))
        else:
            from libzim.suggestion import SuggestionSearcher

            search = SuggestionSearcher(self._archive).suggest(words)
        return search.getEstimatedMatches(), list(search.getResults(0, limit)) if limit else []
