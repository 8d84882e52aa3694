"""The bytes that each token of a vocabulary stands for, found by what a text may go on with.

A token may be part of a character, and may run across the places where a command's fixed words end and free text
begins. So everything here is bytes: the tokens lie in a trie, which is walked along with what may be written.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webgpt_jax.models import Tokenizer

CONTINUATION = range(0x80, 0xC0)  # bytes that go on with a character of UTF-8

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"  # how SentencePiece spells a blank
_JOINING = {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}  # what a decoder of its kind is made of


class Vocabulary:
    """A trie of tokens.

    Args:
      pieces: the bytes of each token; None for those that stand for no text.
      drops_blank: whether a blank at the very start of a text is dropped when its tokens are read.
      size: how many tokens the model knows, where that is more than there are pieces.
    """

    ROOT = 0

    def __init__(self, pieces: Sequence[bytes | None], *, drops_blank: bool = False, size: int | None = None) -> None:
        self.pieces = tuple(pieces)
        self.drops_blank = drops_blank
        self.size = len(self.pieces) if size is None else size
        if self.size < len(self.pieces):
            raise ValueError(f"the vocabulary has {len(self.pieces)} tokens, the model only {self.size}")
        self._children: dict[int, int] = {}  # node * 256 + byte -> node
        self._tokens: dict[int, list[int]] = {}
        nodes = 1
        for token, piece in enumerate(self.pieces):
            if not piece:
                continue
            node = self.ROOT
            for byte in piece:
                child = self._children.get(node << 8 | byte)
                if child is None:
                    child = self._children[node << 8 | byte] = nodes
                    nodes += 1
                node = child
            self._tokens.setdefault(node, []).append(token)
        order = sorted((piece, token) for token, piece in enumerate(self.pieces) if piece)
        self._sorted_pieces = [piece for piece, _ in order]
        self._sorted_tokens = [token for _, token in order]
        self.single_bytes = frozenset(piece[0] for piece in self._sorted_pieces if len(piece) == 1)

    def child(self, node: int, byte: int) -> int | None:
        """Where a byte leads to; None where no token goes on with it."""
        return self._children.get(node << 8 | byte)

    def tokens(self, node: int) -> Sequence[int]:
        """The tokens that end here."""
        return self._tokens.get(node, ())

    def longer(self, prefix: bytes) -> list[tuple[bytes, int]]:
        """What follows the prefix in each token that begins with it and is longer, and the token."""
        first = bisect_left(self._sorted_pieces, prefix)
        last = bisect_left(self._sorted_pieces, True, first, key=lambda piece: piece[: len(prefix)] > prefix)
        pairs = zip(self._sorted_pieces[first:last], self._sorted_tokens[first:last], strict=True)
        return [(piece[len(prefix) :], token) for piece, token in pairs if len(piece) > len(prefix)]

    def nothing(self) -> NDArray[np.bool_]:
        """[V]: a mask that allows no token."""
        return np.zeros(self.size, np.bool_)


def character_length(first: int) -> int:
    """How many bytes a character of UTF-8 has that begins with this one."""
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def vocabulary_of(tokenizer: Tokenizer, size: int | None = None) -> Vocabulary:
    """A tokenizer's vocabulary. Special and added tokens stand for no text here.

    Raises:
      ValueError: its tokens are of a kind whose bytes cannot be told one by one.
    """
    library = tokenizer.library
    steps = list(_steps(json.loads(library.to_str())["decoder"]))
    kinds = {step["type"] for step in steps}
    byte_level = kinds == {"ByteLevel"}
    if not byte_level and not (kinds and kinds <= _JOINING):
        names = ", ".join(sorted(kinds)) or "nothing"
        raise ValueError(f"commands only: a tokenizer that joins its tokens by {names} is not supported")
    drops_blank = any(
        (step["type"] == "Strip" and step["content"] == " " and step["start"] > 0)
        or (step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never")
        for step in steps
    )
    pieces: list[bytes | None] = [None] * tokenizer.vocab_size
    added = library.get_added_tokens_decoder()
    for text, token in library.get_vocab(with_added_tokens=False).items():
        if token in added:
            continue
        found = _BYTE_TOKEN.fullmatch(text) if "ByteFallback" in kinds else None
        if byte_level:
            pieces[token] = _byte_level_piece(text)
        elif found:
            pieces[token] = bytes([int(found[1], 16)])
        else:
            pieces[token] = text.replace(_SPACE, " ").encode("utf-8")
    return Vocabulary(pieces, drops_blank=drops_blank, size=size)


def _steps(decoder: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """A decoder's steps, one after the other."""
    if decoder is not None and decoder["type"] == "Sequence":
        for step in decoder["decoders"]:
            yield from _steps(step)
    elif decoder is not None:
        yield decoder


def _byte_level_alphabet() -> dict[str, int]:
    """GPT-2's spelling of bytes: those that print as themselves, the others as characters from U+0100 on."""
    themselves = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in themselves]
    return {chr(byte): byte for byte in themselves} | {chr(0x100 + at): byte for at, byte in enumerate(others)}


_ALPHABET = _byte_level_alphabet()


def _byte_level_piece(text: str) -> bytes | None:
    try:
        return bytes(_ALPHABET[character] for character in text)
    except KeyError:  # a token that no text is cut into
        return None
