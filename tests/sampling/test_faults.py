"""What goes wrong: programs and callbacks that fail, callers that leave, engines that close. Nobody is left waiting."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.shapes import random_parameters
from tests.sampling.models import CONFIG, SIZE, VOCAB, tiny_model
from webgpt_jax.models import Transformer, parameters
from webgpt_jax.sampling import Completion, Engine, EngineError, programs

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
KEY = jax.random.key(0)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(tiny_model(), SIZE) as engine:
        yield engine


async def crowd(engine: Engine, count: int, max_tokens: int = 20) -> list[Completion | BaseException]:
    requests = (engine.generate([number % VOCAB, *PROMPT], KEY, max_tokens) for number in range(count))
    return await asyncio.gather(*requests, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    """Returns when something holds that another thread brings about."""
    for _ in range(60_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it has not come to hold within a minute")


async def settled(engine: Engine) -> None:
    """Returns when the engine has nothing to do."""
    await until(lambda: not engine.statistics().busy and not engine.statistics().queued)


def failing_model(monkeypatch: pytest.MonkeyPatch, vocab_size: int, failure: str) -> Transformer:
    """A model, of a vocabulary of its own so that no other engine shares its programs, whose decode step fails."""
    config = replace(CONFIG, vocab_size=vocab_size)
    steps = 0

    def fail_after_some(logits: np.ndarray) -> np.ndarray:
        nonlocal steps
        steps += 1
        if steps > 5:
            raise OSError("the device has caught fire")
        return logits

    original = programs.decode_step

    def decode_step(*arguments: Any) -> Any:
        if failure == "tracing":
            raise TypeError("no such operation")
        logits, cache = original(*arguments)
        return jax.pure_callback(fail_after_some, jax.ShapeDtypeStruct(logits.shape, logits.dtype), logits), cache

    monkeypatch.setattr(programs, "decode_step", decode_step)
    return Transformer(config, params=random_parameters(config))


@pytest.mark.parametrize(
    ("failure", "vocab_size", "message"), [("tracing", 30, "no such operation"), ("device", 31, "caught fire")]
)
def test_a_failed_program_answers_everybody(
    monkeypatch: pytest.MonkeyPatch, failure: str, vocab_size: int, message: str
) -> None:
    size = replace(SIZE, queue_limit=5)  # some wait for a slot, some for room in the queue
    with Engine(failing_model(monkeypatch, vocab_size, failure), size) as engine:
        answers = asyncio.run(crowd(engine, 20))
        assert all(isinstance(answer, EngineError) for answer in answers)
        assert len({id(answer) for answer in answers}) == 20
        for answer in answers:
            assert message in str(answer)
            assert isinstance(answer, BaseException)
            assert answer.__cause__ is not None
        with pytest.raises(EngineError, match=message):
            asyncio.run(engine.generate(PROMPT, KEY, 1))


def test_weights_that_are_not_numbers_are_an_error() -> None:
    params = jax.tree.map(lambda array: array * np.nan, random_parameters(CONFIG))
    with Engine((CONFIG, params), SIZE) as engine, pytest.raises(EngineError, match="not finite"):
        asyncio.run(engine.generate(PROMPT, KEY, 5))


def _raises(tokens: tuple[int, ...]) -> np.ndarray:
    if len(tokens) < 3:
        return np.ones(VOCAB, bool)
    raise KeyError("no such state")


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (_raises, "KeyError: 'no such state'"),
        (lambda _: np.zeros(VOCAB, bool), "allows no token"),
        (lambda _: np.ones(VOCAB + 1, bool), "shape"),
        (lambda _: np.ones(VOCAB), "float64"),
        (lambda _: "everything", "shape"),
    ],
)
def test_a_failed_mask_ends_its_request_and_no_other(engine: Engine, mask: Any, message: str) -> None:
    async def play() -> list[Completion | BaseException]:
        others = [engine.generate(PROMPT, jax.random.key(key), 12) for key in range(3)]
        return await asyncio.gather(engine.generate(PROMPT, KEY, 12, logits_mask=mask), *others, return_exceptions=True)

    failed, *others = asyncio.run(play())
    assert isinstance(failed, EngineError)
    assert message in str(failed)
    assert all(isinstance(other, Completion) and len(other.tokens) == 12 for other in others)


def test_closing_answers_those_who_wait_and_those_who_come() -> None:
    engine = Engine(tiny_model(), replace(SIZE, queue_limit=5))

    async def play() -> list[Completion | BaseException]:
        waiting = asyncio.create_task(crowd(engine, 40, max_tokens=50))
        await until(lambda: engine.statistics().busy > 0)
        await asyncio.to_thread(engine.close)
        return await waiting

    answers = asyncio.run(play())
    assert sum(isinstance(answer, EngineError) and "closed" in str(answer) for answer in answers) >= 30
    assert all(isinstance(answer, EngineError | Completion) for answer in answers)
    with pytest.raises(EngineError, match="closed"):
        asyncio.run(engine.generate(PROMPT, KEY, 1))
    engine.close()


def test_a_context_closes_its_engine() -> None:
    async def play() -> Engine:
        async with Engine(tiny_model(), SIZE) as engine:
            await engine.generate(PROMPT, KEY, 2)
        return engine

    with pytest.raises(EngineError, match="closed"):
        asyncio.run(asyncio.run(play()).generate(PROMPT, KEY, 2))


def test_an_engine_that_nobody_has_ends_its_thread() -> None:
    before = threading.active_count()
    engine = Engine(tiny_model(), SIZE)
    asyncio.run(engine.generate(PROMPT, KEY, 2))
    assert threading.active_count() == before + 1
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
    assert threading.active_count() == before


def test_a_cancelled_task_frees_its_slot(engine: Engine) -> None:
    async def play() -> None:
        long = [asyncio.create_task(engine.generate([n, *PROMPT], KEY, 50)) for n in range(4)]
        await until(lambda: engine.statistics().busy == 4)
        for task in long:
            task.cancel()
        await asyncio.gather(*long, return_exceptions=True)
        assert all(task.cancelled() for task in long)
        await settled(engine)
        assert len((await engine.generate(PROMPT, KEY, 5)).tokens) == 5

    asyncio.run(play())


@pytest.mark.parametrize("queue_limit", [1, 3, 1000])
def test_storms_of_cancellations_leave_a_working_engine(queue_limit: int) -> None:
    async def play(engine: Engine) -> None:
        expected = (await engine.generate(PROMPT, KEY, 8)).tokens
        generator = random.Random(0)
        for _ in range(4):
            tasks = [
                asyncio.create_task(engine.generate([generator.randrange(VOCAB)] * 12, KEY, 20)) for _ in range(60)
            ]
            survivors = [asyncio.create_task(engine.generate(PROMPT, KEY, 8)) for _ in range(5)]
            generator.shuffle(tasks)
            for task in tasks:
                if generator.random() < 0.3:
                    await asyncio.sleep(generator.random() * 0.002)
                task.cancel()
            for survivor in survivors:
                assert (await survivor).tokens == expected
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(answer, Completion | asyncio.CancelledError) for answer in answers)
        await settled(engine)
        statistics = engine.statistics()
        assert (statistics.busy, statistics.queued, statistics.waiting) == (0, 0, 0)
        # Every place in the queue is there again: as many as ever fit in at once.
        assert all(isinstance(answer, Completion) for answer in await crowd(engine, 30, max_tokens=2))

    with Engine(tiny_model(), replace(SIZE, queue_limit=queue_limit)) as engine:
        asyncio.run(play(engine))


def test_the_queue_is_bounded_and_in_order(engine: Engine) -> None:
    order: list[int] = []

    async def one(engine: Engine, number: int) -> None:
        await engine.generate([number % VOCAB], KEY, 1)
        order.append(number)

    async def play(engine: Engine) -> None:
        tasks = [asyncio.create_task(one(engine, number)) for number in range(200)]
        most = 0
        while not all(task.done() for task in tasks):
            most = max(most, engine.statistics().queued)
            await asyncio.sleep(0)
        assert most <= 7

    with Engine(tiny_model(), replace(SIZE, slots=1, queue_limit=7)) as small:
        asyncio.run(play(small))
    assert order == list(range(200))


def test_thousands_of_tiny_requests(engine: Engine) -> None:
    async def play() -> list[Completion]:
        return await asyncio.gather(*(engine.generate([number % 7], KEY, 1) for number in range(3000)))

    answers = asyncio.run(play())
    assert len(answers) == 3000
    assert len({(number % 7, answer.tokens) for number, answer in enumerate(answers)}) == 7


def test_requests_from_several_event_loops(engine: Engine) -> None:
    expected = asyncio.run(engine.generate(PROMPT, KEY, 10)).tokens
    results: list[list[Completion | BaseException]] = []

    def play(seed: int) -> None:
        async def one(number: int) -> Completion:
            await asyncio.sleep(random.Random(seed * 100 + number).random() * 0.1)
            return await engine.generate(PROMPT, KEY, 10)

        async def several() -> list[Completion | BaseException]:
            return await asyncio.gather(*(one(number) for number in range(20)), return_exceptions=True)

        results.append(asyncio.run(several()))

    threads = [threading.Thread(target=play, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tokens = {answer.tokens if isinstance(answer, Completion) else None for result in results for answer in result}
    assert tokens == {expected}
    assert sum(map(len, results)) == 80


def test_an_event_loop_that_ends_with_requests_open_harms_nobody() -> None:
    with Engine(tiny_model(), replace(SIZE, queue_limit=2)) as engine:

        async def leave() -> None:
            for number in range(12):
                _tasks.append(asyncio.create_task(engine.generate([number], KEY, 40)))
            await asyncio.sleep(0.01)

        _tasks: list[asyncio.Task[Completion]] = []
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave())
        loop.close()  # its tasks were never cancelled, and never will be
        answers = asyncio.run(crowd(engine, 10, max_tokens=3))
        assert all(isinstance(answer, Completion) for answer in answers)


def test_a_timeout_is_a_cancellation(engine: Engine) -> None:
    async def play() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await engine.generate(PROMPT, KEY, 50)
        await settled(engine)
        assert len((await engine.generate(PROMPT, KEY, 5)).tokens) == 5

    asyncio.run(play())


def test_the_model_is_left_as_it_was() -> None:
    model = tiny_model()
    before = jax.tree.map(np.array, parameters(model))
    with Engine(model, SIZE) as engine:
        asyncio.run(crowd(engine, 5))
    jax.tree.map(np.testing.assert_array_equal, before, parameters(model))
    assert model(jnp.array([PROMPT])).shape == (1, 10, VOCAB)
