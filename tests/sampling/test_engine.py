"""Completions against their definition, and how they may be asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import jax
import numpy as np
import pytest

from tests.sampling.models import CONFIG, SIZE, VOCAB, by_definition, tiny_model
from webgpt_jax.models import Transformer, parameters
from webgpt_jax.sampling import Completion, Engine, EngineConfig, EngineError

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8]  # two chunks and a part


@pytest.fixture(scope="module")
def model() -> Transformer:
    return tiny_model()


@pytest.fixture(scope="module")
def engine(model: Transformer) -> Iterator[Engine]:
    with Engine(model, SIZE) as engine:
        yield engine


@pytest.mark.parametrize("length", [1, 2, 5, 8, 9, 10, 17, 19])
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.0, 1.0), (0.7, 0.8)])
def test_a_completion_is_that_of_full_forward_passes(
    engine: Engine, model: Transformer, length: int, temperature: float, top_p: float
) -> None:
    prompt, key = PROMPT[:length], jax.random.key(length)
    completion = asyncio.run(engine.generate(prompt, key, 12, temperature=temperature, top_p=top_p))
    tokens, logprobs = by_definition(model, prompt, key, 12, temperature, top_p)
    assert completion.tokens == tuple(tokens)
    np.testing.assert_allclose(completion.logprobs, logprobs, atol=1e-4, rtol=0)
    assert not completion.finished


def test_a_stop_token_ends_and_is_kept(engine: Engine) -> None:
    whole = asyncio.run(engine.generate(PROMPT, jax.random.key(0), 20))
    stop = whole.tokens[7]
    first = whole.tokens.index(stop)
    completion = asyncio.run(engine.generate(PROMPT, jax.random.key(0), 20, stop_tokens={stop, 10_000}))
    assert completion.tokens == whole.tokens[: first + 1]
    assert completion.logprobs == whole.logprobs[: first + 1]
    assert completion.finished


def test_it_fills_its_length_to_the_last_position(engine: Engine, model: Transformer) -> None:
    key = jax.random.key(5)
    completion = asyncio.run(engine.generate(PROMPT, key, 64 - len(PROMPT)))
    assert list(completion.tokens) == by_definition(model, PROMPT, key, 64 - len(PROMPT))[0]
    with pytest.raises(EngineError, match=r"20 tokens and max_tokens 45 do not fit .* 64"):
        asyncio.run(engine.generate([*PROMPT, 1], key, 45))


@pytest.mark.parametrize("cuts", [[1] * 12, [5, 7], [11, 1]])
@pytest.mark.parametrize("hold", [True, False])
def test_resuming_gives_what_a_longer_one_gives(engine: Engine, cuts: list[int], hold: bool) -> None:
    async def in_parts() -> tuple[list[int], list[float]]:
        completion = await engine.generate(PROMPT, jax.random.key(3), cuts[0], hold=hold, temperature=0.9)
        parts = [completion]
        for cut in cuts[1:]:
            parts.append(await engine.resume(parts[-1], cut, hold=hold))
        return [token for part in parts for token in part.tokens], [lp for part in parts for lp in part.logprobs]

    whole = asyncio.run(engine.generate(PROMPT, jax.random.key(3), 12, temperature=0.9))
    tokens, logprobs = asyncio.run(in_parts())
    assert tuple(tokens) == whole.tokens
    assert tuple(logprobs) == whole.logprobs


def test_a_held_completion_is_resumed_without_computing_anything_again(model: Transformer) -> None:
    async def play(engine: Engine) -> None:
        completion = await engine.generate(PROMPT, jax.random.key(3), 5, hold=True)
        assert engine.statistics().held == 1
        # Others come and go through the remaining slots.
        others = [engine.generate([other, *PROMPT[1:]], jax.random.key(other), 3) for other in range(10, 20)]
        await asyncio.gather(*others)
        before = engine.statistics()
        resumed = await engine.resume(completion, 7)
        happened = engine.statistics().since(before)
        assert (happened.prefill_tokens, happened.forks, happened.held) == (0, 0, 0)
        assert happened.decode_steps <= 8  # of which one may have been started ahead
        whole = await engine.generate(PROMPT, jax.random.key(3), 12)
        assert completion.tokens + resumed.tokens == whole.tokens

    with Engine(model, SIZE) as engine:
        asyncio.run(play(engine))


def test_a_completion_whose_slot_was_given_away_is_resumed_all_the_same(model: Transformer) -> None:
    async def play(engine: Engine) -> None:
        completion = await engine.generate(PROMPT, jax.random.key(3), 5)
        await asyncio.gather(*(engine.generate([other, *PROMPT], jax.random.key(other), 9) for other in range(12)))
        before = engine.statistics()
        resumed, again = await asyncio.gather(engine.resume(completion, 7), engine.resume(completion, 7))
        assert engine.statistics().since(before).prefills == 1
        whole = await engine.generate(PROMPT, jax.random.key(3), 12)
        assert completion.tokens + resumed.tokens == whole.tokens
        assert completion.logprobs + resumed.logprobs == whole.logprobs
        assert (again.tokens, again.logprobs) == (resumed.tokens, resumed.logprobs)

    with Engine(model, SIZE) as engine:
        asyncio.run(play(engine))


def test_held_slots_are_bounded_and_given_back(model: Transformer) -> None:
    async def play(engine: Engine) -> None:
        kept = [await engine.generate(PROMPT, jax.random.key(n), 2, hold=True) for n in range(5)]
        assert engine.statistics().held == 2
        kept[4].release()
        assert engine.statistics().held == 1
        del kept[3]
        assert engine.statistics().held == 0
        finished = await engine.generate(PROMPT, jax.random.key(0), 2, hold=True, stop_tokens=range(VOCAB))
        assert finished.finished
        assert engine.statistics().held == 0
        with pytest.raises(EngineError, match="stop token"):
            await engine.resume(finished, 1)

    with Engine(model, SIZE) as engine:
        asyncio.run(play(engine))


def test_equal_prompts_are_prefilled_once(model: Transformer) -> None:
    async def play(engine: Engine) -> list[Completion]:
        return await asyncio.gather(*(engine.generate(PROMPT, jax.random.key(n), 6) for n in range(9)))

    with Engine(model, SIZE) as engine:
        together = asyncio.run(play(engine))
        assert engine.statistics().prefills == 1
        assert engine.statistics().prefill_tokens == len(PROMPT) - 1
    for number, completion in enumerate(together):
        assert list(completion.tokens) == by_definition(model, PROMPT, jax.random.key(number), 6)[0]
    assert len({completion.tokens for completion in together}) > 5


def test_who_cancels_a_prefill_does_not_take_it_from_the_others(model: Transformer) -> None:
    async def play(engine: Engine) -> Completion:
        first = asyncio.create_task(engine.generate(PROMPT, jax.random.key(0), 6))
        second = asyncio.create_task(engine.generate(PROMPT, jax.random.key(1), 6))
        await asyncio.sleep(0.001)
        first.cancel()
        return await second

    with Engine(model, SIZE) as engine:
        for _ in range(5):
            completion = asyncio.run(play(engine))
            assert list(completion.tokens) == by_definition(model, PROMPT, jax.random.key(1), 6)[0]


def test_a_mask_says_what_may_follow(engine: Engine) -> None:
    seen: list[tuple[int, ...]] = []

    def odd_then_even(tokens: tuple[int, ...]) -> np.ndarray | None:
        seen.append(tokens)
        return None if len(tokens) > 5 else np.arange(VOCAB) % 2 == (len(tokens) + 1) % 2

    async def play() -> tuple[Completion, Completion, Completion]:
        free, masked = await asyncio.gather(
            engine.generate(PROMPT, jax.random.key(1), 8),
            engine.generate(PROMPT, jax.random.key(1), 4, logits_mask=odd_then_even),
        )
        return free, masked, await engine.resume(masked, 4)

    free, masked, resumed = asyncio.run(play())
    tokens = masked.tokens + resumed.tokens
    assert [token % 2 for token in tokens[:6]] == [1, 0, 1, 0, 1, 0]
    assert seen == [tokens[:count] for count in range(8)]
    assert free.tokens == asyncio.run(engine.generate(PROMPT, jax.random.key(1), 8)).tokens
    only = asyncio.run(engine.generate(PROMPT, jax.random.key(1), 3, logits_mask=lambda _: np.arange(VOCAB) == 11))
    assert only.tokens == (11, 11, 11)
    np.testing.assert_allclose(only.logprobs, 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt_tokens": []}, "at least one token"),
        ({"prompt_tokens": [1, VOCAB]}, f"token {VOCAB} is not in the vocabulary"),
        ({"prompt_tokens": [1, -1]}, "token -1"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": 1e-9}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"key": np.zeros(3, np.uint32)}, "key"),
        ({"key": np.zeros(2, np.float32)}, "key"),
    ],
)
def test_wrong_arguments_are_named(engine: Engine, arguments: dict[str, object], message: str) -> None:
    right: dict[str, object] = {"prompt_tokens": [1], "key": jax.random.key(0), "max_tokens": 1}
    with pytest.raises(ValueError, match=message):
        asyncio.run(engine.generate(**{**right, **arguments}))  # type: ignore[arg-type]


def test_keys_may_come_as_data(engine: Engine) -> None:
    key = jax.random.key(7)
    given = [key, jax.random.key_data(key), np.asarray(jax.random.key_data(key))]
    assert len({asyncio.run(engine.generate(np.array(PROMPT), one, 9)).tokens for one in given}) == 1


@pytest.mark.parametrize(
    "change", [{"slots": 0}, {"max_held": 4}, {"max_held": -1}, {"prefill_chunk": 0}, {"queue_limit": 0}]
)
def test_wrong_sizes_are_named(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(SIZE, **change).validate()


@pytest.mark.parametrize(
    "size",
    [
        EngineConfig(slots=1, max_length=64),
        EngineConfig(slots=3, max_length=33, prefill_chunk=7, smallest_bucket=64, warm_up=True),
        EngineConfig(slots=2, max_length=32, prefill_chunk=1, smallest_bucket=1),
    ],
)
def test_other_sizes_give_the_same(model: Transformer, size: EngineConfig) -> None:
    async def play(engine: Engine) -> list[Completion]:
        return await asyncio.gather(*(engine.generate(PROMPT[:n], jax.random.key(n), 8) for n in (1, 3, 19)))

    with Engine((CONFIG, parameters(model)), size) as engine:
        for length, completion in zip((1, 3, 19), asyncio.run(play(engine)), strict=True):
            tokens, logprobs = by_definition(model, PROMPT[:length], jax.random.key(length), 8)
            assert completion.tokens == tuple(tokens)
            np.testing.assert_allclose(completion.logprobs, logprobs, atol=1e-4, rtol=0)


def test_statistics_add_up(model: Transformer) -> None:
    async def play(engine: Engine) -> None:
        await asyncio.gather(*(engine.generate([n, *PROMPT], jax.random.key(n), 4) for n in range(8)))

    with Engine(model, SIZE) as engine:
        asyncio.run(play(engine))
        statistics = engine.statistics()
    assert (statistics.completed, statistics.prefills, statistics.decode_tokens) == (8, 8, 32)
    assert statistics.prefill_tokens == 8 * len(PROMPT)
    assert (statistics.busy, statistics.queued, statistics.waiting) == (0, 0, 0)
    assert 0 < statistics.busy_fraction <= 1
    assert statistics.prefill_rate > 0
    assert statistics.decode_rate > 0
