"""The pages of the factbook that compare countries: which fields are ranked, and how their figures are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

_FIGURE = re.compile(
    r"(?:total:?|less than|approximately|about|~)?\s*(-?)\s*\$?\s*(-?)"
    r"(\d[\d,]*(?:\.\d+)?)\s*(thousand|million|billion|trillion)?\b",
    re.IGNORECASE,
)
_LEADING_YEAR = re.compile(r"\s*(?:\([^)]*\)\s*)?")  # "(2017 est.) 77.9"
_SCALES = {"": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_NOT_COUNTRIES = frozenset({"ee", "xx"})  # the European Union and the world would be counted twice


class HasFields(Protocol):
    """What a ranking needs of a country."""

    @property
    def code(self) -> str: ...
    def text(self, *keys: str) -> str: ...
    def newest(self, section: str, field: str) -> str: ...


C = TypeVar("C", bound=HasFields)


@dataclass(frozen=True)
class Ranking:
    """A comparison page.

    Attributes:
      slug: its file name.
      quantity: what is compared.
      keys: where the figure stands in the data, in the order in which places are tried; two keys may mean a field whose
        parts are years, of which the newest counts.
      most, least: what one calls the first and the last of the ranking.
      asked: other ways to ask for the first and for the last.
    """

    slug: str
    quantity: str
    keys: tuple[tuple[str, ...], ...]
    most: str = "highest"
    least: str = "lowest"
    asked: tuple[str, str] = ("", "")

    @property
    def path(self) -> str:
        return f"compare/{self.slug}.html"

    @property
    def full_path(self) -> str:
        return f"compare/{self.slug}-all.html"

    @property
    def title(self) -> str:
        return f"Countries by {self.quantity}: {self.most} and {self.least}"

    @property
    def full_title(self) -> str:
        return f"All countries ranked by {self.quantity}"

    @property
    def questions(self) -> tuple[str, str]:
        """What the first and the last of the ranking answer."""
        most, least = (f"Which country has the {end} {self.quantity}?" for end in (self.most, self.least))
        return f"{most} {self.asked[0]}".strip(), f"{least} {self.asked[1]}".strip()


_PEOPLE, _ECONOMY, _GEOGRAPHY = "People and Society", "Economy", "Geography"
RANKINGS = (
    Ranking(
        "area",
        "area",
        ((_GEOGRAPHY, "Area", "total "), (_GEOGRAPHY, "Area", "total")),
        "largest",
        "smallest",
        ("What is the largest country in the world?", "What is the smallest country in the world?"),
    ),
    Ranking(
        "population",
        "population",
        ((_PEOPLE, "Population", "total"),),
        "largest",
        "smallest",
        ("What is the most populous country?", "What is the least populous country?"),
    ),
    Ranking("population-growth", "population growth rate", ((_PEOPLE, "Population growth rate"),)),
    Ranking("birth-rate", "birth rate", ((_PEOPLE, "Birth rate"),)),
    Ranking("death-rate", "death rate", ((_PEOPLE, "Death rate"),)),
    Ranking("fertility-rate", "total fertility rate", ((_PEOPLE, "Total fertility rate"),)),
    Ranking("net-migration", "net migration rate", ((_PEOPLE, "Net migration rate"),)),
    Ranking("median-age", "median age", ((_PEOPLE, "Median age", "total"),)),
    Ranking(
        "life-expectancy", "life expectancy at birth", ((_PEOPLE, "Life expectancy at birth", "total population"),)
    ),
    Ranking("infant-mortality", "infant mortality rate", ((_PEOPLE, "Infant mortality rate", "total"),)),
    Ranking("literacy", "literacy rate", ((_PEOPLE, "Literacy", "total population"),)),
    Ranking("obesity", "adult obesity rate", ((_PEOPLE, "Obesity - adult prevalence rate"),)),
    Ranking("coastline", "coastline", ((_GEOGRAPHY, "Coastline"),), "longest", "shortest"),
    Ranking("land-boundaries", "land boundaries", ((_GEOGRAPHY, "Land boundaries", "total"),), "longest", "shortest"),
    Ranking("gdp", "GDP", ((_ECONOMY, "Real GDP (purchasing power parity)"),), "largest", "smallest"),
    Ranking(
        "gdp-per-capita",
        "GDP per capita",
        ((_ECONOMY, "Real GDP per capita"),),
        asked=("What is the richest country in the world?", "What is the poorest country in the world?"),
    ),
    Ranking("gdp-growth", "GDP growth rate", ((_ECONOMY, "Real GDP growth rate"),)),
    Ranking("inflation", "inflation rate", ((_ECONOMY, "Inflation rate (consumer prices)"),)),
    Ranking("unemployment", "unemployment rate", ((_ECONOMY, "Unemployment rate"),)),
    Ranking("public-debt", "public debt", ((_ECONOMY, "Public debt"),)),
    Ranking("exports", "exports", ((_ECONOMY, "Exports"),), "largest", "smallest"),
    Ranking("imports", "imports", ((_ECONOMY, "Imports"),), "largest", "smallest"),
    Ranking("military", "military expenditures", (("Military and Security", "Military expenditures"),)),
    Ranking(
        "carbon-dioxide",
        "carbon dioxide emissions",
        (("Environment", "Carbon dioxide emissions", "total emissions"),),
    ),
    Ranking(
        "internet-users", "share of internet users", (("Communications", "Internet users", "percent of population"),)
    ),
)


def figure(text: str) -> float | None:
    """The number that a text begins with: "$3.162 trillion (2024 est.)" is 3.162e12; None where there is none, as in
    "NA (2014)"."""
    found = _FIGURE.match(_LEADING_YEAR.sub("", text, count=1))
    if found is None:
        return None
    value = float(found[3].replace(",", "")) * _SCALES[(found[4] or "").lower()]
    return -value if "-" in (found[1], found[2]) else value


def ranked(ranking: Ranking, countries: Iterable[C]) -> list[tuple[C, str]]:
    """The countries that have a figure, with its text, from the highest to the lowest, equal ones as they came."""
    rows = []
    for country in countries:
        texts = (country.newest(*keys) if len(keys) == 2 else country.text(*keys) for keys in ranking.keys)
        text = next(filter(None, texts), "")
        value = figure(text)
        if value is not None and country.code not in _NOT_COUNTRIES:
            rows.append((value, country, text))
    return [(country, text) for _, country, text in sorted(rows, key=lambda row: -row[0])]
