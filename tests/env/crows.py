"""A small web about crows, and episodes on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.env.webs import MemoryWeb, linked_page, play, run
from webgpt_jax.env import (
    Browser,
    BrowserConfig,
    BrowserState,
    SearchResult,
)

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


def crow_web() -> MemoryWeb:
    return MemoryWeb({page.url: page for page in (CROWS, ZOO)}, {None: RESULTS})


def crow_browser(web: MemoryWeb | None = None, **settings: Any) -> Browser:
    return Browser(web or crow_web(), replace(BrowserConfig(), **settings))


def played(*actions: str, web: MemoryWeb | None = None, **settings: Any) -> BrowserState:
    async def episode() -> BrowserState:
        browser = crow_browser(web, **settings)
        return await play(browser, await browser.reset(QUESTION), *actions)

    return run(episode())


SEARCH = "Search crows"
OPEN = (SEARCH, "Clicked on link 0")
