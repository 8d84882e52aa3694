"""The file a recording of the web is kept in: requests and their answers, in SQLite.

One row holds one request and the first answer it got: search results, a page, or a failure. Every row is a transaction
of its own, so that a process killed at any moment loses the request it was waiting for and nothing else, and several
processes may record into one file. (A power cut may lose the last few rows too; it does not harm the file.) Beside
them lie the raw responses of the live web, for export; replaying never needs them. Request headers and keys are never
handed to this module, so they cannot get into a file.

A file may be damaged, or made by somebody who means harm: whatever is read from one is checked first. What the answers
themselves look like is the matter of `webgpt_jax.web.recording_answer`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, ParamSpec, Protocol, Self, TypeVar

from webgpt_jax.env.protocol import EpisodeError
from webgpt_jax.env.text import clean_line
from webgpt_jax.web.recording_answer import Answer, decode_answer, encode_answer

APPLICATION_ID = 0x57475054  # "WGPT": tells our files from any other SQLite database
SCHEMA_VERSION = 1
BUSY_TIMEOUT = 60.0  # seconds to wait for another process that is writing to the same file

_SCHEMA = (
    """CREATE TABLE answers (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,         -- "search" or "open"
        request TEXT NOT NULL,      -- the canonical query or URL
        recorded_at TEXT NOT NULL,  -- UTC, ISO 8601, to the second
        answer TEXT NOT NULL,       -- JSON: {"results": [...]}, {"page": {...}} or {"error": {...}}
        UNIQUE (kind, request)
    )""",
    """CREATE TABLE responses (
        request TEXT PRIMARY KEY,   -- the canonical URL that was asked for
        recorded_at TEXT NOT NULL,
        url TEXT NOT NULL,          -- where the redirects led
        status INTEGER NOT NULL,
        content_type TEXT,
        body BLOB NOT NULL
    )""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

_TABLES = [("table", "answers"), ("table", "responses")]

_HTTP_URL = re.compile(r"(https?)://([^/?#\\]*)([^#]*)", re.IGNORECASE | re.DOTALL)
_DEFAULT_PORTS = {"http": "80", "https": "443"}

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_MAX_REQUEST_SHOWN = 300  # characters of a request that an error message shows

P = ParamSpec("P")
T = TypeVar("T")


class RecordingError(EpisodeError):
    """A recording that cannot be opened, read or written; the message names the file, the cause and the cure."""


@dataclass(frozen=True)
class Request:
    """What a web was asked, in the one spelling under which it is recorded. Made by `search` or `open`."""

    kind: Literal["search", "open"]
    text: str

    @classmethod
    def search(cls, query: str) -> Request:
        """A search: the query as the browser sends it, its runs of white space as one blank, its case kept."""
        return cls("search", " ".join(query.split()))

    @classmethod
    def open(cls, url: str) -> Request:
        """A page: the URL without its fragment, scheme and host in lower case, without the scheme's own port."""
        found = _HTTP_URL.match(url)
        if found is None:
            return cls("open", url.partition("#")[0])
        scheme, authority, rest = found[1].lower(), found[2], found[3]
        user, at, host = authority.rpartition("@")
        name, colon, port = host.rpartition(":")
        if colon and port in ("", _DEFAULT_PORTS[scheme]):
            host = name
        return cls("open", f"{scheme}://{user}{at}{host.lower()}{rest}")

    @property
    def shown(self) -> str:
        """The request in an error message: `the search '…'`, `the page '…'`."""
        text = clean_line(self.text)
        if len(text) > _MAX_REQUEST_SHOWN:
            text = text[: _MAX_REQUEST_SHOWN - 1] + "…"
        return f"{'the search' if self.kind == 'search' else 'the page'} {text!r}"


@dataclass(frozen=True)
class Recorded:
    """One row of a recording."""

    request: Request
    recorded_at: str
    answer: Answer


class HttpResponse(Protocol):
    """What the live fetcher returns, as far as a recording keeps it."""

    @property
    def url(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def body(self) -> bytes: ...


@dataclass(frozen=True)
class RawResponse:
    """A raw response read back: the URL the redirects led to, the body as it was once decompressed."""

    url: str
    status: int
    content_type: str | None
    body: bytes
    recorded_at: str


class Recording:
    """A recording, open for recording into (`write`, the default: the file is made if it is not there) or for reading.

    The plain methods block; inside an event loop, call them through `in_thread`. Raises `RecordingError` when the file
    is not a recording, is of another version, or cannot be read or written.
    """

    def __init__(self, path: Path | str, write: bool = True) -> None:
        self.path = Path(path)
        self.writable = write
        with self._explained("opened"):
            if self.path.is_dir():
                raise RecordingError(f"the recording {self.path} is a folder: give the name of a file")
            if self.path.exists() and not self.path.is_file():
                raise RecordingError(f"{self.path} is a device or a pipe and can be no recording: name a file")
            if not write and not self.path.exists():
                raise RecordingError(f"there is no recording {self.path}: check the name, or make one by recording")
            if not self.path.parent.is_dir():
                raise RecordingError(f"there is no folder {self.path.parent} to keep the recording {self.path.name} in")
            self._connection = _connect_to_write(self.path) if write else _connect_to_read(self.path)
        # One thread: SQLite takes one writer at a time anyway, and the default threads stay free for others.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recording")
        try:
            with self._explained("opened"):
                self._check()
        except RecordingError:
            self.close()
            raise

    def _check(self) -> None:
        """Asserts that the file is ours, and makes the tables of a new one."""
        if self.writable and self._is_new():
            # Two processes may both have come this far: the second finds the first one's tables once it has the lock.
            self._connection.execute("BEGIN IMMEDIATE")
            if self._is_new():
                for statement in _SCHEMA:
                    self._connection.execute(statement)
            self._connection.execute("COMMIT")
        if self._pragma("application_id") != APPLICATION_ID:
            raise self._no_recording()
        version = self._pragma("user_version")
        if version != SCHEMA_VERSION:
            raise RecordingError(
                f"the recording {self.path} has format {version} and this program reads format {SCHEMA_VERSION}: "
                "use the version of webgpt_jax that wrote it, or record again"
            )
        # A view in the place of a table may be a query without an end, and a trigger may do as it likes with ours.
        if self._objects() != _TABLES:
            raise self._no_recording()
        if self.writable:
            _prefer_wal(self._connection)

    def _no_recording(self) -> RecordingError:
        return RecordingError(f"{self.path} is not a recording of the web: nothing in it was read or changed")

    def _objects(self) -> list[tuple[str, str]]:
        """Type and name of everything in the file but SQLite's own."""
        query = "SELECT type, name FROM sqlite_master WHERE name NOT GLOB 'sqlite_*' ORDER BY name, type"
        return list(self._connection.execute(query))

    def _is_new(self) -> bool:
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return bool(tables == 0 and self._pragma("application_id") == 0)

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if "not a database" in str(error):
                raise RecordingError(f"{self.path} is not a recording of the web: it is no SQLite file") from error
            raise RecordingError(f"the recording {self.path} cannot be {done}: {error}") from error
        except UnicodeDecodeError as error:
            raise self._damaged("a row in it is no text") from error

    def _damaged(self, how: str) -> RecordingError:
        return RecordingError(f"the recording {self.path} is damaged: {how}; use another copy, or record again")

    def close(self) -> None:
        """Waits for what is being written and closes the file. Closing twice is harmless."""
        self._thread.shutdown(wait=True)
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def in_thread(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs one of the methods below in this recording's thread. What has begun is finished even if cancelled."""
        loop = asyncio.get_running_loop()
        try:
            future = loop.run_in_executor(self._thread, lambda: method(*args, **kwargs))
        except RuntimeError as error:  # the thread was shut down by `close`
            raise RecordingError(f"the recording {self.path} has been closed") from error
        return await future

    def find(self, request: Request) -> Answer | None:
        """The recorded answer to a request, or None."""
        with self._explained("read"):
            row = self._connection.execute(
                "SELECT answer FROM answers WHERE kind = ? AND request = ?", (request.kind, _storable(request.text))
            ).fetchone()
        return None if row is None else self._decoded(request, row[0])

    def keep(self, request: Request, answer: Answer) -> Answer:
        """Records the answer unless the request has one already; returns the one that the file now holds.

        Raises `RecordingError` also for a page that names false domains: it could not be read back.
        """
        try:
            encoded = encode_answer(answer)
        except ValueError as error:
            raise RecordingError(f"the answer to {request.shown} cannot be recorded: {error}") from error
        with self._explained("written"):
            self._connection.execute(
                "INSERT INTO answers (kind, request, recorded_at, answer) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (request.kind, _storable(request.text), _now(), encoded),
            )
        kept = self.find(request)
        if kept is None:
            raise RecordingError(f"the recording {self.path} lost what was written: it must not be edited meanwhile")
        return kept

    def keep_response(self, request: Request, response: HttpResponse) -> None:
        """Records the raw response to a request, in the place of an earlier one, unless the request has its answer.

        The response kept is thus the one that the recorded page was made of.
        """
        values = {
            "kind": request.kind,
            "request": _storable(request.text),
            "recorded_at": _now(),
            "url": _storable(response.url),
            "status": response.status,
            "content_type": None if response.content_type is None else _storable(response.content_type),
            "body": response.body,
        }
        with self._explained("written"):
            self._connection.execute(
                "INSERT OR REPLACE INTO responses SELECT :request, :recorded_at, :url, :status, :content_type, :body"
                " WHERE NOT EXISTS (SELECT 1 FROM answers WHERE kind = :kind AND request = :request)",
                values,
            )

    def rows(self) -> Iterator[Recorded]:
        """Every request with its answer, in the order in which they were recorded."""
        with self._explained("read"):
            cursor = self._connection.execute("SELECT kind, request, recorded_at, answer FROM answers ORDER BY id")
            for kind, text, recorded_at, answer in cursor:
                if kind not in ("search", "open") or not isinstance(text, str) or not _is_timestamp(recorded_at):
                    raise self._damaged("a request in it cannot be read")
                request = Request(kind, text)
                yield Recorded(request, recorded_at, self._decoded(request, answer))

    def response(self, request: Request) -> RawResponse | None:
        """The raw response to a request, where the live web gave one."""
        with self._explained("read"):
            row = self._connection.execute(
                "SELECT url, status, content_type, body, recorded_at FROM responses WHERE request = ?",
                (_storable(request.text),),
            ).fetchone()
        match row:
            case None:
                return None
            case (str(), int(status), str() | None, bytes(), date) if 100 <= status <= 999 and _is_timestamp(date):
                return RawResponse(*row)
        raise self._damaged(f"its raw response to {request.shown} cannot be read")

    def _decoded(self, request: Request, text: str) -> Answer:
        try:
            return decode_answer(request.kind, text)
        except ValueError as error:
            raise self._damaged(f"its answer to {request.shown} cannot be read, {error}") from error


def _connect_to_write(path: Path) -> sqlite3.Connection:
    # Every statement is a transaction of its own (isolation_level None); the one thread makes sharing safe.
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    connection.text_factory = bytes.decode
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    def connect(options: str) -> sqlite3.Connection:
        uri = f"{path.resolve().as_uri()}?{options}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        # SQLite's own error for text that is not UTF-8 quotes the whole of it.
        connection.text_factory = bytes.decode
        return connection

    connection = connect("mode=ro")
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        # SQLite wants to make a helper file beside a database in WAL mode, which fails in a folder that cannot be
        # written. A file nobody is writing to (no log beside it) can be read without.
        if path.with_name(path.name + "-wal").exists():
            raise
        connection = connect("immutable=1")
    return connection


def _prefer_wal(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        # Another process opening the file at this very moment is in the way. The older journal is as safe, only slower.
        if "locked" not in str(error):
            raise
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_timestamp(value: object) -> bool:
    return isinstance(value, str) and _TIMESTAMP.fullmatch(value) is not None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _storable(text: str) -> str:
    """The text itself, unless it holds lone surrogates, which do not encode: then its JSON escape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return text
