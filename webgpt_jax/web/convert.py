"""Bytes to a page, whatever the bytes are (paper, Appendix A): HTML, other text, PDF, or an error that says why not.

Pure and in-process, so it takes as long as it takes: `webgpt_jax.web.workers.to_page` runs it in a worker with limits
on time and memory, and takes out links to blocked sites.
"""

from __future__ import annotations

import re
from html import escape
from urllib.parse import unquote, urlsplit

from webgpt_jax.env.page import Page, PageWriter
from webgpt_jax.env.protocol import WebError
from webgpt_jax.env.text import clean
from webgpt_jax.env.urls import host_of
from webgpt_jax.web import readability
from webgpt_jax.web.decode import decode
from webgpt_jax.web.elements import VOID
from webgpt_jax.web.hidden import as_seen, may_look_different
from webgpt_jax.web.html import CUT, MAX_TEXT, render
from webgpt_jax.web.markup import base_url, guard, parse, title_of

# Readability's block is passed over for the whole page when it is shorter than this and than this share of the page:
# it is then a cookie notice rather than the main content. The briefest news are longer.
SMALL_BLOCK = 250
SMALL_SHARE = 0.1

_XHTML = "application/xhtml+xml"
_HTML_TYPES = ("text/html", _XHTML, "application/vnd.wap.xhtml+xml")
_XML_TYPES = ("application/xml", "text/xml")
_PDF_TYPES = ("application/pdf", "application/x-pdf")
# Headers that say nothing: the bytes are looked at.
_UNKNOWN_TYPES = (
    "",
    "application/octet-stream",
    "binary/octet-stream",
    "application/unknown",
    "unknown/unknown",
    "*/*",
)
_TEXT_TYPES = re.compile(
    r"text/.+|message/rfc822|.+\+(?:json|xml|yaml)"
    r"|application/(?:(?:x-)?(?:json|ndjson|jsonlines|json-lines|xml|javascript|ecmascript|yaml|toml|csv|sh|tex|latex|sql"
    r"|python|perl|ruby|bibtex|subrip|markdown|tcl)|json5|ld-json|xml-dtd|typescript|graphql|mbox|rdf)"
)
_KINDS = {"image": "an image", "audio": "audio", "video": "a video", "font": "a font"}
_SIGNATURES = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/x-rar-compressed"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"BZh", "application/x-bzip2"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ\x90\x00", "application/x-executable"),
    (b"\xd0\xcf\x11\xe0", "application/x-ole-storage"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
)
_HTML_START = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s|<!--.{0,4096}?-->|<\?xml[^>]{0,512}>)*<(?:!doctype\s+html|html|head|body|title|meta|script"
    rb"|style|div|p|h1|table|a|b|br|font|iframe|link|frameset)[\s/>]",
    re.IGNORECASE | re.DOTALL,
)
_MEDIA_TYPE = re.compile(r"""[\s"']*([\w!#$&^.+*-]+/[\w!#$&^.+*-]+)""", re.ASCII)
_XHTML_ROOT = re.compile(rb"""<html\s[^>]{0,500}?xmlns\s*=\s*["']http://www\.w3\.org/1999/xhtml["']""")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.DOTALL)
_EMPTY_ELEMENT = re.compile(r"<([a-z][\w:-]*+)([^<>]*+)(?<=/)>", re.IGNORECASE)
_SNIFFED = 8192  # bytes


def convert(body: bytes, url: str, content_type: str | None) -> Page:
    """The page that some bytes are.

    Args:
      body: the response's body, decompressed.
      url: where it came from, after redirects; relative links are relative to it.
      content_type: the HTTP header; None where there was none.

    Raises:
      WebError: the page cannot be shown. Kinds are "type", "undecodable", "too_complex" and "no_text", and for PDF
        those of `webgpt_jax.web.pdf.pdf_to_page`.
    """
    media_type = _media_type(body, content_type)
    if media_type in _PDF_TYPES:
        from webgpt_jax.web.pdf import pdf_to_page  # a large library that most pages do not need

        return pdf_to_page(body, url)
    if media_type in _HTML_TYPES:
        text = decode(body, content_type)
        return _html_page(_as_html(text) if media_type == _XHTML or text.startswith("<?xml") else text, url)
    if _TEXT_TYPES.fullmatch(media_type):
        return _text_page(decode(body, content_type), url)
    kind = _KINDS.get(media_type.partition("/")[0], f"of the type {media_type or 'unknown'}")
    raise WebError("type", f"This page is {kind}: only web pages, other text and PDF documents can be shown.")


def _media_type(body: bytes, content_type: str | None) -> str:
    """What the bytes are: what the header says, unless they or its emptiness show otherwise."""
    declared = _declared_type(content_type or "")
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return "application/pdf"
    for signature, media_type in _SIGNATURES:
        # Text may begin with the letters of some of them, but holds no NUL.
        if body.startswith(signature) and (b"\0" in body[:_SNIFFED] or not signature.isascii()):
            return declared if declared.partition("/")[0] in ("image", "audio", "video") else media_type
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    if declared in _XML_TYPES and _XHTML_ROOT.search(body[:_SNIFFED]):
        return _XHTML
    if declared not in _UNKNOWN_TYPES:
        return declared
    if _HTML_START.match(body[:_SNIFFED]):
        return "text/html"
    try:
        decode(body[:_SNIFFED], None)
    except WebError:
        return declared or "application/octet-stream"
    return "text/plain"


def _declared_type(header: str) -> str:
    """The first media type of a header that says something: servers repeat it, and misspell what follows."""
    declared = ""
    for part in header.lower().split(","):
        found = _MEDIA_TYPE.match(part)
        if found and found[1] not in _UNKNOWN_TYPES:
            return found[1]
        declared = declared or (found[1] if found else "")
    return declared


def _text_page(text: str, url: str) -> Page:
    text = text.strip("\r\n").rstrip()
    if not clean(text).strip():
        raise WebError("no_text", "This page is empty.")
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n\n{CUT}"
    return PageWriter(url).page(_title_from(url), text)


def _title_from(url: str) -> str:
    """A title for what has none of its own: the last part of the URL's path, or the host."""
    try:
        path = urlsplit(url).path
    except ValueError:
        path = ""
    return unquote(path.rstrip("/").rpartition("/")[2]).strip() or host_of(url) or url


def _as_html(xhtml: str) -> str:
    """XHTML as an HTML parser understands it: CDATA sections as text, `<a/>` as `<a></a>`."""
    xhtml = _CDATA.sub(lambda section: escape(section[1], quote=False), xhtml)
    return _EMPTY_ELEMENT.sub(
        lambda tag: tag[0] if tag[1].lower() in VOID else f"<{tag[1]}{tag[2][:-1]}></{tag[1]}>", xhtml
    )


def _html_page(source: str, url: str) -> Page:
    html = guard(source)
    if may_look_different(html):
        html = as_seen(html, only_unknown=True)
    base = base_url(html, url)
    article = readability.main_content(html, base)
    main = _render(article.html, base, url)
    if main is None or len(main[1]) < SMALL_BLOCK:
        whole = _render(html, base, url)
        if whole is not None and (main is None or len(main[1]) < SMALL_SHARE * len(whole[1])):
            main = whole
    if main is None:
        raise WebError(
            "no_text", "This page holds no text that can be read. It may need JavaScript, which is not run here."
        )
    writer, text = main
    return writer.page(article.title or title_of(html) or _title_from(url), text)


def _render(html: str, base: str, url: str) -> tuple[PageWriter, str] | None:
    """A writer with the links, and the text; None where there is none."""
    root = parse(html)
    if root is None:
        return None
    writer = PageWriter(url)
    text = render(root, base, writer)
    return (writer, text) if any(clean(line).strip() for line in text.splitlines()) else None
