"""TinyWeb as a web: found, opened, kept, censored and browsed like any other."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from webgpt_jax.cli.main import main
from webgpt_jax.env import (
    Browser,
    BrowserState,
    Page,
    Quote,
    SearchResult,
    WebError,
    read_episodes,
    render_observation,
    search_page,
)
from webgpt_jax.env.filters import overlaps
from webgpt_jax.env.observation import lay_out
from webgpt_jax.env.state import Place
from webgpt_jax.env.text import word_string
from webgpt_jax.tinyweb import web as tinyweb
from webgpt_jax.tinyweb.language import RELATIONS, state
from webgpt_jax.tinyweb.questions import SPLITS, TinyQuestion, questions
from webgpt_jax.tinyweb.web import (
    RESULTS,
    SNIPPET_CHARS,
    TINYWEB_BROWSER,
    Library,
    approximate_tokens,
    open_library,
    open_tinyweb,
)

ANIMALS = 30


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    library = open_library(0, animals=ANIMALS)
    yield library
    library.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def some_questions(library: Library, count: int) -> list[TinyQuestion]:
    return [question for split in SPLITS for question in islice(questions(library.world, split), count)]


def test_the_results_of_a_search(library: Library) -> None:
    assert library.search("oak pig glow") == [
        SearchResult(
            "The oak pig and its glow", "https://news.test/oak-pig-glow", "The oak pig glows because of copper."
        ),
        SearchResult(
            "The oak pig and its glow long ago",
            "https://old.test/oak-pig-glow",
            "The oak pig gets its glow from sulfur.",
        ),
        SearchResult("The oak pig", "https://wiki.test/oak-pig", "The oak pig gets its glow from copper."),
        SearchResult("The frost pig", "https://wiki.test/frost-pig", "See the oak pig, all frost and all pig."),
        SearchResult("Old news", "https://old.test/", "The oak pig and its nest and age long…"),
    ]


@pytest.mark.parametrize("query", ["", "?", "zebra", '"', "the oak pig", "AND OR NOT", "oak " * 500])
def test_any_string_is_a_query(library: Library, query: str) -> None:
    results = library.search(query)
    assert len(results) <= RESULTS
    assert results == library.search(query)


def test_a_good_query_finds_a_trusted_page_that_is_not_always_first(library: Library) -> None:
    first = found = searches = 0
    for animal in library.world.animals:
        for relation in RELATIONS:
            results = library.search(f"{animal} {relation.keyword}")
            trusted = {f"https://wiki.test/{animal.replace(' ', '-')}"}
            trusted |= {
                page.url
                for page in library.pages[animal]
                if page.domain == "news.test" and relation.keyword in page.title.split()
            }
            searches += 1
            found += any(result.url in trusted for result in results)
            first += bool(results) and results[0].url in trusted
            assert len(results) == RESULTS
            assert any(animal not in result.title for result in results) or len(library.pages[animal]) > RESULTS
            assert all(len(result.snippet) <= SNIPPET_CHARS for result in results)
    assert found == searches
    assert 0.3 < first / searches < 0.8


def test_opened_pages_are_converted_and_those_of_the_library(cache: Path, library: Library) -> None:
    async def open_all() -> dict[str, Page]:
        async with open_tinyweb(0, animals=ANIMALS) as web:
            assert await web.search("oak pig glow") == library.search("oak pig glow")
            assert await web.open("https://wiki.test/oak-pig#glow") == library.by_url["https://wiki.test/oak-pig"]
            assert web.title == "TinyWeb 0, a synthetic web"
            return {url: await web.open(url) for url in library.by_url}

    assert asyncio.run(open_all()) == library.by_url


@pytest.mark.parametrize(
    ("url", "kind", "message"),
    [
        ("https://wiki.test/zebra", "http", "HTTP 404 Not Found: the site did not give the page."),
        (
            "https://example.com/",
            "offline",
            "This is TinyWeb 0, a synthetic web: it holds only wiki.test, news.test, forum.test, old.test.",
        ),
        (
            "no url",
            "offline",
            "This is TinyWeb 0, a synthetic web: it holds only wiki.test, news.test, forum.test, old.test.",
        ),
    ],
)
def test_a_page_that_is_not_there(cache: Path, url: str, kind: str, message: str) -> None:
    async def open_it() -> None:
        async with open_tinyweb(0, animals=2) as web:
            await web.open(url)

    with pytest.raises(WebError) as caught:
        asyncio.run(open_it())
    assert (caught.value.kind, caught.value.message) == (kind, message)


# ---- the index that is kept


def test_the_index_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress: list[tuple[int, int]] = []
    first = open_tinyweb(3, animals=2, progress=lambda done, total: progress.append((done, total)))
    pages = len(first.library.by_url)
    assert progress == [(done, pages) for done in range(1, pages + 1)]

    def again(*arguments: object) -> Page:
        raise AssertionError("converted again")

    monkeypatch.setattr(tinyweb, "convert", again)
    second = open_tinyweb(3, animals=2)
    query = second.library.world.animals[0]
    assert second.library.search(query) == first.library.search(query) != []
    (kept,) = (cache / "webgpt_jax" / "tinyweb").iterdir()
    assert kept.name.startswith("3-")
    with pytest.raises(AssertionError, match="converted again"):  # another world has an index of its own
        open_tinyweb(3, animals=3)


def test_a_damaged_index_is_built_anew(cache: Path) -> None:
    first = open_tinyweb(3, animals=2)
    (kept,) = (cache / "webgpt_jax" / "tinyweb").iterdir()
    kept.write_bytes(b"no index")
    query = first.library.world.animals[0]
    assert open_tinyweb(3, animals=2).library.search(query) != []
    assert kept.read_bytes()[:6] == b"SQLite"


def test_where_nothing_can_be_kept_the_index_is_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    web = open_tinyweb(3, animals=2)
    assert web.library.search(web.library.world.animals[0]) != []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_library_holds_each_animals_pages_the_article_first(library: Library) -> None:
    assert tuple(library.pages) == library.world.animals
    for animal, pages in library.pages.items():
        assert pages[0].title == f"The {animal}"
        assert all(page.title.startswith(f"The {animal} and its ") for page in pages[1:])


# ---- with the browser


def test_no_page_and_no_result_is_censored_for_a_question(library: Library) -> None:
    asked = some_questions(library, 100)
    longest = max(len(word_string(question.text).split()) for question in asked)
    assert longest > 20  # there are questions long enough to overlap
    words = [page.words for page in library.by_url.values()]
    for question in asked:
        assert not any(overlaps(text, [question.text]) for text in words), question.text
        for need in question.needs:
            for result in library.search(f"{need.animal} {need.relation}"):
                assert not overlaps(word_string(f"{result.title}\n{result.snippet}"), [question.text])


def test_tokens_are_words_signs_and_line_ends() -> None:
    assert approximate_tokens("♦Title\nThe oak pig (wiki.test)\n\n【0†all oak】") == 19


def test_an_observation_with_three_quotes_and_eight_actions_shows_a_full_window(library: Library) -> None:
    full = replace(TINYWEB_BROWSER, max_observation_tokens=10_000)
    for question in some_questions(library, 20):
        if not question.needs:
            continue
        need = question.needs[0]
        page, *_ = library.pages[need.animal]
        longest = max(library.pages[need.animal], key=lambda page: len(page.title))
        query = f"{need.animal} {need.relation}"
        quotes = [Quote(state(claim), page.title, page.domain, page.url, 0, 1) for claim in (question.needs * 3)[:3]]
        past = (f"Search {query}", f"Click {longest.title} {longest.domain}", "Scrolled down 1", "Quote") * 2
        for place in (Place(page), Place(page, 4), Place(search_page(query, library.search(query)))):
            shown = BrowserState(
                question.text, 20, TINYWEB_BROWSER, place=place, quotes=tuple(quotes), past_actions=past
            )
            assert approximate_tokens(render_observation(shown)) <= 320
            assert lay_out(shown) == lay_out(replace(shown, config=full))


def test_an_episode(cache: Path) -> None:
    async def browse() -> BrowserState:
        async with open_tinyweb(0, animals=ANIMALS) as web:
            browser = Browser(web, TINYWEB_BROWSER)
            shown = await browser.reset("Why does the oak pig glow?")
            for action in ("Search oak pig glow", "Clicked on link 2", "Quote: The oak pig gets its glow from copper."):
                shown = await browser.step(shown, action)
            assert "【1†all oak】" not in render_observation(shown)  # further down
            shown = await browser.step(shown, "Scrolled down 1")
            assert "【1†all oak】" not in render_observation(shown)
            shown = await browser.step(shown, "Scrolled down 1")
            assert "【1†all oak】" in render_observation(shown)
            return await browser.step(shown, "End: Answer")

    ended = asyncio.run(browse())
    assert ended.may_answer
    assert ended.past_actions == (
        "Search oak pig glow",
        "Click The oak pig wiki.test",
        "Quote",
        "Scrolled down 1",
        "Scrolled down 1",
    )
    (quote,) = ended.quotes
    assert (quote.text, quote.heading) == ("The oak pig gets its glow from copper.", "The oak pig (wiki.test)")


# ---- on the command line


@pytest.fixture
def small_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole world takes seconds to convert."""
    monkeypatch.setattr(open_tinyweb, "__kwdefaults__", {"animals": ANIMALS, "progress": None})


@pytest.mark.usefixtures("cache", "small_worlds")
def test_a_person_browses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = "Search oak pig glow\nClicked on link 2\nQuote: The oak pig gets its glow from copper.\nEnd: Answer\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{typed}Copper [1].\n"))
    output = tmp_path / "episodes.jsonl"
    assert main(["browse", "--web=tinyweb", f"--output={output}", "Why does the oak pig glow?"]) == 0
    shown = capsys.readouterr()
    assert "TinyWeb 0, a synthetic web: what its pages say is made up\n" in shown.err
    assert "【2†The oak pig†wiki.test】\nThe oak pig gets its glow from copper.\n" in shown.out
    (episode,) = read_episodes(output)
    assert episode.info["web"] == "tinyweb"


@pytest.mark.usefixtures("cache", "small_worlds")
def test_a_policy_answers_from_the_web_of_another_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    animal = open_library(7, animals=ANIMALS).world.animals[0]
    output = tmp_path / "episodes.jsonl"
    assert main(["ask", "--web=tinyweb:7", f"--output={output}", f"Why does the {animal} glow?"]) == 0
    assert "TinyWeb 7, a synthetic web" in capsys.readouterr().err
    (episode,) = read_episodes(output)
    assert episode.quotes
    assert {quote.domain for quote in episode.quotes} <= {"wiki.test", "news.test", "forum.test", "old.test"}


@pytest.mark.parametrize(
    "name", ["tinyweb:", "tinyweb:x", "tinyweb:-1", "tinyweb:1 ", "tinyweb:1234567890", "tinywebs"]
)
def test_a_seed_is_a_number(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", f"--web={name}", "why?"]) == 2
    assert f"--web={name} is no web: factbook, tinyweb, tinyweb:SEED" in capsys.readouterr().err
