"""What pages are made of: escaping, names of files, links."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.corpus.factbook import Factbook
from webgpt_jax.corpus.site import SitePage, full_title, html_page, link, slug, text_lines, unique_slugs


@pytest.mark.parametrize(
    ("markup", "lines"),
    [
        ("", []),
        (" &nbsp; ", []),
        ("plain  text\nof two lines", ["plain text of two lines"]),
        ("one<br>two<br/><BR>three", ["one", "two", "three"]),
        ("<p>one</p><p style='x'>two</p>three", ["one", "two", "three"]),
        ("<strong>note:</strong> <em>Etoile&nbsp;Rouge</em>", ["note: Etoile Rouge"]),
        ("C&ocirc;te d&#39;Ivoire &amp;amp; &V", ["Côte d'Ivoire &amp; &V"]),
        ("a <5% b &lt;b&gt; 3 < 4", ["a <5% b <b> 3 < 4"]),
        ("kept <!--EndFragment-->too", ["kept too"]),
        ("open <em>for ever", ["open for ever"]),
        ("<small>x</small></p>y", ["x", "y"]),
        ("<ul><li>a</li><li>b</li></ul>", ["a", "b"]),
    ],
)
def test_lines_of_text(markup: str, lines: list[str]) -> None:
    assert text_lines(markup) == lines


def test_slugs() -> None:
    assert slug("Côte d'Ivoire") == "cote-divoire"
    assert slug("Congo (Brazzaville)") == "congo-brazzaville"
    assert slug("../..") == "2e-2e-2f-2e-2e"
    assert slug("中国") == "4e2d-56fd"
    assert slug("") == "page"
    assert slug("a" * 1_000) == "a" * 100
    assert unique_slugs(["a" * 200, "a" * 201]) == {"a" * 200: "a" * 100, "a" * 201: "a" * 100 + "-2"}
    assert unique_slugs(["A b", "a-b", "a b", "A-B 2"]) == {
        "A b": "a-b",
        "a-b": "a-b-2",
        "a b": "a-b-3",
        "A-B 2": "a-b-2-2",
    }


def test_links_are_relative_and_escaped() -> None:
    assert link("A & B", "b.html", "a.html") == '<a href="b.html">A &amp; B</a>'
    assert link("x", "b.html", "c/d.html") == '<a href="../b.html">x</a>'
    assert link("x", "c/e.html", "c/d.html") == '<a href="e.html">x</a>'
    assert link("x", 'c/"e" #1?.html', "d.html") == '<a href="c/%22e%22%20%231%3F.html">x</a>'


class Parsed(HTMLParser):
    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_title_makes_no_markup(title: str) -> None:
    parsed = Parsed(html_page(SitePage("a.html", title, "<p>body</p>"), Factbook()))
    assert parsed.tags == ["html", "head", "meta", "title", "body", "main", "article", "h1", "p", "footer", "p"]
    assert full_title(SitePage("a.html", title, ""), "The World Factbook") == f"{title} - The World Factbook"


def test_every_page_names_source_and_licence() -> None:
    document = html_page(SitePage("index.html", "The World Factbook", "<p>body</p>"), Factbook())
    assert "<title>The World Factbook</title>" in document
    assert "<footer>\n<p>Source: The World Factbook of the Central Intelligence Agency" in document
    assert "public domain" in document
