"""Pages as the model sees them: text with link markers, the units it is scrolled by, find and quote matching.

A page's text holds its links as markers, `【<id>†<text>†<domain>】`, or `【<id>†<text>】` where the link stays on the
page's own domain (paper, Appendix A). Find and quote look at the *plain* text, in which a marker is only its link's
text.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from webgpt_jax.env.text import clean, clean_line, word_string
from webgpt_jax.env.urls import host_of

UNIT_CHARS = 500  # a line of a page longer than this counts as several units of the scrollbar (our reading)
MAX_LINK_TEXT = 200  # characters of a link's text; longer ones are cut, so that a marker always fits a window
ERROR_TITLE = "Error"  # of the page that stands in for one that could not be shown
MAX_TITLE = 300  # characters of a page's title; a longer one would push quotes and past actions out of the observation

# A link in a text: its ID, its text, and its domain where that is another than the page's.
LINK_MARKER = re.compile(r"【(\d{1,9})†([^【】†\n]*)(?:†([^【】†\n]*))?】")
_NOT_IN_DOMAIN = re.compile(r"[\s()]+")
_SPACES = re.compile(r"\s+")


def strip_markers(text: str) -> str:
    """A page's text, or a window of it, without link markup; a link's own text stays."""
    return LINK_MARKER.sub(r"\2", text)


def cut_line(text: str, most: int) -> str:
    """`clean_line`, cut to so many characters."""
    text = clean_line(text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _clean_domain(domain: str) -> str:
    # Without blanks and brackets, "<title> (<domain>)" can be read in one way only.
    return _NOT_IN_DOMAIN.sub("", clean_line(domain))


@dataclass(frozen=True)
class Link:
    """One link of a page. `id` is its index on the page, `domain` the host it leads to."""

    id: int
    text: str
    url: str
    domain: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", cut_line(self.text, MAX_LINK_TEXT))
        object.__setattr__(self, "domain", _clean_domain(self.domain))

    def marker(self, page_domain: str) -> str:
        """How the link stands in the text of a page on `page_domain`."""
        if self.domain == page_domain:
            return f"【{self.id}†{self.text}】"
        return f"【{self.id}†{self.text}†{self.domain}】"


def heading(title: str, domain: str) -> str:
    """`<title> (<domain>)`, the one line that names a page; the title alone where there is no domain."""
    return f"{title} ({domain})" if domain else title


@dataclass(frozen=True)
class Page:
    """A page: title, domain, URL, text with link markers, links. `error` names what went wrong on an error page.

    Whoever makes it, a page holds only text that has passed `webgpt_jax.env.text.clean`: what looks like a marker in
    `text` stays only if it is the marker of one of `links`.
    """

    title: str
    domain: str
    url: str
    text: str
    links: Sequence[Link] = ()
    error: str | None = None

    def __post_init__(self) -> None:
        domain = _clean_domain(self.domain)
        links = tuple(self.links)
        markers = {link.id: link.marker(domain) for link in links}
        if len(markers) != len(links):
            raise ValueError(f"two links with one id on the page {self.url!r}")
        pieces, end = [], 0
        for found in LINK_MARKER.finditer(self.text):
            if markers.get(int(found[1])) == found[0]:
                pieces += [clean(self.text[end : found.start()]), found[0]]
                end = found.end()
        pieces.append(clean(self.text[end:]))
        for name, value in (
            ("title", cut_line(self.title, MAX_TITLE)),
            ("domain", domain),
            ("text", "".join(pieces)),
            ("links", links),
        ):
            object.__setattr__(self, name, value)

    @property
    def heading(self) -> str:
        return heading(self.title, self.domain)

    def link(self, link_id: int) -> Link | None:
        """The link with that ID, or None."""
        return self._links_by_id.get(link_id)

    @cached_property
    def _links_by_id(self) -> dict[int, Link]:
        return {link.id: link for link in self.links}

    # ---- plain text: the text with its link markup stripped

    @cached_property
    def _markers(self) -> list[re.Match[str]]:
        # `text` has been through __post_init__: a bracket in it is a real marker's.
        return list(LINK_MARKER.finditer(self.text))

    @cached_property
    def plain(self) -> str:
        """The text with link markup stripped; a link's own text stays."""
        return strip_markers(self.text)

    @cached_property
    def _shifts(self) -> tuple[list[int], list[int], list[int]]:
        """The runs that stand in both texts: where each starts in the plain text, where in the text, its length."""
        plain_starts, text_starts, lengths = [0], [0], []
        for marker in self._markers:
            for start, stop in ((marker.start(), marker.start(2)), (marker.end(2), marker.end())):
                lengths.append(start - text_starts[-1])
                plain_starts.append(plain_starts[-1] + lengths[-1])
                text_starts.append(stop)
        lengths.append(len(self.text) - text_starts[-1])
        return plain_starts, text_starts, lengths

    def to_plain(self, offset: int) -> int:
        """The place in the plain text of a place in the text; within markup, the nearest following one."""
        plain_starts, text_starts, lengths = self._shifts
        run = bisect_right(text_starts, offset) - 1
        return plain_starts[run] + min(offset - text_starts[run], lengths[run])

    def to_text(self, offset: int) -> int:
        """The place in the text of a character of the plain text."""
        plain_starts, text_starts, _ = self._shifts
        run = bisect_right(plain_starts, offset) - 1
        return text_starts[run] + offset - plain_starts[run]

    @cached_property
    def words(self) -> str:
        """The words of title and plain text, as `word_string` gives them."""
        return word_string(f"{self.title}\n{self.plain}")

    # ---- units: what the scrollbar counts

    def units(self, unit_chars: int = UNIT_CHARS) -> Sequence[int]:
        """Where each unit of the text starts, in order, and last the text's length.

        A unit is a line, or a part of one at most `unit_chars` characters long, cut at a blank where there is one and
        never inside a marker (our reading of the paper's "scrollbar").
        """
        known: dict[int, Sequence[int]] = self.__dict__.setdefault("_units", {})
        if unit_chars not in known:
            known[unit_chars] = array("L", self._cut_units(unit_chars))
        return known[unit_chars]

    def _cut_units(self, unit_chars: int) -> Iterator[int]:
        spans = [marker.span() for marker in self._markers]
        starts = [start for start, _ in spans]
        line = 0
        while line < len(self.text):
            line_end = self.text.find("\n", line) + 1 or len(self.text)
            at = line
            while line_end - at > unit_chars:
                yield at
                cut = at + unit_chars
                marker, marker_end = spans[bisect_right(starts, cut) - 1] if starts and starts[0] <= cut else (0, 0)
                if marker_end > cut:  # the cut would be within it, or just before it
                    at = marker if marker > at else marker_end
                else:
                    gap = max(self.text.rfind(" ", at, cut) + 1, marker_end)  # no blank within the marker
                    at = gap if gap > at + unit_chars // 2 else cut
            if at < line_end:
                yield at
            line = line_end
        yield len(self.text)

    # ---- find and quote

    @cached_property
    def _spaced(self) -> _Folded:
        return _Folded(self.plain, squeeze=False)

    @cached_property
    def _squeezed(self) -> _Folded:
        return _Folded(self.plain, squeeze=True)

    def find(self, text: str, cursor: int = 0) -> int | None:
        """The place in the plain text of the next occurrence of `text` at or after `cursor`, wrapping round once.

        Case is ignored, and any white space in `text` stands for any white space of the page, so that a phrase is
        found across line ends and links. Link markup in `text` is stripped as the page's is.
        """
        wanted = _Folded(clean(strip_markers(text)).strip(), squeeze=False).folded
        if not wanted:
            return None
        page = self._spaced
        at = page.folded.find(wanted, page.index(cursor))
        if at < 0:
            at = page.folded.find(wanted)
        return None if at < 0 else page.origin(at)

    def find_quote(self, text: str) -> tuple[int, int] | None:
        """The span in the plain text that a quote means: the first place where `text` stands, or, for
        `<start>━<end>`, from the first place where the start stands to the end of the nearest end after it.

        Case and white space are ignored, link markup is stripped. None where it does not stand on the page.
        """
        start, mark, end = strip_markers(text).partition("━")
        wanted = [_Folded(clean(part), squeeze=True).folded for part in ((start, end) if mark else (start,))]
        if not all(wanted):
            return None
        page = self._squeezed
        first = at = page.folded.find(wanted[0])
        if mark and at >= 0:
            at = page.folded.find(wanted[1], at + len(wanted[0]))
        if at < 0:
            return None
        return page.origin(first), page.origin(at + len(wanted[-1]) - 1) + 1


class _Folded:
    """A text with case folded and white space made even (or taken out), and the way back to the places in the text."""

    def __init__(self, text: str, squeeze: bool) -> None:
        folded = text.casefold()
        origins: array[int] | range = range(len(text))
        if len(folded) != len(text):  # some characters fold to two or three
            parts = [character.casefold() for character in text]
            folded = "".join(parts)
            origins = array("L", (at for at, part in enumerate(parts) for _ in part))
        blank = "" if squeeze else " "
        pieces: list[str] = []
        kept: array[int] = array("L")
        end = 0
        for found in _SPACES.finditer(folded):
            pieces += [folded[end : found.start()], blank]
            kept.extend(origins[end : found.start() + len(blank)])
            end = found.end()
        pieces.append(folded[end:])
        kept.extend(origins[end:])
        self.folded = "".join(pieces)
        self._origins = kept

    def origin(self, index: int) -> int:
        """The place in the text of a folded character."""
        return self._origins[index]

    def index(self, place: int) -> int:
        """The first folded character that comes from `place` or later."""
        return bisect_right(self._origins, place - 1)


@dataclass(frozen=True)
class Quote:
    """A reference: the page's own text, where it stands on the page, and which page that was.

    `start` and `end` are characters of the page's plain text: `page.plain[start:end] == text`.
    """

    text: str
    title: str
    domain: str
    url: str
    start: int
    end: int

    def __post_init__(self) -> None:
        for name, value in (
            ("text", clean(self.text)),
            ("title", cut_line(self.title, MAX_TITLE)),
            ("domain", _clean_domain(self.domain)),
        ):
            object.__setattr__(self, name, value)

    @property
    def heading(self) -> str:
        return heading(self.title, self.domain)

    def stands_on(self, page: Page) -> bool:
        """Whether the page, as given, still holds the quote where it was taken."""
        return page.url == self.url and page.plain[self.start : self.end] == self.text


def error_page(url: str, kind: str, message: str) -> Page:
    """The page that stands in for one that could not be shown."""
    return Page(title=ERROR_TITLE, domain=host_of(url), url=url, text=message, error=kind)


class PageWriter:
    """Collects a page's text and links; numbers the links in the order in which they are written."""

    def __init__(self, url: str, domain: str | None = None) -> None:
        self.url = url
        self.domain = _clean_domain(host_of(url) if domain is None else domain)
        self.links: list[Link] = []

    def link(self, text: str, url: str) -> str:
        """Notes a link and returns its marker; the text alone where the URL cannot be followed."""
        domain = host_of(url)
        text = clean_line(text)
        if not domain or not text:
            return text
        link = Link(id=len(self.links), text=text, url=url, domain=domain)
        self.links.append(link)
        return link.marker(self.domain)

    def page(self, title: str, text: str) -> Page:
        return Page(title=title, domain=self.domain, url=self.url, text=text, links=tuple(self.links))


def keep_links(page: Page, keep: Callable[[Link], bool]) -> Page:
    """The page without the links for which `keep` is false, text and all; the others are numbered anew."""
    if all(keep(link) for link in page.links):
        return page
    writer = PageWriter(page.url, page.domain)

    def marker(found: re.Match[str]) -> str:
        link = page._links_by_id[int(found[1])]
        return writer.link(link.text, link.url) if keep(link) else ""

    return replace(writer.page(page.title, LINK_MARKER.sub(marker, page.text)), error=page.error)
