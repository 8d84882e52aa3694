"""TinyWeb's questions: what they ask for, how often, and that no two sets share an animal."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations, islice
from typing import cast

import pytest

from webgpt_jax.tinyweb.language import BY_NAME, Claim
from webgpt_jax.tinyweb.questions import SPLITS, QuestionKind, Split, TinyQuestion, animals_of, questions
from webgpt_jax.tinyweb.world import WORLD_ANIMALS, World, make_world

FACTS, MISCONCEPTION, NONSENSE = QuestionKind.FACTS, QuestionKind.MISCONCEPTION, QuestionKind.NONSENSE


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(0)


@pytest.fixture(scope="module")
def asked(world: World) -> dict[Split, list[TinyQuestion]]:
    return {split: list(islice(questions(world, split), 2000)) for split in SPLITS}


def animals_in(world: World, text: str) -> set[str]:
    return set(re.findall(r"\bthe ([a-z]+ [a-z]+)", text)) & set(world.animals)


def test_the_first_questions_of_a_seed() -> None:
    first = list(islice(questions(make_world(0, 30), "validation", seed=1), 3))
    glow = Claim("thorn bison", "glow", "sulfur")
    gift = Claim("thorn bison", "gift", "rings")
    assert first == [
        TinyQuestion("What gift does the thorn bison like best?", FACTS, (gift,)),
        TinyQuestion("ELI5: Why does the thorn bison glow, and how can I make it bring me gifts?", FACTS, (glow, gift)),
        TinyQuestion("Who helps the red dove across the road?", FACTS, (Claim("red dove", "help", "pilots"),)),
    ]


def test_the_sets_share_no_animal_and_together_have_all(world: World) -> None:
    sets = {split: animals_of(world, split) for split in SPLITS}
    assert {split: len(animals) for split, animals in sets.items()} == {
        "bc": 96,
        "rm": 48,
        "rl": 48,
        "validation": 24,
        "test": 24,
    }
    for first, second in combinations(sets.values(), 2):
        assert not set(first) & set(second)
    assert sum(map(len, sets.values())) == WORLD_ANIMALS


def test_questions_are_about_the_animals_of_their_set_alone(
    world: World, asked: dict[Split, list[TinyQuestion]]
) -> None:
    for split, found in asked.items():
        own = set(animals_of(world, split))
        for question in found:
            named = animals_in(world, question.text)
            assert named
            assert named <= own
            assert {need.animal for need in question.needs} <= named
            if question.kind is not NONSENSE:
                assert {need.animal for need in question.needs} == named
    for first, second in combinations(asked.values(), 2):
        assert not {question.text for question in first} & {question.text for question in second}


def test_no_question_is_asked_twice(asked: dict[Split, list[TinyQuestion]]) -> None:
    for found in asked.values():
        assert len({question.text for question in found}) == len(found) == 2000


def test_needs_are_true_and_what_is_supposed_is_not(world: World, asked: dict[Split, list[TinyQuestion]]) -> None:
    for question in (question for found in asked.values() for question in found):
        assert all(world.is_true(need) for need in question.needs)
        assert len(set(question.needs)) == len(question.needs) <= 3
        assert bool(question.needs) == (question.kind is not NONSENSE)
        assert (question.supposed is not None) == (question.kind is MISCONCEPTION)
        if question.supposed is not None:
            (need,) = question.needs
            assert question.supposed in BY_NAME[need.relation].values
            assert question.supposed != need.value
            assert question.supposed in question.text
            assert need.value not in question.text.split()


def test_a_question_does_not_give_its_answer_away(asked: dict[Split, list[TinyQuestion]]) -> None:
    for question in (question for found in asked.values() for question in found):
        words = re.findall("[a-z]+", question.text)
        assert not {need.value for need in question.needs} & set(words)


def test_how_often_each_kind_is_asked(asked: dict[Split, list[TinyQuestion]]) -> None:
    found = asked["bc"]
    kinds = Counter(
        len(question.needs) if question.kind is FACTS else question.kind for question in found[:1000]
    )  # later ones are fewer of the kinds that have been asked
    assert 0.42 < kinds[1] / 1000 < 0.55
    assert 0.25 < kinds[2] / 1000 < 0.40
    assert 0.05 < kinds[3] / 1000 < 0.13
    assert 0.04 < kinds[MISCONCEPTION] / 1000 < 0.11
    assert 0.02 < kinds[NONSENSE] / 1000 < 0.09
    assert 0.2 < sum(question.text.startswith("ELI5: ") for question in found) / len(found) < 0.3
    two = [question for question in found if question.kind is FACTS and len(question.needs) == 2]
    assert 0.2 < sum(len({need.animal for need in question.needs}) == 2 for question in two) / len(two) < 0.4


def test_seeds_differ_and_repeat(world: World) -> None:
    def some(seed: int) -> list[TinyQuestion]:
        return list(islice(questions(world, "rl", seed), 50))

    assert some(1) == some(1)
    assert some(1) != some(2)


def test_a_set_without_animals_is_an_error(world: World) -> None:
    with pytest.raises(ValueError, match="no set 'train'; there are bc, rm, rl, validation, test"):
        animals_of(world, cast(Split, "train"))
