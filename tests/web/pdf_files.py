"""Small PDF files, built by hand: as much of the format as the tests need."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence

_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")

FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
NAMELESS_FONT = (  # its glyphs are numbers, and nothing says which letters they are
    b"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[<</Type/Font/Subtype/CIDFontType2"
    b"/BaseFont/X/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>]>>"
)


def text(x: float, y: float, string: str, size: float = 12) -> bytes:
    """Drawing orders for a line of text whose lower left corner is at x, y."""
    escaped = string.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    return b"BT /F1 %g Tf %g %g Td (%s) Tj ET\n" % (size, x, y, escaped)


def lines(x: float, y: float, *strings: str, size: float = 12) -> bytes:
    """Lines of text, the first at height y."""
    return b"".join(text(x, y - number * size * 1.2, string, size) for number, string in enumerate(strings))


def stream(data: bytes, entries: bytes = b"") -> bytes:
    packed = zlib.compress(data)
    return b"<<%s/Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (entries, len(packed), packed)


def link(url: str, x0: float, y0: float, x1: float, y1: float) -> bytes:
    """An annotation that leads to a URL."""
    return b"<</Subtype/Link/Rect[%g %g %g %g]/A<</S/URI/URI(%s)>>>>" % (x0, y0, x1, y1, url.encode())


def pdf(
    *pages: bytes,
    info: bytes = b"",
    annotations: Sequence[bytes] = (),
    font: bytes = FONT,
    forms: Mapping[bytes, bytes] | None = None,
    encrypt: bytes = b"",
    trailer: bytes = b"",
) -> bytes:
    """A file.

    Args:
      pages: the drawing orders of each page, or a whole stream object.
      info: the entries of its Info dictionary.
      annotations: annotations of every page.
      font: the font that is called F1.
      forms: the drawing orders of forms, by name; each may use all of them.
      encrypt: the Encrypt dictionary.
      trailer: more entries of the trailer; {xref} in it is where the cross-reference table starts.
    """
    forms = forms or {}
    first_page = 5 + len(forms)
    names = b"".join(b"/%s %d 0 R" % (name, 5 + number) for number, name in enumerate(forms))
    resources = b"/Resources<</Font<</F1 3 0 R>>/XObject<<%s>>>>" % names
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>"
        % (len(pages), b" ".join(b"%d 0 R" % (first_page + 2 * number) for number in range(len(pages)))),
        font,
        b"<<%s>>" % info,
    ]
    for orders in forms.values():
        objects.append(stream(orders, b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]" + resources))
    for number, orders in enumerate(pages):
        contents = first_page + 2 * number + 1
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R/Annots[%s]%s>>"
            % (contents, b" ".join(annotations), resources)
        )
        objects.append(orders if orders.endswith(b"endstream") else stream(orders))
    body = b"%PDF-1.7\n"
    offsets = []
    for number, data in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, data)
    xref = len(body)
    size = len(objects) + 1
    body += b"xref\n0 %d\n0000000000 65535 f \n" % size + b"".join(b"%010d 00000 n \n" % at for at in offsets)
    if encrypt:
        trailer += b"/ID[(%s)(%s)]/Encrypt %s" % (b"i" * 16, b"i" * 16, encrypt)
    more = trailer.replace(b"{xref}", b"%d" % xref)
    return body + b"trailer<</Root 1 0 R/Info 4 0 R/Size %d%s>>\nstartxref\n%d\n%%%%EOF" % (size, more, xref)


# Forms that draw the next one twenty times each: X0 draws X8 twenty-five thousand million times.
FAN_OUT = {b"X%d" % number: b"/X%d Do " % (number + 1) * 20 for number in range(8)} | {b"X8": text(72, 700, "Crow")}


# ---- encryption: the standard handler's first revision (PDF 1.7, section 7.6.3)


def _rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def encrypted_pdf(orders: bytes, password: bytes = b"") -> bytes:
    """A file of one page that opens with a password; an empty one opens by itself."""
    owner = b"o" * 32
    permissions = -4
    padded = (password + _PADDING)[:32]
    key = hashlib.md5(padded + owner + permissions.to_bytes(4, "little", signed=True) + b"i" * 16).digest()[:5]
    user = _rc4(key, _PADDING)
    number = 6  # the object that holds the page's orders
    contents = _rc4(hashlib.md5(key + number.to_bytes(3, "little") + b"\0\0").digest()[:10], zlib.compress(orders))
    encrypt = b"<</Filter/Standard/V 1/R 2/P %d/O<%s>/U<%s>>>" % (
        permissions,
        owner.hex().encode(),
        user.hex().encode(),
    )
    page = b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(contents), contents)
    return pdf(page, encrypt=encrypt)
