"""Which slot a request gets, and what of it is already there."""

from __future__ import annotations

import numpy as np
import pytest

from webgpt_jax.sampling.programs import buckets_of, chunks
from webgpt_jax.sampling.requests import Hold, Request, nobody
from webgpt_jax.sampling.slots import Slot, Slots

A, B = (1, 2, 3, 4), (1, 2, 3, 5)


def request(prompt: tuple[int, ...], given: tuple[int, ...] = (), claim: Hold | None = None) -> Request:
    key = np.zeros(2, np.uint32)
    return Request(prompt, key, 4, 1.0, 1.0, frozenset(), None, False, given, claim, nobody)


def occupy(slots: Slots, asked: Request, generated: tuple[int, ...] = ()) -> Slot:
    """A request has been given a slot and has generated tokens, all of whose rows but the last one's are written."""
    slot = slots.free_for(asked)
    assert slot is not None
    slots.assign(slot, asked)
    slot.sequence.extend(generated)
    slot.rows = len(slot.sequence) - 1
    return slot


def test_the_longest_unused_slot_is_taken() -> None:
    slots = Slots(3, 0)
    first, second, third = (occupy(slots, request((number,) * 5)) for number in range(3))
    assert slots.free_for(request(A)) is None
    for slot in (second, third, first):
        slots.leave(slot, keep=False)
    assert occupy(slots, request(A)) is second
    assert second.rows == 3
    assert slots.free_for(request(B)) is third


def test_an_equal_prompt_takes_the_slot_that_has_it_and_one_that_differs_does_not() -> None:
    slots = Slots(3, 0)
    slots.leave(occupy(slots, request(A), (7, 8, 9)), keep=False)
    again = slots.free_for(request(A))
    assert again is not None
    slots.assign(again, request(A))
    assert again.rows == 3  # all but the prompt's last token, which is fed
    assert again.prefilled
    assert slots.source_for(again) is None
    other = slots.free_for(request(B))
    assert other is not None
    slots.assign(other, request(B))
    assert other.rows == 0


def test_a_resumption_finds_the_rows_of_its_own_tokens() -> None:
    slots = Slots(2, 1)
    slot = occupy(slots, request(A), (7, 8, 9))
    hold = slots.leave(slot, keep=True)
    assert slot.held
    assert slots.free_for(request(A)) is not slot
    resumed = request(A, given=(7, 8, 9), claim=hold)
    assert slots.free_for(resumed) is slot
    slots.assign(slot, resumed)
    assert slot.rows == 6  # 9 is to be fed
    assert not slot.held


def test_rows_after_the_first_difference_are_not_shared() -> None:
    slots = Slots(2, 0)
    source = occupy(slots, request(A), (7, 8, 9))
    target = slots.free_for(request(A, given=(7, 5, 9)))
    assert target is not None
    slots.assign(target, request(A, given=(7, 5, 9)))
    assert slots.source_for(target) is source
    assert source.shared_rows(target.prompt, target.sequence) == 5  # four of the prompt, and 7


def test_of_too_many_held_slots_the_longest_held_gives_way() -> None:
    slots = Slots(4, 2)
    taken = [occupy(slots, request((number,) * 3)) for number in range(4)]
    holds = [slots.leave(slot, keep=True) for slot in taken]
    assert [slot.held for slot in taken] == [False, False, True, True]
    assert [hold.released for hold in holds if hold is not None] == [True, True, False, False]
    del holds
    assert not any(slot.held for slot in taken)


def test_nothing_is_held_where_nothing_may_be() -> None:
    slots = Slots(1, 0)
    assert slots.leave(occupy(slots, request(A)), keep=True) is None
    assert slots.free_for(request(B)) is not None


@pytest.mark.parametrize(
    ("smallest", "largest", "expected"), [(16, 256, [16, 32, 64, 128, 256]), (4, 7, [4, 7]), (8, 8, [8]), (9, 4, [4])]
)
def test_buckets_double(smallest: int, largest: int, expected: list[int]) -> None:
    assert buckets_of(smallest, largest) == expected


def test_chunks_depend_on_the_length_alone() -> None:
    buckets = [4, 8]
    assert chunks(21, buckets) == [(8, 8), (8, 8), (5, 8)]
    assert chunks(21, buckets, start=16) == [(5, 8)]
    assert chunks(17, buckets) == [(8, 8), (8, 8), (1, 4)]
    assert chunks(0, buckets) == []
