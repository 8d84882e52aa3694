"""What a scripted episode has seen: result lists and pages, put together from the windows they were shown in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from webgpt_jax.baselines.bm25 import UNSPACED
from webgpt_jax.baselines.passages import (
    GAP,
    Passage,
    ShownLink,
    split_at_links,
    split_passages,
    without_link_lines,
)
from webgpt_jax.env.observation import ParsedObservation
from webgpt_jax.env.page import ERROR_TITLE, strip_markers

_ERROR_TITLE = f"{ERROR_TITLE} ("  # how the browser heads the page that stands in for one it could not show


@dataclass
class Results:
    """The results of one query, in the engine's order, each with its snippet."""

    query: str
    found: dict[ShownLink, str] = field(default_factory=dict)
    opened: int = 0
    windows: int = 0
    first_unit: int = -1  # of the window that was read last

    def add(self, seen: ParsedObservation) -> bool:
        """Takes in a window; whether it is another one than the last."""
        if seen.scrollbar[0] == self.first_unit:
            return False
        self.first_unit = seen.scrollbar[0]
        self.windows += 1
        for link, snippet in split_at_links(seen.text):
            self.found.setdefault(link, snippet)
        return True

    def snippets(self) -> Iterator[Passage]:
        """The passages of the snippets, in the engine's order."""
        for link, snippet in self.found.items():
            yield from split_passages(snippet, link.text)


@dataclass(eq=False)
class ReadPage:
    """A page as far as it was read. `query` and `link` say how to get there again."""

    query: str
    link: ShownLink
    title: str = ""
    failed: bool = False  # it is an error page
    windows: dict[int, tuple[int, str]] = field(default_factory=dict)  # by first unit: the unit below, plain text
    units: set[int] = field(default_factory=set)
    _passages: list[Passage] | None = None  # of the windows so far, once asked for

    def add(self, seen: ParsedObservation) -> str | None:
        """Takes in a window. Its plain text, or None where nothing in it is new."""
        self.title = seen.title
        self.failed = seen.title.startswith(_ERROR_TITLE)
        first, below = seen.scrollbar
        if self.units.issuperset(range(first, below)):
            return None
        self.units.update(range(first, below))
        text = strip_markers(without_link_lines(seen.text))
        self.windows[first] = (below, text)
        self._passages = None
        return text

    def passages(self) -> list[Passage]:
        """All passages of what was read, each once; windows that follow one another are read as one text."""
        if self._passages is None:
            each = (passage for text in self._texts() for passage in split_passages(text, self.title))
            self._passages = list(dict.fromkeys(each))
        return self._passages

    def _texts(self) -> list[str]:
        texts: list[str] = []
        reached = -1
        for first, (below, text) in sorted(self.windows.items()):
            if first == reached:
                texts[-1] += text if _goes_on(texts[-1], text) else f"\n{text}"
            else:
                texts.append(text)
            reached = below
        return texts


def _goes_on(text: str, following: str) -> bool:
    """Whether a window was cut within a line: at a blank, or between two characters of a script without blanks."""
    if text.endswith(GAP) or following.startswith(GAP):
        return False
    cut_in_word = UNSPACED.match(text[-1:]) is not None and UNSPACED.match(following) is not None
    return text.endswith(" ") or cut_in_word
