"""Pages taken apart into passages that can be quoted.

A passage is a sentence, a line, or two neighbours of one paragraph. It knows what names it: the page's title, the
heading above it, a label such as `Capital:` in front of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from webgpt_jax.baselines.bm25 import terms
from webgpt_jax.env.page import LINK_MARKER

MAX_PASSAGE_CHARS = 400  # longer sentences are cut: ten such quotes fit the references of an episode
MAX_HEADING_CHARS = 80
MAX_HEADING_WORDS = 8
MAX_LABEL_CHARS = 60
LEAST_WRAPPED_CHARS = 30  # a shorter line is not wrapped prose

_STOP = re.compile(r"(?<![.!?])[.!?]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\Wa-z_])|[。！？]+[」』”’）]*\s*")
_ABBREVIATION = re.compile(
    r"(?<!\w)(?:[^\W\d_]|Mr|Mrs|Ms|Dr|St|Mt|No|vs|est|approx|ca|Jr|Sr|Gen|(?:[A-Za-z]\.)+[A-Za-z])\.\Z"
)
_ABBREVIATION_CHARS = 12  # the longest of them, and what is before it
_CLAUSE_ENDS = ("; ", "；", ", ", "，", "、", " ")  # where a long sentence is cut, the best first
_LABEL = re.compile(rf"([^:.!?|\n]{{1,{MAX_LABEL_CHARS}}}?)(?::\s|\s\|\s)")  # or the first cell of a table's row
_MARK = re.compile(r"(#{1,6}|[*•-]) +")  # of a heading or an item of a list, as pages are written
GAP = "\f"  # a line that stands for one taken out; pages hold no form feeds
_NOTE = re.compile(r"notes?:", re.IGNORECASE)
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|had)\b", re.IGNORECASE)  # a line with one of these is a statement
_STOPS = (".", "!", "?", ";", "。", "！", "？")


@dataclass(frozen=True)
class ShownLink:
    """A link as a window of a page shows it."""

    id: int
    text: str
    domain: str  # empty where it is the page's own


def without_link_lines(text: str) -> str:
    """The text of a window without the lines that are nothing but a link: they lead to facts, they hold none.

    What stood before and after one is no longer taken for neighbours, since a quote of both would miss the link's text.
    """
    lines = text.split("\n")
    return "\n".join(GAP if LINK_MARKER.fullmatch(line.strip(" *-•|")) else line for line in lines)


def split_at_links(text: str) -> Iterator[tuple[ShownLink, str]]:
    """The links of a window, each with the plain text between it and the next one."""
    found = list(LINK_MARKER.finditer(text))
    ends = [*(link.start() for link in found[1:]), len(text)]
    for link, end in zip(found, ends, strict=False):  # without a link there is still an end
        yield ShownLink(int(link[1]), link[2], link[3] or ""), text[link.end() : end].strip()


@dataclass(frozen=True)
class Passage:
    """A piece of a page, as it stands there, and what names it."""

    text: str
    title: str
    heading: str  # the line above it that names it; empty where there is none
    label: str  # what stands before the first colon of its line; empty where there is none

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(terms(self.text))

    @cached_property
    def title_terms(self) -> frozenset[str]:
        return frozenset(terms(self.title))

    def likeness(self, other: Passage) -> float:
        """How many of the terms of the two are common to both, from 0 to 1."""
        mine, theirs = self.counts.keys(), other.counts.keys()
        return len(mine & theirs) / max(1, len(mine | theirs))


def split_passages(text: str, title: str, *, pairs: bool = True) -> Iterator[Passage]:
    """The passages of a text without link markup, in the order in which they stand there.

    With `pairs`, two neighbouring sentences, and a heading with the sentence under it, are passages as well.
    """
    heading = ""
    fresh = False  # whether the line before is the heading
    for line in _lines(text):
        mark = _MARK.match(line)
        plain = line[mark.end() :] if mark else line
        if line == GAP or not plain:
            fresh = False
        elif line.startswith("#") or (not mark and _is_heading(plain)):
            yield Passage(plain, title, heading, "")  # it may be a table's row
            heading, fresh = plain, True
        else:
            found = _LABEL.match(plain)
            label = found[1] if found else ""
            spans = list(_sentences(plain))
            for at, (start, end) in enumerate(spans):
                yield Passage(plain[start:end], title, heading, label)
                next_end = spans[at + 1][1] if at + 1 < len(spans) else None
                if pairs and next_end is not None and next_end - start <= MAX_PASSAGE_CHARS:
                    yield Passage(plain[start:next_end], title, heading, label)
            if pairs and fresh and spans and not mark:  # what marks an item stands between it and the heading
                yield Passage(f"{heading}\n{plain[slice(*spans[0])]}", title, "", heading)
            fresh = False


def _lines(text: str) -> Iterator[str]:
    """The lines of a text. Hard-wrapped prose is put together again, and a note is put to the line it is a note on;
    quoting ignores white space."""
    whole, blank = "", True  # the line so far; whether it is over for certain
    for line in (part if part == GAP else part.strip() for part in text.split("\n")):
        if not line:
            blank = True
        elif line == GAP:
            yield from filter(None, (whole, GAP))
            whole, blank = "", True
        elif whole and ((not blank and _is_wrapped(whole, line)) or _is_note_on(whole, line)):
            whole += f" {line}"
        else:
            if whole:
                yield whole
            whole, blank = line, False
    if whole:
        yield whole


def _is_wrapped(line: str, following: str) -> bool:
    whole = len(line) >= LEAST_WRAPPED_CHARS and not line.endswith(_STOPS)
    return whole and following[0].islower() and not _LABEL.match(following)


def _is_note_on(line: str, following: str) -> bool:
    return len(line) + len(following) < MAX_PASSAGE_CHARS and _NOTE.match(following) is not None


def _is_heading(line: str) -> bool:
    if len(line) > MAX_HEADING_CHARS or line.endswith((*_STOPS, ",")) or _LABEL.match(line):
        return False
    return len(line.split()) <= MAX_HEADING_WORDS and not _VERB.search(line)


def _sentences(line: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a line start and end; those that are too long to quote are cut."""
    start = 0
    for stop in _STOP.finditer(line):
        end = stop.start() + len(stop[0].rstrip())
        if not _ABBREVIATION.search(line, max(start, end - _ABBREVIATION_CHARS), end):
            yield from _clauses(line, start, end)
            start = stop.end()
    yield from _clauses(line, start, len(line))


def _clauses(line: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_PASSAGE_CHARS:
        limit = start + MAX_PASSAGE_CHARS
        cuts = (line.rfind(mark, start + MAX_PASSAGE_CHARS // 2, limit) + len(mark) for mark in _CLAUSE_ENDS)
        cut = next((cut for cut, mark in zip(cuts, _CLAUSE_ENDS, strict=True) if cut >= start + len(mark)), limit)
        yield start, cut
        start = cut
    if start < end:
        yield start, end
