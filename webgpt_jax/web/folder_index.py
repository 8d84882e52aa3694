"""The index of a folder: where it is kept, and what is read again when the folder is opened.

Only files that are new, or whose size or time differs from what the index says, are converted. A file that cannot be
converted is found by its name, and is not tried again before it changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.folder_files import FolderFile, FolderFiles, name_of
from webgpt_jax.web.index import Document, IndexFault, IndexWriter, SearchIndex
from webgpt_jax.web.local_site import slug
from webgpt_jax.web.pages import PageConverter

_BATCH = 64  # files converted, then indexed, together
_CONVERSIONS = 2 * (os.cpu_count() or 1)  # files in memory and on their way through the converter

TrustedConvert = Callable[[bytes, str, "str | None"], Page]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FolderReport:
    """What opening a folder found: how many pages it has, how many of them were read now, how many have gone since the
    last time, how many are known by name only because they could not be read, and folders that could not be."""

    pages: int
    read: int
    removed: int
    unreadable: int
    unreadable_folders: int = 0

    def __str__(self) -> str:
        parts = [f"{self.pages:,} pages, {self.read:,} of them read now"]
        if self.removed:
            parts.append(f"{self.removed:,} gone since the last time")
        if self.unreadable:
            parts.append(f"{self.unreadable:,} could not be read and are found by name only")
        if self.unreadable_folders:
            parts.append(f"{self.unreadable_folders:,} folders could not be read")
        return "; ".join(parts)


def default_index_path(folder: Path) -> Path:
    """Where the index of a folder is kept: under XDG_CACHE_HOME or ~/.cache, by the folder's real path."""
    real = Path(os.path.realpath(folder))
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # the XDG specification: a relative path is to be ignored
        try:
            cache = Path.home() / ".cache"
        except RuntimeError as error:
            raise IndexFault("there is no home folder to keep the search index in: set XDG_CACHE_HOME") from error
    name = f"{slug(real.name)}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}.sqlite"
    return cache / "webgpt_jax" / "folders" / name


class IndexBuilder:
    """Brings the index of a folder up to date. See `FolderWeb.open_folder` for the arguments."""

    def __init__(
        self,
        files: FolderFiles,
        converter: PageConverter,
        trusted_convert: TrustedConvert | None,
        progress: Progress | None,
    ) -> None:
        self._files = files
        self._converter = converter
        self._trusted_convert = trusted_convert
        self._progress = progress or (lambda done, total: None)
        self._gate = asyncio.Semaphore(_CONVERSIONS)

    async def refresh(self, path: Path, found: Mapping[str, str]) -> tuple[SearchIndex, FolderReport]:
        """The index for the files that were found, by key and stamp; written anew only if anything has changed."""
        stamps = _stamps(path)
        read = removed = 0
        if not _same(stamps, found):
            with IndexWriter(path) as writer:
                before = writer.stamps()
                gone = [key for key in before if key not in found]
                changed = [FolderFile(*item) for item in found.items() if not _is_current(before.get(item[0]), item[1])]
                writer.remove(gone)
                for start in range(0, len(changed), _BATCH):
                    # Not in a thread: when this task is cancelled, the writer must be at rest.
                    writer.add(await self._documents(changed[start : start + _BATCH]))
                    self._progress(min(start + _BATCH, len(changed)), len(changed))
                stamps = writer.stamps()
                read, removed = len(changed), len(gone)
                writer.publish()
        unreadable = sum(" " in stamp for stamp in stamps.values())
        report = FolderReport(len(stamps), read, removed, unreadable, self._files.unreadable_folders)
        return SearchIndex(path), report

    async def _documents(self, files: list[FolderFile]) -> list[Document]:
        tasks = [asyncio.create_task(self._document(file)) for file in files]
        try:
            return [document for document in await asyncio.gather(*tasks) if document is not None]
        finally:
            for task in tasks:  # those still running, where one has failed
                task.cancel()

    async def _document(self, file: FolderFile) -> Document | None:
        """What is indexed of a file: its name alone if it cannot be read; nothing if it has gone."""
        name, stamp = name_of(file.key), file.stamp
        async with self._gate:
            try:
                content = self._files.read(self._files.url(file.key))
                stamp = content.stamp
                if self._trusted_convert is not None:
                    page = self._trusted_convert(content.body, content.url, content.content_type)
                else:
                    page = await self._converter.convert(content.body, content.url, content.content_type)
            except WebError as error:
                if error.kind == "not_found":
                    return None
                return Document(file.key, name, "", f"{stamp} {error.kind}")
        return Document(file.key, page.title or name, page.plain, stamp)


# In the index, the stamp of a file that could not be read has the kind of the error after it.


def _is_current(known: str | None, found: str) -> bool:
    return known is not None and known.partition(" ")[0] == found


def _same(stamps: Mapping[str, str], found: Mapping[str, str]) -> bool:
    return len(stamps) == len(found) and all(_is_current(stamps.get(key), stamp) for key, stamp in found.items())


def _stamps(path: Path) -> dict[str, str]:
    """The stamps of the published index; none where there is no sound one, and it is built."""
    try:
        index = SearchIndex(path)
    except IndexFault:
        return {}
    try:
        return index.stamps()
    except IndexFault:
        return {}
    finally:
        index.close()
