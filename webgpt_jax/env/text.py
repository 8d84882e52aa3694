"""The one gate that foreign text passes before it can stand in a prompt.

The prompts of the paper (Figure 1b and the answering prompt) are plain text with a few special characters as their
only structure. Text from pages, titles, alt texts, URLs, search results, queries and questions must therefore never
hold those characters, nor characters that a reader cannot see. `Page`, `Link` and `Quote` call `clean` and
`clean_line` when they are made and `Browser` where it takes a question or notes an action, so that no other module has
to remember to.
"""

from __future__ import annotations

import re
import unicodedata

# What has a meaning in our prompts, and the look-alike that replaces it (paper, Appendix A: "replaced by look-alikes").
LOOKALIKES = {
    "【": "〖",
    "】": "〗",
    "†": "‡",
    "♦": "♢",
    "■": "▪",
    "━": "─",
    # Vertical and half-width forms: a tokenizer that applies NFKC would turn them into the characters themselves.
    "︻": "〖",
    "︼": "〗",
    "￭": "▪",
}

# Characters that are dropped, as ranges of code points, inclusive.
_DROPPED = (
    (0x00, 0x08),  # C0 controls; tab, line feed and the separators below are white space and dealt with apart
    (0x0E, 0x1B),
    (0x7F, 0x84),  # DEL and C1 controls, except NEL (0x85)
    (0x86, 0x9F),
    (0xAD, 0xAD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors
    (0x200B, 0x200F),  # zero-width characters, left-to-right and right-to-left marks
    (0x202A, 0x202E),  # bidirectional embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, bidirectional isolates
    (0x3164, 0x3164),  # Hangul filler
    (0xD800, 0xDFFF),  # lone surrogates: they do not encode to UTF-8
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFA0, 0xFFA0),  # half-width Hangul filler
    (0xFFF0, 0xFFFB),  # specials, interlinear annotation
    (0xFFFE, 0xFFFF),  # non-characters
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE0FFF),  # tag characters and further variation selectors
)
_NEWLINES = "\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]"  # every line separator that Python or Unicode knows

_dropped = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in _DROPPED)
_SUSPECT = re.compile(f"[{_dropped}{''.join(LOOKALIKES)}\r\v\f\x1c-\x1f\x85\u2028\u2029]")
_TABLE: dict[int, str | None] = {ord(marker): twin for marker, twin in LOOKALIKES.items()}
_TABLE |= {code: None for first, last in _DROPPED for code in range(first, last + 1)}
_TABLE[0x1F] = " "  # unit separator: white space to Python
_NEWLINE = re.compile(_NEWLINES)
_SPACE_RUN = re.compile(r"\s+")
_WORD = re.compile(r"\w+")
# Normalisation takes time quadratic in a run of combining marks. No script stacks so many, and no word holds them.
_LONG_RUN = re.compile(r"([^\w\s]{16})[^\w\s]+")


def clean(text: str) -> str:
    """Makes foreign text safe to stand in a prompt.

    Replaces 【 】 † ♦ ■ ━ by look-alikes; drops controls, bidirectional overrides, zero-width and tag characters,
    variation selectors and lone surrogates; turns every line separator into one newline. The result encodes to UTF-8,
    and cleaning it again changes nothing.
    """
    if _SUSPECT.search(text) is None:  # nearly every text; saves the slow walk over long pages
        return text
    return _NEWLINE.sub("\n", text).translate(_TABLE)


def clean_line(text: str) -> str:
    """`clean`, on one line: runs of white space become single blanks, those at the ends are dropped."""
    return _SPACE_RUN.sub(" ", clean(text)).strip()


def word_string(text: str) -> str:
    """The words of a text without case and punctuation, each between two blanks, for comparing runs of words.

    Characters that `clean` drops and the two ways to write an accented letter make no difference.
    """
    text = _LONG_RUN.sub(r"\1", clean(text))
    return f" {' '.join(_WORD.findall(unicodedata.normalize('NFC', text).casefold()))} "
