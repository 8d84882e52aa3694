"""Which slot of the cache holds what, and who gets one.

A slot remembers the tokens whose rows it holds after its request has left, until another needs it. So every way of not
computing twice is one: a new request looks for the slot that has most of its rows. An equal prompt finds them in a
running, a held or a left slot, and a resumed completion finds all of its own.

Rows of a prompt (all but its last token) come from prefill, later ones from decoding, and the two differ by rounding.
So only an equal prompt has rows to share, and rows of generated tokens are made again by decoding them again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

from webgpt_jax.sampling.requests import Hold, Request


@dataclass(eq=False)
class Slot:
    """One sequence in the cache. `rows` of `sequence`'s tokens are written, or will be by what has been dispatched."""

    index: int
    request: Request | None = None  # who has it now
    prompt: tuple[int, ...] = ()
    sequence: list[int] = field(default_factory=list)  # the prompt and what is known to follow
    rows: int = 0
    hold: weakref.ref[Hold] | None = None
    last_used: int = 0  # a count of assignments and departures; the smallest is the longest unused

    @property
    def held(self) -> bool:
        """Kept for a resumption."""
        hold = None if self.hold is None else self.hold()
        return hold is not None and not hold.released

    @property
    def prefilled(self) -> bool:
        """Its prompt is written but for the last token, which is decoded."""
        return self.rows >= len(self.prompt) - 1

    @property
    def decoding(self) -> bool:
        """It has a request that is past its prefill."""
        return self.request is not None and self.prefilled

    @property
    def prefilling(self) -> bool:
        """It has a request whose prompt is not yet written."""
        return self.request is not None and not self.prefilled

    def shared_rows(self, prompt: tuple[int, ...], sequence: list[int]) -> int:
        """Rows that a request for this prompt, going on from `sequence`, finds here. Its last token is always fed."""
        if self.prompt != prompt:
            return 0
        if not self.prefilled:
            return self.rows
        # The prompts are equal; compare what follows them.
        shared, most = len(prompt) - 1, min(self.rows, len(self.sequence), len(sequence) - 1)
        while shared < most and self.sequence[shared] == sequence[shared]:
            shared += 1
        return shared


class Slots:
    """All slots. At most `max_held` are kept for resumptions; the longest kept give way."""

    def __init__(self, count: int, max_held: int) -> None:
        self._all = [Slot(index) for index in range(count)]
        self._max_held = max_held
        self._clock = 0

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def free_for(self, request: Request) -> Slot | None:
        """The slot that a request should take: the one with most of its rows, or else the longest unused. None if all
        are taken or held by others."""
        sequence = [*request.prompt, *request.given]
        free = [slot for slot in self._all if slot.request is None and self._may_take(request, slot)]
        if not free:
            return None
        return max(free, key=lambda slot: (slot.shared_rows(request.prompt, sequence), -slot.last_used))

    @staticmethod
    def _may_take(request: Request, slot: Slot) -> bool:
        return not slot.held or (slot.hold is not None and slot.hold() is request.claim)

    @property
    def any_free(self) -> bool:
        """A request of any kind would get a slot."""
        return any(slot.request is None and not slot.held for slot in self._all)

    def assign(self, slot: Slot, request: Request) -> None:
        """Gives a slot to a request; what it holds of the request's rows stays."""
        sequence = [*request.prompt, *request.given]
        slot.rows = slot.shared_rows(request.prompt, sequence)
        slot.request, slot.prompt, slot.sequence = request, request.prompt, sequence
        self._end_hold(slot)
        self._touch(slot)

    def leave(self, slot: Slot, keep: bool) -> Hold | None:
        """Ends a request's stay. The slot keeps its rows, and is held if asked for."""
        slot.request = None
        slot.rows = min(slot.rows, len(slot.sequence))
        self._touch(slot)
        if not keep or not self._max_held:
            return None
        held = sorted((other for other in self._all if other.held), key=lambda other: other.last_used)
        for other in held[: max(0, len(held) + 1 - self._max_held)]:
            self._end_hold(other)
        hold = Hold()
        slot.hold = weakref.ref(hold)
        return hold

    @staticmethod
    def _end_hold(slot: Slot) -> None:
        hold = None if slot.hold is None else slot.hold()
        if hold is not None:
            hold.released = True
        slot.hold = None

    def source_for(self, slot: Slot) -> Slot | None:
        """Another slot with more of the rows that this one needs, the one with most."""
        others = [other for other in self._all if other is not slot and other.prompt == slot.prompt]
        best = max(others, key=lambda other: other.shared_rows(slot.prompt, slot.sequence), default=None)
        if best is None or best.shared_rows(slot.prompt, slot.sequence) <= slot.rows:
            return None
        return best

    def _touch(self, slot: Slot) -> None:
        self._clock += 1
        slot.last_used = self._clock
