"""What stands for an image: `[Image: <alt text>]`, `[Image]` or nothing (paper, Appendix A).

Our reading of what an alternative text is for: it tells a reader what the image shows. Some do not, and of those only
`[Image]` is left: a file's name or address, and what the reader has just read or reads next, such as the caption or the
link's own words, or has read of another image (a template's words). An image that nobody sees, such as a tracking pixel
or a spacer, leaves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree

from webgpt_jax.env.text import clean_line, word_string

MAX_ALT = 500  # characters of an alternative text
MAX_ALT_IN_LINK = 150  # so that it fits a link's text with its brackets

# Shorter ones, in bytes of UTF-8, may stand in the text beside an image by accident, and mean something each time.
_LONG_ALT = 20
_BESIDE = 300  # characters beyond an alternative text's own length in which its words are looked for
_MOST_NODES = 24  # elements in which they are looked for

_TINY = re.compile(r"\s*[01](?:px)?\s*\Z")
_SPACER = re.compile(r"(?:\A|[/_-])(?:spacer|blank|transparent|pixel|1x1)\.(?:gif|png)(?:[?#]|\Z)", re.IGNORECASE)
_TAG = re.compile(r"</?(?:a|b|br|em|i|p|small|span|strong|sub|sup)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_FILE_NAME = re.compile(
    r"https?://\S+|\S+\.(?:avif|bmp|gif|jpe?g|png|svg|tiff?|webp)"
    # 0225-oscars-dress-01, update_red_bar, IMG_2041
    r"|(?=\S*[\d_])(?=\S{12})[a-z0-9]+(?:[_-][a-z0-9]+){2,}|(?:dsc|dscn|img|mvi|pxl)[_-]?\d+\S*",
    re.IGNORECASE,
)
_FORMULA = re.compile(r"\\[A-Za-z]+")  # in TeX; such texts may differ in what is no word
_OTHER_IMAGE = re.compile(r"\[Image(?:: [^\]]*)?\]")
_ENCLOSING = frozenset(("article", "body", "dd", "li", "section", "td", "th", "tr"))


class Images:
    """The images of one page: what stands for each, in the order in which they stand on it."""

    def __init__(self) -> None:
        self._used: set[str] = set()  # the words of long alternative texts so far

    def text(self, element: etree._Element, before: str, limit: int) -> str:
        """What stands for an image.

        Args:
          element: the `<img>`.
          before: the text just before it, in its own line or else the one above.
          limit: how many characters its alternative text may have.
        """
        if any(_TINY.match(element.get(side, "")) for side in ("width", "height")):
            return ""
        raw = element.get("alt", "")
        alt = clean_line(_TAG.sub(" ", raw[: 2 * MAX_ALT]))
        if not alt:
            return "" if not raw.strip() and _SPACER.search(element.get("src", "")) else "[Image]"
        if not _FORMULA.search(alt) and (_FILE_NAME.fullmatch(alt) or self._says_nothing_new(alt, element, before)):
            return "[Image]"
        if len(alt) > limit:
            alt = alt[: limit - 1].rstrip() + "…"
        return f"[Image: {alt}]"

    def _says_nothing_new(self, alt: str, element: etree._Element, before: str) -> bool:
        words = word_string(alt)
        if words in self._used:
            return True
        room = len(alt) + _BESIDE
        before = word_string(_OTHER_IMAGE.sub("", before[-room:]))  # five stars are five
        after = word_string(_text_after(element, room))
        if len(words.strip().encode()) < _LONG_ALT:
            return len(words) > 2 and (before.endswith(words) or after.startswith(words))
        self._used.add(words)
        return words in before or words in after


def _text_after(element: etree._Element, room: int) -> str:
    """The text that follows an element, in its own list item, cell or section."""
    words: list[str] = []
    size = 0
    for text in _texts_after(element):
        words += text[:room].split()
        size += len(text)
        if size >= 2 * room:  # some of it is white space
            break
    return " ".join(words)[:room]


def _texts_after(element: etree._Element) -> Iterator[str]:
    inside = False  # whether what comes next is within `element`
    for _ in range(_MOST_NODES):
        if inside and len(element):
            following = element[0]
        else:
            yield element.tail or ""
            following = element.getnext()
        inside = following is not None
        if following is None:
            following = element.getparent()
            if following is None or following.tag in _ENCLOSING:
                return
        else:
            yield following.text or ""
        element = following
