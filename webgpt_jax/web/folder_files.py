"""The files of a folder as the pages of a site: which there are, what their URLs are, and how one is read.

Every URL is hostile, and so is the folder: a downloaded one may hold links that lead out of it, pipes that never end,
and names that are no text. Whatever is asked for, only regular files inside the folder are read. Hidden files (`.git`,
`.env`) are no part of the site, and symbolic links to folders are not walked into, so that no file is counted twice.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urlsplit

from webgpt_jax.env.protocol import WebError
from webgpt_jax.env.text import clean_line
from webgpt_jax.env.urls import host_of
from webgpt_jax.web.local_site import local_url, site_of

MANIFEST = "webgpt-folder.json"

CONTENT_TYPES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".txt": "text/plain",
    ".text": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".rst": "text/plain",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".xml": "application/xml",
    ".pdf": "application/pdf",
}
_OTHER_TYPE = "application/octet-stream"
_INDEX_FILES = ("index.html", "index.htm", "index.xhtml")
_MANIFEST_BYTES = 65_536
_MANIFEST_KEYS = ("base_url", "title", "attribution")
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


@dataclass(frozen=True)
class Manifest:
    """What the folder says of itself.

    Args:
      base_url: the URL of the folder; ends with a slash.
      title: what the collection is called.
      attribution: what has to stand under each of its pages; may be empty.
    """

    base_url: str
    title: str
    attribution: str = ""


@dataclass(frozen=True)
class FolderFile:
    """A file that can be a page. `key` is its path in the folder, percent-encoded as in a URL; `stamp` changes with
    its size and time."""

    key: str
    stamp: str


@dataclass(frozen=True)
class FileContent:
    """A file as read, with the URL it has and the stamp it had when it was opened. What a fetcher brings."""

    body: bytes
    url: str
    content_type: str
    stamp: str
    status: int = 200


def name_of(key: str) -> str:
    """The file's name as a person would read it."""
    return clean_line(unquote_to_bytes(key.rpartition("/")[2]).decode(errors="replace"))


class FolderFiles:
    """The files of one folder.

    Args:
      path: the folder.
      max_file_bytes: no larger file is read.

    Raises:
      WebError: kind "folder" when there is no such folder or its manifest is not valid.
    """

    def __init__(self, path: Path, max_file_bytes: int) -> None:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:  # missing; a loop of links; a NUL in the name
            raise WebError("folder", f"there is no folder {path}: check its name") from error
        if not real.is_dir():
            raise WebError("folder", f"{path} is not a folder: name the folder that holds the pages")
        self.path = real
        self._max_file_bytes = max_file_bytes
        self.unreadable_folders = 0  # met by the last walk
        self.manifest = self._read_manifest()
        self._site = site_of(self.manifest.base_url)
        self._base = _segments(urlsplit(self.manifest.base_url).path)

    def _read_manifest(self) -> Manifest:
        name = clean_line(self.path.name)
        default = Manifest(base_url=local_url(self.path.name), title=name or "Folder")
        path = self.path / MANIFEST
        try:
            body, _ = self._read_regular(self._inside(path), _MANIFEST_BYTES)
            fields = json.loads(body)
        except FileNotFoundError:
            return default
        except OSError as error:
            raise WebError("folder", f"{path} cannot be read: {error.strerror}") from error
        except WebError as error:
            raise WebError("folder", f"{path} cannot be read: {error.message}") from error
        except (ValueError, RecursionError) as error:  # ValueError: no JSON, or no UTF-8
            raise WebError("folder", f"{path} is not valid JSON: mend or delete it") from error
        if not isinstance(fields, dict) or not set(fields) <= set(_MANIFEST_KEYS):
            raise WebError("folder", f"{path} must hold an object with no other keys than {', '.join(_MANIFEST_KEYS)}")
        for key, value in fields.items():
            if not isinstance(value, str):
                raise WebError("folder", f"{path}: {key} must be a string")
        base_url = fields.get("base_url", default.base_url)
        try:
            parts = urlsplit(base_url)
            plain = bool(host_of(base_url)) and not (parts.query or parts.fragment or "@" in parts.netloc)
            plain = plain and not any(map(_is_unsafe, _segments(parts.path)))
        except (ValueError, WebError):
            plain = False
        if not plain:
            raise WebError("folder", f"{path}: base_url must be an http(s) URL without user, query and fragment")
        return Manifest(
            base_url=base_url.removesuffix("/") + "/",
            title=clean_line(fields.get("title", "")) or default.title,
            attribution=fields.get("attribution", "").strip(),
        )

    def url(self, key: str) -> str:
        """The URL of a file."""
        return self.manifest.base_url + key

    def walk(self) -> Iterator[FolderFile]:
        """Every file that can be a page, folder by folder, in the order of their names."""
        self.unreadable_folders = 0
        folders = [(str(self.path), "")]
        while folders:
            folder, prefix = folders.pop()
            try:
                with os.scandir(folder) as scan:
                    entries = sorted(scan, key=lambda entry: entry.name)
            except OSError:  # not ours to read, too deep, or gone since
                self.unreadable_folders += 1
                continue
            inner = []
            for entry in entries:
                key = prefix + quote(os.fsencode(entry.name), safe="")
                if entry.name.startswith(".") or key == MANIFEST:
                    continue
                try:
                    if entry.is_dir(follow_symlinks=False):
                        inner.append((entry.path, key + "/"))
                    elif Path(entry.name).suffix.lower() in CONTENT_TYPES:
                        if entry.is_symlink():
                            self._inside(Path(entry.path))
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            yield FolderFile(key, _stamp(status))
                except (OSError, WebError):  # gone since, or a link that leads nowhere or out
                    continue
            folders += reversed(inner)

    def read(self, url: str) -> FileContent:
        """The file at a URL; of a folder, its index file.

        Raises:
          WebError: kind "offline" for a URL of another site, "not_found", "refused", "too_large" or "io".
        """
        segments = self._locate(url)
        try:
            path = self._inside(self.path.joinpath(*segments))
            if path.is_dir():
                segments, path = self._index_file(segments)
        except OSError as error:
            raise _error(error) from error
        body, status = self._read_regular(path, self._max_file_bytes)
        key = "/".join(quote(os.fsencode(segment), safe="") for segment in segments)
        content_type = CONTENT_TYPES.get(Path(segments[-1]).suffix.lower(), _OTHER_TYPE)
        return FileContent(body, self.url(key), content_type, _stamp(status))

    def _locate(self, url: str) -> list[str]:
        """The path in the folder that a URL means."""
        if site_of(url) != self._site:
            raise self._offline()
        segments = _segments(urlsplit(url).path)
        if segments[: len(self._base)] != self._base:
            raise self._offline()
        segments = segments[len(self._base) :]
        if any(map(_is_unsafe, segments)) or segments == [MANIFEST]:
            raise WebError("refused", "This address does not name a page of the folder.")
        return segments

    def _offline(self) -> WebError:
        return WebError(
            "offline", f"This web holds only the folder {self.manifest.title!r}, at {self.manifest.base_url}."
        )

    def _inside(self, path: Path) -> Path:
        """The real path, if it is inside the folder and nothing on it is hidden. Raises OSError where it is missing."""
        real = Path(os.path.realpath(path, strict=True))
        if not real.is_relative_to(self.path):
            raise WebError("refused", "This address leads out of the folder.")
        if any(part.startswith(".") for part in real.relative_to(self.path).parts):
            raise WebError("refused", "Hidden files are no part of this web.")
        return real

    def _index_file(self, segments: list[str]) -> tuple[list[str], Path]:
        for name in _INDEX_FILES:
            try:
                return [*segments, name], self._inside(self.path.joinpath(*segments, name))
            except FileNotFoundError:
                continue
        raise WebError("not_found", "This address names a folder without an index page: search for its pages.")

    @staticmethod
    def _read_regular(path: Path, max_bytes: int) -> tuple[bytes, os.stat_result]:
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # opening a device or a pipe might already do something
                raise WebError("refused", "What is at this address is not a regular file.")
            # Without blocking and links, should the file have been replaced in between.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(path, flags), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise WebError("refused", "What is at this address is not a regular file.")
                body = file.read(max_bytes + 1)
        except OSError as error:
            raise _error(error) from error
        if len(body) > max_bytes:
            raise WebError("too_large", f"The file is larger than {max_bytes:,} bytes, the most that is read.")
        return body, status


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}"


def _error(error: OSError) -> WebError:
    if error.errno in _GONE:
        return WebError("not_found", "There is no page at this address in the folder.")
    if isinstance(error, PermissionError):
        return WebError("refused", "The file may not be read: its permissions forbid it.")
    return WebError("io", f"The file cannot be read: {error.strerror or 'input or output failed'}.")


def _segments(path: str) -> list[str]:
    """The decoded names in the path of a URL, as file names; empty ones and "." mean nothing."""
    try:
        segments = [os.fsdecode(unquote_to_bytes(segment)) for segment in path.split("/")]
    except UnicodeEncodeError as error:  # lone surrogates
        raise WebError("not_found", "There is no page at this address in the folder.") from error
    return [segment for segment in segments if segment not in ("", ".")]


def _is_unsafe(segment: str) -> bool:
    """Whether a name is hidden, leads upwards, or hides a path in itself."""
    return segment.startswith(".") or "/" in segment or "\0" in segment
