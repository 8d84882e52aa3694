"""PDF to `Page`, by pdfminer.six (paper, Appendix A).

A document is read page by page for as long as time and the limits below allow; what has been read by then is shown,
with a last line that says so. pdfminer follows whatever a file asks for: run this in a process that can be killed, as
`webgpt_jax.web.workers` does.
"""

from __future__ import annotations

import logging
import re
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby, islice
from typing import Any
from urllib.parse import unquote, urlsplit

from pdfminer.converter import PDFLayoutAnalyzer
from pdfminer.layout import LAParams, LTChar, LTFigure, LTTextLine
from pdfminer.pdfdocument import PDFDocument, PDFEncryptionError, PDFPasswordIncorrect
from pdfminer.pdfinterp import PDFPageInterpreter, PDFResourceManager
from pdfminer.pdfpage import PDFPage
from pdfminer.pdfparser import PDFParser
from pdfminer.pdftypes import dict_value, list_value, resolve1
from pdfminer.psexceptions import PSException
from pdfminer.utils import apply_matrix_rect, decode_text

from webgpt_jax.env.page import Page, PageWriter
from webgpt_jax.env.protocol import WebError
from webgpt_jax.env.text import clean, clean_line
from webgpt_jax.env.urls import host_of, resolve
from webgpt_jax.web.pdf_layout import Block, Line, paragraphs, reading_order

MAX_PAGES = 1_000
MAX_CHARS = 1_000_000
MAX_SECONDS = 3.0  # below the time that a worker gives a page, so that a long document keeps what has been read
_MOST_LINES = 2_000  # on a page, for lines to be grouped
_MAX_LINKS_A_PAGE = 500
_MAX_TITLE = 300  # characters; what is longer is no title

# pdfminer takes a file at its word, so damage surfaces as whatever Python then raises. RuntimeError: RecursionError
# too, and a StopIteration inside a generator.
_DAMAGE = (
    PSException,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)

_NO_LETTER = "\ufffd"  # stands for a glyph of which the font does not say what letter it is
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
_LEADERS = re.compile(r"(?: ?\.){5,} ?")  # the dots of a table of contents
_NO_TITLE = re.compile(
    r"(?:untitled|title|document|no title|slide|presentation|powerpoint presentation|layout|print|\W*)\s*\d*"
    r"|.*\.(?:docx?|pdf|dvi|tex|indd|qxd|pptx?|xlsx?|rtf|odt|ps|eps|pmd|fm|p65|cdr|ai)",
    re.IGNORECASE | re.DOTALL,
)
_PROGRAM_PREFIX = re.compile(r"Microsoft (?:Office )?(?:Word|PowerPoint|Excel) - ", re.IGNORECASE)


class _OutOfTime(Exception):
    """The deadline has come in the middle of a page."""


class _Reader(PDFLayoutAnalyzer):
    """Collects the lines of a page's text; raises `_OutOfTime` at the deadline, wherever in the page it is."""

    def __init__(self, manager: PDFResourceManager, deadline: float) -> None:
        super().__init__(manager, laparams=LAParams())
        self._deadline = deadline
        self.boxes: list[list[LTTextLine]] = []

    def begin_page(self, page: PDFPage, ctm: Any) -> None:
        self.page_matrix = ctm
        super().begin_page(page, ctm)

    def end_page(self, page: PDFPage) -> None:
        """Groups letters to lines, and lines to boxes; pdfminer's ordering of boxes (`boxes_flow`) is not used.

        Grouping lines may take time that grows with the square of their number, and cannot be broken off. Where there
        are more than a page of prose has, each is its own box.
        """
        for container in _containers(self.cur_item):
            letters = [item for item in container if isinstance(item, LTChar)]
            lines = []
            for line in container.group_objects(self.laparams, letters) if letters else ():
                self._check_time()
                if not line.is_empty():
                    lines.append(line)
            if len(lines) > _MOST_LINES:
                self.boxes += [[line] for line in lines]
            else:
                self.boxes += [list(box) for box in container.group_textlines(self.laparams, lines)]

    def render_char(self, *args: Any, **kwargs: Any) -> float:
        self._check_time()
        advance: float = super().render_char(*args, **kwargs)
        return advance

    def begin_figure(self, *args: Any) -> None:
        self._check_time()
        super().begin_figure(*args)

    def paint_path(self, *args: Any) -> None:
        self._check_time()

    def render_image(self, *args: Any) -> None:
        self._check_time()

    def handle_undefined_char(self, *args: Any) -> str:
        return _NO_LETTER

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _OutOfTime


def pdf_to_page(body: bytes, url: str) -> Page:
    """The text of a PDF document, its web links marked.

    Args:
      body: the file.
      url: where it is from; names the page where the document does not name itself.

    Raises `WebError`: "encrypted", "broken", "no_text" (scanned, or fonts that cannot be read), or "timeout" where not
    even the first page can be read in time.
    """
    logging.getLogger("pdfminer").setLevel(logging.CRITICAL)  # it reports every oddity of a file
    document = _open(body)
    writer = PageWriter(url)
    reading = _Reading(document, writer, time.monotonic() + MAX_SECONDS)
    reading.run()
    text = "\n".join(reading.lines)
    _refuse_unreadable(text, reading)
    closing = [f"[{sentence}]" for sentence in reading.left_out]
    return writer.page(_title(document, url), "\n".join([text[:MAX_CHARS], *closing]))


def _open(body: bytes) -> PDFDocument:
    try:
        return PDFDocument(PDFParser(BytesIO(body)))
    except PDFPasswordIncorrect:
        raise WebError("encrypted", "This PDF cannot be read because it needs a password; try another page.") from None
    except PDFEncryptionError:
        raise WebError(
            "encrypted", "This PDF cannot be read because it is encrypted in an unknown way; try another page."
        ) from None
    except RecursionError:
        raise WebError(
            "broken", "This PDF cannot be read because its tables refer to one another in a circle; try another page."
        ) from None
    except _DAMAGE:
        raise WebError(
            "broken", "This PDF cannot be read because it is damaged or is no PDF at all; try another page."
        ) from None


class _Reading:
    """One pass through a document: `lines` is what has been read, `left_out` says what has not."""

    def __init__(self, document: PDFDocument, writer: PageWriter, deadline: float) -> None:
        self._document = document
        self._writer = writer
        self._deadline = deadline
        self._fonts = PDFResourceManager()
        self.lines: list[str] = []
        self.chars = 0
        self.left_out: list[str] = []
        self.late = False
        self.damaged = 0

    def run(self) -> None:
        try:
            self._read_pages()
        except _OutOfTime:
            self.late = True
            self.left_out.append("The rest of this document is not shown: reading it would take too long.")
        except _DAMAGE:  # the list of pages itself
            self.damaged += 1
        if self.damaged:
            self.left_out.append("Parts of this document are not shown: they are damaged.")

    def _read_pages(self) -> None:
        pages = PDFPage.create_pages(self._document)
        for page in islice(pages, MAX_PAGES):
            try:
                lines = self._read_page(page)
            except _DAMAGE:
                self.damaged += 1
                continue
            self.lines += lines
            self.chars += sum(len(line) + 1 for line in lines)
            if self.chars > MAX_CHARS:
                break
        if self.chars > MAX_CHARS or next(pages, None) is not None:
            self.left_out.append("The rest of this document is not shown: it is too long.")

    def _read_page(self, page: PDFPage) -> list[str]:
        reader = _Reader(self._fonts, self._deadline)
        PDFPageInterpreter(self._fonts, reader).process_page(page)
        links = list(_links(page, reader.page_matrix, self._writer.url))
        boxes = ([self._line(line, links) for line in box] for box in reader.boxes)
        blocks = [Block(lines) for box in boxes if (lines := [line for line in box if line.text])]
        return paragraphs(reading_order(blocks))

    def _line(self, line: LTTextLine, links: Sequence[_PdfLink]) -> Line:
        links = [link for link in links if link.y0 < line.y1 and link.y1 > line.y0]
        pieces: list[str] = []
        for target, items in groupby(line, key=lambda item: _target(item, links)):
            text = clean("".join(item.get_text() for item in items).translate(_LIGATURES))
            pieces.append(self._marker(text, target) if target else text)
        text = " ".join("".join(pieces).split())
        return Line(_LEADERS.sub(" … ", text).strip(), *line.bbox)

    def _marker(self, text: str, url: str) -> str:
        bare = text.strip()
        before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return before + self._writer.link(bare, url) + after if bare else text


def _containers(container: Any) -> Iterator[Any]:
    """A page and the forms in it, in which some programs put the whole page. pdfminer takes them for figures."""
    yield container
    for item in container:
        if isinstance(item, LTFigure):
            yield from _containers(item)


@dataclass(frozen=True)
class _PdfLink:
    x0: float
    y0: float
    x1: float
    y1: float
    url: str


def _links(page: PDFPage, matrix: Any, base: str) -> Iterator[_PdfLink]:
    """The web links of a page and the rectangles that they are laid over."""
    for reference in list_value(page.annots or [])[:_MAX_LINKS_A_PAGE]:
        try:
            annotation = dict_value(reference)
            uri = resolve1(dict_value(annotation.get("A") or {}).get("URI"))
            x0, y0, x1, y1 = (float(resolve1(corner)) for corner in list_value(annotation["Rect"]))
        except _DAMAGE:
            continue
        url = resolve(base, uri.decode("utf-8", "replace")) if isinstance(uri, bytes) else ""
        if url:
            yield _PdfLink(*apply_matrix_rect(matrix, (x0, y0, x1, y1)), url)


def _target(item: object, links: Sequence[_PdfLink]) -> str:
    if not links or not isinstance(item, LTChar):
        return ""
    x, y = (item.x0 + item.x1) / 2, (item.y0 + item.y1) / 2
    return next((link.url for link in links if link.x0 <= x <= link.x1 and link.y0 <= y <= link.y1), "")


def _refuse_unreadable(text: str, reading: _Reading) -> None:
    letters = len(text) - text.count(" ") - text.count("\n")
    if not letters:
        if reading.late:
            raise WebError(
                "timeout", "This PDF cannot be read because its first page takes too long; try another page."
            )
        if reading.damaged:
            raise WebError("broken", "This PDF cannot be read because its pages are damaged; try another page.")
        raise WebError(
            "no_text", "This PDF cannot be read because it holds no text, only pictures perhaps; try another page."
        )
    if 2 * text.count(_NO_LETTER) > letters:
        raise WebError(
            "no_text",
            "This PDF cannot be read because its fonts do not say which letters they show; try another page.",
        )


def _title(document: PDFDocument, url: str) -> str:
    """The title that the document gives itself, where it reads like one; else the file's name, or the host."""
    for info in document.info:
        title = resolve1(info.get("Title"))
        if isinstance(title, bytes):
            title = _PROGRAM_PREFIX.sub("", clean_line(_decode(title)))
            if len(title) <= _MAX_TITLE and not _NO_TITLE.fullmatch(title):
                return title
    name = unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]
    name = re.sub(r"\.pdf\Z", "", name, flags=re.IGNORECASE)
    return clean_line(re.sub(r"[_+]+", " ", name)) or host_of(url)


def _decode(text: bytes) -> str:
    if text.startswith(b"\xef\xbb\xbf"):  # PDF 2.0
        return text[3:].decode("utf-8", "replace")
    return decode_text(text)
