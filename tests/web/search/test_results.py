"""Text out of titles and snippets, and queries cut to a limit: literals."""

from __future__ import annotations

import pytest

from webgpt_jax.web.search.results import cut_query, dig, plain_text


@pytest.mark.parametrize(
    ("text", "as_html", "as_text"),
    [
        ("<strong>crows</strong> fly", "crows fly", "crows fly"),
        ('a <span class="hl">hit</span>', "a hit", "a hit"),
        ("AT&amp;T", "AT&T", "AT&T"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;", "&lt;b&gt;"),  # once, not twice
        ("&lt;strong&gt;x&lt;/strong&gt;", "<strong>x</strong>", "<strong>x</strong>"),  # text about tags
        ("vector<int> if a < b > c", "vector<int> if a < b > c", "vector<int> if a < b > c"),
        ("the <b> tag", "the tag", "the <b> tag"),
        ("one<br>two<br />three", "one two three", "one two three"),
        ("don&#x27;t &#39;quote&#39;", "don't 'quote'", "don't 'quote'"),
        ("two\n lines\t\u2028", "two lines", "two lines"),
        ("zero\u200bwidth \u202eoverride", "zerowidth override", "zerowidth override"),
        ("&#x202e;hidden &#12304;0&#8224;x&#12305;", "hidden 〖0‡x〗", "hidden 〖0‡x〗"),
        ("lone \ud800 surrogate", "lone surrogate", "lone surrogate"),
        ("", "", ""),
    ],
)
def test_plain_text(text: str, as_html: str, as_text: str) -> None:
    assert plain_text(text, 100, is_html=True) == as_html
    assert plain_text(text, 100, is_html=False) == as_text


@pytest.mark.parametrize("value", [None, 5, True, ["x"], {"x": "y"}])
def test_what_is_no_text_is_empty(value: object) -> None:
    assert plain_text(value, 100, is_html=True) == ""


def test_long_texts_are_cut() -> None:
    assert plain_text("x" * 101, 100, is_html=False) == "x" * 99 + "…"
    assert plain_text("x" * 100, 100, is_html=False) == "x" * 100


@pytest.mark.parametrize(
    "hostile", ["<b " * 500_000, "<b>" * 500_000, "<b><i" * 300_000, "&" * 1_000_000, "<" * 1_000_000]
)
@pytest.mark.timeout(30)  # quadratic would be hours
def test_hostile_markup_is_dealt_with_in_linear_time(hostile: str) -> None:
    for is_html in (True, False):
        assert len(plain_text(hostile, 1_000_000, is_html)) <= 1_000_000


def test_dig() -> None:
    value = {"a": [{"b": 1}], "c": None}
    assert dig(value, "a", 0, "b") == 1
    assert dig(value, "a", 1, "b") is None
    assert dig(value, "a", "b") is None
    assert dig(value, "c", "d") is None
    assert dig("text", 0) is None


@pytest.mark.parametrize(
    ("query", "limits", "cut"),
    [
        (" how  to\ntrain crows ", {"max_chars": 100}, "how to train crows"),
        ("how to train crows", {"max_chars": 18}, "how to train crows"),
        ("how to train crows", {"max_chars": 17}, "how to train"),
        ("how to train crows", {"max_chars": 12}, "how to train"),
        ("how to train crows", {"max_chars": 11}, "how to"),
        ("incomprehensible", {"max_chars": 5}, "incom"),
        ("one two three four", {"max_chars": 100, "max_words": 3}, "one two three"),
        ("é é é", {"max_chars": 100, "max_encoded": 15}, "é é"),  # %C3%A9%20%C3%A9%20%C3%A9
        ("", {"max_chars": 5}, ""),
        ("\u200b", {"max_chars": 5}, ""),
    ],
)
def test_cut_query(query: str, limits: dict[str, int], cut: str) -> None:
    assert cut_query(query, **limits) == cut
