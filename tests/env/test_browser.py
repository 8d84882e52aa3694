"""The browser: what each command does, and does not do; endings, limits, the web's failures, branching."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.env.webs import MemoryWeb, linked_page, one_page_web, opened, play, run
from webgpt_jax.env import (
    Browser,
    BrowserConfig,
    BrowserState,
    EpisodeEnd,
    EpisodeError,
    Page,
    SearchResult,
    WebError,
    parse_observation,
    render_observation,
    search_page,
)
from webgpt_jax.env.state import EMPTY_PAGE

QUESTION = "How can I train the crows in my neighborhood to bring me gifts?"
CROWS = linked_page(
    "https://birds.test/crows",
    "Gifts From Crows",
    "\n".join(
        [
            "Many {animals} give gifts to members of their own species",
            "but crows are the only ones known to give gifts to humans.",
            *(f"Line {at} of the page." for at in range(300)),
            "Crows remember faces. {reddit} and {home}.",
        ]
    ),
    {"animals": "https://zoo.test/", "reddit": "https://old.reddit.com/r/crows", "home": "https://birds.test/"},
)
ZOO = linked_page("https://zoo.test/", "The Zoo", "Animals live here. {back}", {"back": "https://birds.test/crows"})
RESULTS = [
    SearchResult("Gifts From Crows", "https://birds.test/crows", "Crows give gifts."),
    SearchResult("Crows on Reddit", "https://www.reddit.com/r/crows", "No."),
    SearchResult("The Zoo", "https://zoo.test/", ""),
    SearchResult("Script", "javascript:alert(1)", "No."),
]


def _web() -> MemoryWeb:
    return MemoryWeb({page.url: page for page in (CROWS, ZOO)}, {None: RESULTS})


def _browser(web: MemoryWeb | None = None, **settings: Any) -> Browser:
    return Browser(web or _web(), replace(BrowserConfig(), **settings))


def _played(*actions: str, web: MemoryWeb | None = None, **settings: Any) -> BrowserState:
    async def episode() -> BrowserState:
        browser = _browser(web, **settings)
        return await play(browser, await browser.reset(QUESTION), *actions)

    return run(episode())


SEARCH = "Search crows"
OPEN = (SEARCH, "Clicked on link 0")


# ---- reset


def test_the_first_state_is_empty() -> None:
    state = _played()
    assert state == BrowserState(QUESTION, 100)
    assert state.page == EMPTY_PAGE
    assert (state.quotes, state.past_actions, state.history, state.end) == ((), (), (), None)


def test_the_question_is_cleaned_and_may_not_be_empty() -> None:
    async def reset(question: str) -> BrowserState:
        return await _browser().reset(question)

    assert run(reset(" ♦Why\r\nnot?\u202e\n")).question == "♢Why\nnot?"
    for question in ["", "  \n", "\u200b\x00"]:
        with pytest.raises(ValueError, match="the question is empty"):
            run(reset(question))


def test_an_episode_may_have_its_own_action_limit() -> None:
    async def episode() -> None:
        browser = _browser(max_actions=50)
        assert (await browser.reset("Why?")).actions_left == 50
        state = await browser.reset("Why?", max_actions=2)
        assert state.actions_left == 2
        assert (await browser.reset("Why?")).actions_left == 50
        state = await play(browser, state, "bogus", "bogus")
        assert state.end is EpisodeEnd.ACTION_LIMIT
        with pytest.raises(ValueError, match="max_actions must be at least 1, not 0"):
            await browser.reset("Why?", max_actions=0)

    run(episode())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_actions": 0}, "max_actions must be at least 1, not 0"),
        ({"window_chars": 0}, "window_chars must be at least 1, not 0"),
        ({"max_observation_tokens": 0}, "observation_limit must be at least 1, not 0"),
        ({"max_reference_tokens": -1}, "reference_limit must be at least 1, not -1"),
        ({"web_timeout_s": 0.0}, "web_timeout_s must be more than 0, not 0"),
        ({"web_timeout_s": float("nan")}, "web_timeout_s must be more than 0, not nan"),
        ({"blocked_domains": ("a.test", "Reddit.com")}, "blocked_domains: 'Reddit.com' is not a bare lower-case"),
        ({"blocked_domains": ("https://a.test/",)}, "blocked_domains: 'https://a.test/' is not a bare"),
        ({"blocked_domains": ("",)}, "blocked_domains: '' is not a bare"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _browser(**settings)


# ---- what each command does


def test_search_shows_a_results_page() -> None:
    state = _played("Search  how to\ttrain crows ")
    assert state.page.title == "Search results for: how to train crows"
    assert state.page.domain == ""
    assert state.page.text == "【0†Gifts From Crows†birds.test】\nCrows give gifts.\n【1†The Zoo†zoo.test】"
    assert [link.url for link in state.page.links] == ["https://birds.test/crows", "https://zoo.test/"]
    assert state.past_actions == ("Search how to train crows",)
    assert (state.actions_left, state.place.unit, state.end) == (99, 0, None)


def test_the_web_is_asked_for_the_clean_query() -> None:
    web = _web()
    _played("Search  crows\u202e\r and   ♦gifts ", web=web)
    assert web.requests == ["search crows and ♢gifts"]


def test_search_without_results() -> None:
    state = _played(SEARCH, web=MemoryWeb())
    assert state.page.text == "No results."
    assert state.page.error is None


def test_search_page_as_a_literal() -> None:
    page = search_page("q", [SearchResult(" ", "https://a.test/x", "s\nt"), SearchResult("T【†", "http://b.test", "")])
    assert page == Page(
        "Search results for: q",
        "",
        "search:q",
        "【0†https://a.test/x†a.test】\ns t\n【1†T〖‡†b.test】",
        page.links,
    )


def test_click_opens_the_page_without_blocked_links() -> None:
    state = _played(*OPEN)
    assert state.page.title == "Gifts From Crows"
    assert state.page.text.startswith("Many 【0†animals†zoo.test】 give gifts")
    assert state.page.text.endswith("Crows remember faces.  and 【1†home】.")
    assert state.past_actions == ("Search crows", "Click Gifts From Crows birds.test")
    assert state.actions_left == 98
    state = _played(*OPEN, "Clicked on link 0")
    assert state.page.title == "The Zoo"


def test_click_goes_by_the_page_on_show() -> None:
    web = _web()
    state = _played(SEARCH, "Clicked on link 1", web=web)
    assert state.page.title == "The Zoo"
    assert web.requests == ["search crows", "open https://zoo.test/"]


def test_find_scrolls_to_the_occurrence_and_on_to_the_next() -> None:
    state = _played(*OPEN, "Find in page: LINE 250")
    assert state.page.text.split("\n")[state.place.unit] == "Line 250 of the page."
    assert state.past_actions[-1] == "Find in page: LINE 250"
    unit = state.place.unit
    state = _played(*OPEN, "Find in page: crows", "Find in page: crows")
    assert state.place.unit == 302 > unit
    state = _played(*OPEN, "Find in page: crows", "Find in page: crows", "Find in page: crows")
    assert state.place.unit == 1  # round once


def test_find_after_scrolling_goes_on_from_the_window() -> None:
    state = _played(*OPEN, "Find in page: line 250", "Find in page: line 2")
    assert state.page.text.split("\n")[state.place.unit] == "Line 251 of the page."
    state = _played(*OPEN, "Find in page: line 250", "Top", "Find in page: line 2")
    assert state.page.text.split("\n")[state.place.unit] == "Line 2 of the page."
    scrolled = _played(*OPEN, "Scrolled down 1")
    found = _played(*OPEN, "Scrolled down 1", "Find in page: of the page")
    assert found.place.unit == scrolled.place.unit > 0


def test_quote_stores_the_pages_own_text_and_where_it_stands() -> None:
    state = _played(*OPEN, "Quote: MANY animals━to   humans")
    (quote,) = state.quotes
    assert quote.text == (
        "Many animals give gifts to members of their own species\n"
        "but crows are the only ones known to give gifts to humans"
    )
    assert (quote.title, quote.domain, quote.url) == ("Gifts From Crows", "birds.test", "https://birds.test/crows")
    assert quote.stands_on(state.page)
    assert state.past_actions[-1] == "Quote"
    assert (state.end, state.place) == (None, _played(*OPEN).place)


def test_quotes_may_come_from_the_results_page_and_keep_their_order() -> None:
    state = _played(SEARCH, "Quote: crows give gifts.", "Clicked on link 0", "Quote: Line 1 ", "Quote: Line 0 ")
    assert [quote.text for quote in state.quotes] == ["Crows give gifts.", "Line 1", "Line 0"]
    assert [quote.heading for quote in state.quotes] == [
        "Search results for: crows",
        "Gifts From Crows (birds.test)",
        "Gifts From Crows (birds.test)",
    ]


def test_scrolling_and_top() -> None:
    down = [_played(*OPEN, f"Scrolled down {steps}") for steps in (1, 2, 3)]
    assert [state.past_actions[-1] for state in down] == ["Scrolled down 1", "Scrolled down 2", "Scrolled down 3"]
    singly = [_played(*OPEN, *["Scrolled down 1"] * steps) for steps in (1, 2, 3)]
    # Demonstrations merge runs of `Scrolled down 1`: that must lead to the same place.
    assert [state.place for state in down] == [state.place for state in singly]
    assert 0 < down[0].place.unit < down[1].place.unit
    back = _played(*OPEN, "Scrolled down 2", "Scrolled up 2")
    assert back.place.unit == 0
    top = _played(*OPEN, "Scrolled down 3", "Top")
    assert (top.place.unit, top.past_actions[-1]) == (0, "Top")


def test_scrolling_stops_at_the_ends() -> None:
    assert _played(*OPEN, "Scrolled up 3").place.unit == 0
    end = _played(*OPEN, *["Scrolled down 3"] * 9)
    assert "Crows remember faces." in parse_observation(render_observation(end)).text
    assert end.place == _played(*OPEN, *["Scrolled down 3"] * 10).place


def test_scrolling_before_the_first_page() -> None:
    state = _played("Scrolled down 3", "Scrolled up 2", "Top")
    assert state.page == EMPTY_PAGE
    assert state.actions_left == 97


def test_back_restores_page_and_scroll() -> None:
    before = _played(*OPEN, "Scrolled down 2", "Find in page: Line 2")
    after = _played(*OPEN, "Scrolled down 2", "Find in page: Line 2", "Clicked on link 0", "Scrolled down 1", "Back")
    assert after.place == before.place
    assert after.history == before.history
    assert after.past_actions[-1] == "Back"
    further = _played(*OPEN, "Clicked on link 0", "Back", "Back")
    assert further.place == _played(SEARCH).place
    assert further.history == ()


def test_quotes_and_actions_outlive_back() -> None:
    state = _played(*OPEN, "Quote: Line 1 ", "Back")
    assert [quote.text for quote in state.quotes] == ["Line 1"]
    assert state.past_actions == ("Search crows", "Click Gifts From Crows birds.test", "Quote", "Back")


# ---- what changes nothing but the count


@pytest.mark.parametrize(
    "action",
    [
        "bogus",
        "",
        "Scrolled down 4",
        "top",
        "End: Maybe",
        "Thought: hm",
        "♦Actions left: 100",
        "Clicked on link 17",
        "Clicked on link 999999999",
        "Find in page: ravens",
        "Find in page: \u200b",
        "Quote: ravens",
        "Quote: humans━Many animals",
        "Quote: ━",
        "Quote: \u2060",
        "Search \u200b",
        "Search \x00\u202e",
    ],
)
def test_only_the_count_changes(action: str) -> None:
    before = _played(*OPEN, "Quote: Line 1 ", "Scrolled down 1")
    after = _played(*OPEN, "Quote: Line 1 ", "Scrolled down 1", action)
    assert after == replace(before, actions_left=before.actions_left - 1)


@pytest.mark.parametrize("action", ["Back", "Clicked on link 0", "Find in page: x", "Quote: x", "Quote: ━"])
def test_only_the_count_changes_before_the_first_page(action: str) -> None:
    assert _played(action) == replace(_played(), actions_left=99)


def test_back_on_the_first_page_and_a_repeated_quote_change_only_the_count() -> None:
    assert _played(SEARCH, "Back") == replace(_played(SEARCH), actions_left=98)
    quoted = _played(*OPEN, "Quote: Line 1 ")
    assert _played(*OPEN, "Quote: Line 1 ", "Quote: line 1 ") == replace(quoted, actions_left=quoted.actions_left - 1)


def test_the_web_is_not_asked_for_what_is_no_command() -> None:
    web = _web()
    _played("search crows", "Clicked on link 3", "Search \u200b", web=web)
    assert web.requests == []


# ---- endings


@pytest.mark.parametrize(
    ("actions", "end", "may_answer"),
    [
        ((*OPEN, "Quote: Line 1 ", "End: Answer"), EpisodeEnd.ANSWER, True),
        ((*OPEN, "Quote: Line 1 ", "End: Nonsense"), EpisodeEnd.NONSENSE, False),
        ((*OPEN, "Quote: Line 1 ", "End: Controversial"), EpisodeEnd.CONTROVERSIAL, False),
        (("End: Nonsense",), EpisodeEnd.NONSENSE, False),
        ((*OPEN, "End: Answer"), EpisodeEnd.NO_REFERENCES, False),
        (("End: Answer",), EpisodeEnd.NO_REFERENCES, False),
        ((*OPEN, "Quote: Line 1 ", *["x"] * 7), EpisodeEnd.ACTION_LIMIT, True),
        (("x",) * 10, EpisodeEnd.ACTION_LIMIT, False),
        ((*OPEN, "Quote: Many animals━humans."), EpisodeEnd.REFERENCE_LIMIT, True),
        # The last action may still end the episode in its own way.
        ((*OPEN, "Quote: Line 1 ", *["x"] * 6, "End: Answer"), EpisodeEnd.ANSWER, True),
        ((*["x"] * 9, "End: Nonsense"), EpisodeEnd.NONSENSE, False),
        ((*["x"] * 9, "End: Answer"), EpisodeEnd.NO_REFERENCES, False),
        ((*OPEN, *["x"] * 7, "Quote: Many animals━humans."), EpisodeEnd.REFERENCE_LIMIT, True),
        ((*OPEN, *["x"] * 7, "Quote: Line 1 "), EpisodeEnd.ACTION_LIMIT, True),
    ],
)
def test_endings(actions: tuple[str, ...], end: EpisodeEnd, may_answer: bool) -> None:
    settings: dict[str, Any] = {"max_actions": 10, "max_reference_tokens": 100}
    assert _played(*actions[:-1], **settings).end is None
    state = _played(*actions, **settings)
    assert state.end is end
    assert state.may_answer is may_answer
    assert state.actions_left == 10 - len(actions)


def test_an_ended_episode_takes_no_more_actions() -> None:
    state = _played("End: Nonsense")
    with pytest.raises(ValueError, match="the episode has ended: nonsense"):
        run(_browser().step(state, "Top"))


def test_an_end_changes_nothing_else() -> None:
    before = _played(*OPEN, "Quote: Line 1 ")
    after = _played(*OPEN, "Quote: Line 1 ", "End: Answer")
    assert after == replace(before, actions_left=before.actions_left - 1, end=EpisodeEnd.ANSWER)


# ---- the limit of references

HEADING = len(_played(*OPEN).page.heading)  # counts with every quote


def test_the_last_quote_is_cut_at_a_blank_to_what_is_left() -> None:
    state = _played(*OPEN, "Quote: Line 1 ", "Quote: Many animals━humans.", max_reference_tokens=30 + 2 * HEADING)
    assert [quote.text for quote in state.quotes] == ["Line 1", "Many animals give gifts"]  # 6 + 23
    assert state.end is EpisodeEnd.REFERENCE_LIMIT
    assert all(quote.stands_on(state.page) for quote in state.quotes)


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(1, "M"), (3, "Man"), (4, "Many"), (5, "Many"), (11, "Many"), (12, "Many animals"), (13, "Many animals")],
)
def test_where_a_quote_is_cut(limit: int, kept: str) -> None:
    state = _played(*OPEN, "Quote: Many animals give", max_reference_tokens=limit + HEADING)
    assert [quote.text for quote in state.quotes] == [kept]
    assert state.end is EpisodeEnd.REFERENCE_LIMIT


def test_a_quote_that_just_fits_ends_browsing_too() -> None:
    state = _played(*OPEN, "Quote: Line 1 ", max_reference_tokens=6 + HEADING)
    assert [quote.text for quote in state.quotes] == ["Line 1"]
    assert state.end is EpisodeEnd.REFERENCE_LIMIT
    assert _played(*OPEN, "Quote: Line 1 ", max_reference_tokens=7 + HEADING).end is None


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
        browser = _browser(count_tokens=count, max_reference_tokens=limit, max_observation_tokens=5000)
        state = await play(browser, await browser.reset(QUESTION), *OPEN)
        for action in quotes:
            if state.end is None:
                state = await browser.step(state, action)
            length = browser.config.length
            assert sum(length(quote.heading) + length(quote.text) for quote in state.quotes) <= limit
            assert all(quote.stands_on(CROWS_SHOWN) for quote in state.quotes)

    run(episode())


CROWS_SHOWN = _played(*OPEN).page


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


# ---- the web's failures become pages


def test_a_failed_search_is_a_page() -> None:
    web = MemoryWeb(results={None: WebError("key", "BRAVE_API_KEY is not set: ♦ set it.")})
    state = _played(SEARCH, web=web)
    assert state.page.title == "Search results for: crows"
    assert state.page.text == "The search failed. BRAVE_API_KEY is not set: ♢ set it."
    assert (state.page.error, state.end) == ("key", None)
    assert state.past_actions == ("Search crows",)


def test_a_failed_page_is_a_page_and_the_action_names_the_link() -> None:
    web = _web()
    web.pages["https://birds.test/crows"] = WebError("http", "The server answered 500.")
    state = _played(*OPEN, web=web)
    assert state.page == Page(
        "Error", "birds.test", "https://birds.test/crows", "The server answered 500.", error="http"
    )
    assert state.past_actions[-1] == "Click Gifts From Crows birds.test"
    assert _played(*OPEN, "Back", web=web).page.title == "Search results for: crows"


def test_an_error_page_of_the_webs_own_is_shown_as_one() -> None:
    web = _web()
    web.pages["https://zoo.test/"] = Page("Error", "zoo.test", "https://zoo.test/", "Encrypted.", error="encrypted")
    state = _played(SEARCH, "Clicked on link 1", web=web)
    assert state.page.error == "encrypted"
    assert state.past_actions[-1] == "Click The Zoo zoo.test"


def test_error_pages_cannot_be_quoted() -> None:
    web = _web()
    web.pages["https://birds.test/crows"] = WebError("http", "The server answered 500.")
    before = _played(*OPEN, web=web)
    assert _played(*OPEN, "Quote: the server", web=web) == replace(before, actions_left=before.actions_left - 1)
    assert _played(*OPEN, "Find in page: answered", web=web).past_actions[-1] == "Find in page: answered"
    failed = MemoryWeb(results={None: WebError("http", "No luck.")})
    assert _played(SEARCH, "Quote: No luck", web=failed).quotes == ()


def test_timeouts_are_pages() -> None:
    slow = _web()
    slow.delay_s = 60.0
    state = _played(SEARCH, web=slow, web_timeout_s=0.01)
    assert (state.page.error, state.page.text) == ("timeout", "The search took longer than 0.01 seconds.")

    async def episode() -> BrowserState:
        web = _web()
        browser = _browser(web, web_timeout_s=0.01)
        state = await play(browser, await browser.reset(QUESTION), SEARCH)
        web.delay_s = 60.0
        return await browser.step(state, "Clicked on link 0")

    state = run(episode())
    assert (state.page.error, state.page.url) == ("timeout", "https://birds.test/crows")
    assert state.page.text == "The page took longer than 0.01 seconds."


def test_a_web_that_cannot_go_on_is_not_a_page() -> None:
    async def episode() -> None:
        browser = _browser(MemoryWeb(results={None: EpisodeError("the recording does not hold this search")}))
        state = await browser.reset(QUESTION)
        with pytest.raises(EpisodeError, match="the recording does not hold this search"):
            await browser.step(state, SEARCH)
        assert state == await browser.reset(QUESTION)

    run(episode())


# ---- what is kept from the model


def test_a_redirect_to_a_blocked_site_is_an_error_page() -> None:
    web = _web()
    web.pages["https://zoo.test/"] = Page("AskReddit", "www.reddit.com", "https://www.reddit.com/r/x", "Secret.")
    state = _played(SEARCH, "Clicked on link 1", web=web)
    assert (state.page.error, state.page.url) == ("blocked", "https://zoo.test/")
    assert state.page.text == "Pages of www.reddit.com are not shown."
    assert _played(SEARCH, "Clicked on link 2", web=web, blocked_domains=()).page.text == "Secret."


def test_blocked_domains_are_a_switch() -> None:
    state = _played(SEARCH, blocked_domains=())
    assert [link.domain for link in state.page.links] == ["birds.test", "www.reddit.com", "zoo.test"]
    state = _played(*OPEN, blocked_domains=())
    assert [link.domain for link in state.page.links] == ["zoo.test", "old.reddit.com", "birds.test"]
    state = _played(SEARCH, blocked_domains=("birds.test",))
    assert [link.domain for link in state.page.links] == ["www.reddit.com", "zoo.test"]


SAME_NINE = "can I train the crows in my neighborhood to feed me gifts"
SAME_TEN = "he asked: CAN I train the crows, in my neighborhood, to bring... peanuts?"
ANSWER = "You can give them peanuts every day at the same hour and wait."


@pytest.mark.parametrize(
    ("text", "censored"),
    [
        (SAME_NINE, False),
        (SAME_TEN, True),
        (f"Give {ANSWER}", True),
        ("give them peanuts every day at the same hour", False),
    ],
)
@pytest.mark.parametrize("place", ["text", "title", "link", "snippet", "result"])
def test_pages_and_results_that_hold_question_or_answer_are_hidden(text: str, censored: bool, place: str) -> None:
    url = "https://quiz.test/"
    first, second = text.split(" the ", 1)
    pages = {
        "text": Page("Quiz", "quiz.test", url, f"Before.\n{text}\nAfter."),
        "title": Page(text, "quiz.test", url, "Before."),
        "link": linked_page(url, "Quiz", f"Before {{{first}}}\nthe {second}.", {first: "https://a.test/"}),
    }
    snippet = text.replace("e", "e\u200b") if place == "snippet" else "A snippet."
    web = MemoryWeb(
        {url: pages.get(place, pages["text"])},
        {None: [SearchResult(text if place == "result" else "Quiz", url, snippet)]},
    )

    async def episode(censor: bool) -> tuple[BrowserState, BrowserState]:
        browser = Browser(web, BrowserConfig(censor_overlap=censor))
        searched = await play(browser, await browser.reset(QUESTION, ANSWER), "Search quiz")
        return searched, await play(browser, searched, "Clicked on link 0")

    searched, clicked = run(episode(censor=True))
    if place == "result":
        assert len(searched.page.links) == (not censored)
    elif place == "snippet":
        assert searched.page.text == ("No results." if censored else f"【0†Quiz†quiz.test】\n{text}")
    else:
        assert clicked.page.error == ("censored" if censored else None)
        if censored:
            assert clicked.page.text == "This page is not shown because it repeats the question."
            assert clicked.page.links == ()
    searched, clicked = run(episode(censor=False))
    assert searched.page.links[0].url == url
    assert clicked.page.error is None


# ---- states are values


def test_states_are_frozen_and_an_episode_can_branch() -> None:
    async def episode() -> None:
        browser = _browser()
        trunk = await play(browser, await browser.reset(QUESTION), *OPEN, "Quote: Line 1 ")
        before = render_observation(trunk)
        with pytest.raises(FrozenInstanceError):
            trunk.actions_left = 5  # type: ignore[misc]
        left = await play(browser, trunk, "Scrolled down 2", "Quote: Line 2 ", "Clicked on link 0", "End: Answer")
        right = await play(browser, trunk, "Back", "Search other")
        assert render_observation(trunk) == before
        assert [quote.text for quote in left.quotes] == ["Line 1", "Line 2"]
        assert [quote.text for quote in right.quotes] == ["Line 1"]
        again = await play(browser, trunk, "Scrolled down 2", "Quote: Line 2 ", "Clicked on link 0", "End: Answer")
        assert again == left

    run(episode())


def test_many_episodes_through_one_browser() -> None:
    class Echo(MemoryWeb):
        async def search(self, query: str) -> list[SearchResult]:
            for _ in range(len(query)):  # episodes overtake each other
                await asyncio.sleep(0)
            return [SearchResult(query, f"https://{query}.test/", f"About {query}.")]

    async def episode(browser: Browser, name: str) -> BrowserState:
        state = await browser.reset(f"What is {name}?")
        return await play(browser, state, f"Search {name}", f"Quote: About {name}.", f"Search {name}{name}", "Back")

    async def episodes() -> None:
        browser = Browser(Echo())
        names = ["a" * length for length in range(1, 20)]
        together = await asyncio.gather(*(episode(browser, name) for name in names))
        for name, state in zip(names, together, strict=True):
            assert state == await episode(browser, name)
            assert [quote.text for quote in state.quotes] == [f"About {name}."]

    run(episodes())


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
