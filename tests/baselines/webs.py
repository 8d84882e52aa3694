"""A web in memory: pages of a reference work and of prose, and a search that only counts words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from webgpt_jax.env import Page, PageWriter, SearchResult, WebError

SNIPPET_CHARS = 150


class MemoryWeb:
    """Pages by URL, given as (title, text). Finds the pages that hold most of the query's words, the first of equals.

    It keeps a list of the requests it was sent.
    """

    def __init__(self, pages: Mapping[str, tuple[str, str]]) -> None:
        self.pages = dict(pages)
        self.requests: list[str] = []

    async def search(self, query: str) -> list[SearchResult]:
        self.requests.append(f"search {query}")
        wanted = set(re.findall(r"\w+", query.casefold()))
        hits = []
        for url, (title, text) in self.pages.items():
            held = wanted & set(re.findall(r"\w+", f"{title}\n{text}".casefold()))
            if held:
                hits.append((-len(held), SearchResult(title, url, text[:SNIPPET_CHARS])))
        return [result for _, result in sorted(hits, key=lambda hit: hit[0])]

    async def open(self, url: str) -> Page:
        self.requests.append(f"open {url}")
        if url not in self.pages:
            raise WebError("http", "The server answered 404: there is no such page.")
        title, text = self.pages[url]
        return PageWriter(url).page(title, text)


def country(name: str, *, capital: str, population: str, borders: str, language: str) -> tuple[str, str]:
    """A page such as a reference work has: headings, and lines of `label: value`."""
    return name, "\n".join(
        [
            "Introduction",
            f"Background: The history of {name} reaches back a long way, and its capital has moved more than once.",
            "Geography",
            "Location: between other countries",
            f"Land boundaries: total: 8,082 km; border countries: {borders}",
            "Climate: hot summers and cold winters",
            "People and Society",
            f"Population: total: {population} (2025 est.)",
            "Population growth rate: 1.08% (2025 est.)",
            f"Languages: {language} (official), Russian, English",
            *(f"Health indicator {number}: {number * 3}% (2020 est.)" for number in range(60)),
            "Government",
            "Government type: republic",
            f"Capital: name: {capital}",
            "National colors: red, blue, yellow",
        ]
    )


def atlas() -> MemoryWeb:
    """Three countries, and a page about none of them."""
    return MemoryWeb(
        {
            "https://atlas.test/china": country(
                "China",
                capital="Beijing",
                population="1,407,181,209",
                borders="Mongolia 4,630 km; Laos 475 km",
                language="Standard Chinese",
            ),
            "https://atlas.test/laos": country(
                "Laos",
                capital="Vientiane",
                population="8,058,663",
                borders="Burma 238 km; Cambodia 555 km; China 475 km",
                language="Lao",
            ),
            "https://atlas.test/mongolia": country(
                "Mongolia",
                capital="Ulaanbaatar",
                population="3,086,918",
                borders="China 4,630 km; Russia 3,452 km",
                language="Mongolian",
            ),
            "https://garden.test/beans": ("Growing beans", "Beans like warm soil. Sow them after the last frost."),
        }
    )
