"""Answers taken apart into sentences, as literals."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.feedback.citations import split_sentences


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("Crows bring gifts [1].", [("Crows bring gifts [1].", (1,))]),
        ("Crows bring gifts. [1] Owls do not.", [("Crows bring gifts. [1] ", (1,)), ("Owls do not.", ())]),
        ("One [1][3]. Two [2, 4].", [("One [1][3]. ", (1, 3)), ("Two [2, 4].", (2, 4))]),
        ("Twice [2] the same [2].", [("Twice [2] the same [2].", (2,))]),
        ("“Both. Quoted.” [2] Next.", [("“Both. Quoted.” [2] ", (2,)), ("Next.", ())]),
        ("Really?! Yes… No.", [("Really?! ", ()), ("Yes… ", ()), ("No.", ())]),
        ("Dr. Smith of the U.S. Army, e.g. 3.5 of it.", [("Dr. Smith of the U.S. Army, e.g. 3.5 of it.", ())]),
        ("It is vitamin C.", [("It is vitamin C.", ())]),
        ("没有引用。有 [1]。", [("没有引用。", ()), ("有 [1]。", (1,))]),
        ("no end [1", [("no end [1", ())]),
        ("[a] [] [1234567] [١].", [("[a] [] [1234567] [١].", ())]),
        ("", []),
    ],
)
def test_sentences_and_what_they_cite(line: str, sentences: list[tuple[str, tuple[int, ...]]]) -> None:
    assert [(sentence.text, sentence.cites) for sentence in split_sentences(line)] == sentences


def test_a_list_s_number_says_nothing() -> None:
    first, second = split_sentences("1. Feed them.")
    assert (first.text, first.says_something) == ("1. ", False)
    assert (second.text, second.says_something) == ("Feed them.", True)


@given(st.text(alphabet='aB1 .!?…。”“"[],;\t', max_size=60))
def test_nothing_is_lost(line: str) -> None:
    assert "".join(sentence.text for sentence in split_sentences(line)) == line


@pytest.mark.parametrize("piece", [".", ". ", ".x", "[1", "[1,", "“", "“a.”", "“a. b” ", " ", ". [1] ", "。", '."'])
def test_hostile_answers_take_no_quadratic_time(piece: str) -> None:
    begin = time.process_time()
    split_sentences(piece * 30_000 + "x")
    assert time.process_time() - begin < 2.0
