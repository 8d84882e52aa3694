"""Bytes to text: which characters a page's bytes mean.

A byte order mark is believed first, then NUL bytes that can only be UTF-16, then what the HTTP header, the XML
declaration and the meta tag declare, in that order, and last what the bytes look like. Labels mean what the WHATWG
Encoding standard says they mean (latin-1 is windows-1252, GB2312 is GB18030), but for charsets that browsers no longer
decode because a page can hide scripts in them: here they are text like any other. What is declared is often wrong, so
a declaration that does not fit the bytes is passed over.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from webgpt_jax.env.protocol import WebError

DECLARATION_BYTES = 8192  # how far into a page a meta tag is looked for; the standard's 1,024 miss pages that work
SAMPLE = 32768  # characters that show whether a page is text at all
DETECTION_BYTES = 65536  # how much of a page the detector sees, half from either end

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The mapping to HTML 5's names stops short of the supersets that browsers, and the standard, decode these with.
_SUPERSETS = {
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-11": "cp874",
}
# What the mapping does not know, though pages say it: what browsers gave up, and a few names of servers' own.
_OTHER_LABELS = {
    "hz-gb-2312": "hz",
    "iso-2022-kr": "iso2022_kr",
    "csiso2022kr": "iso2022_kr",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-mac-ukrainian": "mac_cyrillic",
    "cp949": "cp949",
    "ms949": "cp949",
    "uhc": "cp949",
    "cp936": "gb18030",
    "ms936": "gb18030",
    "cp950": "big5hkscs",
    "cp932": "cp932",
    "ms932": "cp932",
    "windows-932": "cp932",
    "utf8mb4": "utf-8",
    "tis620": "cp874",
}
_HEADER_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"""\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']\s*([\w.:-]+)""")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_META_CHARSET = re.compile(rb"""<meta\s[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_HIGH_RUNS = re.compile(r"[^\x00-\x7f]+")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_CHINESE = re.compile("[\u3000-\u3011\u4e00-\u9fff\uff01-\uff1f]")  # with its punctuation
_THAI = re.compile("[\u0e01-\u0e5b]")
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")  # an escape (1b) opens a colour in a log

_MAX_BAD = 0.2  # a charset fits while at most this share of the characters beyond ASCII could not be decoded
_MAX_NO_TEXT = 0.05  # text holds at most this share of controls; compressed bytes hold a tenth
_SURE_UTF8 = 4  # characters beyond ASCII that make valid UTF-8 no accident
_MOSTLY = 0.8  # the share of an alphabet's letters, of all characters beyond ASCII, in a text written in it
_THAI_RUN = 4.0  # letters between blanks; the accented letters of Western languages stand alone
_ESCAPE = b"\x1b"
_HZ_RUN = re.compile(rb"~\{(?:[!-w][!-~]){4,}+~\}")
_TO_KOREAN = b"\x1b$)C"  # how every text in ISO-2022-KR begins


def decode(body: bytes, content_type: str | None) -> str:
    """The text of a page.

    Args:
      body: the page's bytes.
      content_type: the HTTP header, for its charset; None where there was none.

    Raises:
      WebError: "undecodable", the bytes are no text in any encoding we know.
    """
    text = _decode(body, content_type)
    sample = text[:SAMPLE]
    if len(_NO_TEXT.findall(sample)) > _MAX_NO_TEXT * len(sample):
        raise WebError("undecodable", "This page could not be decoded: its bytes are no text in any known encoding.")
    return text


def _decode(body: bytes, content_type: str | None) -> str:
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    utf16 = _utf16_by_nuls(body)
    if utf16 is not None:
        return body.decode(utf16, "replace")
    for codec in _declared(body, content_type):
        text = body.decode(codec, "replace")
        if not _fits(text):
            continue
        if codec == "utf-8":
            return text
        # Many a server says latin-1, or its country's charset, of everything it sends.
        utf8 = _utf8(body)
        return utf8 if utf8 is not None and len(_NOT_ASCII.findall(utf8)) >= _SURE_UTF8 else text
    utf8 = None if _ESCAPE in body else _utf8(body)  # ISO-2022 switches charsets with escapes, in seven bits
    return _detected(body) if utf8 is None else _hz(body) or utf8


def _utf16_by_nuls(body: bytes) -> str | None:
    """UTF-16 in the byte order in which one byte of many a pair, and hardly any other, is NUL."""
    sample = body[: 2 * DECLARATION_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) * 10 < len(sample) // 2 or min(even, odd) * 10 > max(even, odd):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _declared(body: bytes, content_type: str | None) -> Iterator[str]:
    """The codecs that header, XML declaration and meta tag name, those we know."""
    for label in _HEADER_CHARSET.findall(content_type or ""):
        if codec := _codec(label):
            yield codec
    start = body[:DECLARATION_BYTES]
    for found in (_XML_CHARSET.search(start), _META_CHARSET.search(_COMMENT.sub(b"", start))):
        if found and (codec := _codec(found[1].decode("ascii", "replace"))):
            # A declaration that can be read as ASCII is not written in UTF-16 (the standard's own rule).
            yield "utf-8" if codec.startswith("utf-16") else codec


def _codec(label: str) -> str | None:
    label = label.strip().lower()
    codec = map_encoding_to_html5(label, fallback_utf8=False)
    return _OTHER_LABELS.get(label) if codec is None else _SUPERSETS.get(codec, codec)


def _fits(text: str) -> bool:
    bad = text.count("\ufffd")
    return bad == 0 or bad <= _MAX_BAD * len(_NOT_ASCII.findall(text))


def _utf8(body: bytes) -> str | None:
    """The text as UTF-8, where the bytes are valid UTF-8; they may have been cut within a character."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return None


def _hz(body: bytes) -> str | None:
    """The text as HZ, which writes Chinese in pairs of ASCII between `~{` and `~}`; None where it is something else."""
    if not _HZ_RUN.search(body):
        return None
    try:
        text = body.decode("hz")
    except UnicodeDecodeError:
        return None
    return text if _is_written_in(text, _CHINESE, 1.0) else None


def _detected(body: bytes) -> str:
    if _TO_KOREAN in body[:DECLARATION_BYTES]:
        return body.decode("iso2022_kr", "replace")
    label = detect_encoding(body, max_len=DETECTION_BYTES) or "cp1252"
    if label in ("utf-8", "cp1252"):  # what the detector says of Korean and of Thai
        for codec, letters, run in (("cp949", _HANGUL, 1.0), ("cp874", _THAI, _THAI_RUN)):
            text = body.decode(codec, "replace")
            if _is_written_in(text, letters, run):
                return text
    text = body.decode(_SUPERSETS.get(label, label), "replace")
    return text if _fits(text) else body.decode("cp1252", "replace")


def _is_written_in(text: str, letters: re.Pattern[str], run: float) -> bool:
    """Whether nearly all of a text beyond ASCII is of an alphabet, in runs of at least so many letters on average."""
    runs = _HIGH_RUNS.findall(text)
    length = sum(map(len, runs))
    return 0 < length >= run * len(runs) and len(letters.findall(text)) >= _MOSTLY * length
