"""What may be written of a page's text: any stretch of it, byte by byte, by a suffix automaton."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from webgpt_jax.sampling.vocabulary import character_length

MARK = "━".encode()  # between the start and the end of a quote that is abbreviated
FULL_CHARACTER = 4  # bytes, at most
_GAP = 0xFF  # stands in the text where no stretch may run on; a byte that UTF-8 does not have
_LINE = 0xFE  # stands before each line where stretches begin with one; another that UTF-8 does not have
_DEAD = -1


class Suffixes:
    """The smallest automaton that reads every stretch of some bytes, with where it first and last ends.

    (Blumer et al., 1985.) Linear in the text's length. State 0 has read nothing.
    """

    def __init__(self, text: bytes) -> None:
        self.moves: list[dict[int, int]] = [{}]
        self.first_end = [0]  # where the first occurrence of what was read ends
        self.last_end = [len(text)]  # where the last one ends
        links, lengths, last = [-1], [0], 0
        for end, byte in enumerate(text, start=1):
            current = self._add({}, end, end)
            links.append(0)
            lengths.append(end)
            at = last
            while at >= 0 and byte not in self.moves[at]:
                self.moves[at][byte] = current
                at = links[at]
            if at >= 0:
                target = self.moves[at][byte]
                if lengths[target] == lengths[at] + 1:
                    links[current] = target
                else:
                    clone = self._add(dict(self.moves[target]), self.first_end[target], 0)
                    links.append(links[target])
                    lengths.append(lengths[at] + 1)
                    while at >= 0 and self.moves[at].get(byte) == target:
                        self.moves[at][byte] = clone
                        at = links[at]
                    links[target] = links[current] = clone
            last = current
        for state in sorted(range(1, len(links)), key=lengths.__getitem__, reverse=True):
            self.last_end[links[state]] = max(self.last_end[links[state]], self.last_end[state])

    def _add(self, moves: dict[int, int], first_end: int, last_end: int) -> int:
        self.moves.append(moves)
        self.first_end.append(first_end)
        self.last_end.append(last_end)
        return len(self.moves) - 1


class Stretch(NamedTuple):
    """How far a stretch, or the two of an abbreviated quote, has been written."""

    state: int  # of the suffix automaton; _DEAD where only the mark can go on
    lead: bytes | None = b""  # of the first character, until it is whole
    pending: int = FULL_CHARACTER  # bytes until the character is whole; before the first, the most it may have
    mark: int = 0  # bytes of the mark that have been written
    mark_floor: int = 0  # where the second stretch may begin, if these are the mark's
    floor: int | None = None  # None in the first stretch; in the second, where it may begin
    length: int = 0  # bytes written of the present stretch


class Stretches:
    """Everything that may follow "Quote: " or "Find in page: ": a stretch of the text that begins with no blank; for a
    quote also `<start>━<end>` with an end that stands behind the start.

    Args:
      text: what stands on the page.
      bytes_known: bytes that can be written one by one. A character with others ends a stretch.
      by_lines: whether stretches begin where a line does and end with it.
    """

    def __init__(self, text: str, bytes_known: Collection[int], *, by_lines: bool = False) -> None:
        known = frozenset(bytes_known)
        self._last_begin: dict[bytes, int] = {}  # beginnings of a stretch's first character: where the last one is
        written = bytearray()
        for line in (line.strip() for line in text.split("\n")) if by_lines else [text]:
            written += bytes([_LINE]) if by_lines else b""
            for at, character in enumerate(line):
                encoded = character.encode("utf-8")
                if not known.issuperset(encoded):
                    encoded = bytes([_GAP])
                elif not character.isspace() and not (by_lines and at):
                    for end in range(len(encoded) + 1):
                        self._last_begin[encoded[:end]] = len(written)
                written += encoded
        self._suffixes = Suffixes(bytes(written))
        self._first_state = self._suffixes.moves[0].get(_LINE, 0) if by_lines else 0
        self._has_mark = known.issuperset(MARK)

    def begin(self, floor: int | None = None) -> Stretch:
        """Nothing written yet. With a floor, of the second stretch of a quote: where that may begin."""
        return Stretch(self._first_state, floor=floor)

    @property
    def any(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._last_begin)

    def moves(self, at: Stretch, abbreviated: bool) -> Iterable[tuple[int, Stretch]]:
        """The bytes that may come next, each with where it leads."""
        steps = dict(self._suffixes.moves[at.state]) if at.state != _DEAD else {}
        marks = abbreviated and self._may_mark(at)
        if marks:
            steps.setdefault(MARK[at.mark], _DEAD)
        for byte in steps:
            after = self.step(at, byte, abbreviated)
            if after is not None:
                yield byte, after

    def step(self, at: Stretch, byte: int, abbreviated: bool) -> Stretch | None:
        """Where a byte leads; None where it may not come next."""
        if abbreviated and self._may_mark(at) and byte == MARK[at.mark]:
            floor = at.mark_floor if at.mark else self._suffixes.first_end[at.state]
            if at.mark + 1 == len(MARK):
                return self.begin(floor)
            beside = self._step_text(at, byte)  # the text may go on with the mark's first bytes, too
            if beside is None:
                return Stretch(_DEAD, None, 0, at.mark + 1, floor)
            return beside._replace(mark=at.mark + 1, mark_floor=floor)
        return self._step_text(at, byte)

    def missing(self, at: Stretch) -> int:
        """How many bytes complete it, at most; 0 where it may end here."""
        if at.state == _DEAD:
            return len(MARK) - at.mark + FULL_CHARACTER
        return at.pending

    def _may_mark(self, at: Stretch) -> bool:
        """Whether the mark's next byte may come: with a character of the text behind its place."""
        if at.floor is not None or not self._has_mark:
            return False
        if at.mark:
            return True
        return at.lead is None and at.pending == 0 and self._suffixes.first_end[at.state] <= self._last_begin[b""]

    def _step_text(self, at: Stretch, byte: int) -> Stretch | None:
        if at.state == _DEAD or byte in (_GAP, _LINE):
            return None
        state = self._suffixes.moves[at.state].get(byte)
        if state is None:
            return None
        length = at.length + 1
        floor = at.floor or 0
        lead = at.lead
        if lead is not None:
            lead += bytes([byte])
            if self._last_begin.get(lead, _DEAD) < floor:
                return None
        elif self._suffixes.last_end[state] - length < floor:
            return None
        pending = (at.pending or character_length(byte)) - 1 if at.length else character_length(byte) - 1
        return Stretch(state, lead if pending else None, pending, floor=at.floor, length=length)
