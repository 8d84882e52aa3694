"""What may be written as a line of free text: whole characters of UTF-8, none but those allowed, up to a length."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webgpt_jax.sampling.vocabulary import CONTINUATION, Vocabulary, character_length

_LEAST = {1: 0, 2: 0x80, 3: 0x800, 4: 0x10000}  # code points of fewer bytes are not spelt with as many
_SURROGATES = range(0xD800, 0xE000)
_KEPT = 256  # tables of what may follow; nearly all text needs a handful


class Line(NamedTuple):
    """How far a line has been written."""

    partial: bytes = b""  # of a character that is not whole yet
    begun: bool = False  # whether there is a whole character
    written: int = 0  # bytes


class Followers(NamedTuple):
    """The tokens that may follow, as far as the line's length allows."""

    tokens: NDArray[np.int32]
    lengths: NDArray[np.int32]  # bytes that each adds, with those that then complete its last character
    missing: NDArray[np.int32]  # the latter alone


class Lines:
    """Free text that begins with no blank.

    Args:
      vocabulary: what it is written in.
      allowed: whether a text may be written; true where it is for each of the text's characters.
      max_bytes: the longest line.
    """

    def __init__(self, vocabulary: Vocabulary, allowed: Callable[[str], bool], max_bytes: int) -> None:
        self._vocabulary = vocabulary
        self._allowed = allowed
        self._max_bytes = max_bytes
        self._can_complete = vocabulary.single_bytes.issuperset(CONTINUATION)
        self._completable = lru_cache(maxsize=None)(self._find_completion)  # of at most 3 bytes
        self._followers = lru_cache(maxsize=_KEPT)(self._find_followers)

    def step(self, line: Line, byte: int) -> Line | None:
        """Where a byte leads; None where it may not come next."""
        missing = self._missing_after(line.partial, line.begun, bytes([byte]))
        if missing is None or line.written + 1 + missing > self._max_bytes:
            return None
        return Line(line.partial + bytes([byte]) if missing else b"", line.begun or not missing, line.written + 1)

    def missing(self, line: Line) -> int:
        """How many bytes complete it; 0 where it may end here."""
        if line.partial:
            return character_length(line.partial[0]) - len(line.partial)
        return 0 if line.begun else 1

    def followers(self, line: Line, prefix: bytes, most_missing: int) -> NDArray[np.int32]:
        """The tokens that may come next.

        Args:
          line: what has been written of the line.
          prefix: what the tokens hold before the part that belongs to the line.
          most_missing: bytes that may be left to be written afterwards.
        """
        found = self._followers(prefix, line.partial, line.begun)
        fitting = (found.lengths <= self._max_bytes - line.written) & (found.missing <= most_missing)
        return found.tokens[fitting]

    def _find_followers(self, prefix: bytes, partial: bytes, begun: bool) -> Followers:
        rows = []
        for piece, token in self._vocabulary.longer(prefix):
            missing = self._missing_after(partial, begun, piece)
            if missing is not None:
                rows.append((token, len(piece) + missing, missing))
        table = np.array(rows, np.int32).reshape(-1, 3)
        return Followers(table[:, 0], table[:, 1], table[:, 2])

    def _missing_after(self, partial: bytes, begun: bool, piece: bytes) -> int | None:
        """How many bytes its last character lacks when `piece` has been written; None where it may not be."""
        written = partial + piece
        missing = 0
        try:
            text = written.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data" or not self._completable(
                written[error.start :], begun or error.start > 0
            ):
                return None
            text = written[: error.start].decode("utf-8")
            missing = character_length(written[error.start]) - len(written) + error.start
        if not self._allowed(text) or (not begun and text[:1].isspace()):
            return None
        return missing

    def _find_completion(self, partial: bytes, begun: bool) -> bool:
        """Whether some character that may be written begins so."""
        if not self._can_complete:
            return False
        length = character_length(partial[0])
        first = partial[0] & (0x7F >> length)
        for byte in partial[1:]:
            first = first << 6 | byte & 0x3F
        width = 6 * (length - len(partial))
        codes = range(max(first << width, _LEAST[length]), min((first + 1) << width, 0x110000))
        return any(
            code not in _SURROGATES and self._allowed(chr(code)) and (begun or not chr(code).isspace())
            for code in codes
        )
