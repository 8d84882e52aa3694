"""Decoding and prefilling through the cache against the model run over the whole sequence."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.shapes import LEARNED, OPTIONS, ROTARY, random_parameters
from webgpt_jax.models import Params, Transformer, TransformerConfig
from webgpt_jax.models.cache import (
    COMPILER_OPTIONS,
    Cache,
    create_cache,
    decode_step,
    fork,
    prefill,
    resize,
    unstack,
)

SEQUENCES = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], [27, 1, 8, 2, 8], [1, 6, 1, 8, 0, 3, 3, 9, 8], [7]]
LENGTH = 12


class Session:
    """A model, its cache and its two programs, jitted as a caller would."""

    def __init__(self, config: TransformerConfig, params: Params | None = None, length: int = LENGTH) -> None:
        self.model = Transformer(config, params=random_parameters(config))
        self.params = unstack(random_parameters(config)) if params is None else params
        self.cache = create_cache(config, 4, length)
        jit = functools.partial(jax.jit, donate_argnums=(1,), compiler_options=dict(COMPILER_OPTIONS))
        self._decode = jit(functools.partial(decode_step, config))
        self._prefill = jit(functools.partial(prefill, config), static_argnames="fresh")

    def expected(self, sequences: list[list[int]]) -> list[np.ndarray]:
        """Logits of each sequence by the whole forward pass, padded on the right to one length."""
        logits = self.model(jnp.array([sequence + [13] * (LENGTH - len(sequence)) for sequence in sequences]))
        return [np.asarray(row)[: len(sequence)] for row, sequence in zip(logits, sequences, strict=True)]

    def decode(self, tokens: list[int], positions: list[int]) -> np.ndarray:
        logits, self.cache = self._decode(self.params, self.cache, jnp.array(tokens), jnp.array(positions))
        return np.asarray(logits)

    def prefill(self, chunks: dict[int, tuple[int, list[int]]], width: int, *, fresh: bool = False) -> np.ndarray:
        """Chunks by slot: position of the first token, tokens; padded to `width` with token 11."""
        tokens = [chunk + [11] * (width - len(chunk)) for _, chunk in chunks.values()]
        starts, lengths = [start for start, _ in chunks.values()], [len(chunk) for _, chunk in chunks.values()]
        arrays = (jnp.array(tokens), jnp.array(list(chunks)), jnp.array(starts), jnp.array(lengths))
        logits, self.cache = self._prefill(self.params, self.cache, *arrays, fresh=fresh)
        return np.asarray(logits)


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt", "neox", "gptj", "mistral", "qwen3", "padded vocabulary"])
def test_decoding_slots_at_their_own_positions_is_the_whole_forward_pass(name: str) -> None:
    session = Session(OPTIONS[name])
    expected = session.expected(SEQUENCES)
    delays = [0, 3, 1, 6]  # slots start at different times, and idle before and after
    for time in range(LENGTH):
        places = [time - delay for delay in delays]
        real = [0 <= at < len(sequence) for at, sequence in zip(places, SEQUENCES, strict=True)]
        rows = list(zip(SEQUENCES, places, real, strict=True))
        logits = session.decode(
            [sequence[at] if is_real else 5 for sequence, at, is_real in rows],
            [at if is_real else LENGTH for _, at, is_real in rows],
        )
        for slot in np.flatnonzero(real):
            assert_close(logits[slot], expected[slot][places[slot]])


@pytest.mark.parametrize(
    ("name", "fresh"),
    [("gpt2", True), ("gpt2", False), ("llama", False), ("opt", False), ("mistral", True), ("mistral", False)],
)
def test_chunked_prefill_then_decoding_is_the_whole_forward_pass(name: str, fresh: bool) -> None:
    session = Session(OPTIONS[name])
    long, other = SEQUENCES[0], SEQUENCES[2]
    whole, other_whole = session.expected([long, other])
    logits = session.prefill({2: (0, long[:4]), 0: (0, other[:3])}, 4, fresh=fresh)
    assert_close(logits, np.stack([whole[3], other_whole[2]]))
    logits = session.prefill({0: (3, other[3:5]), 2: (4, long[4:8])}, 4)
    assert_close(logits, np.stack([other_whole[4], whole[7]]))
    for at in range(4):
        logits = session.decode([other[5 + at], 0, long[8 + at], 0], [5 + at, LENGTH, 8 + at, LENGTH])
        assert_close(logits[[0, 2]], np.stack([other_whole[5 + at], whole[8 + at]]))


def test_a_padded_chunk_at_the_end_of_the_cache_moves_nothing() -> None:
    session = Session(ROTARY)
    sequence = SEQUENCES[0]
    session.prefill({1: (0, sequence[:8])}, 8)
    before = jax.tree.map(np.array, session.cache)
    logits = session.prefill({1: (8, sequence[8:10])}, 8)  # 8 + 8 > 12: the padding would hang out
    (expected,) = session.expected([sequence])
    assert_close(logits[0], expected[9])
    for old, new in zip(before.values, session.cache.values, strict=True):
        np.testing.assert_array_equal(old[1, :, :8], new[1, :, :8])
        assert (new[1, :, 8:10] != 0).any(axis=(0, 2)).all()
        assert (new[1, :, 10:] == 0).all()
    assert_close(session.decode([0, sequence[10], 0, 0], [LENGTH, 10, LENGTH, LENGTH])[1], expected[10])


def test_only_the_given_slots_and_rows_are_written() -> None:
    session = Session(LEARNED)
    ones = [jnp.ones_like(array) for array in session.cache.keys], [jnp.ones_like(a) for a in session.cache.values]
    session.cache = Cache(tuple(ones[0]), tuple(ones[1]))
    session.prefill({3: (2, [5, 6]), 1: (0, [])}, 4)
    session.decode([4, 4, 4, 4], [LENGTH, 7, LENGTH + 5, LENGTH])
    for keys, values in zip(*session.cache, strict=True):
        changed = {(int(slot), int(row)) for slot, row in np.argwhere(np.any(np.asarray(keys) != 1, axis=(1, 2)))}
        assert changed == {(3, 2), (3, 3), (1, 7)}
        changed = {(int(slot), int(row)) for slot, row in np.argwhere(np.any(np.asarray(values) != 1, axis=(1, 3)))}
        assert changed == {(3, 2), (3, 3), (1, 7)}


def test_what_other_slots_hold_changes_no_bit() -> None:
    alone, beside = Session(ROTARY), Session(ROTARY)
    beside.prefill({0: (0, SEQUENCES[2]), 3: (0, SEQUENCES[1])}, LENGTH)
    for session in (alone, beside):
        session.prefill({1: (0, [4, 5, 6])}, 4)
    one = alone.decode([0, 7, 0, 0], [LENGTH, 3, LENGTH, LENGTH])
    other = beside.decode([1, 7, 2, 3], [9, 3, LENGTH, 5])
    np.testing.assert_array_equal(one[1], other[1])


def test_stacked_parameters_serve_too() -> None:
    apart, stacked = Session(ROTARY), Session(ROTARY, random_parameters(ROTARY))
    np.testing.assert_allclose(apart.decode([1, 2, 3, 4], [0] * 4), stacked.decode([1, 2, 3, 4], [0] * 4), atol=1e-5)


def test_a_forked_slot_goes_on_alone() -> None:
    session = Session(ROTARY)
    prompt = [3, 1, 4]
    session.prefill({0: (0, prompt), 1: (0, [9, 9, 9])}, 4)
    session.cache = fork(session.cache, jnp.array([0, 1, 0]), jnp.array([1, 2, 4]))  # 1 is read before it is written
    logits = session.decode([5, 6, 7, 0], [3, 3, 3, LENGTH])
    expected = session.expected([[*prompt, 5], [*prompt, 6], [9, 9, 9, 7]])
    assert_close(logits[:3], np.stack([whole[-1] for whole in expected]))


@pytest.mark.parametrize("length", [8, 20])
def test_a_resized_cache_holds_the_same_sequences(length: int) -> None:
    session = Session(ROTARY)
    session.prefill({2: (0, SEQUENCES[0][:5])}, 8)
    session.cache = resize(session.cache, length)
    assert session.cache.length == length
    assert session.cache.slots == 4
    logits = session.decode([0, 0, SEQUENCES[0][5], 0], [length, length, 5, length])
    assert_close(logits[2], session.expected(SEQUENCES[:1])[0][5])


def test_bfloat16_caches_bfloat16() -> None:
    config = replace(ROTARY, dtype="bfloat16")
    session = Session(config)
    assert {str(array.dtype) for array in jax.tree.leaves(session.cache)} == {"bfloat16"}
    logits = session.prefill({0: (0, SEQUENCES[0][:6])}, 8)
    assert logits.dtype == np.float32
    (expected,) = session.expected(SEQUENCES[:1])
    assert np.abs(logits[0] - expected[5]).max() < 0.05 * np.abs(expected).max()


def test_the_cache_is_updated_in_place() -> None:
    """On the CPU a copy of each buffer a step is what makes decoding slow, and nothing else shows it."""
    config, slots, length = replace(ROTARY, max_length=512), 4, 512
    params, cache = unstack(random_parameters(config)), create_cache(config, slots, length)
    ints = functools.partial(jnp.zeros, dtype=jnp.int32)
    options = {"donate_argnums": (1,), "compiler_options": dict(COMPILER_OPTIONS)}
    programs = {
        "decode": jax.jit(functools.partial(decode_step, config), **options).lower(params, cache, ints(4), ints(4)),
        "prefill": jax.jit(functools.partial(prefill, config), **options).lower(
            params, cache, ints((1, 16)), ints(1), ints(1), ints(1)
        ),
    }
    for name, program in programs.items():
        compiled = program.compile()
        copies = re.findall(r"= (f32\[4,2,(?:6,512|512,6)\])\S* copy\(", compiled.as_text())
        assert not copies, f"{name} copies {copies}"
        one_buffer = cache.keys[0].nbytes
        assert compiled.memory_analysis().temp_size_in_bytes < 4 * one_buffer
        assert compiled.memory_analysis().alias_size_in_bytes == 4 * one_buffer


def test_a_cache_that_cannot_serve_is_refused() -> None:
    with pytest.raises(ValueError, match="25 positions is longer than the model's max_length 24"):
        create_cache(LEARNED, 1, 25)
    with pytest.raises(ValueError, match="a chunk of 16 tokens is longer than the cache's 12 positions"):
        Session(ROTARY).prefill({0: (0, [1])}, 16)
