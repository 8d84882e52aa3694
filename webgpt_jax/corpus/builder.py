"""Renders a source of facts into a folder: once, whole or not at all.

A folder is made under a temporary name and renamed when it is complete, so that a build that was killed leaves nothing
that could be taken for one. The folder's name tells the version of the source and of the renderer: another version is
another folder, and old ones may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webgpt_jax.corpus.factbook import Factbook
from webgpt_jax.corpus.site import CorpusError, SitePage, Source, full_title, html_page, text_lines
from webgpt_jax.corpus.vital_articles import VitalArticles
from webgpt_jax.corpus.wordnet import WordNet
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.folder_files import MANIFEST, FolderFiles
from webgpt_jax.web.folder_index import default_index_path
from webgpt_jax.web.index import Document, build_index

SOURCES = ("factbook", "wordnet", "vital-articles")

_MARK = ".webgpt-corpus"  # a hidden file, and so no part of the web, that holds the version of what was built
_STALE_SECONDS = 24 * 60 * 60  # a temporary folder that old belongs to a build that was killed
_REPORT_EVERY = 500  # pages between two calls of progress
_MAX_PAGE_BYTES = 50_000_000

Progress = Callable[[str, int], None]


def build(
    name: str, destination: Path | None = None, progress: Progress | None = None, source: Path | None = None
) -> Path:
    """The folder of a bundled web, rendered with its index if it is not there yet; for `FolderWeb`.

    Args:
      name: one of `SOURCES`.
      destination: the folder to make; by default one in the user's cache folder. It must not exist, be empty, or be an
        earlier build, which is replaced if it is of another version.
      progress: called now and then with what is being done ("pages", "index") and the number of pages done.
      source: where the data lie, for sources that are not installed with this package.

    Raises:
      CorpusError: the name, the data or the destination is wrong.
    """
    data = _source(name, source)
    version = _version(data)
    if destination is None:
        folder = _cache_folder() / f"{name}-{version}"
    else:
        folder = destination.absolute()
        if folder.exists() and not (folder.is_dir() and (_built_version(folder) or not any(folder.iterdir()))):
            raise CorpusError(f"{destination} exists and is no bundled web: choose another folder")
    if _built_version(folder) == version:
        return folder
    with _faults(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        _drop_stale(folder)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".partial", dir=folder.parent))
        try:
            documents = _render(data, version, temporary, progress or _silent)
            # First the index, so that whoever finds the folder finds it with one.
            _index(temporary, folder, documents, progress or _silent)
            if not _put_in_place(temporary, folder, version):
                _index(folder, folder, documents, progress or _silent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def find(name: str) -> Path | None:
    """The newest folder of a bundled web in the user's cache, whatever it was rendered from; None where there is none.

    Raises:
      CorpusError: there is no cache folder.
    """
    built = [folder for folder in _cache_folder().glob(f"{name}-*") if _built_version(folder) is not None]
    return max(built, key=lambda folder: (folder / _MARK).stat().st_mtime, default=None)


def _source(name: str, path: Path | None) -> Source:
    match name:
        case "factbook":
            if path is not None:
                raise CorpusError("the factbook is rendered from an installed package and takes no source")
            return Factbook()
        case "wordnet":
            return WordNet(path)
        case "vital-articles":
            return VitalArticles(path)
    raise CorpusError(f"there is no bundled web {name!r}: choose one of {', '.join(SOURCES)}")


def _version(source: Source) -> str:
    """A hash of the data's version and of this package's code."""
    digest = hashlib.sha256(source.version().encode())
    for module in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # the XDG specification: a relative path is to be ignored
        try:
            cache = Path.home() / ".cache"
        except RuntimeError as error:
            raise CorpusError("there is no home folder to keep the bundled web in: set XDG_CACHE_HOME") from error
    return cache / "webgpt_jax" / "corpus"


def _built_version(folder: Path) -> str | None:
    """The version of the bundled web in a folder; None where there is none."""
    try:
        return (folder / _MARK).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


@contextmanager
def _faults(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CorpusError(
            f"cannot write the bundled web {folder} ({error.strerror or error}): free space, make the place writable, "
            "or set XDG_CACHE_HOME to another"
        ) from error
    except WebError as error:  # of the index
        raise CorpusError(error.message) from error


def _drop_stale(folder: Path) -> None:
    for left in folder.parent.glob(".*.partial"):
        if left.name.startswith(f".{folder.name}-") and time.time() - left.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _render(source: Source, version: str, folder: Path, progress: Progress) -> dict[str, Document]:
    """Writes every page and the manifest; returns what is to be indexed, by key."""
    documents = {}
    made: set[Path] = set()
    for count, page in enumerate(source.pages(), start=1):
        path = folder / page.path
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        # What does not encode, lone surrogates, is written as a reference to a character that is none.
        with path.open("x", encoding="utf-8", errors="xmlcharrefreplace", newline="\n") as file:
            file.write(html_page(page, source))
        documents[page.path] = _document(page, source)
        if count % _REPORT_EVERY == 0:
            progress("pages", count)
    manifest = {"base_url": source.base_url, "title": source.title, "attribution": source.attribution}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    (folder / _MARK).write_text(version, encoding="utf-8")
    progress("pages", len(documents))
    return documents


def _document(page: SitePage, source: Source) -> Document:
    return Document(page.path, full_title(page, source.title), "\n".join([page.title, *text_lines(page.body)]))


def _index(files: Path, folder: Path, documents: dict[str, Document], progress: Progress) -> None:
    """Writes the index of the folder for these files, which are or will be its own."""
    # With the files' own stamps, so that opening the folder finds nothing to do.
    stamped = (
        Document(file.key, documents[file.key].title, documents[file.key].text, file.stamp)
        for file in FolderFiles(files, _MAX_PAGE_BYTES).walk()
    )
    build_index(default_index_path(folder), stamped, lambda count: progress("index", count))


def _put_in_place(temporary: Path, folder: Path, version: str) -> bool:
    """Renames the complete folder; False where another process was quicker, and its folder stays."""
    temporary.chmod(0o755)  # mkdtemp makes folders that only their owner may read
    if folder.exists() and _built_version(folder) != version:
        shutil.rmtree(folder)
    try:
        temporary.rename(folder)
    except OSError:
        if _built_version(folder) != version:
            raise
        return False
    return True


def _silent(what: str, count: int) -> None:
    pass
