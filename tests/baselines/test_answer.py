"""Answers made of quotes."""

from webgpt_jax.baselines.answer import MAX_SENTENCES, compose_answer
from webgpt_jax.baselines.bm25 import Bm25
from webgpt_jax.baselines.question import Question
from webgpt_jax.baselines.relevance import Relevance
from webgpt_jax.env.observation import ParsedAnswerPrompt


def answer(question: str, *references: tuple[str, str]) -> str:
    return compose_answer(ParsedAnswerPrompt(question, references), Relevance(Question(question), Bm25()))


def test_most_relevant_first_each_with_its_number() -> None:
    assert (
        answer(
            "Do crows bring gifts?",
            ("Ravens (a.test)", "Ravens are larger than crows"),
            ("Crows (b.test)", "Some   crows[12] bring “gifts” to\npeople, they say; "),
        )
        == "“Some crows bring ‘gifts’ to people, they say.” [2] “Ravens are larger than crows.” [1]"
    )


def test_a_heading_in_the_quote_is_said_with_its_line() -> None:
    assert answer("What is the capital?", ("Mongolia (a.test)", "Capital\nname: Ulaanbaatar, since 1778")) == (
        "“Capital: name: Ulaanbaatar, since 1778.” [1]"
    )


def test_at_most_so_many_sentences_and_all_references_first() -> None:
    extract = " ".join(f"Crows bring gift number {number}." for number in range(9))
    said = answer("Do crows bring gifts?", ("A (a.test)", extract), ("B (b.test)", "Crows are birds."))
    assert said.count(".") == MAX_SENTENCES
    assert "“Crows are birds.” [2]" in said


def test_long_sentences_are_cut() -> None:
    said = answer("Crows?", ("A (a.test)", "crow " * 79))
    assert said.startswith("“crow crow")
    assert said.endswith("crow…” [1]")
    assert len(said) < 310


def test_a_question_is_said_with_what_follows_it() -> None:
    said = answer(
        "Which country is largest?", ("Rankings (a.test)", "Which country is largest? Russia: 17,098,242 sq km")
    )
    assert said == "“Which country is largest? Russia: 17,098,242 sq km.” [1]"


def test_marks_go_and_a_minus_stays() -> None:
    assert answer("Growth?", ("A (a.test)", "* growth was positive;")) == "“growth was positive.” [1]"
    assert answer("Migration?", ("A (a.test)", "-1.83 migrant(s)/1,000 population")) == (
        "“-1.83 migrant(s)/1,000 population.” [1]"
    )


def test_nothing_to_say() -> None:
    assert answer("Crows?") == "Nothing that was read answers the question."
