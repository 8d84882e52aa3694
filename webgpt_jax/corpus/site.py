"""The plain HTML that bundled webs are made of: one template, escaping, names of files, links between pages."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser
from typing import Protocol
from urllib.parse import quote

MAX_SLUG = 100  # characters

_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")
_SPACES = re.compile(r"\s+")
_BLOCKS = frozenset({"br", "p", "div", "li", "ul", "ol", "tr", "h1", "h2", "h3", "h4"})


class CorpusError(Exception):
    """A bundled web that cannot be built; the message says why and what to do."""


@dataclass(frozen=True)
class SitePage:
    """One page to be written.

    Attributes:
      path: where it lies in the folder, with "/" between folders, ending in ".html".
      title: its title, plain text; the site's title is added.
      body: its main content, HTML.
    """

    path: str
    title: str
    body: str


class Source(Protocol):
    """A data source that can be rendered as a folder of linked pages."""

    @property
    def title(self) -> str:
        """The site's title, such as "The World Factbook"."""
        ...

    @property
    def base_url(self) -> str:
        """The URL that the folder stands for, ending in "/"."""
        ...

    @property
    def attribution(self) -> str:
        """Source and licence, in a sentence of plain text."""
        ...

    def version(self) -> str:
        """Something that changes when the data does."""
        ...

    def pages(self) -> Iterator[SitePage]:
        """Every page, the index ("index.html") among them. Raises `CorpusError` where the data cannot be read."""
        ...


def full_title(page: SitePage, site_title: str) -> str:
    """The page's title with the site's."""
    return site_title if page.title == site_title else f"{page.title} - {site_title}"


def html_page(page: SitePage, source: Source) -> str:
    """The whole HTML document of a page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(full_title(page, source.title))}</title>\n</head>\n"
        f"<body>\n<main>\n<article>\n<h1>{escape(page.title)}</h1>\n{page.body}\n</article>\n</main>\n"
        f"<footer>\n<p>{escape(source.attribution)}</p>\n</footer>\n</body>\n</html>\n"
    )


def slug(name: str) -> str:
    """A file name for a name: lower-case ASCII letters, digits and hyphens; never empty, never too long for a file."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower().replace("'", "")
    codes = "-".join(f"{ord(character):x}" for character in name[:MAX_SLUG])
    return (_NOT_IN_SLUG.sub("-", plain).strip("-") or codes or "page")[:MAX_SLUG]


def unique_slugs(names: Iterable[str]) -> dict[str, str]:
    """A slug for each name, no two alike: the later of two equal ones gets a number."""
    taken: set[str] = set()
    slugs: dict[str, str] = {}
    for name in names:
        candidate, number = slug(name), 1
        while candidate in taken:
            number += 1
            candidate = f"{slug(name)}-{number}"
        taken.add(candidate)
        slugs[name] = candidate
    return slugs


def link(text: str, path: str, page_path: str) -> str:
    """A link from the page at `page_path` to the one at `path`."""
    target = posixpath.relpath(path, posixpath.dirname(page_path) or ".")
    return f'<a href="{escape(quote(target))}">{escape(text)}</a>'


def paragraphs(lines: Iterable[str]) -> str:
    """Lines of HTML, each a paragraph."""
    return "\n".join(f"<p>{line}</p>" for line in lines)


def items(lines: Iterable[str]) -> str:
    """Lines of HTML, each an item of a list."""
    return "<ul>\n" + "\n".join(f"<li>{line}</li>" for line in lines) + "\n</ul>"


class _Lines(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data.replace("\n", " "))


def text_lines(markup: str) -> list[str]:
    """The lines of text in a fragment of HTML: tags dropped, entities resolved once, a line for each block or break."""
    if "<" not in markup and "&" not in markup:
        text = markup.replace("\n", " ")
    else:
        parser = _Lines()
        parser.feed(markup)
        parser.close()
        text = "".join(parser.parts)
    lines = (_SPACES.sub(" ", line).strip() for line in text.split("\n"))
    return [line for line in lines if line]
