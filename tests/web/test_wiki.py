import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from webgpt_jax.env.page import Page, PageWriter
from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.env.urls import resolve
from webgpt_jax.web import wiki as wiki_module
from webgpt_jax.web.wiki import WikiSettings, WikiWeb

libzim_writer = pytest.importorskip("libzim.writer", reason="libzim, the extra `wiki`, is not installed")

LINK = re.compile(r'<a href="([^"]*)">([^<]*)</a>')

ENTRIES = {
    "Main": ("Main page", '<p>Welcome to the mini wiki. <a href="Mongolia">A country</a></p>'),
    "Mongolia": (
        "Mongolia",
        "<p>Mongolia is a country in Asia.</p>"
        + "<p>Steppe and more steppe.</p>" * 60
        + '<p>Its capital is Ulaanbaatar, see <a href="AC/DC">the band</a>, <a href="Who%3F#top">who</a>,'
        ' <a href="http://example.com/">the web</a>.</p>',
    ),
    "France": ("France", "<p>The capital of France is Paris, where many people live.</p>"),
    "AC/DC": ("AC/DC", '<p>A band. <a href="../Mongol">Back</a></p>'),
    "Who?": ("Who?", "<p>Another band.</p>"),
    "東京": ("東京", "<p>東京都は日本の首都である。</p>"),
    "page?id=1": ("A numbered page", "<p>Of a site with queries.</p>"),
    "100%": ("100%", "<p>Percent.</p>"),
}


class ZimItem(libzim_writer.Item):  # type: ignore[misc, name-defined]
    def __init__(self, path: str, title: str, body: str | bytes, mimetype: str = "text/html") -> None:
        super().__init__()
        self._path, self._title, self._body, self._mimetype = path, title, body, mimetype

    def get_path(self) -> str:
        return self._path

    def get_title(self) -> str:
        return self._title

    def get_mimetype(self) -> str:
        return self._mimetype

    def get_contentprovider(self) -> Any:
        return libzim_writer.StringProvider(self._body)

    def get_hints(self) -> dict[Any, bool]:
        return {libzim_writer.Hint.FRONT_ARTICLE: self._mimetype == "text/html"}


def write_zim(path: Path, full_text: bool) -> Path:
    with libzim_writer.Creator(path).config_indexing(full_text, "eng") as creator:
        creator.set_mainpath("Main")
        for entry, (title, body) in ENTRIES.items():
            creator.add_item(ZimItem(entry, title, f"<html><title>{title}</title><body>{body}</body></html>"))
        creator.add_item(ZimItem("locked.pdf", "Locked", b"%PDF-locked", "application/pdf"))
        creator.add_item(ZimItem("large", "Large", "crow " * 10_000))
        creator.add_redirection("Mongol", "Mongol", "Mongolia", {libzim_writer.Hint.FRONT_ARTICLE: True})
        for key, value in (("Name", "mini_en"), ("Title", "Mini wiki"), ("Language", "eng")):
            creator.add_metadata(key, value)
    return path


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_zim(tmp_path_factory.mktemp("zim") / "some file.zim", full_text=True)


@pytest.fixture(scope="module")
def titles_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_zim(tmp_path_factory.mktemp("zim") / "titles.zim", full_text=False)


class SimpleConverter:
    """Knows just enough HTML for these tests."""

    def __init__(self) -> None:
        self.converted: list[tuple[str, str | None]] = []

    async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
        self.converted.append((url, content_type))
        if content_type == "application/pdf":
            raise WebError("encrypted", "The PDF is encrypted.")
        text = re.sub(r"<title>.*?</title>", "", body.decode())
        writer = PageWriter(url)
        text = LINK.sub(lambda found: writer.link(found[2], resolve(url, found[1])), text)
        return writer.page("Title", re.sub(r"<[^>]*>", " ", text).strip())


def run(
    path: Path,
    use: Callable[[WikiWeb], Awaitable[Any]],
    settings: WikiSettings | None = None,
    converter: SimpleConverter | None = None,
) -> Any:
    async def go() -> Any:
        async with WikiWeb.open_wiki(path, converter or SimpleConverter(), settings=settings) as web:
            return await use(web)

    return asyncio.run(go())


def search(path: Path, query: str) -> list[SearchResult]:
    results = run(path, lambda web: web.search(query))
    assert isinstance(results, list)
    return results


def titles(path: Path, query: str) -> list[str]:
    return [result.title for result in search(path, query)]


def outcome(path: Path, url: str, settings: WikiSettings | None = None) -> str:
    async def use(web: WikiWeb) -> str:
        try:
            return (await web.open(url)).url
        except WebError as error:
            return error.kind if error.message else "no message"

    return str(run(path, use, settings))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("capital", ["Mongolia", "France"]),
        ("Mongolia's capital", ["Mongolia", "France"]),
        ("What is the capital of Mongolia and how many people live there?", ["Mongolia", "France"]),
        ("where do people in france live", ["France"]),
        ("首都", ["東京"]),
        ("zeppelin", []),
        ("zeppelin capital", ["Mongolia", "France"]),
        ("", []),
        ("\0", []),
        ('"', []),
        ("NEAR( * ^ -", []),
        ("\ud800 paris", ["France"]),
        ("a" * 100_000, []),
        ("paris " * 20_000, ["France"]),
    ],
)
def test_search(archive: Path, query: str, expected: list[str]) -> None:
    assert sorted(titles(archive, query)) == sorted(expected)


def test_a_question_finds_what_it_is_about_first(archive: Path) -> None:
    # No page holds all of its words, and three hold "band".
    first, *others = titles(archive, "Is there a band in Paris?")
    assert first == "France"
    assert sorted(others) == ["AC/DC", "Mongolia", "Who?"]


def test_snippets_are_from_the_page(archive: Path) -> None:
    (result,) = search(archive, "Ulaanbaatar")
    assert result.url == "http://mini-en.localhost/Mongolia"
    assert "Its capital is Ulaanbaatar, see the band" in result.snippet
    assert len(result.snippet) < 320


def test_without_a_full_text_index_titles_are_searched(titles_only: Path) -> None:
    assert titles(titles_only, "What is Mongolia?") == ["Mongolia"]
    assert titles(titles_only, "capital mongolia") == ["Mongolia"]
    assert titles(titles_only, "ulaanbaatar") == []


def test_a_page_reached_by_two_names_is_one_result(titles_only: Path) -> None:
    (result,) = search(titles_only, "mongol")
    assert result.url == "http://mini-en.localhost/Mongolia"


def test_results_are_limited(archive: Path) -> None:
    async def use(web: WikiWeb) -> int:
        return len(await web.search("Is there a band in Paris?"))

    assert [run(archive, use, WikiSettings(results=limit)) for limit in (1, 2, 3)] == [1, 2, 3]
    with pytest.raises(ValueError, match="results"):
        WikiSettings(results=0)


def test_links_lead_from_entry_to_entry(archive: Path) -> None:
    async def use(web: WikiWeb) -> None:
        assert (web.base_url, web.title) == ("http://mini-en.localhost/", "Mini wiki")
        page = await web.open(web.base_url)
        assert page.text == "Welcome to the mini wiki. 【0†A country】"
        page = await web.open(page.links[0].url)
        band, who, elsewhere = (link.url for link in page.links)
        assert (await web.open(who)).text == "Another band."
        page = await web.open(band)
        assert page.url == "http://mini-en.localhost/AC/DC"
        assert (await web.open(page.links[0].url)).url == "http://mini-en.localhost/Mongolia"
        with pytest.raises(WebError, match="holds only the wiki 'Mini wiki'") as caught:
            await web.open(elsewhere)
        assert caught.value.kind == "offline"

    run(archive, use)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "http://mini-en.localhost/Main"),
        ("Mongolia#History", "http://mini-en.localhost/Mongolia"),
        ("Mongolia?action=edit", "http://mini-en.localhost/Mongolia"),
        ("Mongol", "http://mini-en.localhost/Mongolia"),
        ("Who%3F", "http://mini-en.localhost/Who%3F"),
        ("page?id=1", "http://mini-en.localhost/page%3Fid=1"),
        ("page%3Fid%3D1", "http://mini-en.localhost/page%3Fid=1"),
        ("100%25", "http://mini-en.localhost/100%25"),
        ("東京", "http://mini-en.localhost/%E6%9D%B1%E4%BA%AC"),
        ("%E6%9D%B1%E4%BA%AC", "http://mini-en.localhost/%E6%9D%B1%E4%BA%AC"),
        ("mongolia/none", "not_found"),
        ("../../etc/passwd", "not_found"),
        ("%ff", "not_found"),
        ("%00", "not_found"),
        ("\ud800", "not_found"),
        ("x" * 100_000, "not_found"),
        ("locked.pdf", "encrypted"),
    ],
)
def test_open(archive: Path, path: str, expected: str) -> None:
    assert outcome(archive, "http://mini-en.localhost/" + path) == expected


@pytest.mark.parametrize("url", ["", "Mongolia", "http://[::1", "http://mini-en.localhost:81/", "file:///etc/passwd"])
def test_other_sites_are_offline(archive: Path, url: str) -> None:
    assert outcome(archive, url) == "offline"


def test_limits(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(archive, "http://mini-en.localhost/large") == "http://mini-en.localhost/large"
    assert outcome(archive, "http://mini-en.localhost/large", WikiSettings(max_entry_bytes=49_999)) == "too_large"
    monkeypatch.setattr(wiki_module, "MAX_REDIRECTS", 1)
    assert outcome(archive, "http://mini-en.localhost/Mongol") == "redirects"


def test_a_result_that_cannot_be_read_is_found_all_the_same(archive: Path) -> None:
    async def use(web: WikiWeb) -> list[SearchResult]:
        return await web.search("crow")

    (result,) = run(archive, use, WikiSettings(max_entry_bytes=1_000))
    assert (result.title, result.snippet) == ("Large", "")


def test_what_a_search_has_read_is_not_read_again(archive: Path) -> None:
    converter = SimpleConverter()

    async def use(web: WikiWeb) -> None:
        (result,) = await web.search("paris")
        await web.open(result.url)

    run(archive, use, converter=converter)
    assert converter.converted == [("http://mini-en.localhost/France", "text/html")]


def test_many_searches_at_once(archive: Path) -> None:
    async def use(web: WikiWeb) -> list[list[SearchResult]]:
        return await asyncio.gather(*(web.search("capital Mongolia") for _ in range(50)))

    results = run(archive, use)
    assert all(result == results[0] for result in results)


def test_the_name_of_the_file_names_an_archive_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "Field Notes.zim"
    with libzim_writer.Creator(path) as creator:
        creator.add_item(ZimItem("A", "A", "<p>text</p>"))

    async def use(web: WikiWeb) -> tuple[str, str]:
        return web.base_url, web.title

    assert run(path, use) == ("http://field-notes.localhost/", "Field Notes")
    assert outcome(path, "http://field-notes.localhost/") == "not_found"  # no main page


def test_what_is_no_archive_is_one_clear_error(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "text.zim").write_text("not an archive")
    (tmp_path / "empty.zim").write_bytes(b"")
    (tmp_path / "half.zim").write_bytes(archive.read_bytes()[:2_000])
    os.mkfifo(tmp_path / "pipe.zim")
    for name, message in (
        ("missing.zim", "there is no file"),
        ("pipe.zim", "there is no file"),
        (".", "there is no file"),
        ("nul\0.zim", "nul"),
        ("text.zim", "download it again"),
        ("empty.zim", "download it again"),
        ("half.zim", "download it again"),
    ):
        with pytest.raises(WebError, match=message) as caught:
            WikiWeb.open_wiki(tmp_path / name, SimpleConverter())
        assert caught.value.kind == "wiki"


def test_a_wrong_checksum_is_met_before_libzim_can_come_to_harm(tmp_path: Path, archive: Path) -> None:
    sound = archive.read_bytes()
    for at in range(200, len(sound), 4_001):
        damaged = tmp_path / "damaged.zim"
        damaged.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        with pytest.raises(WebError, match="download it again"):
            WikiWeb.open_wiki(damaged, SimpleConverter())
    assert outcome(damaged, "http://mini-en.localhost/France", WikiSettings(verify_bytes=0)).startswith("http")


def test_damage_met_while_reading_is_an_error_of_the_page(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(web: WikiWeb) -> None:
        def damaged(*_: object) -> None:
            raise RuntimeError("error decompressing")

        monkeypatch.setattr(web._archive, "_entry", damaged)
        with pytest.raises(WebError, match=r"damaged \(error decompressing\): download it again") as caught:
            await web.open("http://mini-en.localhost/Mongolia")
        assert caught.value.kind == "wiki"

    run(archive, use)


def test_without_libzim_the_error_says_what_to_install(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libzim.reader", None)
    with pytest.raises(WebError, match=re.escape("pip install libzim")):
        WikiWeb.open_wiki(archive, SimpleConverter())
