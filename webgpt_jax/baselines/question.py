"""What a question asks for: its content words, the names among them, and the queries worth trying.

No grammar and no model: stop words, capitals, and a short list of everyday words for what reference pages call by
another name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from webgpt_jax.baselines.bm25 import UNSPACED, terms, words
from webgpt_jax.env import clean_line

MAX_QUERY_WORDS = 8  # search engines answer short queries best; long questions are cut to this many content words
FEWER_WORDS = 3  # what the second query keeps
RAREST_WORDS = 2  # what the third query keeps
MAX_QUERY_CHARS = 120  # of a query that is the question itself, or a run of a script without blanks

_STOP_WORDS = """
a about above after again against all also am an and any are aren arent as at be because been before being below
between both but by can cant could couldn couldnt did didn didnt do does doesn doesnt doing don dont down during each
ever every few for from further get give had hadn has hasn hasnt have haven havent having he her here hers him his how
hows i if in into is isn isnt it its itself just kind let like ll made make many may me might mine more most much must
mustnt my no nor not now of off on once one only or other our out over own please re really s same shall shant she
should shouldn shouldnt so some such t tell than that the their them then there these they thing things this those
through to too under until up us use used ve very was wasn wasnt we were weren werent what whats when whens where
wheres which while who whom whos whose why whys will with wont would wouldn wouldnt you your
eli5 explain describe fact check main called currently become became happen happened say said says
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
# Chinese particles and question words, at which a run without blanks is parted.
_PARTICLES = re.compile(
    "为什么|為什麼|是什么|是什麼|什么|什麼|哪里|哪裡|哪个|哪些|怎么|怎麼|如何|多少|几个|[的是在了吗嗎呢有和与與吧谁誰]"
)
_HIRAGANA = re.compile("[\u3040-\u309f]+")  # mostly endings and particles; nouns are written in other characters

# Everyday words of questions, and the words that reference pages have for the same (as terms, see `bm25.terms`).
_SAME = {
    "inhabitants": "population",
    "populous": "population",
    "bigger": "area",
    "size": "area",
    "border": "boundary",
    "neighbor": "border boundary",
    "neighbour": "border boundary",
    "speak": "language",
    "spoken": "language",
    "president": "chief",
    "leader": "chief president",
    "ruler": "chief",
    "king": "chief monarch",
    "queen": "chief monarch",
    "money": "currency",
    "currency": "exchange",
    "weather": "climate",
    "mountain": "peak elevation",
    "height": "elevation peak",
    "rich": "gdp income",
    "poor": "poverty",
    "economy": "economic gdp",
    "army": "military",
    "believe": "religion",
    "domain": "code",
    "sell": "export",
    "buy": "import",
    "die": "death",
    "born": "birth",
    "nation": "country",
    "jobless": "unemployment",
}
# Ways to ask, and what they ask for.
_ASKING = (
    (re.compile(r"\bhow many people(?: live| are there)?\b", re.IGNORECASE), "population"),
    (re.compile(r"\bhow long do people live\b", re.IGNORECASE), "life expectancy"),
    (re.compile(r"\bhow (?:big|large)\b", re.IGNORECASE), "area"),
    (re.compile(r"\bhow (?:tall|high)\b", re.IGNORECASE), "height"),
    (re.compile(r"\bhow old\b", re.IGNORECASE), "age"),
    (re.compile(r"\b(?:in|of) the (?:whole |entire )?world\b", re.IGNORECASE), ""),
)
_ALIASES = {terms(word)[0]: tuple(terms(others)) for word, others in _SAME.items()}

_FACT_CHECK = re.compile(r"Fact-check[^\n]*\n+Question:(?P<question>.*?)(?:\nAnswer:.*)?", re.DOTALL)
_OPTION = re.compile(r"^[A-E1-5][.)] .*$", re.MULTILINE)  # the options of a multiple-choice question
_NEGATION = re.compile(r"(?<=\w)['’]t\b")  # "don't" is the stop word "dont"
_POSSESSIVE = re.compile(r"(?<=\w)['’](?:s|re|ve|ll|d|m)\b")
_SENTENCE_START = re.compile(r"(?:\A|[.!?:\n])\W*\Z")  # looked for in so many characters before a word:
_NEAR = 8
_FEW_WORDS = 2  # a question this short may well start with its name: "Mongolia capital?"


@dataclass(frozen=True)
class ContentWord:
    """A word the question is about: how it is spelt, its terms (several only in scripts without blanks)."""

    text: str
    terms: tuple[str, ...]
    is_name: bool


@dataclass(frozen=True)
class Question:
    """A question taken apart. `text` is all of it, as far as it is known."""

    text: str

    @cached_property
    def asks(self) -> bool:
        """Whether there is a single word in it."""
        return bool(terms(self.text))

    @cached_property
    def focus(self) -> str:
        """The part that says what to look for: of a fact-check its question, of a long post its first paragraph."""
        fact_check = _FACT_CHECK.fullmatch(self.text.strip())
        text = (fact_check["question"] if fact_check else self.text).strip()
        first = _OPTION.sub("", text).strip().split("\n\n")[0]
        return first if _content_words(first) else text

    @cached_property
    def _found(self) -> list[ContentWord]:
        return _content_words(self.focus)

    @cached_property
    def content_words(self) -> tuple[ContentWord, ...]:
        """The content words of the focus in their order, each once, no more than a query takes. Names go first where
        some have to go; if all are stop words, all words are content words."""
        found = self._found or _as_content(words(self.focus))
        kept = sorted(found, key=lambda word: not word.is_name)[:MAX_QUERY_WORDS]
        return tuple(word for word in found if word in kept)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The terms passages are measured by, each once."""
        return tuple(dict.fromkeys(term for word in self.content_words for term in word.terms))

    @cached_property
    def names(self) -> frozenset[str]:
        """Those of the terms that belong to names."""
        return frozenset(term for word in self.content_words if word.is_name for term in word.terms)

    def variants(self, term: str) -> tuple[str, ...]:
        """The term and what may stand for it on a reference page."""
        return (term, *_ALIASES.get(term, ()))

    def query(self, attempt: int, rarity: Callable[[str], float]) -> str | None:
        """The query of an attempt, counted from 0; None when there are no other words to try.

        All content words, then fewer, then the rarest, then one alone; the question itself where there are none.
        `rarity` rates a term by what has been seen.
        """
        if not self._found:
            return _shortened(self.focus) if attempt == 0 else None
        queries: dict[str, None] = {}
        for wanted in (self.content_words, self._fewer(), self._rarest(rarity, RAREST_WORDS), self._rarest(rarity, 1)):
            chosen = " ".join(word.text for word in self.content_words if word in wanted)
            queries[_shortened(chosen)] = None
        return list(queries)[attempt] if attempt < len(queries) else None

    def _fewer(self) -> list[ContentWord]:
        # Names are what must not go; of the rest, long words say more than short ones.
        return sorted(self.content_words, key=lambda word: (not word.is_name, -len(word.text)))[:FEWER_WORDS]

    def _rarest(self, rarity: Callable[[str], float], count: int) -> list[ContentWord]:
        return sorted(self.content_words, key=lambda word: (-max(map(rarity, word.terms)), not word.is_name))[:count]


def _shortened(query: str) -> str:
    query = clean_line(query)
    if len(query) <= MAX_QUERY_CHARS:
        return query
    cut = query[:MAX_QUERY_CHARS]
    return cut.rpartition(" ")[0] or cut


def _as_content(found: list[str], names: frozenset[str] = frozenset()) -> list[ContentWord]:
    by_term: dict[tuple[str, ...], ContentWord] = {}
    for text in found:
        key = tuple(dict.fromkeys(terms(text)))
        if key:
            by_term.setdefault(key, ContentWord(text, key, text in names))
    return list(by_term.values())


def _content_words(text: str) -> list[ContentWord]:
    for asking, asked in _ASKING:
        text = asking.sub(asked, text)
    text = _POSSESSIVE.sub("", _NEGATION.sub("t", text))
    found = [part for word in words(text) for part in _parted(word)]
    content = [word for word in found if word.casefold() not in STOP_WORDS]
    return _as_content(content, _names(text, content))


def _parted(word: str) -> list[str]:
    """A run in a script without blanks, parted at particles; any other word as it is."""
    if not UNSPACED.search(word):
        return [word]
    pieces = [piece for part in _PARTICLES.split(word) for piece in _HIRAGANA.split(part) if piece]
    return pieces or [word]


def _names(text: str, content: list[str]) -> frozenset[str]:
    """Numbers, and words with a capital that is not just a sentence's first letter. A headline is all names, which does
    no harm: nothing is set apart then."""
    names = set()
    for word in content:
        at = text.find(word)
        starts_sentence = _SENTENCE_START.search(text[max(0, at - _NEAR) : at]) is not None
        if word[0].isdigit() or (word[0].isupper() and (not starts_sentence or len(content) <= _FEW_WORDS)):
            names.add(word)
    return frozenset(names)
