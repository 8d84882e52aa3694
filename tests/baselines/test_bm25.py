"""BM25 against a slow version written from the formula, and what counts as a term."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.baselines.bm25 import Bm25, terms, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Countries BORDERING Laos", ["country", "border", "lao"]),
        ("The capital's name: Côte d'Ivoire", ["the", "capital", "s", "nam", "cot", "d", "ivoir"]),
        ("planning, falling, used", ["plan", "fall", "used"]),
        ("1,564,116 sq km in 2025", ["1", "564", "116", "sq", "km", "in", "2025"]),
        ("蒙古国的首都", ["蒙古", "古国", "国的", "的首", "首都"]),
        ("東京 is 京", ["東京", "is", "京"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("♦ — … !", []),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_words_are_spelt_as_they_stand() -> None:
    assert words("Ulaanbaatar's 2nd name: 乌兰巴托!") == ["Ulaanbaatar", "s", "2nd", "name", "乌兰巴托"]


def test_one_text_by_hand() -> None:
    # Two texts of two terms each, so every length is the average; one occurrence weighs 1 * 2.2 / (1 + 1.2) = 1.
    collection = Bm25(k1=1.2, b=0.75)
    collection.add({"red": 1, "fox": 1})
    collection.add({"red": 1, "hen": 1})
    assert collection.score(["fox"], {"red": 1, "fox": 1}) == pytest.approx(math.log(2))  # ln(1 + 1.5 / 1.5)
    assert collection.score(["red"], {"red": 1, "fox": 1}) == pytest.approx(math.log(1.2))  # ln(1 + 0.5 / 2.5)
    assert collection.score(["cow"], {"red": 1, "fox": 1}) == 0
    assert collection.idf("cow") == pytest.approx(math.log(6))  # ln(1 + 2.5 / 0.5)


def slow_bm25(query: list[str], index: int, texts: list[list[str]], k1: float, b: float) -> float:
    """The sum of the textbook formula, counting everything anew for every term."""
    score = 0.0
    for term in set(query):
        holding = len([text for text in texts if term in text])
        rarity = math.log((len(texts) - holding + 0.5) / (holding + 0.5) + 1)
        frequency = texts[index].count(term)
        relative_length = len(texts[index]) / (sum(map(len, texts)) / len(texts))
        score += rarity * frequency * (k1 + 1) / (frequency + k1 * (1 - b + b * relative_length))
    return score


WORDS = st.sampled_from(["ant", "bee", "cat", "dog", "eel"])


@given(
    texts=st.lists(st.lists(WORDS, min_size=1, max_size=8), min_size=1, max_size=6),
    query=st.lists(WORDS, max_size=4),
    k1=st.floats(0.1, 3),
    b=st.floats(0, 1),
)
def test_agrees_with_the_textbook(texts: list[list[str]], query: list[str], k1: float, b: float) -> None:
    collection = Bm25(k1, b)
    for text in texts:
        collection.add(Counter(text))
    for index, text in enumerate(texts):
        assert collection.score(query, Counter(text)) == pytest.approx(slow_bm25(query, index, texts, k1, b))


def test_an_empty_collection_scores_too() -> None:
    assert Bm25().score(["fox"], {"fox": 2}) > 0
    assert Bm25().score(["fox"], {}) == 0
