"""How busy the engine is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Statistics:
    """The engine at one moment, and sums since it began; the difference of two says what happened between them."""

    slots: int  # in the cache
    busy: int  # slots that have a request
    held: int  # slots kept for resumptions
    queued: int  # requests waiting for a slot
    waiting: int  # callers waiting for room in the queue
    completed: int  # requests answered with a completion
    prefills: int  # prompts begun: those not forked from an equal one
    forks: int  # slots copied from another
    prefill_tokens: int
    prefill_seconds: float
    decode_steps: int
    decode_tokens: int  # sampled and kept
    decode_seconds: float
    seconds: float  # since the engine began
    busy_slot_seconds: float  # sum over slots of the time each had a request

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens a second of prefill."""
        return self.prefill_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_rate(self) -> float:
        """Sampled tokens a second of decoding."""
        return self.decode_tokens / self.decode_seconds if self.decode_seconds else 0.0

    @property
    def busy_fraction(self) -> float:
        """The part of all slots' time in which they had a request."""
        return self.busy_slot_seconds / (self.slots * self.seconds) if self.seconds else 0.0

    def since(self, earlier: Statistics) -> Statistics:
        """What happened after an earlier moment: sums as differences, the rest as now."""
        as_now = ("slots", "busy", "held", "queued", "waiting")
        changes = {name: value - getattr(earlier, name) for name, value in vars(self).items() if name not in as_now}
        return Statistics(**{**vars(self), **changes})
