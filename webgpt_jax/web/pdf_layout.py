"""From lines at places on a sheet to paragraphs in the order in which they are read.

A PDF says where letters stand, not what belongs together. All of this is our reading: columns are read one after the
other, the lines of a paragraph are joined to one, and a word that is hyphenated across lines is made whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

_GUTTER = 5.0  # points: the least distance of two columns
_MOST_GUTTERS = 8  # so many of the widest are tried
_COLUMN_LINES = 3  # what is less tall is no column of text; a table's cells are read row by row
_INDENT = 0.8  # of a line's height: the least first-line indent
_LINE_GAP = 0.5  # of a line's height: the most that lies between lines of one block
_SHORT = 0.75  # of a block's width: a line that ends before it ends its paragraph

_BULLET = re.compile(r"(?:[•‣◦▪●○·*–-]|\d+(?:\.\d+)+|\(?(?:\d{1,3}|[A-Za-z])[.)])\s")
_HYPHEN_AT_END = re.compile(r"(?<=[^\W\d_])[-\u2010\xad]\Z")
_CJK = re.compile(r"[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")

Span = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A line of text and its place: points from the sheet's lower left corner."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def height(self) -> float:
        return self.y1 - self.y0


@dataclass(frozen=True)
class Block:
    """Lines that stand together, from top to bottom. There is at least one."""

    lines: Sequence[Line]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", sorted(self.lines, key=lambda line: -line.y1))

    @cached_property
    def x0(self) -> float:
        return min(line.x0 for line in self.lines)

    @cached_property
    def y0(self) -> float:
        return min(line.y0 for line in self.lines)

    @cached_property
    def x1(self) -> float:
        return max(line.x1 for line in self.lines)

    @cached_property
    def y1(self) -> float:
        return max(line.y1 for line in self.lines)


# ---- the order of blocks


def reading_order(blocks: Sequence[Block]) -> list[Block]:
    """The blocks from top to bottom; where columns of text stand side by side, one column after the other."""
    ordered: list[Block] = []
    band: list[Block] = []  # rows, one below the other, that one gap may part into columns
    common: list[Span] = []
    reach = (0.0, 0.0)
    edges = _extent(blocks)
    for row in _rows(blocks):
        gaps, width = _gaps(row, edges), _extent(row)
        shared, both = _intersect(common, gaps), (min(reach[0], width[0]), max(reach[1], width[1]))
        if not _parting(shared, both) and (_parting(common, reach) or _parting(gaps, width)):
            ordered += _read_band(band, common)
            band = []
        common, reach = (shared, both) if band else (gaps, width)
        band += row
    return ordered + _read_band(band, common)


def _extent(blocks: Sequence[Block]) -> Span:
    return min((block.x0 for block in blocks), default=0), max((block.x1 for block in blocks), default=0)


def _parting(gaps: Sequence[Span], extent: Span) -> list[Span]:
    """Those of the gaps that have something to either side."""
    return [(start, end) for start, end in gaps if extent[0] < start and end < extent[1]]


def _rows(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Groups of blocks that stand side by side, from top to bottom."""
    row: list[Block] = []
    bottom = 0.0
    for block in sorted(blocks, key=lambda block: -block.y1):
        if row and block.y1 <= bottom + 1:  # they may touch
            yield row
            row = []
        bottom = min(bottom, block.y0) if row else block.y0
        row.append(block)
    if row:
        yield row


def _gaps(row: Sequence[Block], edges: Span) -> list[Span]:
    """The stretches of a row, wide enough to part columns, where nothing stands."""
    gaps = []
    end = edges[0]
    for block in sorted(row, key=lambda block: block.x0):
        if block.x0 - end >= _GUTTER:
            gaps.append((end, block.x0))
        end = max(end, block.x1)
    if edges[1] - end >= _GUTTER:
        gaps.append((end, edges[1]))
    return gaps


def _intersect(some: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    both = []
    some_left, others_left = iter(some), iter(others)
    one, other = next(some_left, None), next(others_left, None)
    while one and other:
        start, end = max(one[0], other[0]), min(one[1], other[1])
        if end - start >= _GUTTER:
            both.append((start, end))
        if one[1] < other[1]:
            one = next(some_left, None)
        else:
            other = next(others_left, None)
    return both


def _read_band(band: Sequence[Block], gaps: Sequence[Span]) -> list[Block]:
    for start, end in sorted(_parting(gaps, _extent(band)), key=lambda gap: gap[0] - gap[1])[:_MOST_GUTTERS]:
        left = [block for block in band if block.x1 <= start]
        right = [block for block in band if block.x0 >= end]
        if _is_column(left) and _is_column(right):
            return reading_order(left) + reading_order(right)
    return [block for row in _rows(band) for block in sorted(row, key=lambda block: (-round(block.y1), block.x0))]


def _is_column(blocks: Sequence[Block]) -> bool:
    return any(len(block.lines) >= _COLUMN_LINES for block in blocks)


# ---- the paragraphs of blocks


def paragraphs(blocks: Sequence[Block]) -> list[str]:
    """The paragraphs of blocks in reading order, each on one line."""
    return [paragraph for block in _merged(blocks) for paragraph in _paragraphs(block)]


def _merged(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks, those that follow each other as the lines of one block do made into one.

    pdfminer parts an indented first line from the line below it.
    """
    lines: list[Line] = []
    for block in blocks:
        if lines and not _follows(lines[-1], block.lines[0]):
            yield Block(lines)
            lines = []
        lines += block.lines
    if lines:
        yield Block(lines)


def _follows(above: Line, below: Line) -> bool:
    height = max(above.height, below.height)
    return (
        -_LINE_GAP * height < above.y0 - below.y1 < _LINE_GAP * height
        and abs(above.height - below.height) < 0.1 * height
        and min(above.x1, below.x1) > max(above.x0, below.x0)
    )


def _paragraphs(block: Block) -> list[str]:
    found: list[str] = []
    above: Line | None = None
    for line in _side_by_side_joined(block.lines):
        if above is None or _starts_paragraph(above, line, block):
            found.append(line.text)
        else:
            found[-1] = _join(found[-1], line.text)
        above = line
    return found


def _side_by_side_joined(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines from top to bottom; what stands at one height becomes one line."""
    row: list[Line] = []
    for line in lines:
        if row and min(line.y1, row[0].y1) - max(line.y0, row[0].y0) < min(line.height, row[0].height) / 2:
            yield _as_one(row)
            row = []
        row.append(line)
    if row:
        yield _as_one(row)


def _as_one(row: Sequence[Line]) -> Line:
    text = " ".join(line.text for line in sorted(row, key=lambda line: line.x0))
    block = Block(row)
    return Line(text, block.x0, block.y0, block.x1, block.y1)


def _starts_paragraph(above: Line, line: Line, block: Block) -> bool:
    if _is_hyphenated(above.text, line.text):
        return False
    if _BULLET.match(line.text):
        return True
    if abs((above.x0 + above.x1) - (line.x0 + line.x1)) < 2 and abs(above.x0 - line.x0) > 1:  # centred
        return False
    if above.x1 - block.x0 < _SHORT * (block.x1 - block.x0):
        return True
    return line.x0 - above.x0 > _INDENT * line.height and not _BULLET.match(above.text)


def _is_hyphenated(text: str, following: str) -> bool:
    return _HYPHEN_AT_END.search(text) is not None and following[:1].islower()


def _join(text: str, following: str) -> str:
    if _is_hyphenated(text, following):
        return text[:-1] + following
    if _CJK.match(text[-1:]) and _CJK.match(following):
        return text + following
    return f"{text} {following}"
