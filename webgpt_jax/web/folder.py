"""A folder of HTML, text and PDF files as a web: its files are the pages, an index in the user's cache the search
engine.

    web = await FolderWeb.open_folder(Path("corpus"), Converter())

A file's URL is `http://<name of the folder>.localhost/<path>` (`.localhost` can never be anybody's site), or begins
with the `base_url` of the folder's manifest, `webgpt-folder.json`. The index is refreshed when the folder is opened:
only files that are new, or whose size or time has changed, are read.
"""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.env.text import clean
from webgpt_jax.web.folder_files import FileContent, FolderFiles
from webgpt_jax.web.folder_index import FolderReport, IndexBuilder, Progress, TrustedConvert, default_index_path
from webgpt_jax.web.index import SearchIndex
from webgpt_jax.web.pages import CACHE_CHARS, LiveWeb, PageConverter


@dataclass(frozen=True)
class FolderSettings:
    """Limits of a folder.

    Args:
      max_file_bytes: larger files are not read; they are found by their names only.
      max_files: a folder with more pages is refused, in case somebody names their whole disk.
      results: hits a search gives at most.
      cache_chars: characters of pages kept in memory; 0 keeps none.
    """

    max_file_bytes: int = 50_000_000
    max_files: int = 1_000_000
    results: int = 10
    cache_chars: int = CACHE_CHARS

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < (0 if field.name == "cache_chars" else 1):
                raise ValueError(f"FolderSettings.{field.name} is too small: {getattr(self, field.name)}")


class FolderWeb:
    """A folder as a `Web`. Made by `open_folder`; for use in one event loop.

    Same folder, same query: same results. A page that is kept in memory does not age, so that one run sees one version
    of it.
    """

    def __init__(
        self,
        files: FolderFiles,
        index: SearchIndex,
        converter: PageConverter,
        report: FolderReport,
        settings: FolderSettings,
    ) -> None:
        self.report = report
        self._files = files
        self._search = _IndexSearch(index, files, settings.results)
        if files.manifest.attribution:
            converter = _WithAttribution(converter, files.manifest.attribution)
        self._pages = LiveWeb(self._search, _FileFetcher(files), converter, cache_chars=settings.cache_chars)

    @classmethod
    async def open_folder(
        cls,
        path: Path,
        converter: PageConverter,
        *,
        settings: FolderSettings | None = None,
        index_path: Path | None = None,
        trusted_convert: TrustedConvert | None = None,
        progress: Progress | None = None,
    ) -> FolderWeb:
        """Opens a folder, building or refreshing its index first. Meant for a program's start: it may hold up the event
        loop. When it is interrupted, the next call goes on where this one stopped.

        Args:
          converter: makes pages of files; the caller's to close.
          index_path: the file of the index; by default one in the user's cache folder.
          trusted_convert: makes pages of files for the index in this process instead. Only for files whose origin is
            trusted, such as those of the bundled corpus: it is not guarded against hostile ones.
          progress: called with the number of files done and of those to be read.

        Raises:
          WebError: kind "folder" when the folder is missing, empty, too large or its manifest is not valid; "index"
            when the index cannot be written.
        """
        settings = settings or FolderSettings()
        files = FolderFiles(path, settings.max_file_bytes)
        found = {file.key: file.stamp for file in islice(files.walk(), settings.max_files + 1)}
        if not found:
            raise WebError("folder", f"{path} holds no HTML, text or PDF file: name a folder that does")
        if len(found) > settings.max_files:
            raise WebError("folder", f"{path} holds more than {settings.max_files:,} pages: name a smaller folder")
        index_path = index_path or default_index_path(files.path)
        builder = IndexBuilder(files, converter, trusted_convert, progress)
        index, report = await builder.refresh(index_path, found)
        return cls(files, index, converter, report, settings)

    @property
    def base_url(self) -> str:
        """The URL under which the folder's files are."""
        return self._files.manifest.base_url

    @property
    def title(self) -> str:
        """What the folder is called."""
        return self._files.manifest.title

    async def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, best first. Any string is a query. Raises `WebError("index", …)` if the index file is
        damaged."""
        return await self._pages.search(query)

    async def open(self, url: str) -> Page:
        """The page at a URL, without regard to its fragment and query.

        Raises:
          WebError: what `FolderFiles.read` or the converter raises; kind "offline" for a URL outside the folder.
        """
        return await self._pages.open(url.partition("#")[0].partition("?")[0])

    async def aclose(self) -> None:
        """Closes the index. No page can be opened afterwards."""
        await self._pages.aclose()
        await self._search.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _IndexSearch:
    """The index as a search back end."""

    def __init__(self, index: SearchIndex, files: FolderFiles, results: int) -> None:
        self._index = index
        self._files = files
        self._results = results
        # A search takes tens of milliseconds in a large folder, too long for the event loop; SQLite serves one thread.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="folder-search")

    def check(self) -> None:
        """Nothing is missing: no key is needed."""

    async def search(self, query: str) -> list[SearchResult]:
        hits = await asyncio.get_running_loop().run_in_executor(self._thread, self._index.search, query, self._results)
        return [SearchResult(title=hit.title, url=self._files.url(hit.key), snippet=hit.snippet) for hit in hits]

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self._index.close()


class _FileFetcher:
    """The files as what a fetcher brings."""

    def __init__(self, files: FolderFiles) -> None:
        self._files = files

    async def fetch(self, url: str) -> FileContent:
        return await asyncio.to_thread(self._files.read, url)


class _WithAttribution:
    """A converter whose pages end with the line that the folder's licence asks for.

    Licences want it on the page itself, so it is part of the page's text and can be quoted like the rest: the folder's
    owner could as well have written it into each file, and a quote of it names the page that it was taken from.
    """

    def __init__(self, converter: PageConverter, attribution: str) -> None:
        self._converter = converter
        self._attribution = attribution

    async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
        page = await self._converter.convert(body, url, content_type)
        if clean(self._attribution) in page.plain:  # as pages say that we rendered ourselves, where it is kept
            return page
        return dataclasses.replace(page, text=f"{page.text}\n\n{self._attribution}")
