"""The browser at its limits: of references and of what a window shows, and where the web fails."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.env.crows import OPEN, QUESTION, SEARCH, crow_browser, crow_web, played
from tests.env.webs import MemoryWeb, one_page_web, opened, play, run
from webgpt_jax.env import (
    Browser,
    BrowserConfig,
    BrowserState,
    EpisodeEnd,
    EpisodeError,
    Page,
    WebError,
    parse_observation,
    render_observation,
)

# ---- the limit of references

HEADING = len(played(*OPEN).page.heading)  # counts with every quote


def test_the_last_quote_is_cut_at_a_blank_to_what_is_left() -> None:
    state = played(*OPEN, "Quote: Line 1 ", "Quote: Many animals━humans.", max_reference_tokens=30 + 2 * HEADING)
    assert [quote.text for quote in state.quotes] == ["Line 1", "Many animals give gifts"]  # 6 + 23
    assert state.end is EpisodeEnd.REFERENCE_LIMIT
    assert all(quote.stands_on(state.page) for quote in state.quotes)


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(1, "M"), (3, "Man"), (4, "Many"), (5, "Many"), (11, "Many"), (12, "Many animals"), (13, "Many animals")],
)
def test_where_a_quote_is_cut(limit: int, kept: str) -> None:
    state = played(*OPEN, "Quote: Many animals give", max_reference_tokens=limit + HEADING)
    assert [quote.text for quote in state.quotes] == [kept]
    assert state.end is EpisodeEnd.REFERENCE_LIMIT


def test_a_quote_that_just_fits_ends_browsing_too() -> None:
    state = played(*OPEN, "Quote: Line 1 ", max_reference_tokens=6 + HEADING)
    assert [quote.text for quote in state.quotes] == ["Line 1"]
    assert state.end is EpisodeEnd.REFERENCE_LIMIT
    assert played(*OPEN, "Quote: Line 1 ", max_reference_tokens=7 + HEADING).end is None


def _noisy(text: str) -> int:
    """A count that adds up nowhere: longer texts may be shorter."""
    return len(text) // 4 + zlib.crc32(text.encode()) % 5


def _words(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]|\n", text))


COUNTS: list[Callable[[str], int] | None] = [None, _words, _noisy]


@given(
    st.sampled_from(COUNTS),
    st.integers(1, 400),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6),
)
def test_references_never_exceed_their_limit(
    count: Callable[[str], int] | None, limit: int, stretches: list[tuple[int, int]]
) -> None:
    quotes = [f"Quote: Line {first} ━Line {first + length} " for first, length in stretches]

    async def episode() -> None:
        browser = crow_browser(count_tokens=count, max_reference_tokens=limit, max_observation_tokens=5000)
        state = await play(browser, await browser.reset(QUESTION), *OPEN)
        for action in quotes:
            if state.end is None:
                state = await browser.step(state, action)
            length = browser.config.length
            assert sum(length(quote.heading) + length(quote.text) for quote in state.quotes) <= limit
            assert all(quote.stands_on(CROWS_SHOWN) for quote in state.quotes)

    run(episode())


CROWS_SHOWN = played(*OPEN).page


# ---- scrolling shows everything


@given(
    lines=st.lists(st.integers(0, 70), min_size=1, max_size=30),
    limit=st.integers(420, 900),
    count=st.sampled_from(COUNTS),
    max_actions=st.sampled_from([100, 101, 107, 999]),
    quote_every=st.integers(1, 6),
)
def test_scrolling_down_and_up_again_skips_nothing(
    lines: list[int],
    limit: int,
    count: Callable[[str], int] | None,
    max_actions: int,
    quote_every: int,
) -> None:
    page = Page(
        "T", "a.test", "https://a.test/", "\n".join(f"{at:02d}" + "x" * length for at, length in enumerate(lines))
    )

    async def episode() -> None:
        config = BrowserConfig(
            count_tokens=count,
            max_observation_tokens=limit if count is None else limit // 3,
            max_actions=max_actions,
            window_chars=120,
        )
        browser = Browser(one_page_web(page), config)
        state = await opened(browser)
        units = len(page.units(config.unit_chars)) - 1

        def shown() -> tuple[int, int]:
            first, last = parse_observation(render_observation(state)).scrollbar
            assume(last > first)  # where not even one unit fits there is nothing to show
            return first, last

        first, last = shown()
        assert first == 0
        for turn in range(units):
            if turn % quote_every == 0:
                state = await browser.step(state, f"Quote: {turn % len(lines):02d}")
                first, last = shown()
            if last == units:
                break
            state = await browser.step(state, "Scrolled down 1")
            assert shown()[0] == last
            first, last = shown()
        assert last == units
        while first > 0:
            state = await browser.step(state, "Scrolled up 1")
            above = shown()
            assert above[0] < first <= above[1]
            first = above[0]

    run(episode())


def test_scrolling_down_goes_by_the_window_that_was_shown() -> None:
    # At ten actions left the next observation has one character less to spend on its number.
    page = Page("T", "a.test", "https://a.test/", "\n".join("x" * 9 for _ in range(200)))

    async def episode(limit: int) -> None:
        browser = Browser(one_page_web(page), BrowserConfig(max_actions=12, max_observation_tokens=limit))
        state = await opened(browser)
        assert state.actions_left == 10
        shown = parse_observation(render_observation(state)).scrollbar
        assert 1 < shown[1] < 100
        state = await browser.step(state, "Scrolled down 1")
        assert state.place.unit == shown[1]

    for limit in range(300, 330):
        run(episode(limit))


def test_where_not_even_one_unit_fits_scrolling_still_moves() -> None:
    page = Page("T", "a.test", "https://a.test/", "\n".join("x" * 400 for _ in range(5)))

    async def episode() -> None:
        browser = Browser(one_page_web(page), BrowserConfig(max_observation_tokens=300))
        state = await opened(browser)
        assert parse_observation(render_observation(state)).scrollbar == (0, 0)
        units = []
        for action in ["Scrolled down 1", "Scrolled down 2", "Scrolled down 3", "Scrolled up 1", "Scrolled up 3"]:
            state = await browser.step(state, action)
            units.append(state.place.unit)
        assert units == [1, 3, 4, 3, 0]

    run(episode())


# ---- the web's failures become pages


def test_a_failed_search_is_a_page() -> None:
    web = MemoryWeb(results={None: WebError("key", "BRAVE_API_KEY is not set: ♦ set it.")})
    state = played(SEARCH, web=web)
    assert state.page.title == "Search results for: crows"
    assert state.page.text == "The search failed. BRAVE_API_KEY is not set: ♢ set it."
    assert (state.page.error, state.end) == ("key", None)
    assert state.past_actions == ("Search crows",)


def test_a_failed_page_is_a_page_and_the_action_names_the_link() -> None:
    web = crow_web()
    web.pages["https://birds.test/crows"] = WebError("http", "The server answered 500.")
    state = played(*OPEN, web=web)
    assert state.page == Page(
        "Error", "birds.test", "https://birds.test/crows", "The server answered 500.", error="http"
    )
    assert state.past_actions[-1] == "Click Gifts From Crows birds.test"
    assert played(*OPEN, "Back", web=web).page.title == "Search results for: crows"


def test_an_error_page_of_the_webs_own_is_shown_as_one() -> None:
    web = crow_web()
    web.pages["https://zoo.test/"] = Page("Error", "zoo.test", "https://zoo.test/", "Encrypted.", error="encrypted")
    state = played(SEARCH, "Clicked on link 1", web=web)
    assert state.page.error == "encrypted"
    assert state.past_actions[-1] == "Click The Zoo zoo.test"


def test_error_pages_cannot_be_quoted() -> None:
    web = crow_web()
    web.pages["https://birds.test/crows"] = WebError("http", "The server answered 500.")
    before = played(*OPEN, web=web)
    assert played(*OPEN, "Quote: the server", web=web) == replace(before, actions_left=before.actions_left - 1)
    assert played(*OPEN, "Find in page: answered", web=web).past_actions[-1] == "Find in page: answered"
    failed = MemoryWeb(results={None: WebError("http", "No luck.")})
    assert played(SEARCH, "Quote: No luck", web=failed).quotes == ()


def test_timeouts_are_pages() -> None:
    slow = crow_web()
    slow.delay_s = 60.0
    state = played(SEARCH, web=slow, web_timeout_s=0.01)
    assert (state.page.error, state.page.text) == ("timeout", "The search took longer than 0.01 seconds.")

    async def episode() -> BrowserState:
        web = crow_web()
        browser = crow_browser(web, web_timeout_s=0.01)
        state = await play(browser, await browser.reset(QUESTION), SEARCH)
        web.delay_s = 60.0
        return await browser.step(state, "Clicked on link 0")

    state = run(episode())
    assert (state.page.error, state.page.url) == ("timeout", "https://birds.test/crows")
    assert state.page.text == "The page took longer than 0.01 seconds."


def test_a_web_that_cannot_go_on_is_not_a_page() -> None:
    async def episode() -> None:
        browser = crow_browser(MemoryWeb(results={None: EpisodeError("the recording does not hold this search")}))
        state = await browser.reset(QUESTION)
        with pytest.raises(EpisodeError, match="the recording does not hold this search"):
            await browser.step(state, SEARCH)
        assert state == await browser.reset(QUESTION)

    run(episode())
