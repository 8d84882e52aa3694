"""A full-text index in one SQLite file (FTS5), for webs that have no search engine of their own.

The file is never changed once it stands under its name: `IndexWriter` prepares the next version beside it and moves it
into place when it is complete. So readers need no locks, a build that is killed leaves nothing that could be believed,
and two builds at once cannot harm one another (the later one to finish wins, and both are whole).

Ranking is BM25 with the title weighted `TITLE_WEIGHT` times; equal scores are ordered by key, so that the order does
not depend on how often the index was refreshed. Pages that hold all words of a query come first, and after them those
that hold some: questions rarely stand on a page word by word.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from webgpt_jax.env.protocol import WebError
from webgpt_jax.env.text import clean, clean_line
from webgpt_jax.web.terms import Term, excerpt, pairs, terms_of, unspaced_words

TITLE_WEIGHT = 5.0
SNIPPET_WORDS = 40
SNIPPET_CHARS = 400  # a "word" of a page may have any length
MAX_TEXT_CHARS = 1_000_000  # of a longer text, only the beginning is indexed
MAX_TITLE_CHARS = 1_000
MAX_RANKED = 20_000  # what ranks a page of some words costs about a microsecond a page: the commonest words are let go
BATCH = 1_000  # documents a transaction

_APPLICATION_ID = 0x57475058  # marks the file as ours
_VERSION = 1  # of the tables below; an index of another version is built anew
_STALE_SECONDS = 24 * 60 * 60  # a temporary file that nobody has written to for that long belongs to a killed build

# Marks (M*) belong to words in most scripts of India; without them every vowel sign would end a word.
_SCHEMA = f"""
CREATE TABLE documents(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, title TEXT NOT NULL, stamp TEXT NOT NULL);
CREATE VIRTUAL TABLE pages USING fts5(
  title, text, title_pairs, text_pairs,
  tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""
_RANKED = f"""
SELECT documents.id, documents.key, documents.title FROM pages JOIN documents ON documents.id = pages.rowid
WHERE pages MATCH ?
ORDER BY bm25(pages, {TITLE_WEIGHT}, 1.0, {TITLE_WEIGHT}, 1.0), documents.key LIMIT ?
"""


class IndexFault(WebError):
    """An index that cannot be built or read. The message names the file and the cure."""

    def __init__(self, message: str) -> None:
        super().__init__("index", message)


@dataclass(frozen=True)
class Document:
    """What is indexed of a page. `key` is its name in the index; `stamp` is the caller's, to tell whether the page has
    changed since."""

    key: str
    title: str
    text: str
    stamp: str = ""


@dataclass(frozen=True)
class Hit:
    """One page found."""

    key: str
    title: str
    snippet: str


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Turns what SQLite raises into one clear error."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: a damaged file's text is none, even in errors
        reason = str(error)
        if "no such module" in reason:
            raise IndexFault(
                f"this Python's SQLite ({sqlite3.sqlite_version}) has no full-text search (FTS5): use a Python whose"
                " sqlite3 module is built with it, such as those of python.org, Debian, Homebrew or conda"
            ) from error
        if "full" in reason or "disk I/O" in reason:
            raise IndexFault(f"cannot write the search index {path} ({reason}): free space on its disk") from error
        raise IndexFault(f"cannot use the search index {path} ({reason}): delete it, and it is built anew") from error
    except OSError as error:
        raise IndexFault(
            f"cannot write the search index {path} ({error.strerror or error}): choose another place for it, or make"
            " this one writable"
        ) from error


def _expression(term: Term) -> str:
    """The term in FTS5's language. In double quotes nothing is an operator."""
    words = pairs(term.text)[:-1] if term.unspaced and len(term.text) > 1 else [term.text]
    quoted = '"' + " ".join(words).replace('"', '""') + '"'
    if not term.unspaced:
        return quoted
    return "{title_pairs text_pairs} : " + (quoted if len(term.text) > 1 else quoted + " *")


def _any_of(terms: Iterable[Term]) -> str:
    return " OR ".join(f"({_expression(term)})" for term in terms)


def _all_of(terms: Iterable[Term]) -> str:
    return " AND ".join(f"({_expression(term)})" for term in terms)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) != (_APPLICATION_ID, _VERSION):
        raise IndexFault(f"{path} is not a search index of this version: delete it, and it is built anew")
    connection.execute("SELECT count(*) FROM pages WHERE pages MATCH 'x'").fetchone()


class SearchIndex:
    """A published index, opened for reading. Any number of processes may; within one, use it from one thread at a
    time.

    Raises:
      IndexFault: there is no such file, or it is not an index, or it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise IndexFault(f"there is no search index {path}")
        with _faults(path):
            # "immutable": a published file never changes, so no locks are needed, which read-only media could not give.
            self._connection = sqlite3.connect(
                f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            try:
                _check(self._connection, path)
            except (sqlite3.Error, UnicodeDecodeError, IndexFault):
                self._connection.close()
                raise

    def close(self) -> None:
        self._connection.close()

    def __len__(self) -> int:
        with _faults(self.path):
            return int(self._connection.execute("SELECT count(*) FROM documents").fetchone()[0])

    def stamps(self) -> dict[str, str]:
        """Every document's stamp, by key."""
        with _faults(self.path):
            return dict(self._connection.execute("SELECT key, stamp FROM documents"))

    def search(self, query: str, limit: int = 10) -> list[Hit]:
        """The pages for a query, best first: those that hold all its terms, then those that hold some. Any string is
        a query."""
        with _faults(self.path):
            terms = self._known(terms_of(query))
            if not terms:
                return []
            found = self._ranked(_all_of(terms), limit)
            if len(found) < limit and len(terms) > 1:
                known = set(found)
                found += [row for row in self._ranked(_any_of(self._affordable(terms)), limit) if row not in known]
            return [Hit(key, title, self._snippet(row, terms)) for row, key, title in found[:limit]]

    def _known(self, terms: list[Term]) -> dict[Term, int]:
        """In how many documents each term stands, without those that stand nowhere."""
        count = "SELECT count(*) FROM pages WHERE pages MATCH ?"
        counts = {term: int(self._connection.execute(count, (_expression(term),)).fetchone()[0]) for term in terms}
        return {term: pages for term, pages in counts.items() if pages}

    def _affordable(self, terms: dict[Term, int]) -> list[Term]:
        """The rarest terms, as many as keep the pages to be ranked within `MAX_RANKED`; one at least."""
        chosen: list[Term] = []
        pages = 0
        for term in sorted(terms, key=lambda term: terms[term]):
            pages += terms[term]
            if chosen and pages > MAX_RANKED:
                break
            chosen.append(term)
        return chosen

    def _ranked(self, expression: str, limit: int) -> list[tuple[int, str, str]]:
        return list(self._connection.execute(_RANKED, (expression, limit)))

    def _snippet(self, row: int, terms: Collection[Term]) -> str:
        if any(term.unspaced for term in terms):  # their pairs stand in a column of their own, which is not readable
            return excerpt(self._value("SELECT text FROM pages WHERE rowid = ?", row), list(terms))
        snippet = self._value(
            f"SELECT snippet(pages, 1, '', '', ' … ', {SNIPPET_WORDS}) FROM pages WHERE pages MATCH ? AND rowid = ?",
            _any_of(terms),
            row,
        )
        line = " ".join(snippet.split())
        return line if len(line) <= SNIPPET_CHARS else line[: SNIPPET_CHARS - 2] + " …"

    def _value(self, query: str, *parameters: str | int) -> str:
        (value,) = self._connection.execute(query, parameters).fetchone() or ("",)  # damage may hide a row
        return str(value)


class IndexWriter:
    """Prepares the next version of the index at `path`, starting from what is there unless `fresh`.

    A context manager. Leaving it without `publish()` publishes nothing; what was added is kept aside, and the next
    writer goes on from there.

    Raises:
      IndexFault: the place cannot be written, or SQLite has no FTS5.
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        self._partial = path.with_name(path.name + ".partial")
        with _faults(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._drop_stale()
            handle, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".tmp", dir=path.parent)
            os.close(handle)
        self._temporary = Path(name)
        try:
            with _faults(path):
                self._connection = self._start([] if fresh else [self._partial, path])
                (last,) = self._connection.execute("SELECT max(id) FROM documents").fetchone()
                self._next_id = (last or 0) + 1
                self.pages_before = int(self._connection.execute("SELECT count(*) FROM documents").fetchone()[0])
        except IndexFault:
            self._temporary.unlink(missing_ok=True)
            raise

    def _start(self, bases: list[Path]) -> sqlite3.Connection:
        """The temporary file as a copy of the first base that is a sound index; empty where none is."""
        for base in bases:
            with suppress(IndexFault, sqlite3.Error, UnicodeDecodeError, FileNotFoundError):
                shutil.copyfile(base, self._temporary)
                connection = self._connect()
                try:
                    _check(connection, base)
                    if connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                        return connection
                except (IndexFault, sqlite3.Error, UnicodeDecodeError):
                    connection.close()
                    raise
                connection.close()
        self._temporary.write_bytes(b"")
        connection = self._connect()
        connection.executescript(_SCHEMA)
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._temporary, isolation_level=None, check_same_thread=False)
        # Nobody reads the file before it is published: what a power cut would tear is thrown away anyway.
        for setting in (
            "journal_mode = MEMORY",
            "synchronous = OFF",
            "cache_size = -65536",
            "locking_mode = EXCLUSIVE",
        ):
            connection.execute(f"PRAGMA {setting}").fetchall()
        return connection

    def _drop_stale(self) -> None:
        for left in self.path.parent.glob(f"{_glob_literal(self.path.name)}.*.tmp"):
            with suppress(OSError):  # another builder may have been quicker
                if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                    left.unlink()

    def stamps(self) -> dict[str, str]:
        """Every document's stamp so far, by key."""
        with _faults(self.path):
            return dict(self._connection.execute("SELECT key, stamp FROM documents"))

    def add(self, documents: Iterable[Document]) -> None:
        """Adds documents, in one transaction; one with a key that is there already takes its place."""
        batch = {document.key: document for document in documents}
        with self._transaction():
            self._remove(batch)
            for key, document in batch.items():
                title = clean_line(document.title[:MAX_TITLE_CHARS])
                text = clean(document.text[:MAX_TEXT_CHARS])
                self._connection.execute(
                    "INSERT INTO documents VALUES(?, ?, ?, ?)", (self._next_id, key, title, document.stamp)
                )
                self._connection.execute(
                    "INSERT INTO pages(rowid, title, text, title_pairs, text_pairs) VALUES(?, ?, ?, ?, ?)",
                    (self._next_id, title, text, unspaced_words(title), unspaced_words(text)),
                )
                self._next_id += 1

    def remove(self, keys: Iterable[str]) -> None:
        """Removes documents, in one transaction; a key that is not there is passed over."""
        with self._transaction():
            self._remove(keys)

    def _remove(self, keys: Iterable[str]) -> None:
        rows = (self._connection.execute("SELECT id FROM documents WHERE key = ?", (key,)).fetchone() for key in keys)
        for (row,) in sorted(row for row in rows if row):  # ascending, or FTS5 would write to disk after each
            self._connection.execute("DELETE FROM pages WHERE rowid = ?", (row,))
            self._connection.execute("DELETE FROM documents WHERE id = ?", (row,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _faults(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def publish(self) -> None:
        """Completes the file and moves it into place."""
        with _faults(self.path):
            self._connection.execute("INSERT INTO pages(pages) VALUES('optimize')")
            self._connection.close()
            with self._temporary.open("rb+") as file:
                os.fsync(file.fileno())
            self._temporary.replace(self.path)
            self._partial.unlink(missing_ok=True)

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        with suppress(OSError):  # published, and so no longer there
            if isinstance(error, IndexFault):
                self._temporary.unlink()
            elif kind is not None:
                self._temporary.replace(self._partial)
            else:
                self._temporary.unlink()


def _glob_literal(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def build_index(path: Path, documents: Iterable[Document], progress: Callable[[int], None] | None = None) -> int:
    """Builds an index anew, in one pass; returns how many documents it holds.

    Args:
      progress: called after each batch with the number of documents so far.

    Raises:
      IndexFault: see `IndexWriter`.
    """
    total = 0
    remaining = iter(documents)
    with IndexWriter(path, fresh=True) as writer:
        while batch := list(islice(remaining, BATCH)):
            writer.add(batch)
            total += len(batch)
            if progress is not None:
                progress(total)
        writer.publish()
    return total
