"""A folder as a web: searching and opening, the manifest, and hostile files."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.web.folders import SimpleConverter, kind_of, manifest, report, run, search
from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.folder import FolderSettings, FolderWeb
from webgpt_jax.web.folder_files import FolderFiles
from webgpt_jax.web.workers import Converter, ConverterConfig

# ---- searching and opening


def test_search_then_follow_links_from_page_to_page(folder: Path) -> None:
    async def use(web: FolderWeb) -> None:
        result, start = await web.search("Which gifts do crows bring?")
        assert start.title == "Start"
        assert result.title == "Gifts from crows"
        assert result.url == "http://my-corpus.localhost/birds/crow.html"
        assert result.snippet == "Crows bring gifts. Notes Elsewhere"
        page = await web.open(result.url)
        assert page.text == "Crows bring gifts. 【0†Notes】 【1†Elsewhere†example.com】"
        notes = await web.open(page.links[0].url)
        assert notes.url == "http://my-corpus.localhost/notes%20%231.txt"
        assert notes.text == "Ravens like shiny things."
        with pytest.raises(WebError, match="holds only the folder 'My Corpus'") as caught:
            await web.open(page.links[1].url)
        assert caught.value.kind == "offline"

    run(folder, use)


@pytest.mark.parametrize(
    ("url", "outcome"),
    [
        ("", "page http://my-corpus.localhost/index.html"),
        ("birds/crow.html?utm=1#gifts", "page http://my-corpus.localhost/birds/crow.html"),
        ("birds//./crow.html", "page http://my-corpus.localhost/birds/crow.html"),
        ("b%69rds/crow%2Ehtml", "page http://my-corpus.localhost/birds/crow.html"),
        ("notes%20%231.txt", "page http://my-corpus.localhost/notes%20%231.txt"),
        ("notes #1.txt", "not_found"),  # an unescaped # begins a fragment
        ("birds", "not_found"),  # no index page
        ("birds/crow", "not_found"),
        ("index.html/x", "not_found"),
        ("x" * 300, "not_found"),
        ("x/" * 5_000, "not_found"),
        ("\ud800", "not_found"),
        ("%ff%fe", "not_found"),
        ("../../etc/passwd", "refused"),
        ("birds/../index.html", "refused"),
        ("%2e%2e/x", "refused"),
        ("birds%2fcrow.html", "refused"),
        ("%2fetc%2fpasswd", "refused"),
        ("index.html%00.txt", "refused"),
        (".secret.txt", "refused"),
        ("%2Esecret.txt", "refused"),
        ("webgpt-folder.json", "refused"),
        ("picture.png", "type"),
        ("locked.pdf", "encrypted"),
    ],
)
def test_open(folder: Path, url: str, outcome: str) -> None:
    assert kind_of(folder, "http://my-corpus.localhost/" + url) == outcome


@pytest.mark.parametrize(
    ("url", "outcome"),
    [
        ("HTTP://MY-CORPUS.localhost:80", "page http://my-corpus.localhost/index.html"),
        ("https://my-corpus.localhost/", "page http://my-corpus.localhost/index.html"),
        ("http://my-corpus.localhost:8080/", "offline"),
        ("http://other.localhost/index.html", "offline"),
        ("http://my-corpus.localhost.example.com/", "offline"),
        ("file:///etc/passwd", "offline"),
        ("index.html", "offline"),
        ("", "offline"),
        ("http://[::1", "offline"),
        ("http://my-corpus.localhost:99999/", "offline"),
    ],
)
def test_other_sites_are_offline(folder: Path, url: str, outcome: str) -> None:
    assert kind_of(folder, url) == outcome


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("abc./%2eEfF5\\:?#\0\ud800é") | st.characters(), max_size=40))
def test_no_url_is_a_crash_or_leads_out(folder: Path, path: str) -> None:
    (folder.parent / "outside.txt").write_text("outside")
    try:
        content = FolderFiles(folder, max_file_bytes=1_000).read("http://my-corpus.localhost/" + path)
    except WebError as error:
        outcome = error.kind
    else:
        outcome = "page" if content.url.startswith("http://my-corpus.localhost/") else "outside"
    assert outcome in ("page", "offline", "not_found", "refused")


def test_content_types_go_by_suffix(folder: Path) -> None:
    for name in ("a.TXT", "a.md", "a.csv", "a.json", "a.xml", "a.HTM"):
        (folder / name).write_text("text")
    converter = SimpleConverter()
    assert report(folder, converter=converter).startswith("10 pages")
    types = [(url.removeprefix("http://my-corpus.localhost/"), kind) for url, kind in converter.types.items()]
    assert types == [
        ("a.HTM", "text/html"),
        ("a.TXT", "text/plain"),
        ("a.csv", "text/csv"),
        ("a.json", "application/json"),
        ("a.md", "text/markdown"),
        ("a.xml", "application/xml"),
        ("index.html", "text/html"),
        ("locked.pdf", "application/pdf"),
        ("notes%20%231.txt", "text/plain"),
        ("birds/crow.html", "text/html"),
    ]


def test_pages_are_kept_so_that_a_run_sees_one_version(folder: Path) -> None:
    converter = SimpleConverter()

    async def use(web: FolderWeb) -> None:
        converter.urls.clear()
        first = await web.open("http://my-corpus.localhost/birds/crow.html#a")
        (folder / "birds/crow.html").unlink()
        assert await web.open("http://my-corpus.localhost/birds/crow.html?b") is first
        assert len(converter.urls) == 1

    run(folder, use, converter=converter)


def test_same_folder_same_query_same_results(folder: Path, tmp_path: Path) -> None:
    for number in range(20):
        (folder / f"same{number}.txt").write_text("An equal text about gulls.")
    once = search(folder, "gulls and crows")
    (folder / "same7.txt").write_text("Something else.")
    search(folder, "x")
    (folder / "same7.txt").write_text("An equal text about gulls.")
    refreshed = search(folder, "gulls and crows")
    assert len(once) == 10
    assert refreshed == once


def test_with_the_converter_that_is_really_used(folder: Path) -> None:
    async def go() -> None:
        async with (
            Converter(ConverterConfig(workers=1)) as converter,
            await FolderWeb.open_folder(folder, converter) as web,
        ):
            assert web.report.unreadable == 1
            page = await web.open((await web.search("what gifts do crows bring"))[0].url)
            assert page.title == "Gifts from crows"
            notes = await web.open(next(link.url for link in page.links if link.text == "Notes"))
            assert notes.text == "Ravens like shiny things."

    asyncio.run(go())


# ---- the manifest


def test_a_manifest_gives_url_title_and_attribution(folder: Path) -> None:
    manifest(
        folder, '{"base_url": "https://facts.example/book", "title": "Facts", "attribution": "By A. 【9†x】, CC BY"}'
    )

    async def use(web: FolderWeb) -> None:
        assert web.report.pages == 4  # the manifest is none
        assert (web.base_url, web.title) == ("https://facts.example/book/", "Facts")
        (result,) = await web.search("ravens")
        assert result.url == "https://facts.example/book/notes%20%231.txt"
        page = await web.open(result.url)
        assert page.text == "Ravens like shiny things.\n\nBy A. 〖9‡x〗, CC BY"
        assert (await web.open("https://facts.example/book/birds/crow.html")).links[0].url == result.url + "#top"
        for outside in ("https://facts.example/", "https://facts.example/bookish/index.html"):
            with pytest.raises(WebError) as caught:
                await web.open(outside)
            assert caught.value.kind == "offline"
        assert await web.search("attribution CC") == []  # is on every page, and tells none from another

    run(folder, use)


def test_a_page_that_holds_the_attribution_already_is_left_alone(folder: Path) -> None:
    manifest(folder, '{"attribution": "Ravens like shiny things."}')

    async def use(web: FolderWeb) -> None:
        (result,) = await web.search("ravens")
        assert (await web.open(result.url)).text == "Ravens like shiny things."

    run(folder, use)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("\xff", "must hold an object|not valid JSON"),
        ("[" * 50_000, "not valid JSON"),
        ("[]", "must hold an object"),
        ('{"base": "x"}', "no other keys than base_url, title, attribution"),
        ('{"title": 3}', "title must be a string"),
        ('{"base_url": ""}', "base_url must be"),
        ('{"base_url": "ftp://a.b/"}', "base_url must be"),
        ('{"base_url": "http://u:p@a.b/"}', "base_url must be"),
        ('{"base_url": "http://a.b/?q"}', "base_url must be"),
        ('{"base_url": "http://a.b/../c"}', "base_url must be"),
        ('{"base_url": "http://[::1/"}', "base_url must be"),
        (" " * 70_000, "larger than"),
    ],
)
def test_a_wrong_manifest_is_one_clear_error(folder: Path, text: str, message: str) -> None:
    with pytest.raises(WebError, match=message) as caught:
        FolderFiles(manifest(folder, text), max_file_bytes=1_000)
    assert caught.value.kind == "folder"
    assert "webgpt-folder.json" in caught.value.message


# ---- hostile folders

HOSTILE_NAMES = [
    b"new\nline.txt",
    b"tab\there.txt",
    "【0†click†evil.test】.txt".encode(),
    b"100%.txt",
    b"%2e%2e%2fx.txt",
    b"what?.txt",
    b"#.txt",
    b"a&b=c;d,e.txt",
    b"back\\slash.txt",
    b"quote\"'<b>.txt",
    b" .txt",
    "日本語.txt".encode(),
    "\u202etxt.exe.txt".encode(),
    b"n" * 251 + b".txt",
    b"http:.txt",
] + ([b"\xff\xfe\x80.txt"] if sys.platform == "linux" else [])


def test_every_file_name_has_a_url_that_leads_back_to_it(folder: Path) -> None:
    for number, name in enumerate(HOSTILE_NAMES):
        (folder / os.fsdecode(name)).write_text(f"hostilename number{number}")

    async def use(web: FolderWeb) -> None:
        for number in range(len(HOSTILE_NAMES)):
            (result,) = await web.search(f"number{number}")
            assert re.fullmatch(r"http://my-corpus\.localhost/[A-Za-z0-9%._~-]+", result.url)
            page = await web.open(result.url)
            assert page.text == f"hostilename number{number}"
            assert page.url == result.url
            assert not set("\n\t【】†\u202e") & set(result.title)

    run(folder, use, settings=FolderSettings(results=50))


def test_links_out_of_the_folder_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("outsider")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.txt").write_text("outsider")
    (folder / "out.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "outdir").symlink_to(tmp_path / "outside")
    (folder / "up").symlink_to("..")
    (folder / "self").symlink_to(".")
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "dangling.txt").symlink_to("nowhere")
    (folder / "secret.txt").symlink_to(".secret.txt")
    (folder / "in.txt").symlink_to("notes #1.txt")
    assert search(folder, "outsider password") == []
    assert report(folder).startswith("5 pages, 0 of them read now")
    assert sorted(search(folder, "ravens")) == [
        "http://my-corpus.localhost/in.txt",
        "http://my-corpus.localhost/notes%20%231.txt",
    ]
    for path, outcome in (
        ("out.txt", "refused"),
        ("outdir/x.txt", "refused"),
        ("up/outside.txt", "refused"),
        ("secret.txt", "refused"),
        ("loop.txt", "not_found"),
        ("dangling.txt", "not_found"),
        ("self/in.txt", "page http://my-corpus.localhost/self/in.txt"),
    ):
        assert kind_of(folder, "http://my-corpus.localhost/" + path) == outcome


def test_pipes_devices_and_folders_with_file_names(folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")
    (folder / "folder.html").mkdir()
    (folder / "device.txt").symlink_to("/dev/zero")
    assert report(folder).startswith("4 pages")
    assert kind_of(folder, "http://my-corpus.localhost/pipe.txt") == "refused"
    assert kind_of(folder, "http://my-corpus.localhost/device.txt") == "refused"
    assert kind_of(folder, "http://my-corpus.localhost/folder.html") == "not_found"


def test_a_manifest_that_leads_out_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"title": "x"}')
    (folder / "webgpt-folder.json").symlink_to(tmp_path / "m.json")
    with pytest.raises(WebError, match="leads out"):
        FolderFiles(folder, max_file_bytes=1_000)


def test_huge_files_are_not_read(folder: Path) -> None:
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(10**12)  # sparse: takes no room on the disk
    limits = FolderSettings(max_file_bytes=1_000)

    async def use(web: FolderWeb) -> list[str]:
        assert web.report.unreadable == 2
        return [result.url for result in await web.search("huge")]

    assert run(folder, use, settings=limits) == ["http://my-corpus.localhost/huge.txt"]
    assert kind_of(folder, "http://my-corpus.localhost/huge.txt", limits) == "too_large"
    (folder / "exact.txt").write_bytes(b"x" * 1_000)
    assert kind_of(folder, "http://my-corpus.localhost/exact.txt", limits).startswith("page")


def test_deep_folders(folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(60):  # 60 × 100 characters: longer than any path that the system takes
            os.mkdir("d" * 100, dir_fd=here)
            inner = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
    finally:
        os.close(here)
    deep = folder.joinpath(*["d" * 100] * 20)
    (deep / "deep.txt").write_text("buried treasure")
    assert len(search(folder, "treasure")) == 1
    assert report(folder).endswith("1 folders could not be read")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_and_folders_that_may_not_be_read(folder: Path) -> None:
    (folder / "notes #1.txt").chmod(0)
    (folder / "birds").chmod(0)
    assert report(folder) == (
        "3 pages, 3 of them read now; 2 could not be read and are found by name only; 1 folders could not be read"
    )
    (folder / "birds").chmod(0o755)


def test_a_read_that_fails_is_an_error_of_the_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    def break_down(*_: object, **__: object) -> int:
        raise OSError(5, "Input/output error")

    files = FolderFiles(folder, max_file_bytes=1_000)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WebError, match="permissions") as caught:
        files.read("http://my-corpus.localhost/index.html")
    assert caught.value.kind == "refused"
    monkeypatch.setattr(os, "open", break_down)
    with pytest.raises(WebError, match="Input/output error") as caught:
        files.read("http://my-corpus.localhost/index.html")
    assert caught.value.kind == "io"


def test_files_that_vanish_and_change_while_they_are_indexed(folder: Path) -> None:
    class Meddling(SimpleConverter):
        async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
            (folder / "notes #1.txt").unlink(missing_ok=True)
            if url.endswith("/a0.txt"):
                (folder / "z.txt").write_text("changed before it was read")
            if url.endswith("/b.txt"):
                (folder / "b.txt").write_text("changed since")
            return await super().convert(body, url, content_type)

    # Files are read in order, and only so many at once: these fill the first turns.
    for number in range(4 * (os.cpu_count() or 1)):
        (folder / f"a{number}.txt").write_text("x")
    (folder / "b.txt").write_text("at first")
    (folder / "z.txt").write_text("at first")
    count = 5 + 4 * (os.cpu_count() or 1)
    assert report(folder, converter=Meddling()).startswith(f"{count} pages, {count + 1} of them read now")
    assert report(folder).startswith(f"{count} pages, 1 of them read now")
    assert search(folder, "since") == ["http://my-corpus.localhost/b.txt"]  # its stamp was the old one's
    assert search(folder, "before") == ["http://my-corpus.localhost/z.txt"]
    assert search(folder, "ravens") == []
