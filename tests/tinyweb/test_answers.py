"""The format of answers, as literals and there and back."""

from __future__ import annotations

import random

import pytest

from webgpt_jax.tinyweb.answers import compose_answer, read_answer
from webgpt_jax.tinyweb.language import RELATIONS, Claim

FOOD = Claim("moss owl", "food", "acorns")
HOME = Claim("moss owl", "home", "caves")
NO_FIGS = Claim("moss owl", "food", "figs", denied=True)
WELLS = Claim("sand crow", "home", "wells")

WRITTEN = [
    ([(FOOD, (1,))], "The moss owl eats acorns [1]."),
    ([(FOOD, (1,)), (HOME, (2,))], "The moss owl eats acorns [1]. It lives in caves [2]."),
    ([(NO_FIGS, (1,)), (FOOD, (1,))], "The moss owl does not eat figs [1]. It eats acorns [1]."),
    ([(FOOD, ()), (WELLS, (1, 12))], "The moss owl eats acorns. The sand crow lives in wells [1] [12]."),
    ([], ""),
]


@pytest.mark.parametrize(("said", "text"), WRITTEN)
def test_an_answer_is_written_and_read_back(said: list[tuple[Claim, tuple[int, ...]]], text: str) -> None:
    assert compose_answer(said) == text
    assert read_answer(text) == said


def test_every_claim_there_and_back() -> None:
    draw = random.Random(0)
    claims = [
        Claim(animal, relation.name, value, denied)
        for animal in ("moss owl", "sand crow")
        for relation in RELATIONS
        for value in relation.values
        for denied in (False, True)
    ]
    draw.shuffle(claims)
    said = [(claim, tuple(draw.sample(range(1, 30), draw.randrange(4)))) for claim in claims]
    assert read_answer(compose_answer(said)) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the moss owl feeds on acorns[1][2].  It is found in caves", [(FOOD, (1, 2)), (HOME, ())]),
        ("It eats acorns [1].", [(None, (1,))]),
        ("Many people know the moss owl from old stories [2]. The moss owl eats acorns.", [(None, (2,)), (FOOD, ())]),
        ("The moss owl eats acorns [1]. So it does. It lives in caves.", [(FOOD, (1,)), (None, ()), (HOME, ())]),
        ("The moss owl eats aco", [(None, ())]),
        (" ", []),
        ("...", []),
    ],
)
def test_other_texts_are_read_as_far_as_they_say_something(
    text: str, said: list[tuple[Claim | None, tuple[int, ...]]]
) -> None:
    assert read_answer(text) == said
