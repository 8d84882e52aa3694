"""Small webs and policies in memory for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from webgpt_jax.env import Action, Browser, BrowserState, Page, PageWriter, SearchResult, WebError

T = TypeVar("T")
Line = str | Action | Exception | Callable[[str], str]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, in an event loop of its own."""
    return asyncio.run(coroutine)


class MemoryWeb:
    """Pages by URL and results by query; what is an exception there is raised. `None` stands for any other query."""

    def __init__(
        self,
        pages: Mapping[str, Page | Exception] | None = None,
        results: Mapping[str | None, list[SearchResult] | Exception] | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self.pages = dict(pages or {})
        self.results = dict(results or {})
        self.delay_s = delay_s
        self.requests: list[str] = []

    async def search(self, query: str) -> list[SearchResult]:
        self.requests.append(f"search {query}")
        await self._wait()
        found = self.results.get(query, self.results.get(None, []))
        if isinstance(found, Exception):
            raise found
        return found

    async def open(self, url: str) -> Page:
        self.requests.append(f"open {url}")
        await self._wait()
        page = self.pages.get(url, WebError("http", "404 Not Found."))
        if isinstance(page, Exception):
            raise page
        return page

    async def _wait(self) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)


class ScriptedPolicy:
    """Says its lines one by one; an exception among them is raised, a function is called with the prompt."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self.prompts: list[str] = []

    async def act(self, prompt: str) -> Action:
        self.prompts.append(prompt)
        line = next(self._lines)
        if isinstance(line, Exception):
            raise line
        if isinstance(line, Action):
            return line
        return Action(line if isinstance(line, str) else line(prompt))


async def play(browser: Browser, state: BrowserState, *actions: str) -> BrowserState:
    """The state after the actions, one after the other."""
    for action in actions:
        state = await browser.step(state, action)
    return state


def linked_page(url: str, title: str, text: str, links: Mapping[str, str] | None = None) -> Page:
    """A page whose text has each `{name}` replaced by a marker for the link of that name."""
    writer = PageWriter(url)
    for name, target in (links or {}).items():
        text = text.replace(f"{{{name}}}", writer.link(name, target))
    return writer.page(title, text)


def one_page_web(page: Page) -> MemoryWeb:
    """A web where any search finds that page."""
    return MemoryWeb({page.url: page}, {None: [SearchResult(page.title or "page", page.url, "A snippet.")]})


async def opened(browser: Browser, question: str = "Why?") -> BrowserState:
    """The state with the first result of a search on show."""
    return await play(browser, await browser.reset(question), "Search anything", "Clicked on link 0")
