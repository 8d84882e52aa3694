"""Commands only: masks under which a model can write nothing but the commands that are on offer.

For models that were never trained on the commands; off in training and, by default, in evaluation. What is on offer is
plain data: commands written out, beginnings that a line of free text follows (a search), and beginnings that a stretch
of the page's text follows (a find, a quote).

The masks work on bytes, so that it does not matter how a tokenizer cuts a command: every way to write it with the
vocabulary's tokens is allowed, and every prefix that is allowed can be completed in the tokens that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webgpt_jax.sampling.lines import Line, Lines
from webgpt_jax.sampling.stretches import FULL_CHARACTER, Stretch, Stretches
from webgpt_jax.sampling.vocabulary import Vocabulary

LINE_BYTES = 120  # of a search: a long query


@dataclass(frozen=True)
class Offer:
    """What may be written in a state of the browser."""

    whole: Collection[str]  # commands written out
    before_line: Collection[str] = ()  # beginnings that one line of free text follows
    before_stretch: Collection[str] = ()  # beginnings that a stretch of the page follows
    before_quote: Collection[str] = ()  # beginnings that a stretch of the page or `<start>━<end>` follows
    page: str = ""  # the page's text, as shown, without link markup
    by_lines: bool = False  # whether a stretch begins where a line does and ends with it


class _Tail(Enum):
    """What follows a beginning."""

    LINE = 1
    STRETCH = 2
    QUOTE = 3


class _Word(NamedTuple):
    """A place in the fixed words: a node of their trie."""

    node: int


class _Piece(NamedTuple):
    """A place in a stretch of the page."""

    at: Stretch
    abbreviated: bool  # whether it may be


_State = _Word | _Piece | Line


class CommandRules:
    """Makes the masks of requests. One serves many, from any thread.

    Args:
      vocabulary: the tokens that commands are written in.
      end_tokens: the tokens that may end a command.
      allowed: whether a text may stand in a line of free text; it must be so for each of its characters.
      line_bytes: the longest line of free text.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        end_tokens: Collection[int],
        *,
        allowed: Callable[[str], bool] = str.isprintable,
        line_bytes: int = LINE_BYTES,
    ) -> None:
        if not end_tokens:
            raise ValueError("commands only: the tokenizer names no token that ends a text")
        self.vocabulary = vocabulary
        self.end_tokens = tuple(end_tokens)
        self.lines = Lines(vocabulary, allowed, line_bytes)

    def mask(self, offer: Offer, max_tokens: int) -> CommandMask:
        """The mask of one request for at most `max_tokens` tokens, the ending one among them.

        Raises:
          ValueError: nothing is on offer that can be written in so many tokens, or the vocabulary lacks a letter.
        """
        return CommandMask(self, offer, max_tokens)


class CommandMask:
    """A `LogitsMask`: which tokens may come next, given those that were written. For one request, one thread."""

    def __init__(self, rules: CommandRules, offer: Offer, max_tokens: int) -> None:
        self._rules = rules
        self._max_tokens = max_tokens
        self._stretches = Stretches(offer.page, rules.vocabulary.single_bytes, by_lines=offer.by_lines)
        self._words = _Words(rules.vocabulary.drops_blank)
        for command in offer.whole:
            self._words.add(command)
        for command in offer.before_line:
            self._words.add(command, _Tail.LINE)
        if self._stretches.any:
            for command in offer.before_stretch:
                self._words.add(command, _Tail.STRETCH)
            for command in offer.before_quote:
                self._words.add(command, _Tail.QUOTE)
        self._words.finish()
        lacking = self._words.bytes_used - rules.vocabulary.single_bytes
        if lacking:
            raise ValueError(f"commands only: the tokenizer has no token for {bytes(sorted(lacking))!r}")
        if self._missing(_Word(0)) >= max_tokens:
            raise ValueError(f"commands only: no command that is on offer fits {max_tokens} tokens")
        self._written: tuple[int, ...] = ()
        self._state: _State = _Word(0)

    def __call__(self, written: tuple[int, ...]) -> NDArray[np.bool_]:
        """[V]: the tokens that may follow those that were written, under this mask."""
        if written[: len(self._written)] != self._written:
            self._written, self._state = (), _Word(0)
        for token in written[len(self._written) :]:
            self._state = self._after(self._state, token)
        self._written = written
        mask = self._rules.vocabulary.nothing()
        if self._missing(self._state) == 0:
            mask[list(self._rules.end_tokens)] = True
        # A token may be written if what is then missing, a byte a token, and the ending one fit.
        self._allow(mask, self._state, self._max_tokens - len(written) - 2)
        return mask

    def _after(self, state: _State, token: int) -> _State:
        piece = self._rules.vocabulary.pieces[token] if token < len(self._rules.vocabulary.pieces) else None
        for byte in piece or b"":
            after = self._step(state, byte)
            if after is None:
                raise ValueError(f"token {token} was not allowed here")
            state = after
        return state

    def _allow(self, mask: NDArray[np.bool_], start: _State, most_missing: int) -> None:
        """Sets the tokens that may be written from a state, by walking it and the vocabulary side by side."""
        vocabulary = self._rules.vocabulary
        walks: list[tuple[int, _State, bytes]] = [(Vocabulary.ROOT, start, b"")]
        while walks:
            node, state, prefix = walks.pop()
            if node != Vocabulary.ROOT and self._missing(state) <= most_missing:
                for token in vocabulary.tokens(node):
                    mask[token] = True
            if isinstance(state, Line):
                mask[self._rules.lines.followers(state, prefix, most_missing)] = True
                continue
            for byte, after in self._moves(state):
                child = vocabulary.child(node, byte)
                if child is not None:
                    # Only a line asks what was read before it, and only fixed words lead to one.
                    walks.append((child, after, prefix + bytes([byte]) if isinstance(state, _Word) else b""))

    def _moves(self, state: _Word | _Piece) -> Iterable[tuple[int, _State]]:
        if isinstance(state, _Word):
            return [(byte, self._enter(node)) for byte, node in self._words.moves[state.node].items()]
        abbreviated = state.abbreviated
        return [(byte, _Piece(at, abbreviated)) for byte, at in self._stretches.moves(state.at, abbreviated)]

    def _step(self, state: _State, byte: int) -> _State | None:
        if isinstance(state, Line):
            return self._rules.lines.step(state, byte)
        if isinstance(state, _Piece):
            at = self._stretches.step(state.at, byte, state.abbreviated)
            return None if at is None else _Piece(at, state.abbreviated)
        node = self._words.moves[state.node].get(byte)
        return None if node is None else self._enter(node)

    def _enter(self, node: int) -> _State:
        """The state of a node; behind a beginning, what follows it."""
        tail = self._words.tails.get(node)
        if tail is None:
            return _Word(node)
        return Line() if tail is _Tail.LINE else _Piece(self._stretches.begin(), tail is _Tail.QUOTE)

    def _missing(self, state: _State) -> int:
        """How many bytes complete a command, at most; 0 where it may end."""
        if isinstance(state, Line):
            return self._rules.lines.missing(state)
        if isinstance(state, _Piece):
            return self._stretches.missing(state.at)
        return self._words.missing[state.node]


class _Words:
    """A trie of commands and beginnings. Node 0 has read nothing."""

    def __init__(self, drops_blank: bool) -> None:
        self.moves: list[dict[int, int]] = [{}]
        self.tails: dict[int, _Tail] = {}
        self.missing: list[int] = []  # of each node: bytes of the shortest way to an end
        self._drops_blank = drops_blank
        self._ends: dict[int, int] = {}  # nodes: bytes that are missing there

    @property
    def bytes_used(self) -> set[int]:
        return {byte for moves in self.moves for byte in moves}

    def add(self, text: str, tail: _Tail | None = None) -> None:
        """Adds a command, or a beginning and what follows it. A tokenizer that drops a blank at the start may write
        one there."""
        for spelling in (text, f" {text}") if self._drops_blank else (text,):
            node = 0
            for byte in spelling.encode("utf-8"):
                if byte not in self.moves[node]:
                    self.moves[node][byte] = len(self.moves)
                    self.moves.append({})
                node = self.moves[node][byte]
            self._ends[node] = {None: 0, _Tail.LINE: 1}.get(tail, FULL_CHARACTER)
            if tail is not None:
                self.tails[node] = tail

    def finish(self) -> None:
        """Works out what is missing where, once all is added."""
        never = 1 << 30
        self.missing = [self._ends.get(node, never) for node in range(len(self.moves))]
        for node in reversed(range(len(self.moves))):  # children have higher numbers
            for child in self.moves[node].values():
                self.missing[node] = min(self.missing[node], self.missing[child] + 1)
