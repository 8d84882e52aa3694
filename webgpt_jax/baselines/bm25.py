"""Texts as terms, and how well a text fits a query: Okapi BM25 (Robertson and Zaragoza, 2009), with nothing learnt.

A term is a word without case, accents and the commonest English endings. Scripts that put no blanks between words give
pairs of neighbouring characters instead, the usual stand-in where there is no dictionary.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

# Chinese, Japanese, Korean, Thai, Lao, Burmese, Khmer: no blanks, or blanks that do not part what one would search for.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNSPACED += "\U00020000-\U0003ffff"
# Vowel signs and points that Python does not count as word characters though they stand inside words.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_TOKEN = re.compile(f"(?P<unspaced>[{_UNSPACED}]+)|(?:[^\\W{_UNSPACED}]|[{_MARKS}])+")
UNSPACED = re.compile(f"[{_UNSPACED}]")
_ACCENTS = re.compile("[\u0300-\u036f]")

_SHORTEST_STEM = 3  # characters an ending must leave: "used" stays, "bordered" becomes "border"
_SHORTEST_ION = 7  # "location" is "locat" as "located" is; "nation" is left alone
_LONGEST_STEM = 8  # so that "independent" and "independence" are one; shorter, and words that are not akin meet


def words(text: str) -> list[str]:
    """The words of a text as they are spelt; a run in a script without blanks is one word."""
    return [found[0] for found in _TOKEN.finditer(text)]


def terms(text: str) -> list[str]:
    """The terms of a text, in order, repeated as often as they occur."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    folded = unicodedata.normalize("NFC", _ACCENTS.sub("", folded))
    found: list[str] = []
    for token in _TOKEN.finditer(folded):
        if token["unspaced"]:
            found += _bigrams(token[0])
        else:
            found.append(_stem(token[0]))
    return found


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _stem(word: str) -> str:
    if not word.isascii() or not word.isalpha():
        return word
    for ending, instead in (("ies", "y"), ("ing", ""), ("ed", ""), ("s", "")):
        stem = word.removesuffix(ending) + instead
        if word.endswith(ending) and not word.endswith("ss") and len(stem) >= _SHORTEST_STEM:
            doubled = ending in ("ing", "ed") and stem[-1] == stem[-2] and stem[-1] not in "lsz"
            word = stem[:-1] if doubled else stem  # "planning" is "plan", "falling" is "fall"
            break
    if word.endswith(("tion", "sion")) and len(word) >= _SHORTEST_ION:
        word = word[:-3]
    if word.endswith("e") and len(word) > _SHORTEST_STEM:
        word = word[:-1]
    return word[:_LONGEST_STEM]


class Bm25:
    """A collection of texts, as far as BM25 has to know it: how many, how long, and in how many of them a term stands.

    Args:
      k1: how slowly the weight of a repeated term levels off; 1.2 is the customary value.
      b: how far long texts are marked down, from 0 (not) to 1 (in full).
    """

    def __init__(self, k1: float = 1.2, b: float = 0.75) -> None:
        self._k1 = k1
        self._b = b
        self._texts = 0
        self._length = 0
        self._frequency: Counter[str] = Counter()

    def add(self, document: Mapping[str, int]) -> None:
        """Takes in a text, given as the number of times each of its terms occurs."""
        self._texts += 1
        self._length += sum(document.values())
        self._frequency.update(document.keys())

    def idf(self, term: str) -> float:
        """How much it says that a text holds the term; more than 0, and most for a term of no text so far."""
        holding = self._frequency[term]
        return math.log(1 + (self._texts - holding + 0.5) / (holding + 0.5))

    def weight(self, count: float, length: int) -> float:
        """What `count` occurrences of a term are worth in a text of `length` terms; less than k1 + 1."""
        if count <= 0:
            return 0.0
        average = self._length / self._texts if self._length else 1.0
        return count * (self._k1 + 1) / (count + self._k1 * (1 - self._b + self._b * length / average))

    def score(self, query: Iterable[str], document: Mapping[str, int]) -> float:
        """The BM25 score of a text for a query; each term of the query counts once."""
        length = sum(document.values())
        # Sorted, so that the sum is rounded alike in every run.
        return sum(self.idf(term) * self.weight(document.get(term, 0), length) for term in sorted(set(query)))
