import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.web.terms import MAX_TERMS, Term, excerpt, pairs, terms_of, unspaced_words


def words(query: str) -> list[str]:
    return [term.text for term in terms_of(query)]


def test_a_question_is_asked_by_its_content_words() -> None:
    assert words("What is the capital of Mongolia and how many people live there?") == [
        "capital",
        "mongolia",
        "people",
        "live",
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("the who", ["the", "who"]),  # stop words are all there is
        ("Who leads the WHO?", ["leads", "who"]),  # capitals make a name
        ("WHO LEADS IT", ["leads"]),  # unless everything is in capitals
        ("Mongolia's capital", ["mongolia", "capital"]),
        ("Mongolia’s mongolia MONGOLIA", ["mongolia"]),
        ("don't panic", ["don't", "panic"]),
        ("C++ (2011)", ["c++", "2011"]),
        ("NEAR(crow* ^gift)", ["near", "crow", "gift"]),
        ("title:well-known/crows U.S. 1,400", ["title", "well-known", "crows", "u.s", "1,400"]),
        ("!? -- …", []),
        ("", []),
        ("\0\ud800", []),
    ],
)
def test_terms(query: str, expected: list[str]) -> None:
    assert words(query) == expected


def test_scripts_without_blanks_become_pairs() -> None:
    assert terms_of("首都") == [Term("首都", unspaced=True)]
    assert words("日本の首都は") == ["日本", "本の", "の首", "首都", "都は"]
    assert words("iPhone用") == ["iphone", "用"]
    assert words("ｱﾌﾟﾘ") == ["アプリ"]  # half-width forms are the same characters
    assert pairs("東京都") == ["東京", "京都", "都"]


def test_unspaced_words_leaves_other_scripts_alone() -> None:
    assert unspaced_words("crows bring gifts — naïve, हिन्दी") == ""
    assert unspaced_words("ｱﾌﾟﾘ") == "アプ プリ リ"
    assert unspaced_words("the word 東京都 here, and iPhone用。") == "東京 京都 都 iPhone 用"


def test_a_query_has_a_bounded_number_of_terms() -> None:
    assert len(terms_of(" ".join(map(str, range(100_000))))) == MAX_TERMS
    assert len(terms_of("漢" * 50_000 + "字" * 50_000)) <= MAX_TERMS


def test_excerpt_shows_where_the_terms_stand_together() -> None:
    text = "filler " * 200 + "the Capital of\n Mongolia is Ulaanbaatar. " + "capital " + "filler " * 200
    shown = excerpt(text, [Term("capital"), Term("mongolia")], length=120)
    assert "Capital of Mongolia is Ulaanbaatar." in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= 124
    assert excerpt("short text", [Term("absent")]) == "short text"
    assert excerpt("", []) == ""


@given(st.text(), st.text())
def test_any_text_has_terms_and_an_excerpt(query: str, text: str) -> None:
    found = terms_of(query)
    assert len(found) == len(set(found))
    assert all(term.text for term in found)
    assert "\n" not in excerpt(text, found)
    assert isinstance(unspaced_words(text), str)
