"""MathML to a line of text that can be read in one way only: `(a+b)/2`, `√(x+1)`, `∑_(i=1)^n`.

A formula's value depends on what stands above and beside what, so a fraction that became `12` would be a false
statement. Superscripts and subscripts are written `^` and `_` (paper, Appendix A), limits above and below an operator
likewise; fractions with `/`, roots as `√x` or `√[3]x`, a matrix as rows parted by `;`. Whatever holds more than one
symbol gets brackets where it is raised, lowered, divided or under a root.

Presentation MathML is what browsers show. The TeX annotation beside it says the same again and is left out, except
where there is nothing else that can be read: then it is the formula.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from lxml import etree

from webgpt_jax.web.elements import BLOCKS
from webgpt_jax.web.hidden import is_hidden

# Elements whose children mean different things, and how many there are.
_PARTED = dict.fromkeys(("mfrac", "mover", "mroot", "msub", "msup", "munder"), 2) | {"msubsup": 3, "munderover": 3}
# Where a walk over a page hands an element over to `linear`.
MATH = _PARTED.keys() | {"mmultiscripts", "m:math", "math", "mfenced", "mml:math", "mrow", "msqrt", "mtable"}

_FOREIGN = BLOCKS.keys() | {"a", "img"}  # a formula left open holds the rest of the page
_TOKENS = frozenset(("mi", "mn", "mo", "ms", "mtext"))
_NOTHING = frozenset(("malignmark", "maligngroup", "mphantom", "mprescripts", "none", "script", "style", "template"))
_ANNOTATIONS = frozenset(("annotation", "annotation-xml"))

_OPENING = "([{⟨⌊⌈⟦"
_CLOSING = ")]}⟩⌋⌉⟧"
_FENCES = _OPENING + _CLOSING + "|‖"
_BINDS_TIGHTER = frozenset("/÷∕⁄:∶^!%′″‴∘")  # operators beside which a fraction needs brackets
_RELATIONS = frozenset("=<>≤≥≠≈≡≅∼≃→⇒⇔↔∝∈:≔")
_PRIMES = re.compile("['′″‴⁗]+")
_INVISIBLE = re.compile("[\u2061-\u2063]")  # function application, times and separator
_NUMBER = re.compile(r"\d[\d.,]*")
_NUMBERS = re.compile(r"\d+/\d+")
_ONE_SYMBOL = re.compile(r"[\w.,]+|[^\w\s]")
_ZERO = re.compile(r"\s*0+(?:\.0*)?[a-z%]*\s*\Z")
_DISPLAY_STYLE = re.compile(r"\A\{\\(?:display|text)style\s*(.*)\}\Z", re.DOTALL)
# Accents over a single letter, and the characters that put them there.
_ACCENTS = {"¯": "\u0304", "‾": "\u0304", "^": "\u0302", "ˆ": "\u0302", "~": "\u0303", "˜": "\u0303", "→": "\u20d7"}
_ACCENTS |= {"⃗": "\u20d7", "˙": "\u0307", ".": "\u0307", "¨": "\u0308", "ˇ": "\u030c", "´": "\u0301", "`": "\u0300"}


class _Kind(Enum):
    SYMBOL = auto()  # one symbol, or something in brackets
    OPERATOR = auto()
    LOWERED = auto()  # with a subscript
    RAISED = auto()  # with a superscript, or a root: it ends where a letter or digit might seem to go on
    FRACTION = auto()
    COMPOUND = auto()


@dataclass(frozen=True)
class _Piece:
    text: str
    kind: _Kind

    def in_brackets(self, *bare: _Kind) -> str:
        """The text, in brackets unless it is of one of the kinds named, or one symbol."""
        return self.text if self.kind in (_Kind.SYMBOL, _Kind.OPERATOR, *bare) else f"({self.text})"


_EMPTY = _Piece("", _Kind.SYMBOL)


def linear(element: etree._Element) -> str | None:
    """A formula, or a part of one, on one line; None where it holds what is none, such as links and paragraphs."""
    if any(_name(part) in _FOREIGN for part in element.iterdescendants(etree.Element)):
        return None
    text = "" if next(element.iter("apply", "m:apply", "mml:apply"), None) is not None else _piece(element).text
    if not _INVISIBLE.sub("", text).strip():
        text = _annotation(element) or element.get("alttext", "") or text or "".join(element.itertext())
    return " ".join(text.split())


def _annotation(element: etree._Element) -> str:
    """The formula as an annotation has it: as presentation MathML, or else in TeX."""
    for annotation in element.iter("annotation-xml"):
        if "presentation" in annotation.get("encoding", "").lower():
            return _row(annotation).text
    for annotation in element.iter("annotation"):
        if "tex" in annotation.get("encoding", "").lower():
            tex = (annotation.text or "").strip()
            return _DISPLAY_STYLE.sub(r"\1", tex).strip()
    return ""


def _name(element: etree._Element) -> str:
    return str(element.tag).rpartition(":")[2]


def _piece(element: etree._Element) -> _Piece:
    name = _name(element)
    if name in _NOTHING or is_hidden(name, element):
        return _EMPTY
    if name in _TOKENS:
        return _token(name, "".join(element.itertext()))
    if name == "mspace":
        return _Piece(" ", _Kind.OPERATOR)
    if name in _PARTED and len(element) == _PARTED[name] and not _has_text(element):
        return _parted(name, element)
    if name == "mmultiscripts":
        return _multiscripts(list(element.iterchildren(etree.Element)))
    if name == "msqrt" or (name == "menclose" and "radical" in element.get("notation", "")):
        return _root(_row(element))
    if name == "mfenced" and not _has_text(element):
        return _fenced(element)
    if name == "mtable":
        return _table(element)
    if name in ("semantics", "maction"):
        shown = next((child for child in element.iterchildren(etree.Element) if _name(child) not in _ANNOTATIONS), None)
        return _EMPTY if shown is None else _piece(shown)
    return _row(element)


def _has_text(element: etree._Element) -> bool:
    """Whether there is text between the children, which shows that somebody made a mistake."""
    return any(text and text.strip() for text in (element.text, *(child.tail for child in element)))


def _token(name: str, text: str) -> _Piece:
    text = _INVISIBLE.sub("", text).replace("\u2064", " ")  # an invisible plus: 2½
    if name == "mtext":
        text = re.sub(r"\s+", " ", text)
        return _Piece(text, _Kind.SYMBOL if _ONE_SYMBOL.fullmatch(text.strip()) else _Kind.COMPOUND)
    text = text if text == " " else " ".join(text.split())
    if name == "ms":
        return _Piece(f'"{text}"', _Kind.SYMBOL)
    if name == "mo":
        return _Piece(text, _Kind.OPERATOR)
    return _Piece(text, _Kind.SYMBOL if not text or _ONE_SYMBOL.fullmatch(text) else _Kind.COMPOUND)


# ---- what stands above and below


def _parted(name: str, element: etree._Element) -> _Piece:
    first, second, *rest = (_piece(child) for child in element.iterchildren(etree.Element))
    if name == "mfrac":
        if _ZERO.match(element.get("linethickness", "")):
            return _Piece(f"{first.in_brackets()} choose {second.in_brackets()}", _Kind.COMPOUND)
        over, under = (part.in_brackets(_Kind.LOWERED, _Kind.RAISED) for part in (first, second))
        return _Piece(f"{over}/{under}", _Kind.FRACTION)
    if name == "mroot":
        return _root(first, second.text)
    if name == "mover" and len(first.text) == 1 and first.text.isalnum() and second.text in _ACCENTS:
        return _Piece(unicodedata.normalize("NFC", first.text + _ACCENTS[second.text]), _Kind.SYMBOL)
    if name in ("msup", "mover"):
        return _with_scripts(first, _EMPTY, second)
    if name in ("msub", "munder"):
        return _with_scripts(first, second, _EMPTY)
    return _with_scripts(first, second, rest[0])


def _scripts(below: _Piece, above: _Piece) -> str:
    text = ""
    if below.text.strip():
        text += f"_{below.in_brackets()}"
    if _PRIMES.fullmatch(above.text):
        text += above.text
    elif above.text.strip():
        text += f"^{above.in_brackets()}"
    return text


def _with_scripts(base: _Piece, below: _Piece, above: _Piece) -> _Piece:
    scripts = _scripts(below, above)
    if not scripts:
        return base
    kind = _Kind.RAISED if above.text.strip() else _Kind.LOWERED
    return _Piece(base.in_brackets(*([] if scripts[0] == "_" else [_Kind.LOWERED])) + scripts, kind)


def _multiscripts(children: list[etree._Element]) -> _Piece:
    """A base, its scripts in pairs of below and above, and after `<mprescripts>` those before it."""
    groups: list[list[_Piece]] = [[]]
    for child in children:
        if _name(child) == "mprescripts":
            groups.append([])
        else:
            groups[-1].append(_piece(child))
    base, after = (groups[0] or [_EMPTY])[0], groups[0][1:]
    before = groups[1] if len(groups) > 1 else []
    texts = [
        "".join(_scripts(below, above) for below, above in zip(scripts[::2], [*scripts[1::2], _EMPTY], strict=False))
        for scripts in (before, after)
    ]
    gap = " " if texts[0] and base.text[:1].isalnum() else ""
    return _Piece(f"{texts[0]}{gap}{base.in_brackets()}{texts[1]}", _Kind.COMPOUND if texts[0] else _Kind.RAISED)


def _root(content: _Piece, index: str = "") -> _Piece:
    return _Piece(f"√{f'[{index}]' if index.strip() else ''}{content.in_brackets()}", _Kind.RAISED)


# ---- what stands side by side


def _row(element: etree._Element) -> _Piece:
    pieces = []
    if element.text and element.text.strip():
        pieces.append(_token("mtext", element.text))
    for child in element.iterchildren(etree.Element):
        name = _name(child)
        if name not in _ANNOTATIONS:
            piece = _piece(child)
            if name == "mtable" and len(element) > 1 and not (pieces and pieces[-1].text[-1:] in _FENCES):
                piece = _Piece(f"[{piece.text}]", _Kind.SYMBOL)
            pieces.append(piece)
        if child.tail and child.tail.strip():
            pieces.append(_token("mtext", child.tail))
    return _joined([piece for piece in pieces if piece.text])


def _joined(pieces: list[_Piece]) -> _Piece:
    pieces = list(_mixed_numbers(pieces))
    if len(pieces) < 2:
        return pieces[0] if pieces else _EMPTY
    text = ""
    before: _Piece | None = None
    for piece, after in zip(pieces, [*pieces[1:], None], strict=True):
        written = piece.text
        if piece.kind is _Kind.FRACTION and (_touches(before) or _touches(after)):
            written = f"({written})"
        if before is not None and _gap(before, text, written):
            text += " "
        text += written
        before = piece
    return _Piece(text, _Kind.SYMBOL if _bracketed(text) else _Kind.COMPOUND)


def _mixed_numbers(pieces: list[_Piece]) -> Iterator[_Piece]:
    """The pieces, with a number and the fraction of numbers after it as one: 2 1/2 is no product."""
    whole: _Piece | None = None
    for piece in pieces:
        if whole is not None:
            if piece.kind is _Kind.FRACTION and _NUMBERS.fullmatch(piece.text):
                yield _Piece(f"{whole.text} {piece.text}", _Kind.FRACTION)
                whole = None
                continue
            yield whole
            whole = None
        if _NUMBER.fullmatch(piece.text):
            whole = piece
        else:
            yield piece
    if whole is not None:
        yield whole


def _touches(neighbour: _Piece | None) -> bool:
    """Whether a fraction beside this would seem to be another one without brackets."""
    if neighbour is None or neighbour.text == " ":
        return False
    return neighbour.kind is not _Kind.OPERATOR or not _BINDS_TIGHTER.isdisjoint(neighbour.text)


def _gap(before: _Piece, text: str, written: str) -> bool:
    """Whether a blank must part two neighbours, so that they do not seem to be one number, name or exponent."""
    last, first = text[-1:], written[0]
    if not first.isalnum() or last.isspace():
        return False
    word_begins = len(written) > 1 and written[:2].isalpha()
    if before.kind in (_Kind.LOWERED, _Kind.RAISED):
        return True
    if last in _CLOSING:
        return word_begins
    word_ends = len(before.text) > 1 and text[-2:].isalpha()
    return last.isalnum() and (word_begins or word_ends or (last.isdigit() and first.isdigit()))


def _bracketed(text: str) -> bool:
    """Whether the brackets that a text begins and ends with belong together."""
    if not text or text[0] not in _OPENING or text[-1] != _CLOSING[_OPENING.index(text[0])]:
        return False
    depth = 0
    for place, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0:
            return place == len(text) - 1
    return False


def _fenced(element: etree._Element) -> _Piece:
    separators = "".join(element.get("separators", ",").split())
    text = ""
    for place, child in enumerate(element.iterchildren(etree.Element)):
        if place and separators:
            text += separators[min(place, len(separators)) - 1]
        text += _piece(child).text
    return _Piece(f"{element.get('open', '(')}{text}{element.get('close', ')')}", _Kind.SYMBOL)


def _table(element: etree._Element) -> _Piece:
    rows = []
    for row in element.iterchildren(etree.Element):
        text = ""
        for cell in row.iterchildren(etree.Element):
            written = _row(cell).text.strip()
            if text and written:  # equations are set in columns at their equals signs
                text += " " if written[0] in _RELATIONS or text[-1] in _RELATIONS else ", "
            text += written
        rows.append(text or _row(row).text)
    return _Piece("; ".join(filter(None, rows)), _Kind.COMPOUND)
