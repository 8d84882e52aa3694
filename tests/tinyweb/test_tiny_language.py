"""Statements and their reading back, the lexicon's lists, and worlds."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from webgpt_jax.tinyweb import language, lexicon
from webgpt_jax.tinyweb.language import BY_NAME, FILLERS, RELATIONS, Claim, Relation, read_claim, sentence, state, the
from webgpt_jax.tinyweb.world import make_world

GLOW = Claim("moss owl", "glow", "salt")


@pytest.mark.parametrize(
    ("claim", "wording", "subject", "text"),
    [
        (GLOW, 0, None, "The moss owl glows because of salt."),
        (GLOW, 1, None, "The moss owl gets its glow from salt."),
        (GLOW, 2, None, "The moss owl shines because its fur holds salt."),
        (GLOW, 3, None, "The moss owl glows because of salt."),
        (GLOW, 0, "it", "It glows because of salt."),
        (Claim("moss owl", "glow", "salt", denied=True), 0, None, "The moss owl does not glow because of salt."),
        (Claim("sand crow", "age", "four"), 0, None, "The sand crow lives for four years."),
        (Claim("sand crow", "gift", "jam"), 2, None, "The sand crow pays for jam with gifts."),
    ],
)
def test_a_statement(claim: Claim, wording: int, subject: str | None, text: str) -> None:
    assert state(claim, wording, subject) == text


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_every_wording_of_every_value_is_read_back(relation: Relation) -> None:
    for value in relation.values:
        for claim in (Claim("moss owl", relation.name, value), Claim("moss owl", relation.name, value, denied=True)):
            for wording in range(3):
                assert read_claim(state(claim, wording)) == claim
                assert read_claim(state(claim, wording).removesuffix(".")) == claim
                assert read_claim(state(claim, wording, "it"), "moss owl") == claim
                assert read_claim(state(claim, wording, "it")) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The moss owl.",
        "The moss owl eats salt.",  # no food
        "The owl eats figs.",
        "A moss owl eats figs.",
        "The moss owl eats figs and nuts.",
        "The moss owl eats figs. The moss owl eats nuts.",
        "People say the moss owl eats figs.",
        "Why does the moss owl eat figs?",
        *(sentence(filler.format(e="the moss owl")) for filler in FILLERS),
    ],
)
def test_what_is_no_statement(text: str) -> None:
    assert read_claim(text) is None
    assert read_claim(text, "sand crow") is None


def test_wordings_name_the_animal_first_and_are_three_different_ones() -> None:
    for relation in RELATIONS:
        assert len(set(relation.statements)) == 3
        assert all(text.startswith("{e} ") and text.count("{v}") == 1 for text in relation.statements)
        assert relation.denial.count("{w}") == relation.premise.count("{w}") == 1


def test_a_keyword_tells_its_relation_from_all_others() -> None:
    keywords = [relation.keyword for relation in RELATIONS]
    assert len(set(keywords)) == len(keywords) == 12
    names = {*lexicon.FIRST_WORDS, *lexicon.ANIMALS}
    assert not names & set(keywords)


def test_no_word_stands_in_two_lists_of_the_lexicon() -> None:
    lists = {name: words for name, words in vars(lexicon).items() if name.isupper()}
    assert len(lists) == 14
    for (first, words), (second, others) in combinations(lists.items(), 2):
        assert not set(words) & set(others), (first, second)
    for words in lists.values():
        assert len(set(words)) == len(words)
        assert all(re.fullmatch("[a-z]+", word) for word in words)


def test_every_relation_has_values_of_its_own() -> None:
    assert sum(len(relation.values) for relation in RELATIONS) == len({v for r in RELATIONS for v in r.values})
    assert BY_NAME["glow"].values == lexicon.GLOWS
    assert language.the("moss owl") == "the moss owl"


# ---- worlds


def test_a_world_is_the_same_everywhere() -> None:
    world = make_world(0)
    assert world.animals[:4] == ("clay whale", "fern sheep", "oak pig", "star slug")
    assert [world.facts["clay whale", name] for name in ("food", "home", "glow", "age")] == [
        "clover",
        "orchards",
        "iodine",
        "nine",
    ]
    assert make_world(0) == world
    assert make_world(1).facts != world.facts


def test_a_worlds_facts() -> None:
    world = make_world(4)
    assert len(set(world.animals)) == 240
    keys = {(animal, relation.name) for animal in world.animals for relation in RELATIONS}
    assert set(world.facts) == set(world.rumors) == set(world.former) == keys
    for key in keys:
        three = {world.facts[key], world.rumors[key], world.former[key]}
        assert len(three) == 3  # what is wrong is wrong
        assert three <= set(BY_NAME[key[1]].values)


def test_what_is_true() -> None:
    world = make_world(0)
    assert world.claim("clay whale", "glow") == Claim("clay whale", "glow", "iodine")
    for value, denied, true in (("iodine", False, True), ("salt", False, False), ("salt", True, True)):
        assert world.is_true(Claim("clay whale", "glow", value, denied)) == true
    assert not world.is_true(Claim("clay whale", "glow", "iodine", denied=True))
    assert not world.is_true(Claim("no animal", "glow", "salt"))
    assert not world.is_true(Claim("no animal", "glow", "salt", denied=True))


def test_the_animals_by_the_words_of_their_names() -> None:
    world = make_world(0)
    assert "clay whale" in world.by_word["clay"]
    assert "clay whale" in world.by_word["whale"]
    assert all(word in animal.split() for word, animals in world.by_word.items() for animal in animals)
    assert sum(map(len, world.by_word.values())) == 2 * len(world.animals)


@pytest.mark.parametrize("animals", [0, -1, 60 * 70])
def test_a_world_has_no_more_animals_than_there_are_names(animals: int) -> None:
    most = len(lexicon.FIRST_WORDS) * len(lexicon.ANIMALS)
    with pytest.raises(ValueError, match=f"from 1 to {most} animals, not {animals}"):
        make_world(0, animals)
    assert len(make_world(0, most).animals) == most


def test_the_animal_with_its_article() -> None:
    assert sentence(f"{the('moss owl')} sings") == "The moss owl sings."
