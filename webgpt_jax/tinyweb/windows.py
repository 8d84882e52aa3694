"""What a reader of TinyWeb's sentences sees in an observation: whose page it is, what it states, its links."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from webgpt_jax.env.observation import ParsedObservation
from webgpt_jax.env.page import ERROR_TITLE, LINK_MARKER, strip_markers
from webgpt_jax.tinyweb.language import BY_NAME, Claim, read_claim, the
from webgpt_jax.tinyweb.sites import TRUSTED

_HEADING = re.compile(r"(?P<title>.*?)(?: \((?P<domain>[^\s()]+)\))?")
_ANIMAL = re.compile(r"The ([a-z]+ [a-z]+)\b")
_RESULTS = "Search results for: "
_SENTENCE = re.compile(r"[^\s.?][^.?]*[.?]?")


@dataclass(frozen=True)
class Asked:
    """What is to be found out: an animal's fact, not its value."""

    animal: str
    relation: str

    @property
    def keyword(self) -> str:
        return BY_NAME[self.relation].keyword

    @property
    def query(self) -> str:
        """The query that finds it: `moss owl food`."""
        return f"{self.animal} {self.keyword}"

    def is_stated_by(self, claim: Claim | None) -> bool:
        """Whether the claim gives it a value, right or wrong."""
        return claim is not None and not claim.denied and (claim.animal, claim.relation) == (self.animal, self.relation)


@dataclass(frozen=True)
class Sentence:
    """A sentence as it stands on the page, and what it says; `claim` is None where it says nothing of any fact."""

    text: str
    claim: Claim | None


@dataclass(frozen=True)
class ShownLink:
    """A link in sight. `domain` is that of the page it leads to."""

    id: int
    text: str
    domain: str

    @property
    def animal(self) -> str | None:
        """The animal that its text begins with."""
        found = _ANIMAL.match(self.text[:1].upper() + self.text[1:])
        return found[1] if found else None

    def is_article(self, animal: str) -> bool:
        """Whether it leads to the wiki's article on the animal."""
        return self.domain == TRUSTED[0] and self.text.lower() == the(animal)

    def promises(self, asked: Asked) -> bool:
        """Whether its text announces the fact."""
        return self.animal == asked.animal and asked.keyword in re.findall("[a-z]+", self.text)


@dataclass(frozen=True)
class Window:
    """A page as far as it is in sight."""

    title: str
    domain: str
    first: int  # unit of the page
    sentences: tuple[Sentence, ...]
    links: tuple[ShownLink, ...]
    at_end: bool  # it shows the last line of an article

    @property
    def is_blank(self) -> bool:
        """Whether nothing has been opened yet."""
        return not self.title

    @property
    def is_error(self) -> bool:
        return self.title == ERROR_TITLE

    @property
    def is_results(self) -> bool:
        """Whether it is a list of search results."""
        return not self.domain and self.title.startswith(_RESULTS)

    @property
    def animal(self) -> str | None:
        """The animal that the page is about."""
        found = _ANIMAL.match(self.title)
        return found[1] if found else None

    @property
    def is_article(self) -> bool:
        """Whether it is a wiki's article, which states every fact of its animal."""
        return self.domain == TRUSTED[0] and self.animal is not None

    @property
    def is_trusted(self) -> bool:
        return self.domain in TRUSTED

    def statement(self, asked: Asked) -> int | None:
        """The place among the sentences of the first that states it."""
        return next((at for at, said in enumerate(self.sentences) if asked.is_stated_by(said.claim)), None)


def read_window(seen: ParsedObservation) -> Window:
    """The window that an observation shows."""
    heading = _HEADING.fullmatch(seen.title)
    assert heading is not None  # it matches any line
    domain = heading["domain"] or ""
    links = tuple(ShownLink(int(found[1]), found[2], found[3] or domain) for found in LINK_MARKER.finditer(seen.text))
    return Window(
        heading["title"],
        domain,
        seen.scrollbar[0],
        tuple(split_sentences(seen.text)),
        links,
        seen.text.rpartition("\n")[2].startswith("See 【"),
    )


def best_link(links: Sequence[ShownLink], asked: Asked) -> ShownLink | None:
    """The link that a careful reader follows: the animal's article, else a trusted site's news of the fact."""
    article = (link for link in links if link.is_article(asked.animal))
    news = (link for link in links if link.domain in TRUSTED and link.promises(asked))
    return next(chain(article, news), None)


def split_sentences(text: str) -> Iterable[Sentence]:
    """The sentences of a text, of a page or a quote, in order; link markup is stripped."""
    for line in strip_markers(text).split("\n"):
        for found in _SENTENCE.findall(line):
            yield Sentence(found.rstrip(), read_claim(found))
