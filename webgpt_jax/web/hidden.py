"""Which elements are hidden from people, by their own attributes (style sheets are not read).

What a page says to machines only must not reach the model. `aria-hidden` counts as hidden, as it does in Readability:
what it marks is doubled elsewhere, such as the drawn form of a formula. An `opacity` of 0 does not: pages fade in.
"""

from __future__ import annotations

import re

from lxml import etree

from webgpt_jax.web.markup import parse

_ATTRIBUTES = frozenset(("hidden", "aria-hidden", "style"))
_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)", re.IGNORECASE)
# What Readability does not look at, and takes out of the page, so that it has to be dealt with before.
_ZERO_SIZE = r"font-size\s*:\s*0*(?:\.0*)?(?:px|em|rem|pt|%)?\s*(?:[!;\"']|\Z)"
_UNSEEN = re.compile(
    rf"{_ZERO_SIZE}|(?<![a-z-])(?:left|top|right|text-indent)\s*:\s*-\d{{4}}|clip\s*:\s*rect\(0|content-visibility\s*:\s*hidden",
    re.IGNORECASE,
)
_STYLES = re.compile(r"""style\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_ZERO = re.compile(_ZERO_SIZE, re.IGNORECASE)
_FONT_SIZE = re.compile(r"font(?:-size)?\s*:", re.IGNORECASE)


def is_hidden(tag: str, element: etree._Element) -> bool:
    """Whether an element's own attributes hide it from people."""
    if tag == "dialog":
        return element.get("open") is None
    if _ATTRIBUTES.isdisjoint(element.keys()):
        return False
    if element.get("hidden", "until-found").lower() != "until-found":
        return True
    if element.get("aria-hidden", "").lower() == "true":
        # Wikipedia marks the images so that it shows in place of a formula: they are all there is to see.
        return "fallback-image" not in element.get("class", "")
    return _STYLE.search(element.get("style", "")) is not None


def may_hide(html: str) -> bool:
    """Whether a page may hold text that is too small to be seen or off the screen: a quick look at its source."""
    ascii_html = html.encode("ascii", "replace").decode("ascii")  # four times as fast to change to small letters
    styles = _STYLES.findall(ascii_html.lower())
    return _UNSEEN.search("\n".join(styles)) is not None


def without_hidden(html: str) -> str:
    """The HTML without what is hidden from people, also by being too small to be seen or off the screen.

    A box with `font-size: 0` around text with a size of its own stays: that is how mails close gaps between boxes.

    Args:
      html: the page, which has been through `webgpt_jax.web.markup.guard`.
    """
    root = parse(html)
    if root is None:
        return html
    sized: set[etree._Element] = set()  # elements around some that set a size other than zero
    hidden = []
    for element in root.iter(etree.Element):
        style = element.get("style", "")
        if is_hidden(element.tag, element) or _UNSEEN.search(style):
            hidden.append(element)
        elif _FONT_SIZE.search(style):
            for ancestor in element.iterancestors():
                if ancestor in sized:
                    break
                sized.add(ancestor)
    for element in hidden:
        if not (element in sized and _ZERO.search(element.get("style", ""))):
            element.clear(keep_tail=True)
    return str(etree.tostring(root, encoding="unicode", method="html"))
