"""What a search index is asked for: the terms of a query, and an excerpt of a page around them.

Two things make a query more than its words. Questions are mostly words that say nothing about their subject ("what is
the …"), so stop words are left out where something else remains. And scripts that write no blanks between words
(Chinese, Japanese, Thai …) have no words that a tokenizer could see: a run of such characters is indexed as its pairs
of neighbouring characters, which finds a word of any length inside a run, and needs no dictionary.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from webgpt_jax.env.text import clean

MAX_QUERY_CHARS = 2_000  # of a longer query, only the beginning is looked for
MAX_TERMS = 64
PHRASE_CHARS = 4  # a run without blanks up to this length is one word; a longer one is looked for pair by pair

_ENGLISH = """
a about all also am an and any are as at be been being but by can could did do does doing for from get had has have
having he her hers him his how hows i if in into is isnt it its just lots many me more most much must my no not of on
one or other our out over please shall she should so some such tell than that thats the their them then there theres
these they this those to too was we were what whats when whens where wheres whether which while who whom whos whose why
whys will with would you your
"""
STOP_WORDS = frozenset(_ENGLISH.split())

# Han, kana, bopomofo, Hangul, Thai, Lao, Myanmar, Khmer.
_UNSPACED = (
    "々-〇〡-〩぀-ヿ㄀-ㄯㄱ-ㆎㇰ-ㇿ㐀-䶿一-鿿가-힯豈-\ufaff"
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u2e80-\u2fdf\U00020000-\U0003ffff"
)
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}\uff66-\uff9f]")  # half-width kana too, which NFKC turns into kana
_PIECE = re.compile(f"([{_UNSPACED}]+)|[^{_UNSPACED}]+")
_MIXED_WORD = re.compile(rf"\w*[{_UNSPACED}][\w{_UNSPACED}]*")
_NOT_WORD = re.compile(r"\W+")
_BETWEEN_WORDS = re.compile(r"""[\s:;/\\|()\[\]{}<>«»"“”*^!?=]+""")  # not . - ' , which also join: "U.S.", "1,400"
_POSSESSIVE = re.compile(r"['’]s\Z", re.IGNORECASE)

_EXCERPT_PLACES = 2_000  # occurrences of the terms that are weighed for an excerpt; a page may hold far more

_EXCERPT_TERM = 40  # characters of a term that are looked for: long ones could be made to take seconds


@dataclass(frozen=True)
class Term:
    """One thing to look for. `text` is how it stands in a page; `unspaced` says that it is from a script without
    blanks, and is to be looked for among the pairs of characters."""

    text: str
    unspaced: bool = False


def pairs(run: str) -> list[str]:
    """The neighbouring pairs of characters of a run, and last its last character: a single character is then the
    beginning of some pair wherever it stands."""
    return [run[at : at + 2] for at in range(len(run))]


def unspaced_words(text: str) -> str:
    """What an index holds beside a text in a script without blanks: the pairs of its runs, and the words of other
    scripts that touch them ("iPhone用"), separated by blanks. Empty for other texts."""
    if text.isascii() or _HAS_UNSPACED.search(text) is None:
        return ""
    words: list[str] = []
    for mixed in _MIXED_WORD.finditer(unicodedata.normalize("NFKC", text)):
        for piece in _PIECE.finditer(mixed[0]):
            words += pairs(piece[0]) if piece[1] else [piece[0]]
    return " ".join(words)


def terms_of(query: str) -> list[Term]:
    """The distinct terms of a query in its order, without stop words where anything else is left.

    At most `MAX_TERMS`, from the first `MAX_QUERY_CHARS` characters.
    """
    terms: dict[Term, None] = {}
    stop_words: dict[Term, None] = {}
    text = clean(query[:MAX_QUERY_CHARS])
    if _HAS_UNSPACED.search(text):
        text = unicodedata.normalize("NFKC", text)
    for word in _BETWEEN_WORDS.split(text):
        for piece in _PIECE.finditer(word):
            if piece[1]:
                run = piece[1]
                parts = [run] if len(run) <= PHRASE_CHARS else pairs(run)[:-1]
                terms.update(dict.fromkeys(Term(part, unspaced=True) for part in parts))
            elif any(character.isalnum() for character in piece[0]):
                spelling = _NOT_WORD.sub("", piece[0])
                # "WHO" and "IT" are names, unless the whole query is in capitals.
                is_name = len(spelling) > 1 and spelling.isupper() and not text.isupper()
                is_stop_word = spelling.casefold() in STOP_WORDS and not is_name
                term = Term(_POSSESSIVE.sub("", piece[0].strip("‘’'.,")).casefold())
                (stop_words if is_stop_word else terms)[term] = None
    return list(terms or stop_words)[:MAX_TERMS]


def excerpt(text: str, terms: Sequence[Term], length: int = 300) -> str:
    """About `length` characters of a text, on one line, where the most different terms stand close together; the
    beginning of the text where none does."""
    wanted = [re.escape(term.text[:_EXCERPT_TERM]) for term in terms if term.text]
    places = []
    if wanted:
        pattern = re.compile("|".join(sorted(wanted, key=len, reverse=True)), re.IGNORECASE)
        for found in pattern.finditer(text):
            places.append((found.start(), found[0].casefold()))
            if len(places) == _EXCERPT_PLACES:
                break
    best, most = 0, 0
    for at, (start, _) in enumerate(places):
        inside = {word for place, word in places[at : at + 50] if place < start + length * 2 // 3}
        if len(inside) > most:
            best, most = start, len(inside)
    begin = max(0, best - length // 4)
    if begin:  # at a blank, where one is near
        begin = text.find(" ", begin, best) + 1 or begin
    end = min(len(text), begin + length)
    if end < len(text):
        end = max(text.rfind(" ", begin + length * 3 // 4, end), 0) or end
    line = " ".join(text[begin:end].split())
    return f"{'… ' if begin else ''}{line}{' …' if end < len(text) else ''}"
