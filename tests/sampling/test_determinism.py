"""A request's tokens depend on its prompt, the weights, its key and its settings: not on when it came, what it was
batched with, whether its rows were copied, or whether it was made in parts. All comparisons are exact."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest

from tests.models.shapes import OPTIONS, random_parameters
from tests.sampling.models import SIZE
from webgpt_jax.models import Transformer
from webgpt_jax.sampling import Completion, Engine, EngineConfig

Answer = tuple[tuple[int, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Asked:
    prompt: tuple[int, ...]
    key: int
    max_tokens: int
    temperature: float
    top_p: float
    stop_tokens: tuple[int, ...]


def many_requests(count: int, vocab: int) -> list[Asked]:
    """Of every kind: short and long, equal prompts, greedy ones, ones that stop."""
    generator = random.Random(0)
    prompts = [
        tuple(generator.randrange(vocab) for _ in range(generator.choice([1, 2, 5, 8, 9, 17, 33]))) for _ in range(12)
    ]
    return [
        Asked(
            prompt=generator.choice(prompts),
            key=generator.randrange(6),
            max_tokens=generator.randint(1, 25),
            temperature=generator.choice([0.0, 0.7, 1.0, 1.0]),
            top_p=generator.choice([1.0, 1.0, 0.9, 0.5]),
            stop_tokens=generator.choice([(), (3, 4)]),
        )
        for _ in range(count)
    ]


async def ask(engine: Engine, asked: Asked, max_tokens: int | None = None, hold: bool = False) -> Completion:
    return await engine.generate(
        asked.prompt,
        jax.random.key(asked.key),
        asked.max_tokens if max_tokens is None else max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        stop_tokens=asked.stop_tokens,
        hold=hold,
    )


async def ask_somehow(engine: Engine, asked: Asked, generator: random.Random) -> Answer:
    """After a pause, in one piece or in several, held between or not."""
    await asyncio.sleep(generator.random() * 0.3)
    left = asked.max_tokens
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    completion = None
    while left:
        part = generator.randint(1, left) if generator.random() < 0.5 else left
        hold = generator.random() < 0.5
        if completion is None:
            completion = await ask(engine, asked, part, hold)
        else:
            completion = await engine.resume(completion, part, hold=hold)
        tokens, logprobs = tokens + completion.tokens, logprobs + completion.logprobs
        left = 0 if completion.finished else left - part
        await asyncio.sleep(generator.random() * 0.02)
    return tokens, logprobs


async def one_by_one(engine: Engine, requests: list[Asked]) -> list[Answer]:
    completions = [await ask(engine, asked) for asked in requests]
    return [(completion.tokens, completion.logprobs) for completion in completions]


def model_of(name: str) -> Transformer:
    config = replace(OPTIONS[name], max_length=64, num_layers=2)
    return Transformer(config, params=random_parameters(config))


@pytest.fixture(scope="module", params=["llama", "gpt2", "mistral"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine(model_of(request.param), SIZE) as engine:
        yield engine


def test_shuffled_and_cut_requests_give_the_same_to_the_bit(engine: Engine) -> None:
    requests = many_requests(40, 29)
    expected = asyncio.run(one_by_one(engine, requests))

    async def shuffled(seed: int) -> list[Answer]:
        generator = random.Random(seed)
        return await asyncio.gather(*(ask_somehow(engine, asked, generator) for asked in requests))

    for seed in range(4):
        assert asyncio.run(shuffled(seed)) == expected
    assert engine.statistics().forks > 0


@pytest.mark.slow
@pytest.mark.parametrize("slots", [2, 5, 8])
def test_the_same_in_a_wide_model(slots: int) -> None:
    """Wide enough for the matrix products that are split over threads and blocks."""
    config = replace(
        OPTIONS["llama"],
        vocab_size=5003,
        embed_dim=576,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        mlp_dim=1536,
        num_layers=2,
        max_length=128,
        init_std=0.05,
    )
    model = Transformer(config, params=random_parameters(config))
    requests = many_requests(30, 5003)
    with Engine(model, EngineConfig(slots=slots, max_length=128, prefill_chunk=32, smallest_bucket=8)) as engine:
        expected = asyncio.run(one_by_one(engine, requests))

        async def shuffled(seed: int) -> list[Answer]:
            generator = random.Random(seed)
            return await asyncio.gather(*(ask_somehow(engine, asked, generator) for asked in requests))

        for seed in range(2):
            assert asyncio.run(shuffled(seed)) == expected


def test_keys_matter_and_positions_do() -> None:
    """Equal keys give equal randomness at equal positions only."""
    with Engine(model_of("llama"), SIZE) as engine:
        prompt = [1, 2, 3]
        answers = [asyncio.run(engine.generate(prompt, jax.random.key(key), 20)).tokens for key in range(6)]
    assert len(set(answers)) == 6
    assert all(len(set(answer)) > 3 for answer in answers)


def test_a_second_engine_gives_the_same() -> None:
    requests = many_requests(12, 29)
    answers = []
    for _ in range(2):
        with Engine(model_of("llama"), SIZE) as engine:
            answers.append(asyncio.run(one_by_one(engine, requests)))
    assert answers[0] == answers[1]
    assert not np.isnan([logprob for _, logprobs in answers[0] for logprob in logprobs]).any()
