"""HTML to the text of a page (paper, Appendix A), with a serializer of our own.

The paper turns HTML into text "as html2text does". Our reading keeps what html2text puts at the head of a line (`# ` of
headings, `* ` and `1. ` of list items, `> ` of quotations, blank lines between paragraphs) and leaves out what it puts
inside one (`_emphasis_`, `**strong**`, backquotes, escapes such as `1986\\.`), because quotes are compared with and
taken from this text, and lines are never wrapped. Links become markers, images `[Image: <alt text>]` (see
`webgpt_jax.web.images`), superscripts and subscripts `^` and `_`; a table's row is a line, its cells parted by ` | `;
ruby is written 漢(かん), formulas as `webgpt_jax.web.mathml` writes them. Struck text, such as a former price, becomes
`[deleted: $90]`: without a mark the page would state what it takes back.

Text that people do not see is left out, see `webgpt_jax.web.hidden`. The content of a closed `<details>` is kept:
people can open it.

The tree is lxml's. BeautifulSoup's holds the same nodes, from the same parser, and takes ten times as long to build.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lxml import etree

from webgpt_jax.env.page import PageWriter, strip_markers
from webgpt_jax.env.urls import resolve
from webgpt_jax.web.elements import (
    BLOCKS,
    BUSY,
    CELLS,
    DROPPED,
    HEADINGS,
    LISTS,
    SCRIPT_ENDS,
    SCRIPTS,
    SPACED,
    VERBATIM,
)
from webgpt_jax.web.hidden import is_hidden
from webgpt_jax.web.images import MAX_ALT, MAX_ALT_IN_LINK, Images
from webgpt_jax.web.mathml import MATH, linear

MAX_TEXT = 1_000_000  # characters of a page's text, more or less; what follows is cut off
CUT = "[The page is longer; the rest of it is not shown.]"

_MAX_LIST_INDENT = 4  # levels; a deeper list is indented no further
_LIST_INDENT = "  "
_MAX_QUOTE_MARKS = 3
_QUOTE_MARK = "> "
_BUSY_CELL = 3  # a cell with more line-breaking elements than this is laid out in lines of its own
_BEFORE = 1000  # characters of each piece of text before an image that is compared with its alternative text
_PIECES_BEFORE = 8

_PLAIN_URL = re.compile(r"https?://[a-z0-9.-]+/[!-~]*")
_AUTHORITY = re.compile(r"(https?)(://(?:[^/?#]*@)?)([^/?#]*)/?", re.IGNORECASE)
_NUMBER = re.compile(r"\s*(-?\d{1,9})")
_OVER = re.compile(r"\^(\d+)")
# More than one symbol; not so 1-3, which is a range of footnotes.
_COMPOUND = re.compile(r"\w\s*[+−=×·*/]\s*\w|(?<!\w)(?:[^\W\d]\s*-\s*\w|\d\s*-\s*[^\W\d])(?!\w)")


def render(root: etree._Element, base: str, writer: PageWriter) -> str:
    """The text of a tree; its links are written to `writer`.

    Args:
      root: the tree; it is not changed.
      base: the absolute URL that relative links are relative to.
      writer: makes the link markers.
    """
    return _Renderer(base, writer, _busy_rows(root)).render(root)


def _busy_rows(root: etree._Element) -> set[etree._Element]:
    """The table rows that hold too much for one line, such as those of a table that lays out a page."""
    if next(root.iter("table"), None) is None:
        return set()
    rows = {}
    for element in root.iter(BUSY):
        row = next(element.iterancestors("tr"), None)
        if row is not None:
            rows[row] = True
    breaks: dict[etree._Element, int] = {}
    for element in root.iter("p", "div", "br"):
        cell = next(element.iterancestors("td", "th"), None)
        if cell is not None:
            breaks[cell] = breaks.get(cell, 0) + 1
            if breaks[cell] > _BUSY_CELL and (row := next(cell.iterancestors("tr"), None)) is not None:
                rows[row] = True
    return set(rows)


def _script(tag: str, element: etree._Element) -> str:
    """What stands before an element's text if that is raised, lowered, a ruby text or struck; otherwise empty."""
    mark = SCRIPTS.get(tag, "")
    if mark[:1] == "[" and any(part.tag in BLOCKS for part in element.iterdescendants(etree.Element)):
        return ""  # struck paragraphs stay paragraphs, with the mark in the first and the last
    return mark


def _address(base: str, href: str) -> str:
    """The absolute URL of a link as browsers spell it: scheme and host in small letters, and a path."""
    if _PLAIN_URL.fullmatch(href):
        return href
    url = resolve(base, href)
    return _AUTHORITY.sub(lambda found: f"{found[1].lower()}{found[2]}{found[3].lower()}/", url, count=1)


def _integer(text: str | None, default: int) -> int:
    found = _NUMBER.match(text or "")
    return int(found[1]) if found else default


@dataclass
class _Row:
    """A table row that is written on one line: the texts of its cells so far."""

    cells: list[str] = field(default_factory=list)


class _Renderer:
    """Walks a tree once, without recursion, and collects lines.

    A link, a superscript, a ruby text, a cell or row of a simple table is *inline*: blocks within it do not break the
    line, and when it ends, the pieces of the line since it began are taken back and written in its own form.
    """

    def __init__(self, base: str, writer: PageWriter, busy_rows: set[etree._Element]) -> None:
        self.base = base
        self.writer = writer
        self.busy_rows = busy_rows
        self.images = Images()
        self.lines: list[str] = []
        self.line: list[str] = []  # the pieces of the line being written
        self.prefix = ""  # what that line begins with
        self.begun = False  # whether it has been given its prefix
        self.size = 0  # characters written
        self.breaks = 0  # line ends to write before the next text
        self.space = False  # whether a blank comes before the next text
        self.inline = 0  # how many inline elements are open
        self.pre = 0
        self.indents: list[str] = []  # of each open list and quotation: what it puts before a line
        self.mark = ""  # of a heading or a list item that has had no text yet
        self.numbers: list[int | None] = []  # of each open list: the number of its next item, None for bullets
        self.steps: list[int] = []  # and how much the one after that is more
        self.in_link = False
        self.block_in_link = False
        self.rows: list[_Row | None] = []  # of each open row; None for busy ones
        self.starts: list[int | None] = []  # of each open inline element: its first piece in the line

    def render(self, root: etree._Element) -> str:
        skipped = None
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = element.tag
            if event == "start":
                if tag in DROPPED or is_hidden(tag, element):
                    self.space = self.space or tag in SPACED
                    skipped = element
                    walk.skip_subtree()
                    continue
                if tag in MATH and self.formula(element):
                    skipped = element
                    walk.skip_subtree()
                    continue
                self.open(tag, element)
                if element.text:
                    text = element.text
                    self.text(text[1:] if tag in VERBATIM and text[0] == "\n" else text)
            else:
                if element is not skipped:
                    self.close(tag, element)
                if element.tail and element is not root:
                    self.text(element.tail)
            if self.size > MAX_TEXT:
                self.end_line()
                self.lines += ["", CUT]
                break
        self.end_line()
        return "\n".join(self.lines).strip("\n")

    # ---- elements

    def open(self, tag: str, element: etree._Element) -> None:
        if tag in BLOCKS:
            self.open_block(tag, element)
        elif tag == "a":
            href = element.get("href")
            if href is None or self.in_link:
                self.starts.append(None)
            else:
                self.in_link, self.block_in_link = True, False
                self.open_inline()
        elif tag == "img":
            self.image(element)
        elif tag == "br":
            self.line_break()
        elif tag in SPACED:
            self.space = True
        elif tag == "q":
            self.write("“")
        elif tag == "frame":
            self.frame(element)
        elif _script(tag, element):
            self.open_inline()
        elif tag in SCRIPTS:
            self.write(SCRIPTS[tag].strip())
            self.space = True

    def close(self, tag: str, element: etree._Element) -> None:
        if tag in BLOCKS:
            self.close_block(tag)
        elif tag == "a":
            self.close_link(element)
        elif tag in SPACED:
            self.space = True
        elif tag == "q":
            self.space = False
            self.write("”")
        elif mark := _script(tag, element):
            content = self.close_inline()
            text = content.strip()
            if text:
                if content[0] == " " and mark != "(":
                    self.line.append(" ")
                self.script(mark, text)
            self.space = (self.space and mark != "(") or (mark[0] == "[" and not element.tail)
        elif tag in SCRIPTS:
            self.close_struck(SCRIPTS[tag])

    def open_block(self, tag: str, element: etree._Element) -> None:
        self.block(self.margin(tag))
        if tag == "li":
            number = self.numbers[-1] if self.numbers else None
            if number is None:
                self.mark = "* "
            else:
                number = _integer(element.get("value"), number)
                self.numbers[-1] = number + self.steps[-1]
                self.mark = f"{number}. "
        elif tag in LISTS:
            down = tag == "ol" and element.get("reversed") is not None
            first = sum(1 for _ in element.iterchildren("li")) if down else 1
            self.numbers.append(_integer(element.get("start"), first) if tag == "ol" else None)
            self.steps.append(-1 if down else 1)
            self.indents.append(_LIST_INDENT)
        elif tag in HEADINGS:
            self.mark = self.mark or HEADINGS[tag]
        elif tag == "blockquote":
            self.indents.append(_QUOTE_MARK)
        elif tag in VERBATIM:
            self.pre += 1
        elif tag == "tr":
            row = None if self.inline or element in self.busy_rows else _Row()
            self.rows.append(row)
            if row is not None:
                self.open_inline()
        elif tag in CELLS:
            if self.rows and self.rows[-1] is not None:
                self.open_inline()
            else:
                self.starts.append(None)

    def close_block(self, tag: str) -> None:
        if tag == "tr":
            self.close_row()
        elif tag in CELLS:
            content = self.close_inline()
            if self.rows and (row := self.rows[-1]) is not None:
                row.cells.append(content.strip())
                self.space = False
        elif tag == "li" or tag in HEADINGS:
            self.mark = ""
        elif tag in VERBATIM:
            self.pre -= 1
        elif tag in LISTS:
            self.numbers.pop()
            self.steps.pop()
            self.indents.pop()
        elif tag == "blockquote":
            self.indents.pop()
        self.block(self.margin(tag))

    def margin(self, tag: str) -> int:
        """How many line ends part this block from what comes before and after."""
        return 1 if self.numbers and (tag == "p" or tag in LISTS) else BLOCKS[tag]

    def close_row(self) -> None:
        row = self.rows.pop()
        if row is None:
            return
        around = self.close_inline().strip()  # text of the row that is in no cell
        cells = row.cells
        while cells and not cells[-1]:
            cells.pop()
        filled = [cell for cell in cells if cell]
        text = filled[0] if len(filled) == 1 else " | ".join(cells)
        self.space = False
        if around or text:
            self.write(f"{around} {text}".strip())

    def close_link(self, element: etree._Element) -> None:
        start = self.starts[-1]
        if start is None:
            self.starts.pop()
            return
        self.in_link = False
        url = _address(self.base, element.get("href", ""))
        if not url:  # plain text, which stays as it is
            self.starts.pop()
            self.inline -= 1
            return
        content = self.close_inline()
        marker = self.writer.link(content, url)
        if not marker:
            self.space = self.space or bool(content)
            return
        alone = self.block_in_link and not self.inline
        if alone and self.line:
            self.block(1)
            self.write(marker)
        else:
            if content[0] == " ":
                self.line.append(" ")
            self.line.append(marker)
            self.size += len(marker)
        if alone:
            self.block(1)

    def image(self, element: etree._Element) -> None:
        start = (self.starts[-1] or 0) if self.starts else 0
        before = "".join(piece[-_BEFORE:] for piece in self.line[max(start, len(self.line) - _PIECES_BEFORE) :])
        if not before.strip() and not self.inline:
            before = next((line[-_BEFORE:] for line in self.lines[:-3:-1] if line), "")
        text = self.images.text(element, strip_markers(before), MAX_ALT_IN_LINK if self.in_link else MAX_ALT)
        if text:
            self.write(text)

    def close_struck(self, mark: str) -> None:
        """The end of struck paragraphs: on the last one's line, which is still open."""
        self.breaks, self.space = 0, False
        self.write(SCRIPT_ENDS[mark])
        self.block(1)

    def script(self, mark: str, text: str) -> None:
        if mark in ("^", "_") and _COMPOUND.search(text) and "【" not in text:
            text = f"({text})"  # x^n+1 would be another number
        elif mark == "_" and self.line[-1:] in (["/"], ["⁄"]) and (over := _OVER.fullmatch("".join(self.line[-2:-1]))):
            del self.line[-2:]  # a fraction
            blank = " " if self.line and self.line[-1][-1:].isdigit() else ""
            self.line.append(f"{blank}{over[1]}/{text}")
            return
        self.line.append(mark + text + SCRIPT_ENDS[mark])

    def formula(self, element: etree._Element) -> bool:
        """Writes a formula; false where the element is none, and has to be walked through."""
        text = linear(element)
        if text is None:
            return False
        margin = int(element.get("display") == "block")
        if margin:
            self.block(margin)
        if text:
            self.write(text[:MAX_TEXT])
        if margin:
            self.block(margin)
        return True

    def frame(self, element: etree._Element) -> None:
        source = element.get("src", "")
        url = _address(self.base, source)
        if source and url:
            self.block(1)
            self.write(self.writer.link(element.get("title") or element.get("name") or source, url))
            self.block(1)

    # ---- inline elements

    def open_inline(self) -> None:
        if self.breaks and self.begun and not self.inline:
            self.end_line()
        self.starts.append(len(self.line))
        self.inline += 1

    def close_inline(self) -> str:
        """Takes back what was written since the inline element began; it may begin with the blank before it."""
        start = self.starts.pop()
        if start is None:
            return ""
        self.inline -= 1
        content = "".join(self.line[start:])
        del self.line[start:]
        return content

    # ---- text, lines and breaks

    def text(self, text: str) -> None:
        """Text of the document, its white space as the document has it."""
        room = MAX_TEXT + 1 - self.size
        if self.pre and not self.inline:
            lines = text[:room].replace("\r\n", "\n").split("\n")
            self.verbatim(lines[0])
            for line in lines[1:]:
                self.end_line(keep_empty=True)
                self.verbatim(line)
            if len(text) > room:
                self.size = MAX_TEXT + 1
            return
        words = text.split()
        if not words:
            self.space = True
            return
        if text[0].isspace():
            self.space = True
        self.write(" ".join(words)[:room])
        self.space = text[-1].isspace()

    def write(self, text: str) -> None:
        """Text that goes on the line, after whatever break or blank is due."""
        if self.breaks and self.begun and not self.inline:
            self.end_line()
        if not self.begun:
            self.begin_line()
        elif self.space and self.line:
            self.line.append(" ")
        self.space = False
        self.line.append(text)
        self.size += len(text)

    def verbatim(self, text: str) -> None:
        if not text:
            return
        if self.breaks and self.begun:
            self.end_line()
        if not self.begun:
            self.begin_line()
        self.space = False
        self.line.append(text)
        self.size += len(text)

    def block(self, margin: int) -> None:
        """The edge of a block: what comes next stands on a line of its own, or after a blank in an inline element."""
        self.space = True
        if self.inline:
            self.block_in_link = self.in_link
        else:
            self.breaks = max(self.breaks, margin)

    def line_break(self) -> None:
        self.space = True
        if self.pre and not self.inline:
            self.end_line(keep_empty=True)
        elif not self.inline:
            self.breaks = min(self.breaks + 1, 2)

    def begin_line(self) -> None:
        if self.breaks > 1 and self.lines:
            self.lines.append("")
        self.breaks = 0
        self.begun = True
        self.prefix = self.indent() if self.indents else self.mark
        self.mark = ""

    def indent(self) -> str:
        """What lists and quotations put before a line, the outermost first; a list item's mark in its list's place."""
        left = {_LIST_INDENT: _MAX_LIST_INDENT, _QUOTE_MARK: _MAX_QUOTE_MARKS}
        parts = []
        for part in self.indents:
            if left[part]:
                left[part] -= 1
                parts.append(part)
        if self.mark and _LIST_INDENT in parts:
            place = len(parts) - 1 - parts[::-1].index(_LIST_INDENT)
            if self.mark[0] == "#":
                del parts[place]
            else:
                parts[place] = self.mark
                return "".join(parts)
        return "".join(parts) + self.mark

    def end_line(self, keep_empty: bool = False) -> None:
        line = "".join(self.line)
        if line.strip():
            self.lines.append(self.prefix + line.rstrip())
        elif keep_empty and self.lines:
            self.lines.append("")
            self.size += 1
        self.line.clear()
        self.begun = False
