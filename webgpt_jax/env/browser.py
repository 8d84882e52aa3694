"""The text browser: `reset` and `step`, the limits and the endings (paper, sections 2 and 5 of the specification).

The limits are kept here and nowhere else, so that no policy can get round them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from webgpt_jax.env.commands import (
    Back,
    ClickLink,
    Command,
    End,
    EndKind,
    FindInPage,
    InvalidAction,
    QuoteText,
    ScrollDown,
    ScrollUp,
    Search,
    Top,
    parse_command,
)
from webgpt_jax.env.filters import is_blocked, overlaps, without_blocked_links
from webgpt_jax.env.observation import check_limit, unit_above, unit_below
from webgpt_jax.env.page import MAX_TITLE, Page, PageWriter, Quote, cut_line, error_page
from webgpt_jax.env.protocol import SearchResult, Web, WebError
from webgpt_jax.env.state import EMPTY_PAGE, BrowserConfig, BrowserState, EpisodeEnd, Place
from webgpt_jax.env.text import clean, clean_line, word_string
from webgpt_jax.env.urls import host_of

_ENDS = {
    EndKind.ANSWER: EpisodeEnd.ANSWER,
    EndKind.NONSENSE: EpisodeEnd.NONSENSE,
    EndKind.CONTROVERSIAL: EpisodeEnd.CONTROVERSIAL,
}


def search_page(query: str, results: Sequence[SearchResult]) -> Page:
    """The simplified results page: a link and a snippet a result."""
    writer = PageWriter(url=f"search:{query}", domain="")
    lines = []
    for result in results:
        if host_of(result.url):
            lines += [writer.link(clean_line(result.title) or result.url, result.url), clean_line(result.snippet)]
    text = "\n".join(filter(None, lines)) or "No results."
    return writer.page(f"Search results for: {query}", text)


class Browser:
    """The environment: plays commands on a Web. It keeps no state of its own; one may serve many episodes at once."""

    def __init__(self, web: Web, config: BrowserConfig | None = None) -> None:
        self.web = web
        self.config = config or BrowserConfig()
        self.config.validate()

    async def reset(
        self, question: str, reference_answer: str | None = None, *, max_actions: int | None = None
    ) -> BrowserState:
        """The state at the start of an episode: no page, no quotes.

        Args:
          question: any text; it may have several lines.
          reference_answer: pages that hold ten words in a row of it are hidden, as those that hold the question are.
          max_actions: this episode's limit, where it is not the configuration's (uniform on 20 to 100 in RL training).

        Raises:
          ValueError: an empty question, a limit below 1, or a maximum length that not even an empty page fits.
        """
        config = self.config if max_actions is None else replace(self.config, max_actions=max_actions)
        config.validate()
        question = clean(question).strip()
        if not question:
            raise ValueError("the question is empty")
        state = BrowserState(question, config.max_actions, config, reference_answer)
        check_limit(state)
        return state

    async def step(self, state: BrowserState, action_text: str) -> BrowserState:
        """The state after an action. A text that is no command counts as an action and changes nothing else; so do a
        quote that is not on the page, a link that does not exist, a find without a hit and `Back` on the first page.

        Raises:
          ValueError: the episode has ended.
          EpisodeError: the web cannot go on, for example a replay that does not hold the request.
        """
        if state.end is not None:
            raise ValueError(f"the episode has ended: {state.end.value}")
        try:
            command = parse_command(action_text)
        except InvalidAction:
            after = state
        else:
            after = await self._apply(state, command)
        # Only now: what a scroll moves by is the window that the policy was shown.
        after = replace(after, actions_left=state.actions_left - 1)
        if after.end is None and after.actions_left <= 0:
            after = replace(after, end=EpisodeEnd.ACTION_LIMIT)
        return after

    async def _apply(self, state: BrowserState, command: Command) -> BrowserState:
        match command:
            case Search(query):
                return await self._search(state, clean_line(query))
            case ClickLink(link_id):
                return await self._click(state, link_id)
            case FindInPage(text):
                return _find(state, text)
            case QuoteText(text):
                return _quote(state, text)
            case ScrollDown(steps):  # by the windows as they are shown now: the first one is what the policy saw
                for _ in range(steps):
                    state = _go(state, unit_below(state))
                return _note(state, str(command))
            case ScrollUp(steps):  # by the windows as they will be shown, with this action among the past ones
                state = _note(replace(state, actions_left=state.actions_left - 1), str(command))
                for _ in range(steps):
                    state = _go(state, unit_above(state))
                return state
            case Top():
                return _note(_go(state, 0), str(command))
            case Back():
                if not state.history:
                    return state
                *history, place = state.history
                return _note(replace(state, place=place, history=tuple(history)), str(command))
            case End(kind):
                end = _ENDS[kind]
                if end is EpisodeEnd.ANSWER and not state.quotes:
                    end = EpisodeEnd.NO_REFERENCES
                return replace(state, end=end)

    async def _search(self, state: BrowserState, query: str) -> BrowserState:
        if not query:  # it held only characters that are dropped
            return state
        page = search_page(query, [])
        try:
            async with asyncio.timeout(state.config.web_timeout_s):
                results = await self.web.search(query)
        except WebError as error:
            page = replace(page, text=f"The search failed. {error.message}", error=error.kind)
        except TimeoutError:
            message = f"The search took longer than {state.config.web_timeout_s:g} seconds."
            page = replace(page, text=message, error="timeout")
        else:
            page = search_page(query, [result for result in results if _is_shown(state, result)])
        return _visit(state, page, f"Search {query}")

    async def _click(self, state: BrowserState, link_id: int) -> BrowserState:
        link = state.page.link(link_id)
        if link is None:
            return state
        page = await self._open(state, link.url)
        if page.error is None:
            return _visit(state, page, f"Click {page.title} {page.domain}")
        return _visit(state, page, f"Click {link.text} {link.domain}")

    async def _open(self, state: BrowserState, url: str) -> Page:
        try:
            async with asyncio.timeout(state.config.web_timeout_s):
                page = await self.web.open(url)
        except WebError as error:
            return error_page(url, error.kind, error.message)
        except TimeoutError:
            return error_page(url, "timeout", f"The page took longer than {state.config.web_timeout_s:g} seconds.")
        if is_blocked(page.url, state.config.blocked_domains):  # where a redirect ended
            return error_page(url, "blocked", f"Pages of {page.domain} are not shown.")
        if _is_censored(state, page.words):
            return error_page(page.url, "censored", "This page is not shown because it repeats the question.")
        return without_blocked_links(page, state.config.blocked_domains)


def _is_censored(state: BrowserState, words: str) -> bool:
    if not state.config.censor_overlap:
        return False
    return overlaps(words, [state.question, state.reference_answer or ""])


def _is_shown(state: BrowserState, result: SearchResult) -> bool:
    if is_blocked(result.url, state.config.blocked_domains):
        return False
    return not _is_censored(state, word_string(f"{result.title}\n{result.snippet}"))


def _note(state: BrowserState, past_action: str) -> BrowserState:
    return replace(state, past_actions=(*state.past_actions, cut_line(past_action, MAX_TITLE)))


def _visit(state: BrowserState, page: Page, past_action: str) -> BrowserState:
    history = () if state.page == EMPTY_PAGE else (*state.history, state.place)
    return _note(replace(state, place=Place(page), history=history), past_action)


def _go(state: BrowserState, unit: int) -> BrowserState:
    """The state with the window's top at a unit; the next find begins there."""
    page = state.page
    cursor = page.to_plain(page.units(state.config.unit_chars)[unit])
    return replace(state, place=Place(page, unit, cursor))


def _find(state: BrowserState, text: str) -> BrowserState:
    page = state.page
    at = page.find(text, state.place.cursor)
    if at is None:
        return state
    unit = bisect_right(page.units(state.config.unit_chars), page.to_text(at)) - 1
    state = replace(state, place=Place(page, unit, cursor=at + 1))
    return _note(state, f"Find in page: {text}")


def _quote(state: BrowserState, text: str) -> BrowserState:
    page, config = state.page, state.config
    span = None if page.error is not None else page.find_quote(text)  # an error page's text is ours: no reference
    if span is None:
        return state
    taken = sum(config.length(quote.heading) + config.length(quote.text) for quote in state.quotes)
    room = config.reference_limit - taken - config.length(page.heading)
    whole = page.plain[slice(*span)]
    kept = _fitting(whole, room, config)
    quote = Quote(kept, page.title, page.domain, page.url, span[0], span[0] + len(kept))
    if quote in state.quotes:
        return state
    if kept:
        state = _note(replace(state, quotes=(*state.quotes, quote)), "Quote")
    return replace(state, end=EpisodeEnd.REFERENCE_LIMIT) if config.length(whole) >= room else state


def _fitting(text: str, room: int, config: BrowserConfig) -> str:
    """The text, cut at a blank where it is longer than the room that is left for references."""
    if config.length(text) <= room:
        return text
    length = bisect_left(range(1, len(text)), True, key=lambda length: config.length(text[:length]) > room)
    blank = max(text.rfind(" ", 0, length + 1), text.rfind("\n", 0, length + 1))
    kept = text[: blank if blank > 0 else length].rstrip()
    while kept and config.length(kept) > room:  # some tokenizers count more tokens in a shorter text
        kept = kept[:-1].rstrip()
    return kept
