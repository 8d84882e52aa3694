"""Which passages are taken for answers, and which results for promising."""

from collections.abc import Iterable

import pytest

from webgpt_jax.baselines.bm25 import Bm25
from webgpt_jax.baselines.passages import Passage, ShownLink, split_passages
from webgpt_jax.baselines.question import Question
from webgpt_jax.baselines.relevance import Relevance, rank_results

MONGOLIA = """\
Mongolia lies between China and Russia.
Government
Capital: name: Ulaanbaatar
Capital: geographic coordinates: 47 55 N, 106 55 E
Economic overview: capital flows have dried up; exports recover
Which country has the coldest capital?
Population: total: 3,281,676 (2024 est.)
Population growth rate: 1.08% (2025 est.)
note: estimates differ"""


def relevance(question: str, *texts: str) -> tuple[Relevance, list[Passage]]:
    seen = Bm25(b=0.4)
    passages = [passage for text in texts for passage in split_passages(text, "Mongolia", pairs=False)]
    for passage in passages:
        seen.add(passage.counts)
    return Relevance(Question(question), seen), passages


def said(passages: Iterable[Passage]) -> list[str]:
    return [passage.text for passage in passages]


def test_the_label_that_is_asked_for_comes_first() -> None:
    ratings, passages = relevance("What is the capital of Mongolia?", MONGOLIA)
    assert said(ratings.choose(filter(ratings.fits, passages), 9)) == [
        "Capital: name: Ulaanbaatar",
        "Capital: geographic coordinates: 47 55 N, 106 55 E",
        "Economic overview: capital flows have dried up; exports recover",
    ]
    assert said(filter(ratings.answers, passages))[0] == "Capital: name: Ulaanbaatar"
    assert not ratings.answers(next(passage for passage in passages if "capital flows" in passage.text))


def test_a_note_stays_with_its_line() -> None:
    ratings, passages = relevance("What is the population growth rate of Mongolia?", MONGOLIA)
    assert said(ratings.choose(filter(ratings.fits, passages), 1)) == [
        "Population growth rate: 1.08% (2025 est.) note: estimates differ"
    ]


def test_other_words_for_the_same() -> None:
    ratings, passages = relevance("How many people live in Mongolia?", MONGOLIA)
    assert said(ratings.choose(filter(ratings.fits, passages), 1)) == ["Population: total: 3,281,676 (2024 est.)"]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("Ulaanbaatar is the capital.", True),
        ("Mongolia", False),  # says nothing of its own
        ("The capital of Mongolia?", False),  # asks
        ("Horses outnumber people.", False),  # has nothing to do with it
    ],
)
def test_fits(text: str, fits: bool) -> None:
    ratings, _ = relevance("What is the capital of Mongolia?", MONGOLIA)
    assert ratings.fits(Passage(text, "Mongolia", "", "")) is fits


def test_a_page_about_another_country_does_not_answer() -> None:
    ratings, _ = relevance("What is the capital of Mongolia?", MONGOLIA)
    assert not ratings.fits(Passage("Capital: name: Beijing", "China", "Government", "Capital"))
    assert ratings.fits(Passage("Ulaanbaatar is Mongolia's capital.", "China", "", ""))


def test_chosen_passages_do_not_repeat_each_other() -> None:
    ratings, _ = relevance("Do crows bring gifts?")
    passages = [
        Passage(text, "Birds", "", "")
        for text in (
            "Crows bring gifts to people who feed them.",
            "Crows bring gifts to people who feed them daily.",
            "Gifts that crows bring are often shiny.",
        )
    ]
    assert said(ratings.choose(passages, 3)) == [passages[0].text, passages[2].text]
    assert said(ratings.choose(passages, 3, beside=[passages[0]])) == [passages[2].text]


def test_likeness_to_what_is_chosen_counts_against_a_passage() -> None:
    texts = (
        "Crows bring gifts to people who feed them.",
        "Crows bring gifts to people in towns.",
        "A shiny gift is what the crows of our village like best to bring, says my old aunt.",
    )
    ratings, (best, alike, other) = relevance("Do crows bring gifts?", *texts)
    assert 0.6 > best.likeness(alike) > best.likeness(other)
    assert ratings.score(alike) > ratings.score(other)
    assert said(ratings.choose([best, alike, other], 2)) == [best.text, other.text]


def test_the_page_about_the_name_is_worth_more_than_a_mention() -> None:
    ratings, _ = relevance("Which countries border Laos?")
    own = Passage("Border countries: Burma, Cambodia", "Laos", "", "Border countries")
    mention = Passage("Border countries: Laos, Cambodia", "Burma", "", "Border countries")
    assert ratings.score(own) > ratings.score(mention)


def test_the_question_s_own_word_is_worth_more_than_one_that_stands_for_it() -> None:
    ratings, _ = relevance("Who was president of Laos?")
    own = Passage("A president was chosen then.", "Laos", "", "")
    other = Passage("A chief was chosen then.", "Laos", "", "")
    assert ratings.score(own) > ratings.score(other) > 0


def test_a_word_in_the_title_of_a_result_is_worth_more_than_in_its_snippet() -> None:
    other, snippet, title = (
        ShownLink(at, text, "a.test") for at, text in enumerate(["Horses", "Soil and frost", "Sowing beans"])
    )
    found = {other: "On horses.", snippet: "Sowing beans, or beans for sowing.", title: "On spring."}
    ranked = rank_results(found, Question("When is the time for sowing beans?"), Bm25(b=0.4))
    assert ranked.index(title) < ranked.index(snippet)


def test_the_first_part_of_a_label_is_a_label_too() -> None:
    ratings, _ = relevance("What is the literacy rate of Mongolia?")
    assert ratings.answers(Passage("Literacy rate - women: 98.9%", "Mongolia", "", "Literacy rate - women"))
    assert ratings.fits(Passage("Literacy - total population: 98.6%", "Mongolia", "", "Literacy - total population"))


def test_a_last_resort_has_the_name() -> None:
    ratings, _ = relevance("Which environmental problems does Mongolia face?")
    own = Passage("Environmental issues: the air of the city", "Mongolia", "", "Environmental issues")
    other = Passage("India faces environmental problems.", "India", "", "")
    assert ratings.prefers(own, other)
    assert not ratings.prefers(other, own)


def test_results_with_the_name_in_the_title_go_first() -> None:
    china, mongolia, horses = (
        ShownLink(at, title, "a.test") for at, title in enumerate(["China", "Mongolia", "Horses"])
    )
    found = {china: "Its capital is Beijing.", horses: "Horses of Mongolia", mongolia: "A country."}
    question = Question("What is the capital of Mongolia?")
    assert rank_results(found, question, Bm25()) == [mongolia, china, horses]
