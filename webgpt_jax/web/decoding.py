"""Content encodings undone piece by piece, so that a few bytes that would unpack to gigabytes stop at the cap."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

import brotli  # type: ignore[import-untyped]

ACCEPT_ENCODING = "gzip, deflate, br"

_PIECE = 1 << 16  # bytes unpacked at a time
_GZIP_MAGIC = 0x1F
_UNASKED = frozenset({"zstd", "compress", "x-compress", "dcb", "dcz", "sdch"})


class DecodingError(Exception):
    """The body is not what its Content-Encoding says. The message is a clause without the URL."""


class Decoder(Protocol):
    """Undoes one encoding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decoded pieces, each of about `_PIECE` bytes at most; stop asking and no more is unpacked."""
        ...

    def finish(self) -> None:
        """Raises `DecodingError` where the stream was cut short."""
        ...


class _Identity:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        pass


class _Zlib:
    """gzip (also of several members) and deflate (with zlib's wrapping or, as some servers send it, without)."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if gzip else None
        self._start = b""  # what came before it was clear which kind it is
        self._fed = False
        self._ended = False  # what follows the end is rubbish or padding, ignored as browsers do

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._fed = self._fed or bool(data)
        data = self._start + data
        if self._unpack is None:  # deflate: its first two bytes tell which of the two kinds it is
            if len(data) < 2:
                self._start = data
                return
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._unpack = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        self._start = b""
        more = bool(data)
        while more and not self._ended:
            if self._unpack.eof:
                self._ended = not self._gzip or data[0] != _GZIP_MAGIC
                self._unpack = self._unpack if self._ended else zlib.decompressobj(zlib.MAX_WBITS | 16)
                continue
            try:
                piece = self._unpack.decompress(data, _PIECE)
            except zlib.error:
                raise DecodingError("its compressed data are damaged") from None
            data = self._unpack.unused_data if self._unpack.eof else self._unpack.unconsumed_tail
            if piece:
                yield piece
            # A full piece may leave output behind even though all the input is used up.
            more = bool(data) or (len(piece) == _PIECE and not self._unpack.eof)

    def finish(self) -> None:
        if self._fed and not (self._unpack is not None and self._unpack.eof):
            raise DecodingError("its compressed data end too early")


class _Brotli:
    def __init__(self) -> None:
        self._unpack = brotli.Decompressor()
        self._seen = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._seen = self._seen or bool(data)
        while not self._unpack.is_finished():
            try:
                piece = self._unpack.process(data, output_buffer_limit=_PIECE)
            except brotli.error:
                raise DecodingError("its compressed data are damaged") from None
            if not piece:
                return
            yield piece
            data = b""  # the rest comes for the asking

    def finish(self) -> None:
        if self._seen and not self._unpack.is_finished():
            raise DecodingError("its compressed data end too early")


def decoder_for(content_encoding: str) -> Decoder:
    """The decoder for a Content-Encoding header. Raises `DecodingError` for those we did not ask for.

    Names that are no encoding at all ("utf-8", "none") are ignored, as browsers do.
    """
    names = [name for name in (part.strip().lower() for part in content_encoding.split(",")) if name]
    if len(names) > 1:
        raise DecodingError("it is compressed more than once")
    name = names[0] if names else "identity"
    if name in _UNASKED:
        raise DecodingError(f"it is compressed with {name}, which was not asked for")
    if name in ("gzip", "x-gzip", "deflate"):
        return _Zlib(gzip=name != "deflate")
    return _Brotli() if name == "br" else _Identity()
