"""How fast the local search index is: building it, and asking it.

    python experiments/web_bench/index.py

Takes about ten seconds on one core. Holds when 100,000 small documents are indexed at 5,000/s or more, and 95% of 500
queries of one to eight words take less than 100 ms.

The documents are made of words whose frequencies follow Zipf's law, as those of natural texts do; so do the queries'
words, which is harder than what people ask: many of them hold the commonest words of all.
"""

from __future__ import annotations

import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from webgpt_jax.web.index import Document, SearchIndex, build_index

DOCUMENTS = 100_000
WORDS_A_TITLE, WORDS_A_TEXT = 4, 80
VOCABULARY = 50_000
QUERIES = 500
LEAST_DOCUMENTS_A_SECOND = 5_000
MOST_SECONDS_P95 = 0.1


class ZipfText:
    """Texts of made-up words; the word of rank r is 1/r as frequent as the commonest."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in "aeiou"]
        spellings = itertools.chain.from_iterable(itertools.product(syllables, repeat=count) for count in (1, 2, 3))
        self._words = ["".join(spelling) for spelling in itertools.islice(spellings, VOCABULARY)]
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))

    def words(self, count: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    def documents(self, count: int) -> Iterator[Document]:
        for number in range(count):
            yield Document(f"{number}.txt", self.words(WORDS_A_TITLE), self.words(WORDS_A_TEXT))

    def queries(self, count: int) -> list[str]:
        return [self.words(self._random.randint(1, 8)) for _ in range(count)]


def main() -> bool:
    """Measures and prints; returns whether the figures hold."""
    text = ZipfText(seed=0)
    documents = list(text.documents(DOCUMENTS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.sqlite"
        start = time.perf_counter()
        build_index(path, documents)
        a_second = DOCUMENTS / (time.perf_counter() - start)
        index = SearchIndex(path)
        seconds = []
        empty = 0
        for query in text.queries(QUERIES):
            start = time.perf_counter()
            hits = index.search(query)
            seconds.append(time.perf_counter() - start)
            empty += not hits
        index.close()
        size = path.stat().st_size / 1e6
    median = statistics.median(seconds)
    p95 = statistics.quantiles(seconds, n=20)[-1]
    holds = a_second >= LEAST_DOCUMENTS_A_SECOND and p95 < MOST_SECONDS_P95 and not empty
    print(
        f"indexed {DOCUMENTS:,} documents at {a_second:,.0f}/s ({size:.0f} MB); at least {LEAST_DOCUMENTS_A_SECOND:,}/s"
    )
    print(
        f"{QUERIES} queries: median {median * 1e3:.1f} ms, p95 {p95 * 1e3:.1f} ms, longest {max(seconds) * 1e3:.1f} ms,"
        f" {empty} without a hit; p95 below {MOST_SECONDS_P95 * 1e3:.0f} ms"
    )
    print("holds" if holds else "DOES NOT HOLD")
    return holds


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
