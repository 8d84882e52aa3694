"""Blocked domains in every spelling, and the censor against a slow reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.env.webs import linked_page
from webgpt_jax.env import Link, Page
from webgpt_jax.env.filters import BLOCKED_DOMAINS, is_blocked, overlaps, without_blocked_links
from webgpt_jax.env.text import word_string

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "web"


@pytest.mark.parametrize(
    "url",
    [
        "https://reddit.com/r/x",
        "https://OLD.Reddit.com./r",
        "https://www.reddit.com:443/",
        "http://redd.it/abc",
        "https://www-reddit-com.translate.goog/r/x",
        "https://qr.ae/x",
        "https://fr.quora.com/q",
        "http://reddit.com%2e/",
        "http://u:p@reddit.com/",
        "https://ⓡⓔⓓⓓⓘⓣ.com/",
        "https://reddit。com/",
        "https://red\u00addit.com/",
        "https://red%64it.com/",
        " https://reddit.com",
        "https://web.archive.org/web/2020/https://www.reddit.com/r/x",
        "https://web.archive.org/web/2020/http:/www.reddit.com/r/x",
        "https://web.archive.org/web/2020/www.reddit.com/r/x",
        "https://web.archive.org/web/2020/https%3A%2F%2Fwww.reddit.com/r/x",
        "https://web.archive.org/web/2020/HTTPS://u:p@www.REDDIT.com:443/r/x",
        "https://archive.ph/newest/https://reddit.com/",
        "https://webcache.googleusercontent.com/search?q=cache:AbC:reddit.com/r/x",
        "https://web-archive-org.translate.goog/web/2020/https://reddit.com/",
        "https://web.archive.org/web/2020/https://web.archive.org/web/2021/https://reddit.com/",
        "https://web.archive.org/web/2020/https://www-reddit-com.translate.goog/",
    ],
)
def test_blocked(url: str) -> None:
    assert is_blocked(url)
    assert not is_blocked(url, ())


@pytest.mark.parametrize(
    "url",
    [
        "https://notreddit.com/",
        "https://reddit.com.evil.test/",
        "https://a.test/?u=https://reddit.com/",
        "https://a.test/reddit.com",
        "https://reddit.com@a.test/",
        "https://reddit-com.test/",
        "https://not--reddit-com.translate.goog/",
        "https://translate.goog/",
        "https://web.archive.org/",
        "https://web.archive.org/web/2020/",
        "https://archive.org/details/a-book.pdf",
        "https://web.archive.org/web/2020/https://a.test/?u=https://reddit.com/",
        "https://redd.it.test/",
        "https://com/",
        "javascript:reddit.com",
        "",
        "http://[::1",
    ],
)
def test_not_blocked(url: str) -> None:
    assert not is_blocked(url)


def test_archives_of_archives_without_end_are_blocked_and_do_not_crash() -> None:
    assert is_blocked("https://archive.org/" * 5000 + "https://a.test/")
    assert not is_blocked("https://archive.org/" * 5000 + "https://a.test/", ())


def test_other_domains_may_be_blocked() -> None:
    assert is_blocked("https://x.example.org/", ("example.org",))
    assert not is_blocked("https://reddit.com/", ("example.org",))


def test_the_shared_table_of_hosts() -> None:
    case = CASES / "s29_blocked_hosts.html"
    if not case.exists():
        pytest.skip("../shared/cases is not here")
    links = re.findall(r"<a href='([^']+)'>h(\d+)</a>", case.read_text(encoding="utf-8"))
    assert len(links) == 14
    kept = [name for url, name in links if not is_blocked(url)]
    assert kept == ["10", "11", "12"]  # notreddit.com, reddit.com.evil.test, a.test; 13 is an archive's copy


def test_blocked_links_go_and_the_others_are_numbered_anew() -> None:
    page = linked_page(
        "http://a.test/p",
        "T",
        "See {r}, {home} and\n{q} or {b}.",
        {"r": "https://reddit.com/x", "home": "http://a.test/", "q": "https://quora.com", "b": "https://b.test/"},
    )
    assert page.text == "See 【0†r†reddit.com】, 【1†home】 and\n【2†q†quora.com】 or 【3†b†b.test】."
    kept = without_blocked_links(page)
    assert kept.text == "See , 【0†home】 and\n or 【1†b†b.test】."
    assert kept.links == (
        Link(0, "home", "http://a.test/", "a.test"),
        Link(1, "b", "https://b.test/", "b.test"),
    )
    assert (kept.title, kept.domain, kept.url, kept.error) == ("T", "a.test", "http://a.test/p", None)


def test_a_page_without_blocked_links_stays_the_same_page() -> None:
    page = linked_page("http://a.test/p", "T", "{b}", {"b": "https://b.test/"})
    assert without_blocked_links(page) is page
    blocked = linked_page("http://a.test/p", "T", "{r}", {"r": "https://reddit.com/x"})
    assert without_blocked_links(blocked, ()) is blocked
    assert without_blocked_links(blocked) is without_blocked_links(blocked)


def test_an_error_page_stays_an_error_page() -> None:
    page = Page(
        "T", "a.test", "http://a.test/", "【0†r†reddit.com】", [Link(0, "r", "http://reddit.com", "reddit.com")]
    )
    failed = Page(page.title, page.domain, page.url, page.text, page.links, error="http")
    assert without_blocked_links(failed).error == "http"
    assert without_blocked_links(failed).text == ""


# ---- the censor

QUESTION = "How can I train the crows in my neighborhood to bring me gifts?"  # 13 words


def _hides(page_text: str, *secrets: str, n: int = 10) -> bool:
    return overlaps(word_string(page_text), secrets, n)


def test_ten_words_in_a_row_are_an_overlap_and_nine_are_not() -> None:
    assert not _hides("can I train the crows in my neighborhood to", QUESTION)
    assert _hides("can I train the crows in my neighborhood to bring", QUESTION)
    assert not _hides("can I train the crows in my neighborhood to feed", QUESTION)
    for first in range(4):  # each of the question's four runs of ten words
        words = QUESTION.split()
        assert _hides(f"x {' '.join(words[first : first + 10])} y", QUESTION)
        assert not _hides(f"x {' '.join(words[first : first + 9])} y", QUESTION)


def test_ten_words_apart_are_no_overlap() -> None:
    assert not _hides("How can I train the crows, you ask, in my neighborhood to bring me gifts?", QUESTION)


def test_case_punctuation_and_lines_make_no_difference() -> None:
    assert _hides("«HOW — can I\n\ntrain (the) crows: In my\tneighborhood, to… bring me»", QUESTION)
    assert _hides("how can i tr\u00adain the crows in my neigh\u200bborhood to bring me", QUESTION)
    accented = "Où est le café de la gare près du pont rouge"
    assert _hides("ou\u0300 est le cafe\u0301 de la gare pre\u0300s du pont rouge", accented)


def test_part_of_a_word_is_no_word() -> None:
    assert not _hides("a b c d e f g h i jay", "a b c d e f g h i j")
    assert not _hides("aa b c d e f g h i j", "a b c d e f g h i j")


def test_a_short_question_hides_nothing() -> None:
    assert not _hides("why is the sky blue", "Why is the sky blue?")
    assert not _hides("", "")
    assert not _hides("any", "")


def test_any_of_the_secrets_hides() -> None:
    secret = "one two three four five six seven eight nine ten"
    assert _hides(secret, "Why?", secret)
    assert not _hides(secret, "Why?", "")


def _slow_overlaps(page_text: str, secret: str, n: int) -> bool:
    page, wanted = (re.sub(r"\W+", " ", text.casefold()).split() for text in (page_text, secret))
    return any(
        page[at : at + n] == wanted[there : there + n]
        for at in range(len(page) - n + 1)
        for there in range(len(wanted) - n + 1)
    )


_FEW_WORDS = st.lists(st.sampled_from(["a", "b", "A", "ab", "Ä"]), max_size=14).map(" ".join)


@given(_FEW_WORDS, _FEW_WORDS, st.integers(1, 6))
def test_overlap_is_what_comparing_every_pair_of_runs_finds(page: str, secret: str, n: int) -> None:
    assert _hides(page, secret, n=n) is _slow_overlaps(page, secret, n)


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 12))
def test_a_stretch_of_the_secret_counts_from_ten_words_on(words: int, first: int, before: int, length: int) -> None:
    secret = [f"w{at}" for at in range(words)]
    stretch = secret[first : first + length]
    page = [*(f"x{at}" for at in range(before)), *stretch, "y"]
    assert _hides(" ".join(page), " ".join(secret)) is (len(stretch) >= 10)


def test_the_papers_two_sites_are_blocked_by_default() -> None:
    assert {"reddit.com", "quora.com"} <= set(BLOCKED_DOMAINS)
