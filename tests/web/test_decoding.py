"""Content encodings undone: every kind, fed in pieces of every size, whole and damaged."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest

from webgpt_jax.web.decoding import DecodingError, decoder_for

TEXT = b"The quick brown fox jumps over the lazy dog. " * 5_000


def _raw_deflate(data: bytes) -> bytes:
    pack = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return pack.compress(data) + pack.flush()


ENCODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "gzip of two members": ("gzip", lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:])),
    "gzip with rubbish after it": ("gzip", lambda data: gzip.compress(data) + b"\0\0rubbish"),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", _raw_deflate),
    "brotli": ("br", brotli.compress),
    "identity": ("identity", bytes),
    "no encoding at all": ("utf-8", bytes),
}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize("data", [TEXT, b"", b"x", b"\0" * (1 << 16), b"\0" * 3_000_000], ids=len)
def test_encodings_are_undone(name: str, step: int, data: bytes) -> None:
    header, pack = ENCODINGS[name]
    packed = pack(data)
    decoder = decoder_for(header)
    if step < len(packed) > 20_000:
        step = 4096 + step
    pieces = [piece for at in range(0, len(packed), step) for piece in decoder.feed(packed[at : at + step])]
    decoder.finish()
    assert b"".join(pieces) == data


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("gzip", gzip.compress(TEXT)[:-20]),
        ("gzip", b"not gzip"),
        ("deflate", zlib.compress(TEXT)[:100]),
        ("deflate", b"\xff\xff\xff\xff"),
        ("br", brotli.compress(TEXT)[:-3]),
        ("br", b"\xff" * 100),
        ("zstd", b"(\xb5/\xfd"),
        ("gzip, gzip", gzip.compress(gzip.compress(TEXT))),
    ],
)
def test_damaged_and_unasked_encodings(header: str, body: bytes) -> None:
    def decode() -> None:
        decoder = decoder_for(header)
        list(decoder.feed(body))
        decoder.finish()

    with pytest.raises(DecodingError):
        decode()


def test_pieces_are_small_however_much_is_packed() -> None:
    for header, packed in (("gzip", gzip.compress(b"x" * 50_000_000)), ("br", brotli.compress(b"x" * 50_000_000))):
        first = next(decoder_for(header).feed(packed))
        assert len(first) < 1_000_000
