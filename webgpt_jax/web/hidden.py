"""Which elements are hidden from people, by their own attributes (style sheets are out of reach).

What a page says to machines only must not reach the model. `aria-hidden` counts as hidden, as it does in Readability:
what it marks is doubled elsewhere, such as the drawn form of a formula. Readability takes styles and templates out of
the page without looking at most of what they do, so that `as_seen` has to deal with them before.
"""

from __future__ import annotations

import re

from lxml import etree

from webgpt_jax.web.elements import DROPPED
from webgpt_jax.web.markup import parse
from webgpt_jax.web.styles import (
    SMALLEST,
    Colour,
    Style,
    background_colour,
    clipped,
    colour,
    declarations,
    font_pixels,
    is_animated,
    may_appear,
    may_hide,
    same,
    text_colour,
    transparent_text,
)

_ATTRIBUTES = frozenset(("hidden", "aria-hidden", "style"))
_TELLING = _ATTRIBUTES | {"color", "shadowrootmode"}  # an element without any of these is as it seems
_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)", re.IGNORECASE)
_WHITE = (255, 255, 255)
_MAX_FADED = 0.5  # a page with a larger share of its text transparent lets it appear by a script
_MOST_PAIRS = 10_000  # of colours that are compared one by one

_STYLES = re.compile(r"""style\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_TEXT_COLOURS = re.compile(r"(?<![\w-])color\s*:\s*([^;\"'\n]+)")
_BACKGROUNDS = re.compile(r"background(?:-color)?\s*:\s*([^;\"'\n]+)")
_FONT_COLOURS = re.compile(r"""<font\s[^<>]{0,200}?color\s*=\s*["']?\s*(#?\w+)""")
_BGCOLOURS = re.compile(r"""bgcolor\s*=\s*["']?\s*(#?\w+)""")
_BLOCK = r"display\s*:\s*(?:block|flex|grid|table|list-item)(?![\w-])"
_INLINE = ("a", "b", "code", "em", "font", "i", "label", "small", "span", "strong")
_IS_BLOCK = re.compile(_BLOCK)
_INLINE_TAG = re.compile(rf"<(?:{'|'.join(_INLINE)})\s[^<>]*\Z")
_GLUED_BEFORE = re.compile(rf"[^\s>]\Z|</(?:{'|'.join(_INLINE)})>\Z")
_GLUED_AFTER = re.compile(rf"[^<>]{{0,500}}>[^<>]{{0,500}}</(?:{'|'.join(_INLINE)})>[^\s<]")
_LONGEST_TAG = 1000


def is_hidden(tag: str, element: etree._Element) -> bool:
    """Whether an element's own attributes hide it from people."""
    if tag == "dialog":
        return element.get("open") is None
    if _ATTRIBUTES.isdisjoint(element.keys()):
        return False
    if element.get("hidden", "until-found").lower() != "until-found":
        return True
    # Wikipedia marks the images so that it shows in place of formulas: they are all there is to see. Readability keeps
    # those, and no other image that is marked, but not the class by which it knows them.
    if tag != "img" and element.get("aria-hidden", "").lower() == "true":
        return True
    return _STYLE.search(element.get("style", "")) is not None


def may_look_different(html: str) -> bool:
    """Whether `as_seen` may change a page: a quick look at its source."""
    ascii_html = html.encode("ascii", "replace").decode("ascii").lower()  # four times as fast to change
    # Pages say the same again and again; and what is not displayed at all is left to Readability.
    told = dict.fromkeys(_STYLES.findall(ascii_html))
    shown = [style for style in told if not _STYLE.search(style)]
    styles = "\n".join(shown)
    return (
        may_hide(shown)
        or "shadowrootmode" in ascii_html
        or (_IS_BLOCK.search(styles) is not None and _glues_blocks(ascii_html))
        or _may_be_tone_in_tone(ascii_html, styles)
    )


def as_seen(html: str, *, only_unknown: bool = False) -> str:
    """The HTML as a person sees it, as far as attributes tell.

    Without what is hidden, also by what `webgpt_jax.web.styles` knows of. A box with `font-size: 0` around text with a
    size of its own stays: that is how mails close gaps between boxes. Transparent text goes, unless it is most of the
    page or is about to be animated: many a page fades in. The content of a shadow root is shown as that of any other
    element, and an inline element that is displayed as a block stands on lines of its own.

    Args:
      html: the page, which has been through `webgpt_jax.web.markup.guard`.
      only_unknown: the page may stay as it is where there is nothing that Readability would not find by itself.
    """
    root = parse(html)
    if root is None:
        return html
    hidden = _Hidden(root)
    changed = False
    telling = [e for e in root.iter(etree.Element) if e.tag == "dialog" or not _TELLING.isdisjoint(e.keys())]
    for element in telling:
        if element.tag == "template" and element.get("shadowrootmode", "").lower() in ("open", "closed"):
            element.tag, changed = "div", True
        hidden.look_at(element)
        if element.tag in _INLINE and _IS_BLOCK.search(element.get("style", "").lower()):
            _break_around(element)
            changed = True
    for element in hidden.elements():
        if _holds_something(element) and not (only_unknown and is_hidden(element.tag, element)):
            element.clear(keep_tail=True)
            changed = True
    if not changed:
        return html
    return str(etree.tostring(root, encoding="unicode", method="html"))


class _Hidden:
    """Collects the hidden elements of a tree."""

    def __init__(self, root: etree._Element) -> None:
        self._root = root
        self._styles: dict[str, Style] = {}  # as they are spelt, and what they say
        self._white = not any(True for _ in root.iter("style")) and not any(
            "stylesheet" in link.get("rel", "").lower() for link in root.iter("link")
        )
        self._surely: list[etree._Element] = []
        self._tiny: list[etree._Element] = []
        self._pale: list[etree._Element] = []  # in the colour of what is behind
        self._faded: list[etree._Element] = []
        self._sized: set[etree._Element] = set()  # elements around some that set a size of their own
        self._coloured: set[etree._Element] = set()  # and a colour of their own

    def look_at(self, element: etree._Element) -> None:
        tag, attribute = element.tag, element.get("style")
        if is_hidden(tag, element):
            self._surely.append(element)
            return
        font = element.get("color") if tag == "font" else None
        if attribute is None and font is None:
            return
        style = self._style(element)
        if clipped(style):
            self._surely.append(element)
            return
        size = font_pixels(style)
        if size is not None and size <= SMALLEST:
            self._tiny.append(element)
            return
        if "font" in style or "font-size" in style:
            _mark_around(element, self._sized)
        if transparent_text(style):
            self._pale.append(element)
        elif (ink := text_colour(style) or (colour(font) if font else None)) is not None:
            behind = self._behind(element)
            if behind is not None and same(ink, behind):
                self._pale.append(element)
            else:
                _mark_around(element, self._coloured)
        elif font or "color" in style:
            _mark_around(element, self._coloured)
        if may_appear(style) and not is_animated(style):
            self._faded.append(element)

    def elements(self) -> list[etree._Element]:
        """What has been found to be hidden."""
        found = self._surely + [element for element in self._tiny if element not in self._sized]
        found += [element for element in self._pale if element not in self._coloured]
        if self._faded:
            faded = set(self._faded)
            outermost = [element for element in self._faded if faded.isdisjoint(element.iterancestors())]
            if sum(map(_size, outermost)) <= _MAX_FADED * _size(self._root):
                found += outermost
        return found

    def _style(self, element: etree._Element) -> Style:
        attribute = element.get("style", "")
        style = self._styles.get(attribute)
        if style is None:
            style = self._styles[attribute] = declarations(attribute)
        return style

    def _behind(self, element: etree._Element) -> Colour | None:
        """The colour behind an element's text, where no style sheet can have set another."""
        while True:
            style = self._style(element)
            if any(name.startswith("background") for name in style):
                return background_colour(style)
            if background := element.get("bgcolor"):
                return colour(background)
            if not self._white and (element.get("class") or element.get("id")):
                return None
            parent = element.getparent()
            if parent is None:
                return _WHITE if self._white else None
            element = parent


def _mark_around(element: etree._Element, marked: set[etree._Element]) -> None:
    for ancestor in element.iterancestors():
        if ancestor in marked:
            break
        marked.add(ancestor)


def _size(element: etree._Element) -> int:
    """How many characters of text an element shows."""
    return sum(
        len((part.text or "").strip()) + sum(len((child.tail or "").strip()) for child in part)
        for part in element.iter(etree.Element)
        if part.tag not in DROPPED
    )


def _holds_something(element: etree._Element) -> bool:
    return next(element.iter("img"), None) is not None or _size(element) > 0


def _break_around(element: etree._Element) -> None:
    """Puts line breaks before and after an element, where something else stands there."""
    before, parent = element.getprevious(), element.getparent()
    text = (parent.text if before is None else before.tail) if parent is not None else None
    if (text and text.strip()) or (before is not None and before.tag != "br"):
        element.addprevious(etree.Element("br"))
    after = element.getnext()
    if (element.tail and element.tail.strip()) or (
        after is not None and after.tag != "br" and not _IS_BLOCK.search(after.get("style", "").lower())
    ):
        end = etree.Element("br")
        end.tail, element.tail = element.tail, None
        element.addnext(end)


def _glues_blocks(ascii_html: str) -> bool:
    """Whether an inline element that is displayed as a block seems to be one word with what stands beside it."""
    for found in _IS_BLOCK.finditer(ascii_html):
        start = ascii_html.rfind("<", max(0, found.start() - _LONGEST_TAG), found.start())
        if (
            start >= 0
            and _INLINE_TAG.match(ascii_html, start, found.start())
            and (
                _GLUED_BEFORE.search(ascii_html, max(0, start - 9), start)
                or _GLUED_AFTER.match(ascii_html, found.end())
            )
        ):
            return True
    return False


def _may_be_tone_in_tone(ascii_html: str, styles: str) -> bool:
    """Whether some text may have the colour of what is behind it."""
    inks = {*_TEXT_COLOURS.findall(styles)}
    if "<font" in ascii_html:
        inks.update(_FONT_COLOURS.findall(ascii_html))
    if not inks:
        return False
    behind = {*_BACKGROUNDS.findall(styles)}
    if "bgcolor" in ascii_html:
        behind.update(_BGCOLOURS.findall(ascii_html))
    if "<style" not in ascii_html and "stylesheet" not in ascii_html:
        behind.add("white")
    if len(inks) * len(behind) > _MOST_PAIRS:
        return True
    papers = [paper for paper in map(colour, behind) if paper is not None]
    return any(same(ink, paper) for ink in map(colour, inks) if ink is not None for paper in papers)
