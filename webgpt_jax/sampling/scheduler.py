"""The engine's thread: requests join and leave between decode steps, and long prompts are prefilled a chunk at a time.

While only decoding is to be done, a step is started before the results of the one before are read: the device does not
wait for the host. A sequence that turns out to have ended has then run one step too far, which nobody sees. Whenever
something else is to be done (a request joins, a prompt is prefilled, a mask needs the latest token), results are read
first.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from types import TracebackType
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from webgpt_jax.sampling.inbox import Inbox
from webgpt_jax.sampling.programs import CARRIED, Programs
from webgpt_jax.sampling.requests import EngineError, FailureOf, Hold, Request
from webgpt_jax.sampling.sampler import Settings
from webgpt_jax.sampling.slots import Slot, Slots
from webgpt_jax.sampling.statistics import Statistics


class _Step(NamedTuple):
    """A decode step that was started."""

    tokens: jax.Array  # [B]
    logprobs: jax.Array  # [B]
    sampling: list[tuple[Slot, Request]]  # whose token is new, and not given


class Scheduler:
    """Works through an inbox until that is closed, and then answers whoever is left with an `EngineError`.

    Args:
      programs: the device's side.
      inbox: where requests come from.
      slots: which slot holds what.
      length: positions of a slot, S.
      vocab_size: V.
    """

    def __init__(self, programs: Programs, inbox: Inbox, slots: Slots, length: int, vocab_size: int) -> None:
        self._programs = programs
        self._inbox = inbox
        self._slots = slots
        self._length = length
        self._vocab_size = vocab_size
        self._in_flight: _Step | None = None
        self._settings: Settings | None = None  # on the device; None where slots have changed hands
        self._counts: Counter[str] = Counter()
        self._prefill_seconds = self._decode_seconds = self._busy_slot_seconds = 0.0
        self._began = self._counted_to = time.perf_counter()
        self._lock = threading.Lock()  # for the sums above

    # The thread

    def run(self) -> None:
        """Serves until the inbox is closed or something fails; then no request is left without an answer."""
        with _LastAnswers(self):
            while not self._inbox.closed:
                if not self._working:
                    self._inbox.wait_until_any()
                self._turn()

    @property
    def _working(self) -> bool:
        return self._in_flight is not None or any(slot.request for slot in self._slots)

    def _turn(self) -> None:
        self._count_time()
        if not self._can_look_ahead:
            self._read_results()
            self._drop_cancelled()
            self._admit()
            self._prefill()
        before = self._in_flight
        self._in_flight = self._start_step()
        if before is not None:
            self._read(before)

    @property
    def _can_look_ahead(self) -> bool:
        """There is nothing to do but to decode on."""
        busy = [slot.request for slot in self._slots if slot.request is not None]
        return (
            not any(request.cancelled or request.logits_mask is not None for request in busy)
            and not any(slot.prefilling for slot in self._slots)
            and (len(busy) == len(self._slots) or not self._inbox.queued)
        )

    def _drop_cancelled(self) -> None:
        for slot in self._slots:
            if slot.request is not None and slot.request.cancelled:
                self._leave(slot, keep=False)

    # Joining

    def _admit(self) -> None:
        """Gives free slots to the first in the queue. One that must wait makes those behind it wait."""
        while (request := self._inbox.first()) is not None:
            slot = self._slots.free_for(request)
            if slot is None:
                return
            if not self._inbox.take(request):
                continue
            self._slots.assign(slot, request)
            self._settings = None
            if not slot.prefilled or request.given:
                self._fork_to(slot)

    def _fork_to(self, slot: Slot) -> None:
        """Copies what another slot has of this one's rows, unless that one is just being prefilled."""
        source = self._slots.source_for(slot)
        if source is None or source.prefilling:
            return
        self._programs.fork(source.index, slot.index)
        slot.rows = source.shared_rows(slot.prompt, slot.sequence)
        self._count(forks=1)

    def _prefill(self) -> None:
        """Chunks for the first that need one: one, or as many as there are such prompts for each sequence that decodes.

        So decoding never waits for long where it is what most slots do, nor goes on half empty where it isn't.
        """
        decoding = sum(slot.decoding for slot in self._slots)
        waiting = sum(slot.prefilling for slot in self._slots)
        for _ in range(max(1, waiting // max(1, decoding))):
            leader = self._next_to_prefill()
            if leader is None:
                return
            self._prefill_chunk(leader)

    def _next_to_prefill(self) -> Slot | None:
        """The first to have come whose prompt is to be prefilled. Equal prompts wait for theirs and then copy it."""
        for slot in sorted(self._slots, key=lambda slot: slot.last_used):
            if slot.prefilling:
                self._fork_to(slot)
                if slot.prefilling:
                    return slot
        return None

    def _prefill_chunk(self, slot: Slot) -> None:
        began = time.perf_counter()
        first = slot.rows == 0
        size = self._programs.prefill(slot.index, slot.prompt[:-1], slot.rows)
        slot.rows += size
        with self._lock:
            self._prefill_seconds += time.perf_counter() - began
        self._count(prefill_tokens=size, prefills=int(first))
        if slot.prefilled:
            for other in self._slots:
                if other.prefilling and other.prompt == slot.prompt:
                    self._fork_to(other)

    # Decoding

    def _start_step(self) -> _Step | None:
        """Starts a step of all slots that need one; None where none does."""
        tokens = np.zeros(len(self._slots), np.int32)
        positions = np.full(len(self._slots), self._length, np.int32)
        mask: NDArray[np.bool_] | None = None
        sampling: list[tuple[Slot, Request]] = []
        for slot in self._slots:
            request = slot.request
            if request is None or not slot.prefilled or not self._needs_step(slot, request):
                continue
            if slot.rows + 1 >= len(slot.sequence):  # what follows is not given
                if request.logits_mask is not None:
                    row = self._mask_row(slot, request)
                    if row is None:
                        continue
                    mask = np.ones((len(self._slots), self._vocab_size), np.bool_) if mask is None else mask
                    mask[slot.index] = row
                sampling.append((slot, request))
            tokens[slot.index] = slot.sequence[slot.rows] if slot.rows < len(slot.sequence) else CARRIED
            positions[slot.index] = slot.rows
            slot.rows += 1
        if (positions == self._length).all():
            return None
        began = time.perf_counter()
        step = _Step(*self._programs.decode(tokens, positions, self._current_settings(), mask), sampling)
        self._count_decoding(began, decode_steps=1)
        return step

    @staticmethod
    def _needs_step(slot: Slot, request: Request) -> bool:
        """Whether a request lacks tokens that no step in flight is about to sample."""
        return slot.rows < len(request.prompt) + len(request.given) + request.max_tokens - 1

    def _mask_row(self, slot: Slot, request: Request) -> NDArray[np.bool_] | None:
        """[V]: what may follow. None where the request's own function failed, which ends the request."""
        assert request.logits_mask is not None
        row = np.ones(self._vocab_size, np.bool_)
        with FailureOf(request, "logits_mask") as failure:
            allowed = request.logits_mask((*request.given, *request.tokens))
            row = row if allowed is None else np.asarray(allowed)
            if row.shape != (self._vocab_size,) or row.dtype != np.bool_:
                raise ValueError(f"it gave {row.dtype} of shape {row.shape}, not bool of shape ({self._vocab_size},)")
            if not row.any():
                raise ValueError("it allows no token at all")
        if failure.failed:
            self._leave(slot, keep=False)
            return None
        return row

    def _current_settings(self) -> Settings:
        if self._settings is None:
            key = next(slot.request.key for slot in self._slots if slot.request is not None)
            keys = np.zeros((len(self._slots), *key.shape), np.uint32)
            temperature = np.zeros(len(self._slots), np.float32)
            top_p = np.ones(len(self._slots), np.float32)
            for slot in self._slots:
                if slot.request is not None:
                    keys[slot.index] = slot.request.key
                    temperature[slot.index], top_p[slot.index] = slot.request.temperature, slot.request.top_p
            self._settings = self._programs.settings(keys, temperature, top_p)
        return self._settings

    def _read_results(self) -> None:
        if self._in_flight is not None:
            step, self._in_flight = self._in_flight, None
            self._read(step)

    def _read(self, step: _Step) -> None:
        """Waits for a step and gives its tokens to those who still want them."""
        began = time.perf_counter()
        tokens, logprobs = np.asarray(step.tokens), np.asarray(step.logprobs)
        wanted = [(slot, request) for slot, request in step.sampling if slot.request is request]
        self._count_decoding(began, decode_tokens=len(wanted))
        for slot, request in wanted:
            self._append(slot, request, int(tokens[slot.index]), float(logprobs[slot.index]))

    def _append(self, slot: Slot, request: Request, token: int, logprob: float) -> None:
        if not math.isfinite(logprob):
            request.answer(EngineError("the model's logits are not finite: are its weights?"))
            self._leave(slot, keep=False)
            return
        slot.sequence.append(token)
        request.tokens.append(token)
        request.logprobs.append(logprob)
        finished = token in request.stop_tokens
        if finished or len(request.tokens) == request.max_tokens:
            hold = self._leave(slot, keep=request.hold and not finished and len(slot.sequence) < self._length)
            self._count(completed=1)
            request.complete(finished, hold)

    # Leaving and counting

    def _leave(self, slot: Slot, keep: bool) -> Hold | None:
        self._count_time()
        self._settings = None
        return self._slots.leave(slot, keep)

    def answer_rest(self, error: EngineError) -> None:
        """Answers every request there is with an error, now and for all time."""
        left = self._inbox.shut(error)
        left += [slot.request for slot in self._slots if slot.request is not None]
        for request in left:
            request.answer(error)

    def _count(self, **changes: int) -> None:
        with self._lock:
            self._counts.update(changes)

    def _count_decoding(self, began: float, **changes: int) -> None:
        with self._lock:
            self._decode_seconds += time.perf_counter() - began
            self._counts.update(changes)

    def _count_time(self) -> None:
        busy, now = sum(slot.request is not None for slot in self._slots), time.perf_counter()
        with self._lock:
            self._busy_slot_seconds += busy * (now - self._counted_to)
            self._counted_to = now

    def statistics(self) -> Statistics:
        """As of now. For any thread."""
        with self._lock:
            counts = dict(self._counts)
            sums = (self._prefill_seconds, self._decode_seconds, self._busy_slot_seconds)
            seconds = self._counted_to - self._began
        names = ("completed", "prefills", "forks", "prefill_tokens", "decode_steps", "decode_tokens")
        return Statistics(
            slots=len(self._slots),
            busy=sum(slot.request is not None for slot in self._slots),
            held=sum(slot.held for slot in self._slots),
            queued=self._inbox.queued,
            waiting=self._inbox.waiting,
            prefill_seconds=sums[0],
            decode_seconds=sums[1],
            busy_slot_seconds=sums[2],
            seconds=seconds,
            **{name: counts.get(name, 0) for name in names},
        )


class _LastAnswers:
    """Leaving this block, by whatever exception, answers all requests that are left."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None:
            self._scheduler.answer_rest(EngineError("the engine is closed"))
            return True
        failure = EngineError(f"the engine has failed: {type(error).__name__}: {error}")
        failure.__cause__ = error
        self._scheduler.answer_rest(failure)
        return isinstance(error, Exception)
