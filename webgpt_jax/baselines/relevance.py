"""How well passages answer a question and which of them to choose; and which search results to open.

What names a passage counts for it: a line of a reference page that does not repeat the country still answers a question
about the country whose page it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil

from webgpt_jax.baselines.bm25 import Bm25, terms, words
from webgpt_jax.baselines.passages import Passage, ShownLink
from webgpt_jax.baselines.question import STOP_WORDS, Question

LEAST_TERMS = 2  # a single word is no statement
LEAST_TERMS_OF_STATEMENT = 8  # where the title says what was asked for, headings are no answer
SHORT_TERMS = 12  # below this the length says nothing: of the lines of a table the first wins, not the shortest
ALIAS_WORTH = 0.7  # of a word that may stand for the question's own
LABEL_BONUS = 2.0  # how many occurrences in the text a term in a fitting label counts for
NAME_IN_TITLE = 2.0  # the page is about what the question names, it does not just mention it
REPEATS = 0.6  # texts that share more of their terms than this say the same
DIVERSITY = 0.5  # how far likeness to what is chosen already marks a passage down (MMR's 1 - lambda)
TITLE_WEIGHT = 3  # a word in a result's title counts as this many in its snippet
RANK_DAMPING = 2  # of reciprocal rank fusion: small, since result lists are short and their heads matter

_PLAIN_WORDS = STOP_WORDS | {"name", "total", "note"}  # they add nothing to a label: "Population - total"
QUESTION_MARKS = ("?", "？")


class Relevance:
    """Rates passages against one question.

    Args:
      question: what is asked.
      seen: the texts seen so far, which say how rare a term is; it may grow.
    """

    def __init__(self, question: Question, seen: Bm25) -> None:
        self._seen = seen
        self._names = question.names
        self._variants = {term: frozenset(question.variants(term)) for term in question.terms}
        self._asked = frozenset[str]().union(*self._variants.values())

    def score(self, passage: Passage) -> float:
        """BM25 of the passage. Terms of what names it count as if they stood in it once, names in the title twice, and
        terms of a label more, the better the label fits."""
        length = max(passage.counts.total(), SHORT_TERMS)
        leaves_open = bool(self._absent_from(passage.title_terms))
        bonus = LABEL_BONUS * self.label_fit(passage)
        labels = _content(passage.label) | _content(passage.heading)
        naming = self._naming(passage)
        total = 0.0
        for term, variants in self._variants.items():
            best = 0.0
            for variant in variants:
                # Where the title is all that was asked for, repeating it says nothing: the first passage wins.
                count = float(passage.counts[variant]) if leaves_open else min(1.0, passage.counts[variant])
                if variant in naming:
                    count = max(1.0, count)
                if variant in self._names & passage.title_terms:
                    count = max(NAME_IN_TITLE, count)
                if variant in labels:
                    count += bonus
                worth = 1.0 if variant == term else ALIAS_WORTH
                best = max(best, worth * self._seen.idf(variant) * self._seen.weight(count, length))
            total += best
        return total

    def label_fit(self, passage: Passage) -> float:
        """How much of the label it starts with, of the first part of that ("Literacy - total population"), or else of
        its heading, the question asks for, from 0 to 1. Names that are in the page's title anyway do not count: of the
        page about Mongolia, "Economy of Mongolia" is no nearer to a question about Mongolia."""
        label = passage.label if passage.text.startswith(passage.label) else ""
        return max(self._share_asked(name, passage) for name in (label, label.split(" - ")[0], passage.heading))

    def missing(self, passage: Passage) -> frozenset[str]:
        """The question's terms that neither the passage nor what names it holds."""
        return self._absent_from(passage.counts.keys() | self._naming(passage))

    def _naming(self, passage: Passage) -> frozenset[str]:
        """The terms of what names a passage: title, label, and a heading that names nothing but what is asked."""
        heading = _content(passage.heading) if self._share_asked(passage.heading, passage) >= 1 else frozenset()
        return passage.title_terms | _content(passage.label) | heading

    def _share_asked(self, name: str, passage: Passage) -> float:
        content = _content(name) - (self._names & passage.title_terms)
        return len(content & self._asked) / len(content) if content else 0.0

    def says_something(self, passage: Passage) -> bool:
        """Whether it has words of its own, is no question, and bears on what is asked: by a term that its page's title
        leaves open or, where the title has at least half of the terms, as a sentence about any of them."""
        held = passage.counts.keys()
        if held <= self._asked | self._naming(passage) or passage.text.endswith(QUESTION_MARKS):
            return False
        open_terms = self._absent_from(passage.title_terms)
        if self.missing(passage) < open_terms:
            return passage.counts.total() >= LEAST_TERMS
        on_topic = 2 * len(open_terms) <= len(self._variants) and not held.isdisjoint(self._asked)
        return on_topic and passage.counts.total() >= LEAST_TERMS_OF_STATEMENT

    def fits(self, passage: Passage) -> bool:
        """Whether it is likely to answer. It has at least half of the names, and either enough of what its page's title
        leaves open (half, two terms at the least; one where its label is what is asked) or, by itself, more than half
        of all terms and more than one."""
        open_terms, missing = self._absent_from(passage.title_terms), self.missing(passage)
        if 2 * len(self._names & missing) > len(self._names) or not self.says_something(passage):
            return False
        needed = 1 if self.label_fit(passage) >= 1 else max(2, ceil(len(open_terms) / 2))
        alone = 2 * self._own(passage) > len(self._variants) > 1
        return alone or len(open_terms - missing) >= min(len(open_terms), needed)

    def answers(self, passage: Passage) -> bool:
        """Whether nothing better is to be looked for: it fits, nothing is missing, and its label is what is asked or it
        says all of it in few words."""
        if self.missing(passage) or not self.fits(passage):
            return False
        says_all = self._own(passage) == len(self._variants) > 1 and passage.counts.total() <= SHORT_TERMS
        return says_all or self.label_fit(passage) >= 1

    def _own(self, passage: Passage) -> int:
        """How many of the question's terms the passage holds by itself."""
        return len(self._variants) - len(self._absent_from(passage.counts.keys()))

    def prefers(self, passage: Passage, other: Passage) -> bool:
        """Whether a passage is the better last resort: it has more of the names or, with as many, scores higher."""
        lacks, other_lacks = (len(self._names & self.missing(each)) for each in (passage, other))
        return lacks < other_lacks or (lacks == other_lacks and self.score(passage) > self.score(other))

    def choose(self, passages: Iterable[Passage], count: int, beside: Sequence[Passage] = ()) -> list[Passage]:
        """The best passages, at most `count`, best first, that do not repeat those chosen already, `beside` included
        (maximal marginal relevance). Of equals the one that comes first."""
        scores = {passage: self.score(passage) for passage in passages}
        chosen: list[Passage] = []
        while len(chosen) < count:
            taken = (*beside, *chosen)
            scores = {passage: score for passage, score in scores.items() if not _repeats(passage, taken)}
            best = max(
                scores, key=lambda passage: scores[passage] * (1 - DIVERSITY * _likeness(passage, taken)), default=None
            )
            if best is None or scores[best] <= 0:
                break
            chosen.append(best)
        return chosen

    def _absent_from(self, held: Iterable[str]) -> frozenset[str]:
        held = frozenset(held)
        return frozenset(term for term, variants in self._variants.items() if held.isdisjoint(variants))


@lru_cache(maxsize=4096)
def _content(name: str) -> frozenset[str]:
    """The terms of a label or heading that tell it from others."""
    content = (word for word in words(name) if word.casefold() not in _PLAIN_WORDS and not word.isdecimal())
    return frozenset(term for word in content for term in terms(word))


def rank_results(found: Mapping[ShownLink, str], question: Question, seen: Bm25) -> list[ShownLink]:
    """Search results, given with their snippets in the engine's order, by how much they promise.

    A title that holds the question's names goes first; then the engine's order and the words of title and snippet count
    alike (reciprocal rank fusion: Cormack, Clarke and Büttcher, 2009).
    """

    def by_words(link: ShownLink) -> float:
        counts = Counter(terms(found[link]))
        for term in terms(link.text):
            counts[term] += TITLE_WEIGHT
        return -seen.score(question.terms, counts)

    rankings = list(found), sorted(found, key=by_words)

    def promise(link: ShownLink) -> tuple[int, float]:
        names = len(question.names.intersection(terms(link.text)))
        return -names, -sum(1 / (RANK_DAMPING + ranking.index(link)) for ranking in rankings)

    return sorted(found, key=promise)


def _likeness(passage: Passage, others: Iterable[Passage]) -> float:
    return max((passage.likeness(other) for other in others), default=0.0)


def _repeats(passage: Passage, others: Iterable[Passage]) -> bool:
    return any(
        passage.text in other.text or other.text in passage.text or passage.likeness(other) > REPEATS
        for other in others
    )
