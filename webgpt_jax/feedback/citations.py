"""Which sentence of an answer cites which quotes."""

from __future__ import annotations

import re
from dataclasses import dataclass

CITATION = re.compile(r"\[([0-9]{1,6}(?: ?[,;] ?[0-9]{1,6})*)\]")  # [1], and [1, 2] as models write it too
NUMBER = re.compile(r"[0-9]+")

# Possessive throughout: an answer of nothing but full stops must not take quadratic time.
_CITATIONS = rf"(?:\s*+{CITATION.pattern})*+"
# Citations behind the full stop belong to the sentence before it. A blank and a small letter end no sentence.
_STOP = re.compile(
    rf"(?<![.!?…])[.!?…]++[\"'”’)\]]*+{_CITATIONS}(?:\s++(?=[^a-z])|\s*\Z)|[。！？]++[」』”’）]*+{_CITATIONS}\s*+"
)
_ABBREVIATION = re.compile(r"(?<!\w)(?:[^\W\d_]|Mr|Mrs|Ms|Dr|St|Mt|No|vs|cf|approx|ca|Jr|Sr)\.\Z")
_ABBREVIATION_CHARS = 10  # the longest of them, and what is before it
_QUOTED = re.compile(r"“[^“”]*+”")
_INNER_STOP = re.compile(r"[.!?…。！？]++(?!”)")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Sentence:
    """A sentence of an answer with the blanks after it, and the numbers it cites, each once, in its order."""

    text: str
    cites: tuple[int, ...]

    @property
    def says_something(self) -> bool:
        """Whether it has a letter; the number of a list's item has none."""
        return _LETTER.search(self.text) is not None


def split_sentences(line: str) -> list[Sentence]:
    """The sentences of one line of an answer; put together they are the line. What stands in “ ” is not taken apart."""
    seen = _QUOTED.sub(lambda quoted: _INNER_STOP.sub(lambda stop: "_" * len(stop[0]), quoted[0]), line)
    sentences, begin = [], 0
    for stop in _STOP.finditer(seen):
        before = seen[max(begin, stop.start() - _ABBREVIATION_CHARS) : stop.start() + 1]
        if stop[0].rstrip() == "." and stop.end() < len(line) and _ABBREVIATION.search(before):
            continue
        sentences.append(_sentence(line[begin : stop.end()]))
        begin = stop.end()
    return [*sentences, _sentence(line[begin:])] if begin < len(line) else sentences


def cited_numbers(text: str) -> tuple[int, ...]:
    """The numbers that a text cites, each once, in its order."""
    numbers = (int(number) for found in CITATION.finditer(text) for number in NUMBER.findall(found[1]))
    return tuple(dict.fromkeys(numbers))


def _sentence(text: str) -> Sentence:
    return Sentence(text, cited_numbers(text))
