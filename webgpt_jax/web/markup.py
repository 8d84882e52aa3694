"""The guard in front of the HTML parsers: is this page's markup fit for them, and how does it become so?

HTML 5's parsing rules are quadratic on hostile markup: each paragraph walks the stack of open elements, and reopens
every `<b>` and `<font>` left open. libxml2 silently drops what is nested deeper than 255. So no tree is built before
one linear pass over the tags has counted how many there are and how many can be open at once. A page that is nested
too deeply is flattened: its text and its links are kept, the depth is not.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from html import unescape

from lxml import etree

from webgpt_jax.env.protocol import WebError
from webgpt_jax.env.text import clean_line
from webgpt_jax.env.urls import resolve
from webgpt_jax.web.elements import FOREIGN, FOREIGN_ROOTS, FORMATTING, HOLD_HTML, SELF_CLOSING, VOID

MAX_TAGS = 200_000
# Elements open at once, without those that close themselves, such as paragraphs and cells. The parsers bear 255.
MAX_DEPTH = 100
MAX_WALKS = 4_000_000  # tags times depth: a parser may walk up the open elements at each tag
MAX_REOPENED = 1_000_000  # tags times the formatting elements open at once: a parser may open so many elements again
LONG_SCRIPT = 1000  # characters; Readability drops scripts and styles, but takes its time over the long ones

# The rest of a tag. Each part is taken once and for all (++), and what is never closed reaches to the end of the page,
# so that nothing is scanned twice.
_TAG_END = r"""(?:[^>"'=]++|=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))?|["'])*+(?:>|\Z)"""
# A comment, an element whose content is no markup, or a tag: groups are the second's name and content, the third's
# slash and name.
_TOKEN = re.compile(
    r"<(?:!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?)"
    rf"|(script|style|textarea|title|xmp|iframe|noembed)(?=[\s/>]){_TAG_END}((?:[^<]++|<(?!/\1))*+)"
    rf"|(/?)([a-z][^\s/>]*+){_TAG_END})",
    re.IGNORECASE,
)
_UNCOUNTED = VOID | SELF_CLOSING.keys()
# Left out where a page is flattened. Without `svg` and `math`, a title is a title wherever it stands.
_FLATTENED = FORMATTING | {"svg", "math"}
_INLINE = FORMATTING | {"span", "a", "sup", "sub"}
_BASE = re.compile(r"""<base\s[^<>]{0,500}?href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_TITLE = re.compile(r"<title(?:\s[^>]*)?>([^<]*)", re.IGNORECASE)


def guard(html: str) -> str:
    """The page's HTML, made fit for the parsers: without its long scripts, and flattened where it is nested too deeply.

    Raises:
      WebError: "too_complex", there are more than `MAX_TAGS` tags.
    """
    tokens = _TOKEN.findall(html)
    tags, depth, formatting = _measure(tokens)
    if tags > MAX_TAGS:
        raise WebError("too_complex", f"This page is too complex to be shown: it has more than {MAX_TAGS:,} tags.")
    limit = min(MAX_DEPTH, MAX_WALKS // max(tags, 1))
    if depth > limit:  # a closer look, for which few pages have to wait
        _, depth, formatting = _measure(list(_without_leaves(html)))
    if depth <= limit and tags * formatting <= MAX_REOPENED:
        scripts = [content for _, content, _, _ in tokens if len(content) >= LONG_SCRIPT]
        return _without(html, [script for script in scripts if not _is_json(script)])
    return "".join(_flattened(html, limit))


def parse(html: str) -> etree._Element | None:
    """The tree of some HTML that has been through `guard`; None where it holds nothing."""
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = etree.fromstring(html.replace("\0", "").encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:  # a document without a single element
        return None
    return root if isinstance(root, etree._Element) else None


def base_url(html: str, url: str) -> str:
    """What the page's relative links are relative to: its `<base>` where it has one that can be followed."""
    found = _BASE.search(html)
    return (found and resolve(url, unescape(found[1] or found[2] or found[3] or ""))) or url


def title_of(html: str) -> str:
    """The text of the page's `<title>`, on one line; empty where there is none."""
    found = _TITLE.search(html)
    return clean_line(unescape(found[1])) if found else ""


def _is_json(content: str) -> bool:
    # It is kept: Readability takes titles from it.
    return content.lstrip().startswith(("{", "["))


def _without(html: str, parts: list[str]) -> str:
    """The HTML without some parts of it, given in the order in which they stand."""
    kept, end = [], 0
    for part in parts:
        start = html.index(part, end)
        kept.append(html[end:start])
        end = start + len(part)
    return "".join((*kept, html[end:]))


def _measure(tokens: list[tuple[str, str, str, str]]) -> tuple[int, int, int]:
    """How many tags open an element, and how many elements, and formatting elements, can be open at once."""
    still_open: defaultdict[str, int] = defaultdict(int)
    tags = depth = deepest = formatting = most_formatting = 0
    for raw, content, slash, name in tokens:
        if not name:
            if raw and (still_open["svg"] or still_open["math"]):  # there it is an element like any other
                tags += content.count("<")
                deepest = max(deepest, depth + content.count("<"))
            continue
        name = name.lower()
        if slash:
            if still_open[name]:
                still_open[name] -= 1
                depth -= 1
                formatting -= name in FORMATTING
            continue
        tags += 1
        if name in _UNCOUNTED:
            continue
        still_open[name] += 1
        depth += 1
        if depth > deepest:
            deepest = depth
        if name in FORMATTING:
            formatting += 1
            if formatting > most_formatting:
                most_formatting = formatting
    return tags, deepest, most_formatting


def _without_leaves(html: str) -> Iterator[tuple[str, str, str, str]]:
    """The tokens without the tags that open and close an element of SVG or MathML: icons are full of `<path/>`.

    Only where a parser certainly is within SVG or MathML: anywhere else the slash means nothing.
    """
    foreign = False
    still_open: Counter[str] = Counter()  # elements of MathML that hold HTML
    for token in _TOKEN.finditer(html):
        raw, content, slash, name = token.groups("")
        tag, closed = name.lower(), token[0].endswith("/>")
        if tag in FOREIGN_ROOTS:
            foreign = not slash and not closed
            still_open.clear()
        elif foreign and not slash and closed and tag in FOREIGN and not still_open.total():
            continue
        elif tag in HOLD_HTML:
            still_open[tag] = max(0, still_open[tag] + (-1 if slash else 1))
        elif tag not in FOREIGN:
            foreign = False
        yield raw, content, slash, name


def _gap(name: str) -> str:
    """What stands in for the tag of an element that is left out, so that the words around it stay apart."""
    return "" if name in _INLINE else "\n"


def _flattened(html: str, limit: int) -> Iterator[str]:
    """The page's markup, well nested and at most `limit` deep, without scripts, styles and formatting."""
    stack: list[tuple[str, bool]] = []  # the names of the open elements, and whether their tags were written
    still_open: Counter[str] = Counter()
    written = end = 0

    def close() -> str:
        nonlocal written
        name, was_written = stack.pop()
        still_open[name] -= 1
        written -= was_written
        return f"</{name}>" if was_written else _gap(name)

    for token in _TOKEN.finditer(html):
        yield html[end : token.start()]
        end = token.end()
        raw, _, slash, name = token.groups()
        if name is None:
            if raw and raw.lower() in ("title", "textarea"):
                yield token[0] + f"</{raw}>"
            continue
        name = name.lower()
        if name in VOID:
            yield token[0]
        elif (
            name in _FLATTENED
            or (name in FOREIGN and token[0].endswith("/>"))
            or (name == "a" and not slash and "href" not in token[0].lower())
        ):
            continue
        elif slash:
            while still_open[name]:
                closed = stack[-1][0]
                yield close()
                if closed == name:
                    break
        else:
            while stack and stack[-1][0] in SELF_CLOSING.get(name, ()):
                yield close()
            while name == "a" and still_open["a"]:
                yield close()
            keep = written < limit or name == "a"
            stack.append((name, keep))
            still_open[name] += 1
            written += keep
            yield token[0] if keep else _gap(name)
    yield html[end:]
