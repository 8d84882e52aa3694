"""Held-out questions: by the question's text alone, nested, of the size that was asked for."""

from __future__ import annotations

import pytest

from webgpt_jax.datasets import is_in_split, question_place

QUESTIONS = [f"Why is number {number} as it is?" for number in range(4000)]


def test_places_never_change() -> None:
    # sha256("why is the sky blue?"), its first 12 hexadecimal digits.
    assert question_place("Why is the sky blue?") == 0xFF880E2BC6FE / 2**48
    assert question_place(" why IS the\n sky  blue?\n") == question_place("Why is the sky blue?")
    assert question_place("Why is the sea blue?") != question_place("Why is the sky blue?")


@pytest.mark.parametrize("held_out", [0.0, 0.04, 0.25, 1.0])
def test_every_question_is_in_one_split(held_out: float) -> None:
    held = [question for question in QUESTIONS if is_in_split(question, "validation", held_out)]
    train = [question for question in QUESTIONS if is_in_split(question, "train", held_out)]
    assert sorted(held + train) == sorted(QUESTIONS)
    assert abs(len(held) - held_out * 4000) < 4 * (4000 * held_out * (1 - held_out)) ** 0.5 + 1


def test_smaller_shares_are_within_larger_ones() -> None:
    taken = [
        {question for question in QUESTIONS if is_in_split(question, "train", 0.2, share)}
        for share in (1 / 8, 1 / 4, 1)
    ]
    assert taken[0] < taken[1] < taken[2]
    assert [round(len(some) / 3200, 1) for some in taken] == [0.1, 0.2, 1.0]
    held = [{question for question in QUESTIONS if is_in_split(question, "validation", part)} for part in (0.04, 0.25)]
    assert held[0] < held[1]


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="split must be one of train, validation, not 'test'"):
        is_in_split("Why?", "test", 0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="held_out"):
        is_in_split("Why?", "train", 1.5)
    with pytest.raises(ValueError, match="share"):
        is_in_split("Why?", "train", 0.1, 0.0)
