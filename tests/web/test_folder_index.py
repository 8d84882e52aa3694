"""The index of a folder: refreshed, damaged, interrupted, or impossible."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.web.folders import SimpleConverter, report, run, search
from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import EpisodeError, WebError
from webgpt_jax.web.folder import FolderSettings, FolderWeb
from webgpt_jax.web.folder_index import default_index_path

# ---- refreshing


def test_only_what_has_changed_is_read_again(folder: Path) -> None:
    converter = SimpleConverter()
    assert report(folder, converter=converter) == (
        "4 pages, 4 of them read now; 1 could not be read and are found by name only"
    )
    assert report(folder, converter=converter).startswith("4 pages, 0 of them read now")
    assert len(converter.urls) == 4
    converter.urls.clear()
    (folder / "birds/crow.html").write_text("<title>Jays</title>Jays hide acorns.")
    (folder / "new.txt").write_text("Magpies.")
    (folder / "notes #1.txt").unlink()
    assert report(folder, converter=converter).startswith(
        "4 pages, 2 of them read now; 1 gone since the last time; 1 could not be read"
    )
    assert converter.urls == [
        "http://my-corpus.localhost/new.txt",
        "http://my-corpus.localhost/birds/crow.html",
    ]
    assert search(folder, "acorns") == ["http://my-corpus.localhost/birds/crow.html"]
    assert search(folder, "gifts") == search(folder, "ravens") == []


def test_a_file_of_the_same_size_and_another_time_is_read_again(folder: Path) -> None:
    search(folder, "x")
    path = folder / "notes #1.txt"
    path.write_text("Ravens like golden things")
    os.utime(path, ns=(0, 1))
    assert search(folder, "golden") == ["http://my-corpus.localhost/notes%20%231.txt"]


def test_a_deleted_file_is_no_longer_found(folder: Path) -> None:
    assert len(search(folder, "ravens")) == 1
    (folder / "notes #1.txt").unlink()
    assert search(folder, "ravens") == []


def test_an_unchanged_folder_needs_no_writing(folder: Path, cache: Path) -> None:
    search(folder, "x")
    (index,) = (cache / "webgpt_jax/folders").iterdir()
    before = index.stat()
    search(folder, "x")
    assert (index.stat().st_ino, index.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_cannot_be_converted_is_found_by_name(folder: Path) -> None:
    async def use(web: FolderWeb) -> None:
        (result,) = await web.search("locked")
        assert (result.title, result.snippet) == ("locked.pdf", "")

    run(folder, use)


def test_a_damaged_index_is_built_anew(folder: Path, tmp_path: Path) -> None:
    index = tmp_path / "given" / "index.sqlite"

    async def use(web: FolderWeb) -> str:
        return f"{web.report.read} {len(await web.search('gifts'))}"

    assert run(folder, use, index_path=index) == "4 1"
    assert run(folder, use, index_path=index) == "0 1"
    index.write_bytes(index.read_bytes()[:9_000])
    assert run(folder, use, index_path=index) == "4 1"
    index.write_text("nothing of ours")
    assert run(folder, use, index_path=index) == "4 1"


def test_an_interrupted_build_goes_on_where_it_stopped(folder: Path) -> None:
    for number in range(100):
        (folder / f"{number:03}.txt").write_text(f"file {number}")

    class Failing(SimpleConverter):
        async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
            if len(self.urls) == 80:
                raise EpisodeError("no worker")
            return await super().convert(body, url, content_type)

    with pytest.raises(EpisodeError):
        report(folder, converter=Failing())
    converter = SimpleConverter()
    assert report(folder, converter=converter).startswith("104 pages, 40 of them read now")
    assert len(converter.urls) == 40
    assert search(folder, "42") == ["http://my-corpus.localhost/042.txt"]


def test_a_cancelled_build_leaves_nothing_that_is_believed(folder: Path, cache: Path) -> None:
    class Slow(SimpleConverter):
        async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
            await asyncio.sleep(3_600)
            raise AssertionError

    async def go() -> None:
        task = asyncio.create_task(FolderWeb.open_folder(folder, Slow()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert not default_index_path(folder).exists()
    assert search(folder, "gifts") == ["http://my-corpus.localhost/birds/crow.html"]
    assert [file.name for file in (cache / "webgpt_jax/folders").iterdir()] == [default_index_path(folder).name]


def test_progress_counts_what_is_to_be_read(folder: Path) -> None:
    for number in range(100):
        (folder / f"{number}.txt").write_text("x")
    seen: list[tuple[int, int]] = []

    async def go() -> None:
        progress = lambda done, total: seen.append((done, total))  # noqa: E731
        await (await FolderWeb.open_folder(folder, SimpleConverter(), progress=progress)).aclose()

    asyncio.run(go())
    assert seen == [(64, 104), (104, 104)]


def test_trusted_files_are_indexed_in_this_process(folder: Path) -> None:
    converter = SimpleConverter()

    def convert(body: bytes, url: str, content_type: str | None) -> Page:
        return Page(title="T", domain="d", url=url, text="trusted " + body.decode(errors="replace"))

    async def go() -> None:
        async with await FolderWeb.open_folder(folder, converter, trusted_convert=convert) as web:
            assert converter.urls == []
            assert len(await web.search("trusted")) == 4

    asyncio.run(go())


def test_where_the_index_is_kept(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = default_index_path(folder)
    assert re.fullmatch(r"my-corpus-[0-9a-f]{16}\.sqlite", path.name)
    assert path.parent == cache / "webgpt_jax" / "folders"
    (tmp_path / "link").symlink_to(folder)
    assert default_index_path(tmp_path / "link") == path
    assert default_index_path(tmp_path) != path
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_index_path(folder).parent == tmp_path / ".cache" / "webgpt_jax" / "folders"


# ---- folders that cannot be opened


def test_missing_empty_and_too_large_folders(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    for path, message in (
        (tmp_path / "missing", "there is no folder"),
        (tmp_path / "loop", "there is no folder"),
        (tmp_path / "nul\0", "there is no folder"),
        (tmp_path / "file.txt", "is not a folder"),
        (tmp_path / "empty", "holds no HTML, text or PDF file"),
    ):
        with pytest.raises(WebError, match=message) as caught:
            search(path, "x")
        assert caught.value.kind == "folder"

    async def use(web: FolderWeb) -> None:
        raise AssertionError

    with pytest.raises(WebError, match="more than 3 pages"):
        run(folder, use, settings=FolderSettings(max_files=3))
    with pytest.raises(ValueError, match="results"):
        FolderSettings(results=0)


def test_an_index_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    async def use(web: FolderWeb) -> None:
        raise AssertionError

    with pytest.raises(WebError, match="choose another place") as caught:
        run(folder, use, index_path=tmp_path / "file" / "index")
    assert caught.value.kind == "index"
