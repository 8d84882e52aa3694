"""What is on offer in a state: read from observations that the browser itself made."""

from __future__ import annotations

import asyncio

import pytest

from webgpt_jax.env import Browser, BrowserState, Link, Page, SearchResult, WebError, render_observation
from webgpt_jax.rollout import may_stand_in_query, offer_of, short_offer_of

JUDGEMENTS = ["End: Nonsense", "End: Controversial"]
DOWN = ["Scrolled down 1", "Scrolled down 2", "Scrolled down 3"]
UP = ["Scrolled up 1", "Scrolled up 2", "Scrolled up 3", "Top"]


class SmallWeb:
    """Three results; a page with a link; the second cannot be had."""

    async def search(self, query: str) -> list[SearchResult]:
        if query == "nothing":
            return []
        return [SearchResult(f"Result {number}", f"http://r{number}.example/", "snippet") for number in range(3)]

    async def open(self, url: str) -> Page:
        if url == "http://r1.example/":
            raise WebError("http", "The server answered 404.")
        title = "Result 0"
        text = "Crows bring gifts.\nSee 【0†the nest†nest.example】.\n" + "More.\n" * 900
        return Page(title, "r0.example", url, text, [Link(0, "the nest", "http://nest.example/", "nest.example")])


def after(*actions: str) -> BrowserState:
    async def play() -> BrowserState:
        browser = Browser(SmallWeb())
        state = await browser.reset("Why do crows bring gifts?")
        for action in actions:
            state = await browser.step(state, action)
        return state

    return asyncio.run(play())


def test_without_a_page_there_is_only_a_search() -> None:
    offer = offer_of(render_observation(after()))
    assert offer.whole == JUDGEMENTS
    assert (offer.before_line, offer.before_stretch, offer.before_quote, offer.page) == (["Search "], [], [], "")


def test_results_are_opened_and_not_quoted() -> None:
    offer = offer_of(render_observation(after("Search crows")))
    assert offer.whole == [*(f"Clicked on link {number}" for number in range(3)), *DOWN, *JUDGEMENTS]
    assert offer.before_stretch == ["Find in page: "]
    assert offer.before_quote == []
    assert offer.page == "Result 0\nsnippet\nResult 1\nsnippet\nResult 2\nsnippet"


def test_a_page_is_quoted_without_its_markers() -> None:
    offer = offer_of(render_observation(after("Search crows", "Clicked on link 0")))
    assert offer.whole == ["Clicked on link 0", *DOWN, "Back", *JUDGEMENTS]
    assert offer.before_quote == ["Quote: "]
    assert offer.page.startswith("Crows bring gifts.\nSee the nest.\nMore.")


def test_further_down_there_is_a_way_up_and_no_link_out_of_sight() -> None:
    offer = offer_of(render_observation(after("Search crows", "Clicked on link 0", "Scrolled down 1")))
    assert offer.whole == [*DOWN, *UP, "Back", *JUDGEMENTS]
    assert "Crows" not in offer.page


def test_back_is_there_while_there_is_a_page_behind() -> None:
    assert "Back" not in offer_of(render_observation(after("Search crows", "Clicked on link 0", "Back"))).whole
    assert "Back" in offer_of(render_observation(after("Search crows", "Search nests"))).whole


def test_an_error_is_no_source() -> None:
    state = after("Search crows", "Clicked on link 1")
    assert state.page.error == "http"
    offer = offer_of(render_observation(state))
    assert offer.whole == [*DOWN, "Back", *JUDGEMENTS]
    assert (offer.before_stretch, offer.before_quote, offer.page) == ([], [], "")


def test_with_a_quote_there_is_an_answer() -> None:
    offer = offer_of(render_observation(after("Search crows", "Clicked on link 0", "Quote: crows bring gifts")))
    assert offer.whole == ["Clicked on link 0", *DOWN, "Back", "End: Answer", *JUDGEMENTS]


def test_the_short_offer_leaves_out_what_an_untrained_model_strays_into() -> None:
    assert short_offer_of(render_observation(after())).whole == []
    results = short_offer_of(render_observation(after("Search crows")))
    assert results.whole == ["Clicked on link 0", *DOWN]
    assert results.before_line == []
    again = short_offer_of(render_observation(after("Search crows", "Clicked on link 0", "Back")))
    assert again.whole == ["Clicked on link 1", *DOWN]
    assert short_offer_of(render_observation(after("Search nothing"))).before_line == ["Search "]
    page = short_offer_of(render_observation(after("Search crows", "Clicked on link 0", "Quote: Crows bring gifts.")))
    assert page.whole == ["Clicked on link 0", *DOWN, "Back", "End: Answer"]
    assert page.before_stretch == ["Quote: "]
    assert page.before_quote == []
    assert page.by_lines
    assert "Crows bring gifts" not in page.page


def test_what_is_no_observation_is_refused() -> None:
    with pytest.raises(ValueError, match="not an observation"):
        offer_of("Why?■\n")


@pytest.mark.parametrize(
    ("text", "may"), [("crows & nests é 字", True), ("a\nb", False), ("【", False), ("a\u200b", False)]
)
def test_a_query_holds_what_the_browser_keeps(text: str, may: bool) -> None:
    assert may_stand_in_query(text) is may
