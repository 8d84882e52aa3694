"""The main content of a page, by Mozilla's Readability algorithm (paper, Appendix A).

pygoreadability, a Go port that agrees with Mozilla's own output nearly to the letter, is used where it is installed:
its wheels are for Python up to 3.12, on Linux and on macOS on ARM. Elsewhere readability-lxml, an older algorithm of
the same family, takes its place.

The Go runtime does not survive a fork. Nothing here is imported before it is used, so that only the spawned workers
that convert pages ever load it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

from lxml import etree

from webgpt_jax.web.hidden import as_seen
from webgpt_jax.web.markup import title_of

# pygoreadability guesses the encoding of what it is given, whatever that declares: it takes an English page's few curly
# quotes for windows-1252, and spends nearly half of its time on guessing. So pages are given to it in ASCII, behind a
# comment that settles the question. Its first characters are UTF-8 beyond doubt and bad in every Asian encoding, which
# ends the search for those; apostrophes, which the guessing by letters skips, fill the sample of 8,192 bytes.
_IN_UTF8 = f"""<!-- > {"’ " * 8}{"'" * 8192}-->"""

# It fails on a page whose metadata hold a date in a form that it does not know, though nobody asks for the date.
_BAD_DATE = re.compile(r"error parsing \w+Time")
_METADATA = re.compile(
    r"<meta\s[^<>]*>|<script\b[^<>]{0,500}ld\+json[^<>]{0,500}>(?:[^<]++|<(?!/script))*+", re.IGNORECASE
)
_DATE = re.compile(
    r"date(?:published|modified)|(?:published|modified)_time|dcterms\.\w+|parsely-pub-date|create_at", re.IGNORECASE
)


# readability-lxml empties such a link, which would make it one to the page itself; without it, it is plain text.
_SCRIPTED = re.compile(r"\b(href\s*=\s*[\"']?\s*(?:javascript|vbscript|data):)", re.IGNORECASE)

# What readability-lxml may take out of the main content, and the share of link text that lets it.
_BLOCKS = ("table", "ul", "div", "aside", "header", "footer", "section")
MAX_LINK_DENSITY = 0.5


@dataclass(frozen=True)
class Article:
    """What Readability keeps of a page: its title, which may be empty, and the HTML of its main content."""

    title: str
    html: str


Extractor = Callable[[str, str], Article]


def main_content(html: str, base: str) -> Article:
    """The page's main content; with empty HTML where none is found.

    Args:
      html: the page, which has been through `webgpt_jax.web.markup.guard`.
      base: the absolute URL that the page's links are relative to.
    """
    return _extractor()(html, base)


@cache
def _extractor() -> Extractor:
    try:
        return go_extractor()
    except (ImportError, OSError, RuntimeError):  # no wheel, or a library that this system cannot load
        return lxml_extractor()


def go_extractor() -> Extractor:
    """pygoreadability. Raises ImportError, OSError or RuntimeError where it cannot be loaded."""
    from pygoreadability import from_string

    # Go looks for the end of the stack whenever it is called. For the main thread of a process that means reading the
    # list of all that is mapped into memory; for any other it is known.
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="readability")

    def article_of(ascii_html: str, url: str) -> Article:
        article = thread.submit(from_string, _IN_UTF8 + ascii_html, url).result()
        return Article(article.title, article.content_html)

    def extract(html: str, base: str) -> Article:
        ascii_html = html.encode("ascii", "xmlcharrefreplace").decode("ascii")
        url = base.encode("utf-8", "replace").decode("utf-8")
        try:
            return article_of(ascii_html, url)
        except RuntimeError as error:  # what the Go side calls an error: mostly a page without content
            if not _BAD_DATE.match(str(error)):
                return Article("", "")
        try:
            return article_of(_METADATA.sub(lambda found: _DATE.sub("-", found[0]), ascii_html), url)
        except RuntimeError:
            return Article("", "")

    return extract


def lxml_extractor() -> Extractor:
    """readability-lxml."""
    from readability import Document
    from readability.readability import Unparseable

    logging.getLogger("readability.readability").setLevel(logging.CRITICAL)  # it logs the traceback of what it raises

    class GentleDocument(Document):  # type: ignore[misc]  # the library has no types
        """Takes no short lists, tables and blocks out of the main content unless links fill them: Mozilla's algorithm
        keeps them, and this one would lose a table of figures for want of commas."""

        def get_preserved_elements(self, node: Any) -> dict[Any, bool]:
            preserved: dict[Any, bool] = super().get_preserved_elements(node)
            for element in self.tags(node, *_BLOCKS):
                if self.class_weight(element) >= 0 and self.get_link_density(element) <= MAX_LINK_DENSITY:
                    preserved[element] = True
            return preserved

    def extract(html: str, base: str) -> Article:
        # Without the base, which it would resolve links by in ways of its own. It takes styles away, but not what they
        # hide.
        document = GentleDocument(_SCRIPTED.sub(r"data-\1", as_seen(html)))
        try:
            content = document.summary(html_partial=True)
        except (Unparseable, etree.LxmlError, ValueError):
            return Article("", "")
        return Article(title_of(html), content)  # its own title has its dashes changed

    return extract
