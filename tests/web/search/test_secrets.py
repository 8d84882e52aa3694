"""A service that sends back the key, in whatever spelling, does not get it into an error or a page."""

from __future__ import annotations

import asyncio

import pytest
from search_stub import FAST, KEY, KEYED, Answer, ask, failure, serve

from webgpt_jax.env.protocol import SearchResult
from webgpt_jax.web.search.searxng import SearXNG
from webgpt_jax.web.search.secrets import Secrets, fold


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize(
    "spelt",
    [
        KEY.lower(),
        KEY.upper(),
        KEY.replace("-", ""),
        " ".join(KEY),
        "-".join(KEY[at : at + 4] for at in range(0, len(KEY), 4)),
        KEY.replace("-", "%2D"),
        "".join(f"%{ord(letter):02x}" for letter in KEY),
        "".join(f"&#{ord(letter)};" for letter in KEY),
        "".join(chr(ord(letter) + 0xFEE0) for letter in KEY),  # full-width forms
        "\u200b".join(KEY),
    ],
)
def test_an_explanation_with_the_key_in_another_spelling_is_not_quoted(name: str, spelt: str) -> None:
    said = f"Bad request with {spelt} in it"
    body = {
        "message": said,
        "error": {"detail": said, "message": said},
        "detail": {"error": said},
        "response": {"status": said},
    }
    error = failure(name, Answer(body, status=400))
    assert error.kind == "http"
    assert "It says" not in error.message


def listed(name: str, *entries: tuple[str, str, str]) -> Answer:
    """An answer with results of those titles, URLs and snippets."""
    names = {"serper": ("title", "link", "snippet"), "bing": ("name", "url", "snippet")}
    names |= {"brave": ("title", "url", "description"), "mojeek": ("title", "url", "desc")}
    found = [dict(zip(names.get(name, ("title", "url", "content")), entry, strict=True)) for entry in entries]
    around = {
        "brave": {"web": {"results": found}},
        "serper": {"organic": found},
        "mojeek": {"response": {"status": "OK", "results": found}},
        "bing": {"webPages": {"value": found}},
    }
    return Answer(around.get(name, {"results": found}))


@pytest.mark.parametrize("name", KEYED)
def test_results_that_hold_the_key_are_left_out(name: str) -> None:
    good = ("Crows", "http://crows.test/", "They fly.")
    marked = f"{KEY[:5]}<b>{KEY[5:9]}</b>{KEY[9:]}"  # whole once the highlighting is taken out
    outcome, _ = ask(
        name,
        listed(
            name,
            (f"Crows {KEY}", "http://a.test/", "They fly."),
            ("Crows", f"http://b.test/?k={KEY}", "They fly."),
            ("Crows", f"http://c.test/{KEY.replace('-', '%2d').lower()}", "They fly."),
            ("Crows", "http://d.test/", f"They fly {KEY}."),
            ("Crows", "http://e.test/", f"They fly {' '.join(KEY.upper())}."),
            ("Crows", "http://f.test/", f"They fly {marked}."),
            ("x" * 280 + KEY, "http://g.test/", "A title that is cut within the key."),
            ("", f"http://h.test/{KEY}", "A URL that becomes the title."),
            good,
            ("Keys", "http://keys.test/", f"They all begin with {KEY[:8]}."),  # says nothing of ours
        ),
        count=2,
    )
    assert outcome == [SearchResult(*good), SearchResult("Keys", "http://keys.test/", "They all begin with Sq7-Zeta.")]


def test_a_key_that_is_part_of_any_word_costs_no_results() -> None:
    outcome, _ = ask("brave", listed("brave", ("Crows", "http://crows.test/", "They fly.")), key="fly")
    assert outcome == [SearchResult("Crows", "http://crows.test/", "They fly.")]


@pytest.mark.parametrize("echo", ["pass-word-1", "PASSWORD1", "c29tZW9uZTpwYXNzLXdvcmQtMQ=="])
def test_results_that_hold_the_login_of_an_instance_are_left_out(echo: str) -> None:
    async def run() -> list[SearchResult]:
        entries = ((f"Crows {echo}", "http://a.test/", ""), ("Crows", "http://b.test/", ""))
        async with serve(listed("searxng", *entries)) as stub:
            backend = SearXNG(stub.url.replace("http://", "http://someone:pass-word-1@"), limits=FAST)
            try:
                return await backend.search("crows")
            finally:
                await backend.aclose()

    assert asyncio.run(run()) == [SearchResult("Crows", "http://b.test/", "")]


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Sq7-Zeta", "sq7zeta"),
        ("S Q 7 _ z.e.t.a", "sq7zeta"),
        ("Sq7%2DZeta%41", "sq7zetaa"),
        ("&#83;q7&amp;Zeta", "sq7zeta"),
        ("\uff33q7 \u200bZeta", "sq7zeta"),
        ("Stra\u00dfe 100 %", "strasse100"),
        ("\ud800", ""),
        ("-_ .", ""),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_pieces_of_a_secret() -> None:
    secrets = Secrets(["abcdefghijklmn", ""])
    assert secrets.in_explanation("so: F-G-H-I-J-K")
    assert not secrets.in_explanation("so: f-g-h-i-j")
    assert secrets.in_result(SearchResult("so: bcdefghijklm", "", ""))
    assert not secrets.in_result(SearchResult("so: cdefghijklm", "defghijklmn", ""))
    assert "abc" not in repr(secrets)
    assert not Secrets([""]).in_explanation("anything")
    assert Secrets(["key"]).in_explanation("your key is bad")


def test_an_address_that_is_none_is_still_only_refused_when_it_is_used() -> None:
    for url in ("http://[::1", "http://ключ:пароль@a.test", "http://a:\udcff@a.test", "http://a:%ff@a.test", ""):
        assert repr(SearXNG(url)).startswith("SearXNG(host=")
