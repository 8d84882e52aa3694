"""The browser: what each command does, and does not do; endings, what is hidden, branching."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from tests.env.crows import OPEN, QUESTION, SEARCH, crow_browser, crow_web, played
from tests.env.webs import MemoryWeb, linked_page, play, run
from webgpt_jax.env import (
    Browser,
    BrowserConfig,
    BrowserState,
    EpisodeEnd,
    Page,
    SearchResult,
    parse_observation,
    render_observation,
    search_page,
)
from webgpt_jax.env.state import EMPTY_PAGE

# ---- reset


def test_the_first_state_is_empty() -> None:
    state = played()
    assert state == BrowserState(QUESTION, 100)
    assert state.page == EMPTY_PAGE
    assert (state.quotes, state.past_actions, state.history, state.end) == ((), (), (), None)


def test_the_question_is_cleaned_and_may_not_be_empty() -> None:
    async def reset(question: str) -> BrowserState:
        return await crow_browser().reset(question)

    assert run(reset(" ♦Why\r\nnot?\u202e\n")).question == "♢Why\nnot?"
    for question in ["", "  \n", "\u200b\x00"]:
        with pytest.raises(ValueError, match="the question is empty"):
            run(reset(question))


def test_an_episode_may_have_its_own_action_limit() -> None:
    async def episode() -> None:
        browser = crow_browser(max_actions=50)
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
        crow_browser(**settings)


# ---- what each command does


def test_search_shows_a_results_page() -> None:
    state = played("Search  how to\ttrain crows ")
    assert state.page.title == "Search results for: how to train crows"
    assert state.page.domain == ""
    assert state.page.text == "【0†Gifts From Crows†birds.test】\nCrows give gifts.\n【1†The Zoo†zoo.test】"
    assert [link.url for link in state.page.links] == ["https://birds.test/crows", "https://zoo.test/"]
    assert state.past_actions == ("Search how to train crows",)
    assert (state.actions_left, state.place.unit, state.end) == (99, 0, None)


def test_the_web_is_asked_for_the_clean_query() -> None:
    web = crow_web()
    played("Search  crows\u202e\r and   ♦gifts ", web=web)
    assert web.requests == ["search crows and ♢gifts"]


def test_search_without_results() -> None:
    state = played(SEARCH, web=MemoryWeb())
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
    state = played(*OPEN)
    assert state.page.title == "Gifts From Crows"
    assert state.page.text.startswith("Many 【0†animals†zoo.test】 give gifts")
    assert state.page.text.endswith("Crows remember faces.  and 【1†home】.")
    assert state.past_actions == ("Search crows", "Click Gifts From Crows birds.test")
    assert state.actions_left == 98
    state = played(*OPEN, "Clicked on link 0")
    assert state.page.title == "The Zoo"


def test_click_goes_by_the_page_on_show() -> None:
    web = crow_web()
    state = played(SEARCH, "Clicked on link 1", web=web)
    assert state.page.title == "The Zoo"
    assert web.requests == ["search crows", "open https://zoo.test/"]


def test_find_scrolls_to_the_occurrence_and_on_to_the_next() -> None:
    state = played(*OPEN, "Find in page: LINE 250")
    assert state.page.text.split("\n")[state.place.unit] == "Line 250 of the page."
    assert state.past_actions[-1] == "Find in page: LINE 250"
    unit = state.place.unit
    state = played(*OPEN, "Find in page: crows", "Find in page: crows")
    assert state.place.unit == 302 > unit
    state = played(*OPEN, "Find in page: crows", "Find in page: crows", "Find in page: crows")
    assert state.place.unit == 1  # round once


def test_find_after_scrolling_goes_on_from_the_window() -> None:
    state = played(*OPEN, "Find in page: line 250", "Find in page: line 2")
    assert state.page.text.split("\n")[state.place.unit] == "Line 251 of the page."
    state = played(*OPEN, "Find in page: line 250", "Top", "Find in page: line 2")
    assert state.page.text.split("\n")[state.place.unit] == "Line 2 of the page."
    scrolled = played(*OPEN, "Scrolled down 1")
    found = played(*OPEN, "Scrolled down 1", "Find in page: of the page")
    assert found.place.unit == scrolled.place.unit > 0


def test_quote_stores_the_pages_own_text_and_where_it_stands() -> None:
    state = played(*OPEN, "Quote: MANY animals━to   humans")
    (quote,) = state.quotes
    assert quote.text == (
        "Many animals give gifts to members of their own species\n"
        "but crows are the only ones known to give gifts to humans"
    )
    assert (quote.title, quote.domain, quote.url) == ("Gifts From Crows", "birds.test", "https://birds.test/crows")
    assert quote.stands_on(state.page)
    assert state.past_actions[-1] == "Quote"
    assert (state.end, state.place) == (None, played(*OPEN).place)


def test_quotes_may_come_from_the_results_page_and_keep_their_order() -> None:
    state = played(SEARCH, "Quote: crows give gifts.", "Clicked on link 0", "Quote: Line 1 ", "Quote: Line 0 ")
    assert [quote.text for quote in state.quotes] == ["Crows give gifts.", "Line 1", "Line 0"]
    assert [quote.heading for quote in state.quotes] == [
        "Search results for: crows",
        "Gifts From Crows (birds.test)",
        "Gifts From Crows (birds.test)",
    ]


def test_scrolling_and_top() -> None:
    down = [played(*OPEN, f"Scrolled down {steps}") for steps in (1, 2, 3)]
    assert [state.past_actions[-1] for state in down] == ["Scrolled down 1", "Scrolled down 2", "Scrolled down 3"]
    singly = [played(*OPEN, *["Scrolled down 1"] * steps) for steps in (1, 2, 3)]
    # Demonstrations merge runs of `Scrolled down 1`: that must lead to the same place.
    assert [state.place for state in down] == [state.place for state in singly]
    assert 0 < down[0].place.unit < down[1].place.unit
    back = played(*OPEN, "Scrolled down 2", "Scrolled up 2")
    assert back.place.unit == 0
    top = played(*OPEN, "Scrolled down 3", "Top")
    assert (top.place.unit, top.past_actions[-1]) == (0, "Top")


def test_scrolling_stops_at_the_ends() -> None:
    assert played(*OPEN, "Scrolled up 3").place.unit == 0
    end = played(*OPEN, *["Scrolled down 3"] * 9)
    assert "Crows remember faces." in parse_observation(render_observation(end)).text
    assert end.place == played(*OPEN, *["Scrolled down 3"] * 10).place


def test_scrolling_before_the_first_page() -> None:
    state = played("Scrolled down 3", "Scrolled up 2", "Top")
    assert state.page == EMPTY_PAGE
    assert state.actions_left == 97


def test_back_restores_page_and_scroll() -> None:
    before = played(*OPEN, "Scrolled down 2", "Find in page: Line 2")
    after = played(*OPEN, "Scrolled down 2", "Find in page: Line 2", "Clicked on link 0", "Scrolled down 1", "Back")
    assert after.place == before.place
    assert after.history == before.history
    assert after.past_actions[-1] == "Back"
    further = played(*OPEN, "Clicked on link 0", "Back", "Back")
    assert further.place == played(SEARCH).place
    assert further.history == ()


def test_quotes_and_actions_outlive_back() -> None:
    state = played(*OPEN, "Quote: Line 1 ", "Back")
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
    before = played(*OPEN, "Quote: Line 1 ", "Scrolled down 1")
    after = played(*OPEN, "Quote: Line 1 ", "Scrolled down 1", action)
    assert after == replace(before, actions_left=before.actions_left - 1)


@pytest.mark.parametrize("action", ["Back", "Clicked on link 0", "Find in page: x", "Quote: x", "Quote: ━"])
def test_only_the_count_changes_before_the_first_page(action: str) -> None:
    assert played(action) == replace(played(), actions_left=99)


def test_back_on_the_first_page_and_a_repeated_quote_change_only_the_count() -> None:
    assert played(SEARCH, "Back") == replace(played(SEARCH), actions_left=98)
    quoted = played(*OPEN, "Quote: Line 1 ")
    assert played(*OPEN, "Quote: Line 1 ", "Quote: line 1 ") == replace(quoted, actions_left=quoted.actions_left - 1)


def test_the_web_is_not_asked_for_what_is_no_command() -> None:
    web = crow_web()
    played("search crows", "Clicked on link 3", "Search \u200b", web=web)
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
    assert played(*actions[:-1], **settings).end is None
    state = played(*actions, **settings)
    assert state.end is end
    assert state.may_answer is may_answer
    assert state.actions_left == 10 - len(actions)


def test_an_ended_episode_takes_no_more_actions() -> None:
    state = played("End: Nonsense")
    with pytest.raises(ValueError, match="the episode has ended: nonsense"):
        run(crow_browser().step(state, "Top"))


def test_an_end_changes_nothing_else() -> None:
    before = played(*OPEN, "Quote: Line 1 ")
    after = played(*OPEN, "Quote: Line 1 ", "End: Answer")
    assert after == replace(before, actions_left=before.actions_left - 1, end=EpisodeEnd.ANSWER)


# ---- what is kept from the model


def test_a_redirect_to_a_blocked_site_is_an_error_page() -> None:
    web = crow_web()
    web.pages["https://zoo.test/"] = Page("AskReddit", "www.reddit.com", "https://www.reddit.com/r/x", "Secret.")
    state = played(SEARCH, "Clicked on link 1", web=web)
    assert (state.page.error, state.page.url) == ("blocked", "https://zoo.test/")
    assert state.page.text == "Pages of www.reddit.com are not shown."
    assert played(SEARCH, "Clicked on link 2", web=web, blocked_domains=()).page.text == "Secret."


def test_blocked_domains_are_a_switch() -> None:
    state = played(SEARCH, blocked_domains=())
    assert [link.domain for link in state.page.links] == ["birds.test", "www.reddit.com", "zoo.test"]
    state = played(*OPEN, blocked_domains=())
    assert [link.domain for link in state.page.links] == ["zoo.test", "old.reddit.com", "birds.test"]
    state = played(SEARCH, blocked_domains=("birds.test",))
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
        browser = crow_browser()
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
