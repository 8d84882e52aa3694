"""What a question is taken to ask for."""

import pytest

from webgpt_jax.baselines.question import MAX_QUERY_CHARS, MAX_QUERY_WORDS, Question


def same_rarity(term: str) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What is the capital of Mongolia?", "capital Mongolia"),
        ("Which countries border Laos?", "countries border Laos"),
        ("Why don't Mongolia's winters end?", "Mongolia winters end"),
        ("Explain: photosynthesis", "photosynthesis"),
        ("Who are you?", "Who are you?"),
        ("Who is The Who?", "Who is The Who?"),
        ("Which gas do plants take in?\nA. oxygen\nB. carbon dioxide", "gas plants take"),
        ("蒙古国的首都是哪里？", "蒙古国 首都"),
        ("モンゴルの首都はどこですか", "モンゴル 首都"),
        (
            "Fact-check each of the claims in the following answer.\n\nQuestion: Why is the sky blue?\n\n"
            "Answer: Because of the sea and the whales in it.",
            "sky blue",
        ),
        ("How do tides work?\n\nI was at the beach with my dog yesterday and wondered.", "tides work"),
    ],
)
def test_first_query(question: str, query: str) -> None:
    assert Question(question).query(0, same_rarity) == query


def test_a_question_of_stop_words_has_terms_too() -> None:
    assert Question("Who are you?").terms == ("who", "are", "you")


def test_later_queries_have_fewer_words_then_the_rarest() -> None:
    question = Question("Which minerals does landlocked Mongolia export to industrial neighbours?")
    rarity = {"mineral": 3.0, "industri": 2.0}
    queries = [question.query(attempt, lambda term: rarity.get(term, 0.0)) for attempt in range(5)]
    assert queries == [
        "minerals landlocked Mongolia export industrial neighbours",
        "landlocked Mongolia industrial",
        "minerals industrial",
        "minerals",
        None,
    ]


def test_no_query_is_tried_twice() -> None:
    question = Question("Capital of Mongolia?")
    assert [question.query(attempt, same_rarity) for attempt in range(3)] == ["Capital Mongolia", "Capital", None]


def test_long_questions_are_cut_and_names_kept() -> None:
    question = Question("Some " + " ".join(f"thing{number}" for number in range(30)) + " near Ulaanbaatar since 1911")
    query = question.query(0, same_rarity)
    assert query is not None
    assert len(query.split()) == MAX_QUERY_WORDS
    assert query.endswith("Ulaanbaatar 1911")


def test_a_query_is_one_line_and_bounded() -> None:
    query = Question("首都" * 500).query(0, same_rarity)
    assert query is not None
    assert len(query) == MAX_QUERY_CHARS
    assert Question("the\n\nof\n").query(0, same_rarity) == "the of"


@pytest.mark.parametrize("question", ["?!", "…", "♢ 〖〗 — ...", "\u0301"])
def test_what_has_no_word_asks_nothing(question: str) -> None:
    assert not Question(question).asks


def test_names() -> None:
    assert Question("When did Genghis Khan rule?").names == {"genghi", "khan"}  # as terms: without their endings
    assert Question("Beans need how much water?").names == frozenset()
    assert Question("Mongolia capital?").names == {"mongolia"}
