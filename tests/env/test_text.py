"""The gate for foreign text: markers, what nobody can see, and line separators."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.env import clean, clean_line
from webgpt_jax.env.text import word_string

MARKERS = "【】†♦■━"
EVERY_CHARACTER = [chr(code) for code in range(0x110000)]

# Any code point, lone surrogates too, and the dangerous ones often.
HOSTILE = st.text(
    st.one_of(
        st.characters(codec=None, categories=None),
        st.sampled_from(
            [*MARKERS, *"\r\n\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\t \x00\u200b\u202e\ud800\udfff\U000e0041"]
        ),
    )
)


@pytest.mark.parametrize(
    ("marker", "twin"), [("【", "〖"), ("】", "〗"), ("†", "‡"), ("♦", "♢"), ("■", "▪"), ("━", "─")]
)
def test_markers_become_look_alikes(marker: str, twin: str) -> None:
    assert clean(f"a{marker}b") == f"a{twin}b"
    assert clean_line(f"a{marker}b") == f"a{twin}b"


def test_no_character_becomes_a_marker_when_it_is_normalised() -> None:
    # Some tokenizers and databases apply NFKC to what they are given.
    for character in EVERY_CHARACTER:
        normalised = unicodedata.normalize("NFKC", clean(character))
        assert not set(normalised) & set(MARKERS), f"U+{ord(character):04X}"


def test_controls_surrogates_and_noncharacters_go() -> None:
    for character in EVERY_CHARACTER:
        category = unicodedata.category(character)
        if category == "Cc" and character not in "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85":
            assert clean(character) == "", f"U+{ord(character):04X}"
        if category == "Cs":
            assert clean(character) == "", f"U+{ord(character):04X}"


def test_every_bidirectional_control_goes() -> None:
    controls = [
        character
        for character in EVERY_CHARACTER
        if unicodedata.bidirectional(character) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    ]
    assert len(controls) == 9
    assert clean("".join(controls)) == ""
    assert clean("a\u200eb\u200fc\u061cd") == "abcd"


def test_every_format_character_that_shows_nothing_goes() -> None:
    # What stays of category Cf is drawn: Arabic, Syriac and Kaithi number signs and hieroglyph joiners.
    kept = {character for character in EVERY_CHARACTER if unicodedata.category(character) == "Cf" and clean(character)}
    for character in kept:
        assert unicodedata.name(character).startswith(("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN")), hex(ord(character))
    assert "\u061c" not in kept


INVISIBLE = """00AD 034F 115F 1160 180E 200B 200D 2060 2063 3164
    FE0F FEFF FFA0 FFF9 E0001 E0041 E007F E0100 1D173 1BCA0"""


@pytest.mark.parametrize("code", INVISIBLE.split())
def test_invisible_characters_go(code: str) -> None:
    character = chr(int(code, 16))
    assert clean(f"he{character}llo") == "hello"
    assert clean_line(character) == ""


@pytest.mark.parametrize(
    "separator", ["\r\n", "\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_every_line_separator_is_one_newline(separator: str) -> None:
    assert clean(f"a{separator}b") == "a\nb"
    assert clean(f"a{separator}{separator}b") == "a\n\nb"
    assert clean_line(f"a{separator}b") == "a b"


def test_python_knows_no_line_separator_that_is_left() -> None:
    for character in EVERY_CHARACTER:
        if len(f"a{character}b".splitlines()) > 1:
            assert clean(f"a{character}b") == "a\nb", f"U+{ord(character):04X}"


def test_mixed_separators() -> None:
    assert clean("a\r\r\nb\n\rc") == "a\n\nb\n\nc"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "Ünïcödé",
        "漢字 かな",
        "مرحبا",
        "e\u0301",
        "😀",
        "tab\there",
        "a\n\n\nb",
        "  blanks  ",
        "〖‡♢▪─",
        "\ufffd",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  a   b  ", "a b"),
        ("\ta\n\nb\r\n", "a b"),
        ("a\u00a0\u2003\u3000b", "a b"),
        ("\n\u200b\n", ""),
        ("a\u200b \u200bb", "a b"),
        ("a\x1fb", "a b"),
        ("【0†x】", "〖0‡x〗"),
    ],
)
def test_clean_line(text: str, line: str) -> None:
    assert clean_line(text) == line


@given(HOSTILE)
def test_clean_leaves_nothing_that_acts(text: str) -> None:
    cleaned = clean(text)
    assert not set(cleaned) & set(MARKERS)
    assert cleaned.split("\n") == [part for line in cleaned.split("\n") for part in (line.splitlines() or [""])]
    assert all(unicodedata.category(character) not in ("Cc", "Cs") or character in "\n\t" for character in cleaned)
    cleaned.encode("utf-8")
    assert clean(cleaned) == cleaned


@given(HOSTILE)
def test_clean_line_is_one_line_without_blanks_at_its_ends(text: str) -> None:
    line = clean_line(text)
    assert line == " ".join(line.split())
    assert clean_line(line) == line
    assert line == " ".join(clean(text).split())


@given(HOSTILE, HOSTILE)
def test_clean_works_character_by_character(left: str, right: str) -> None:
    if not (left.endswith("\r") and right.startswith("\n")):
        assert clean(left + right) == clean(left) + clean(right)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "  "),
        ("Don't, STOP!", " don t stop "),
        ("Straße—STRASSE", " strasse strasse "),
        ("a\u00adb zero\u200bwidth", " ab zerowidth "),
        ("cafe\u0301", " caf\u00e9 "),
        ("3.14 x_y", " 3 14 x_y "),
    ],
)
def test_word_string(text: str, words: str) -> None:
    assert word_string(text) == words


def test_a_long_run_of_combining_marks_takes_no_quadratic_time() -> None:
    # Normalising the whole of it would take minutes; the marks beyond the sixteenth say nothing.
    marks = "\u0301" * 300_000 + "\u0316" * 300_000
    assert word_string(f"caf\u0065{marks}") == word_string(f"caf\u0065{marks[:16]}")
