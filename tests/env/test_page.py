"""Pages: markers, the plain text behind them, units, find and quote; each against a slow and obvious reference."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.env.webs import linked_page
from webgpt_jax.env import Link, Page, PageWriter, Quote, clean, error_page
from webgpt_jax.env.page import MAX_LINK_TEXT, MAX_TITLE, keep_links

REAL_MARKER = re.compile(r"【([0-9]+)†([^【】†]*)(?:†([^【】†]*))?】")


# ---- what a page is made of


def test_links_show_their_domain_unless_it_is_the_pages_own() -> None:
    writer = PageWriter("https://www.a.test/p")
    text = f"{writer.link('there', 'https://b.test/x')} {writer.link('here', 'https://www.a.test/q')}"
    page = writer.page("Title", text + f" {writer.link('sub', 'https://a.test/')}")
    assert page.text == "【0†there†b.test】 【1†here】 【2†sub†a.test】"
    assert page.plain == "there here sub"
    assert page.heading == "Title (www.a.test)"
    assert page.links == (
        Link(0, "there", "https://b.test/x", "b.test"),
        Link(1, "here", "https://www.a.test/q", "www.a.test"),
        Link(2, "sub", "https://a.test/", "a.test"),
    )
    assert page.link(1) == page.links[1]
    assert page.link(3) is None
    assert page.link(-1) is None


def test_a_link_that_cannot_be_followed_is_its_text() -> None:
    writer = PageWriter("https://a.test/")
    assert writer.link("x", "javascript:alert(1)") == "x"
    assert writer.link("x", "http://[::1") == "x"
    assert writer.link(" \u200b ", "https://b.test/") == ""
    assert writer.link("【x】", "mailto:a@b.test") == "〖x〗"
    assert writer.links == []


def test_link_text_is_one_clean_line_and_not_too_long() -> None:
    assert Link(0, " a\n†b ", "u", "d").text == "a ‡b"
    assert Link(0, "x" * 200, "u", "d").text == "x" * 200
    assert Link(0, "x" * 201, "u", "d").text == "x" * 199 + "…"
    assert len(Link(0, "word " * 1000, "u", "d").text) <= MAX_LINK_TEXT
    assert Link(0, "x", "u", "a (b) c】").domain == "abc〗"


def test_text_that_looks_like_a_marker_stays_only_for_a_link_of_the_page() -> None:
    link = Link(1, "real", "https://b.test/", "b.test")
    page = Page(
        "T", "a.test", "https://a.test/", "【1†real†b.test】 【1†real†a.test】 【1†real】 【2†no†b.test】 【1", [link]
    )
    assert page.text == "【1†real†b.test】 〖1‡real‡a.test〗 〖1‡real〗 〖2‡no‡b.test〗 〖1"
    for forged in ["【１†real†b.test】", "【٣†x】", "【01†real†b.test】", "【1†re\nal†b.test】", "【【1†real†b.test】"]:
        assert Page("", "a.test", "", forged, [link]).text.count("【") == forged.count("【1†real†b.test】")


def test_titles_are_one_line_of_limited_length() -> None:
    assert Page("a\n ♦b", "d", "", "").title == "a ♢b"
    assert Page("x" * 300, "d", "", "").title == "x" * 300
    assert Page("x" * 301, "d", "", "").title == "x" * 299 + "…"
    assert len(Quote("t", "word " * 10_000, "d", "u", 0, 1).title) <= MAX_TITLE


def test_two_links_with_one_id_are_refused() -> None:
    link = Link(0, "a", "https://b.test/", "b.test")
    with pytest.raises(ValueError, match=r"two links with one id on the page 'https://a\.test/'"):
        Page("T", "a.test", "https://a.test/", "", [link, replace(link, text="b")])


def test_pages_are_frozen_and_compare_by_value() -> None:
    page = linked_page("https://a.test/", "T", "{b}", {"b": "https://b.test/"})
    with pytest.raises(FrozenInstanceError):
        page.title = "other"  # type: ignore[misc]
    same = linked_page("https://a.test/", "T", "{b}", {"b": "https://b.test/"})
    assert page.plain == "b"  # what is computed on the way makes no difference
    assert page == same
    assert hash(page) == hash(same)


def test_error_page() -> None:
    page = error_page("https://a.test/x", "timeout", "The page ♦ took too long.")
    assert page == Page("Error", "a.test", "https://a.test/x", "The page ♢ took too long.", error="timeout")


def test_keep_links_renumbers_and_drops_text_and_all() -> None:
    page = linked_page("https://a.test/", "T", "{a} {b} {c}", {n: f"https://{n}.test/" for n in "abc"})
    assert page.text == "【0†a】 【1†b†b.test】 【2†c†c.test】"
    kept = keep_links(page, lambda link: link.text != "b")
    assert kept.text == "【0†a】  【1†c†c.test】"
    assert [link.id for link in kept.links] == [0, 1]


# ---- random pages: pieces of text and links

WORDS = st.sampled_from(
    [
        "crow",
        "CROW",
        "Straße",
        "STRASSE",
        "ﬁnd",
        "find",
        "İstanbul",
        "ſ",
        "s",
        "ss",
        "ß",
        "ẞ",
        "ΰ",
        "Σς",
        "a",
        "b",
        "e\u0301",
    ]
)
SPACES = st.sampled_from([" ", "  ", "\n", "\n\n", "\t", " \n ", "\u00a0", "\u2003", "\u3000", "\r\n", "\u2028", ""])
PIECES = st.lists(st.tuples(WORDS, SPACES, st.sampled_from(["text", "link", "own link"])), max_size=14)


def _page(pieces: list[tuple[str, str, str]]) -> Page:
    writer = PageWriter("https://a.test/")
    urls = {"link": "https://b.test/", "own link": "https://a.test/2"}
    parts = [(writer.link(word, urls[kind]) if kind in urls else word) + space for word, space, kind in pieces]
    return writer.page("T", "".join(parts))


PAGES = PIECES.map(_page)


def _slow_plain(page: Page) -> tuple[str, list[int]]:
    """The plain text, and for each of its characters the place in the text, one character at a time."""
    plain, at = "", 0
    places: list[int] = []
    while at < len(page.text):
        marker = REAL_MARKER.match(page.text, at)
        if marker is None:
            plain, places, at = plain + page.text[at], [*places, at], at + 1
            continue
        for place in range(marker.start(2), marker.end(2)):
            plain, places = plain + page.text[place], [*places, place]
        at = marker.end()
    return plain, places


@given(PAGES)
def test_plain_text_and_places_match_the_slow_walk(page: Page) -> None:
    plain, places = _slow_plain(page)
    assert page.plain == plain
    assert [page.to_text(at) for at in range(len(plain))] == places
    for offset in range(len(page.text) + 1):
        following = [at for at, place in enumerate(places) if place >= offset]
        assert page.to_plain(offset) == (following[0] if following else len(plain))


# ---- units


def _texts(page: Page, unit_chars: int) -> list[str]:
    starts = page.units(unit_chars)
    return [page.text[start:stop] for start, stop in pairwise(starts)]


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\nb", ["a\n", "b"]),
        ("a\n\nb\n", ["a\n", "\n", "b\n"]),
        ("\n\n", ["\n", "\n"]),
        ("x" * 10, ["x" * 10]),
        ("x" * 11, ["x" * 10, "x"]),
        ("x" * 9 + "\n", ["x" * 9 + "\n"]),
        ("123456 89 1", ["123456 89 ", "1"]),
        ("1234567 90123", ["1234567 ", "90123"]),
        ("123 567890123", ["123 567890", "123"]),  # a blank too near the start is no place to cut
        ("one two three four\nfive", ["one two ", "three four\n"[:6], "four\n", "five"]),
    ],
)
def test_units_as_literals(text: str, units: list[str]) -> None:
    assert _texts(Page("T", "d", "", text), 10) == units


def test_a_marker_is_never_cut() -> None:
    page = linked_page("https://a.test/", "T", "12345 {link} after", {"link": "https://b.test/"})
    marker = "【0†link†b.test】"
    assert _texts(page, 10) == ["12345 ", marker, " after"]


def test_a_blank_within_a_marker_is_no_place_to_cut() -> None:
    page = linked_page("https://a.test/", "T", "ab {a link}abcdefghijklmno", {"a link": "https://a.test/b"})
    assert _texts(page, 16) == ["ab 【0†a link】", "abcdefghijklmno"]


@given(PAGES, st.integers(1, 40))
def test_units_cover_the_text_and_cut_no_marker(page: Page, unit_chars: int) -> None:
    units = _texts(page, unit_chars)
    assert "".join(units) == page.text
    assert all(units)
    for unit in units:
        assert "\n" not in unit[:-1]
        markers = [found[0] for found in REAL_MARKER.finditer(unit)]
        assert unit.count("【") == unit.count("】") == len(markers)
        assert len(unit) <= max([unit_chars, *map(len, markers)])
        if len(unit) > unit_chars:
            assert unit == markers[0]


@given(st.text("ab \n", max_size=80), st.integers(1, 20))
def test_text_is_not_cut_without_need(text: str, unit_chars: int) -> None:
    for left, right in pairwise(_texts(Page("T", "d", "", text), unit_chars)):
        assert left.endswith("\n") or len(left + right) > unit_chars


@given(st.integers(0, 10**9 - 1), st.text(max_size=400), st.text("ab.", min_size=1, max_size=253))
def test_a_marker_always_fits_a_unit(link_id: int, text: str, domain: str) -> None:
    assert len(Link(link_id, text, "", domain).marker("page.test")) <= 500


# ---- find and quote


def _fold(plain: str, squeeze: bool) -> list[tuple[str, int]]:
    """Each folded character with the place it comes from; a run of white space is one blank or nothing."""
    folded: list[tuple[str, int]] = []
    for place, character in enumerate(plain):
        if character.isspace():
            if not squeeze and not (place and plain[place - 1].isspace()):
                folded.append((" ", place))
        else:
            folded += [(part, place) for part in character.casefold()]
    return folded


def _wanted(text: str, squeeze: bool) -> list[str]:
    return [part for part, _ in _fold(text if squeeze else text.strip(), squeeze)]


def _stands(folded: list[tuple[str, int]], wanted: list[str], at: int) -> bool:
    return [part for part, _ in folded[at : at + len(wanted)]] == wanted


def _slow_find(page: Page, text: str, cursor: int) -> int | None:
    folded, wanted = _fold(page.plain, False), _wanted(clean(text), False)
    hits = [place for at, (_, place) in enumerate(folded) if wanted and _stands(folded, wanted, at)]
    return next((place for place in hits if place >= cursor), hits[0] if hits else None)


def _slow_quote(page: Page, text: str) -> tuple[int, int] | None:
    folded = _fold(page.plain, True)
    halves = [_wanted(clean(half), True) for half in text.split("━", 1)]
    if not all(halves):
        return None
    starts = [at for at in range(len(folded)) if _stands(folded, halves[0], at)]
    if not starts:
        return None
    start = starts[0]
    end = start + len(halves[0])
    if len(halves) == 2:
        ends = [at + len(halves[1]) for at in range(end, len(folded)) if _stands(folded, halves[1], at)]
        if not ends:
            return None
        end = ends[0]
    return folded[start][1], folded[end - 1][1] + 1


PHRASES = st.one_of(
    st.lists(st.one_of(WORDS, SPACES), min_size=1, max_size=5).map("".join),
    st.sampled_from(["s", "f", "i", "st", "\u0307", "\u0301", "SS", "sS", "İ", "ﬁ", " ", "\u200b", "cr\u00adow"]),
)


@st.composite
def pages_and_phrases(draw: st.DrawFn) -> tuple[Page, str]:
    """A page, and a phrase that often stands on it, in another case and with other white space."""
    page = draw(PAGES)
    if not page.plain.strip() or draw(st.booleans()):
        return page, draw(PHRASES)
    start = draw(st.integers(0, len(page.plain) - 1))
    phrase = page.plain[start : draw(st.integers(start + 1, len(page.plain)))]
    phrase = draw(st.sampled_from([phrase, phrase.upper(), phrase.lower(), phrase.casefold(), phrase.swapcase()]))
    return page, re.sub(r"\s+", draw(SPACES) or " ", phrase)


@given(pages_and_phrases(), st.integers(0, 60))
@example((Page("T", "d", "", "ß"), "s"), 0)
@example((Page("T", "d", "", "xßs"), "s"), 2)
def test_find_matches_the_slow_search(page_and_phrase: tuple[Page, str], cursor: int) -> None:
    page, phrase = page_and_phrase
    assert page.find(phrase, min(cursor, len(page.plain))) == _slow_find(page, phrase, min(cursor, len(page.plain)))


@given(pages_and_phrases())
def test_quote_matches_the_slow_search(page_and_phrase: tuple[Page, str]) -> None:
    page, phrase = page_and_phrase
    assert page.find_quote(phrase) == _slow_quote(page, phrase)


@given(pages_and_phrases(), PHRASES)
def test_abbreviated_quote_matches_the_slow_search(page_and_phrase: tuple[Page, str], end: str) -> None:
    page, start = page_and_phrase
    assert page.find_quote(f"{start}━{end}") == _slow_quote(page, f"{start}━{end}")
    assert page.find_quote(f"{end}━{start}") == _slow_quote(page, f"{end}━{start}")


@given(PAGES, st.data())
def test_every_stretch_of_a_page_can_be_quoted(page: Page, data: st.DataObject) -> None:
    assume(page.plain.strip())
    start = data.draw(st.integers(0, len(page.plain) - 1))
    stretch = page.plain[start : data.draw(st.integers(start + 1, len(page.plain)))]
    assume(stretch.strip())
    span = page.find_quote(stretch)
    assert span is not None
    assert "".join(page.plain[slice(*span)].split()).casefold().find("".join(stretch.split()).casefold()) >= 0
    assert span[0] <= start + len(stretch) - len(stretch.lstrip())


CROWS = linked_page(
    "https://a.test/crows",
    "Crows",
    "Many {animals} give gifts\nto members of their OWN species,\u00a0but crows\t{and other} corvids\n\n"
    "give gifts to humans. Crows give gifts.",
    {"animals": "https://b.test/", "and other": "https://a.test/o"},
)


@pytest.mark.parametrize(
    ("phrase", "found"),
    [
        (
            "Many animals give gifts to members of their own species",
            "Many animals give gifts\nto members of their OWN species",
        ),
        ("crowsandothercorvids", "crows\tand other corvids"),
        ("MANYANIMALS", "Many animals"),
        ("  gifts  ", "gifts"),
        ("g i f t s", "gifts"),
        ("Many━species,", "Many animals give gifts\nto members of their OWN species,"),
        ("gifts━gifts", "gifts\nto members of their OWN species,\u00a0but crows\tand other corvids\n\ngive gifts"),
        ("crows━humans.", "crows\tand other corvids\n\ngive gifts to humans."),
        ("Many ━ animals", "Many animals"),
        (
            "animals give━give gifts to",
            "animals give gifts\nto members of their OWN species,\u00a0but crows\tand other corvids\n\ngive gifts to",
        ),
        ("Many 【0†animals†b.test】 give", "Many animals give"),  # link markup is stripped here too
    ],
)
def test_quotes_as_literals(phrase: str, found: str) -> None:
    span = CROWS.find_quote(phrase)
    assert span is not None
    assert CROWS.plain[slice(*span)] == found


@pytest.mark.parametrize(
    "phrase",
    [
        "ravens",
        "",
        " ",
        "━",
        "Many━",
        "━humans",
        "humans.━Many",
        "Many━ravens",
        "Many━animals━give",
        "b.test",
        "【0†animals",
        "Many animals gives",
        "animals┃give",
        "Crows give gifts.━gifts.",
    ],
)
def test_what_is_not_on_the_page_is_not_quoted(phrase: str) -> None:
    assert CROWS.find_quote(phrase) is None


def test_find_goes_round_once() -> None:
    page = Page("T", "d", "", "crow one crow two CROW")
    assert page.find("crow") == 0
    assert page.find("crow", 1) == 9
    assert page.find("crow", 9) == 9
    assert page.find("crow", 10) == 18
    assert page.find("crow", 19) == 0
    assert page.find("crow", 22) == 0
    assert page.find("raven", 5) is None


@pytest.mark.parametrize(
    ("phrase", "place"),
    [
        ("animals give gifts to", 5),  # across a link and a line end
        ("species, but crows and other corvids give", 48),
        ("crows  and", 61),
        ("animalsgive", None),  # find does not ignore white space, only its kind
        ("【0†animals†b.test】", 5),  # as a model may copy it
        ("【0†animals†b.test", None),
        ("b.test", None),
        ("", None),
        ("\u200b", None),
    ],
)
def test_find_across_lines_and_links(phrase: str, place: int | None) -> None:
    assert CROWS.find(phrase) == place


@pytest.mark.parametrize(
    ("text", "phrase", "found"),
    [
        ("Die Straße hier", "STRASSE", "Straße"),
        ("Die STRASSE hier", "straße", "STRASSE"),
        ("the ﬁrst one", "FIRST", "ﬁrst"),
        ("in İstanbul now", "İSTANBUL", "İstanbul"),
        ("in İstanbul now", "i\u0307stanbul", "İstanbul"),
        ("ΟΔΥΣΣΕΥΣ", "οδυσσευς", "ΟΔΥΣΣΕΥΣ"),
        ("K is kelvin", "k IS", "K is"),  # the Kelvin sign
        ("ßßß end", "s end", "ß end"),  # half of a folded letter takes the whole letter
    ],
)
def test_folding_that_changes_the_length(text: str, phrase: str, found: str) -> None:
    page = Page("T", "d", "", text)
    span = page.find_quote(phrase)
    assert span is not None
    assert page.plain[slice(*span)] == found
    assert page.find(phrase) == text.index(found)


def test_a_quote_checks_against_its_page() -> None:
    span = CROWS.find_quote("many━gifts to members")
    assert span is not None
    quote = Quote(CROWS.plain[slice(*span)], CROWS.title, CROWS.domain, CROWS.url, *span)
    assert quote.text == "Many animals give gifts\nto members"
    assert quote.stands_on(CROWS)
    assert not quote.stands_on(replace(CROWS, url="https://a.test/other"))
    assert not replace(quote, start=quote.start + 1).stands_on(CROWS)
    assert not quote.stands_on(replace(CROWS, text="Some " + CROWS.text))
    assert quote.stands_on(replace(CROWS, text=CROWS.text + " More."))


def test_only_the_first_heavy_line_of_a_quote_abbreviates() -> None:
    page = Page("T", "d", "", "from a to b━c and on")  # the page's own ━ is a look-alike by now
    span = page.find_quote("a━b━c")
    assert span is not None
    assert page.plain[slice(*span)] == "a to b─c"


# ---- size


def _lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python some work takes: a measure that no machine changes."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def _article(links: int) -> Page:
    writer = PageWriter("https://a.test/")
    paragraphs = [
        f"Paragraph {at} of words {writer.link(f'link {at}', f'https://h{at}.test/')} on." for at in range(links)
    ]
    return writer.page("T", "\n".join(paragraphs) + "\n" + "ß " * links + "x" * 20 * links)


def _use(page: Page) -> None:
    page.units(50)
    assert page.find("no such words") is None
    assert page.find_quote("paragraph 0━words") == (0, len("Paragraph 0 of words"))
    assert page.find_quote("paragraph 0━no such words") is None
    assert page.to_text(page.to_plain(len(page.text))) == len(page.text)


def test_the_work_grows_no_faster_than_the_page() -> None:
    small = _lines_run(lambda: _use(_article(200)))
    large = _lines_run(lambda: _use(_article(800)))
    assert large < 4.5 * small


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2_000_000,
        "word " * 400_000,
        "\n" * 2_000_000,
        "ß" * 1_000_000,
        "【1†" * 500_000,
        "【1†a†" * 400_000,
        "【1" + "†" * 1_000_000,
        " \n" * 1_000_000,
        "\u2028\u200b" * 1_000_000,
    ],
    ids=["one line", "words", "lines", "folding", "openings", "halves", "daggers", "blanks", "dropped"],
)
def test_two_megabytes_of_anything(text: str) -> None:
    # Anything quadratic would take hours here and run into the suite's time limit.
    page = Page("T", "a.test", "https://a.test/", text, [Link(1, "a", "https://b.test/", "b.test")])
    starts = page.units()
    assert starts[-1] == len(page.text)
    assert max((stop - start for start, stop in pairwise(starts)), default=0) <= 500
    assert page.find("nowhere to be seen") is None
    assert page.find_quote("nowhere━to be seen") is None
