"""TinyWeb's pages as HTML: the frames of its sites, with the menus and advertisements that sites have around text.

What an article says stands in one paragraph with a line a statement, so that little but words is left once a page has
been through Readability and the serializer of `webgpt_jax.web.html`. The frame is what Readability is there to drop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from webgpt_jax.env.page import Page, PageWriter
from webgpt_jax.env.urls import host_of

NOTICE = "A synthetic page: its words are drawn from a seed."  # in the frame of every page


@dataclass(frozen=True)
class Anchor:
    """A link in running text."""

    text: str
    url: str


Line = Sequence[str | Anchor]  # pieces of running text, written one after the other


@dataclass(frozen=True)
class Draft:
    """What a page is to say.

    Attributes:
      url: where it is; the host is one of the sites.
      title: its title and heading.
      lines: its text.
      menu: the links above it.
      animal: what it is about; None for lists.
    """

    url: str
    title: str
    lines: Sequence[Line]
    menu: Sequence[Anchor]
    animal: str | None = None


@dataclass(frozen=True)
class HtmlPage:
    """A page as a server would send it."""

    url: str
    title: str
    html: bytes  # UTF-8


# By site, what is around the lines of a page. The lines lie deep enough for either Readability to tell them from the
# frame, short as they are.
_FRAMES = {
    "wiki.test": (
        "<header>{menu}<h1>{title}</h1></header>\n<main><div><article>\n<p>{lines}</p>\n</article></div></main>\n"
        "<footer>{notice} Every page can be wrong.</footer>"
    ),
    "news.test": (
        "<header>{menu}<h1>{title}</h1></header>\n<main><div><article>\n<p>{lines}</p>\n</article></div></main>\n"
        '<aside class="ad">Advertisement: soap, now cheaper. Buy two, pay one.</aside>\n<footer>{notice}</footer>'
    ),
    "forum.test": (
        '<header class="menu">{menu}<h1>{title}</h1></header>\n'
        '<div id="main"><div><article>\n<p>{lines}</p>\n</article></div></div>\n'
        '<aside class="sidebar">Log in to write. Advertisement: a better pillow.</aside>\n<footer>{notice}</footer>'
    ),
    "old.test": (
        "<center>{menu}</center>\n<h1>{title}</h1>\n"
        "<div><div><article>\n<p>{lines}</p>\n</article></div></div>\n<hr>\n"
        "<footer>Best seen at 800 x 600. {notice}</footer>"
    ),
}


def write_page(draft: Draft) -> HtmlPage:
    """The page as its site serves it.

    Raises:
      KeyError: there is no such site.
    """
    title = escape(draft.title)
    body = _FRAMES[host_of(draft.url)].format(
        menu=f"<nav>{' '.join(_anchor(anchor) for anchor in draft.menu)}</nav>",
        title=title,
        lines="<br>\n".join("".join(_piece(piece) for piece in line) for line in draft.lines),
        notice=NOTICE,
    )
    head = f'<meta charset="utf-8">\n<title>{title}</title>\n<style>nav, aside {{ font-size: small }}</style>'
    html = f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
    return HtmlPage(draft.url, draft.title, html.encode())


def plain_page(draft: Draft) -> Page:
    """What conversion makes of `write_page(draft)`, a thousand times as quick: for text in bulk. A test compares."""
    writer = PageWriter(draft.url)
    lines = (
        "".join(writer.link(piece.text, piece.url) if isinstance(piece, Anchor) else piece for piece in line)
        for line in draft.lines
    )
    return writer.page(draft.title, "\n".join(lines))


def _piece(piece: str | Anchor) -> str:
    return _anchor(piece) if isinstance(piece, Anchor) else escape(piece, quote=False)


def _anchor(anchor: Anchor) -> str:
    return f'<a href="{escape(anchor.url)}">{escape(anchor.text, quote=False)}</a>'
