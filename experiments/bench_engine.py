"""How fast the sampling engine is, beside the bare decode loop and beside transformers.

    python -m experiments.bench_engine                              # about 15 minutes on 2 idle cores
    python -m experiments.bench_engine --only=overhead --model=10m
    python -m experiments.bench_engine --only=speed --compare=transformers      # needs torch and transformers

Each part prints what it measured beside what it should reach, medians and ratios of runs taken in turn. Weights are
random: speed does not depend on them.

    overhead  decode steps a second of a full engine: ≥ 0.9 of a jitted loop that decodes and takes the likeliest token
    pauses    256 tasks with random pauses of 0 to 2 s between requests keep the slots ≥ 90 % busy
    speed     prompt 512, 64 new tokens, batch 1, 8 and 32: tokens/s of prefill and of decoding, the callers' waiting in
              them. Decoding ≥ 2.2 × transformers at batch 1 and ≥ 1.7 × above; prefill ≥ 1 × at batch 1, ≥ 0.85 × above
"""

from __future__ import annotations

import asyncio
import functools
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from webgpt_jax.flags import UsageError, option, parse
from webgpt_jax.models import Params, TransformerConfig, initial_parameters
from webgpt_jax.models.cache import COMPILER_OPTIONS, create_cache, decode_step, unstack
from webgpt_jax.models.presets import preset
from webgpt_jax.sampling import Engine, EngineConfig, use_compilation_cache

PARTS = ("overhead", "pauses", "speed")
Model = tuple[TransformerConfig, Params]
Rates = tuple[float, float]  # tokens a second of prefill and of decoding

DECODE_WANTED = {1: 2.2, 8: 1.7, 32: 1.7}  # times transformers
PREFILL_WANTED = {1: 1.0, 8: 0.85, 32: 0.85}


@dataclass(frozen=True)
class BenchFlags:
    only: str = option(",".join(PARTS), "the parts to run")
    model: str = option("smollm2-135m", "the preset whose shape is measured")
    compare: str | None = option(None, "what to measure beside: transformers")
    batches: str = option("1,8,32", "speed: batch sizes, and so slots")
    prompt: int = option(512, "speed: tokens of a prompt")
    tokens: int = option(64, "speed: tokens of a completion")
    rounds: int = option(3, "runs of each kind, taken in turn")
    seconds: float = option(60.0, "pauses: how long the tasks go on")
    cache: str | None = option(None, "folder that keeps compiled programs")


def _verdict(holds: bool) -> str:
    return "as wanted" if holds else "NOT as wanted"


def _random_model(name: str) -> Model:
    config = preset(name)
    return config, unstack(initial_parameters(config, jax.random.key(0)))


def _prompts(config: TransformerConfig, count: int, length: int, seed: int) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, config.vocab_size, length).tolist() for _ in range(count)]


def bench_overhead(model: Model, rounds: int, slots: int = 8, length: int = 256, steps: int = 60) -> bool:
    """Steps a second of the engine with all slots busy, against the loop that does nothing else. Processor time is
    printed too: on a machine that others load, it is the steadier of the two."""
    config, params = model

    @functools.partial(jax.jit, donate_argnums=(1,), compiler_options=dict(COMPILER_OPTIONS))
    def bare_step(params: Params, cache: Any, tokens: jax.Array, positions: jax.Array) -> tuple[jax.Array, Any]:
        logits, cache = decode_step(config, params, cache, tokens, positions)
        return jnp.argmax(logits, axis=-1), cache

    def bare() -> tuple[float, float]:
        cache, tokens = create_cache(config, slots, length), jnp.zeros(slots, jnp.int32)
        began = np.array([time.perf_counter(), time.process_time()])
        for position in range(steps):
            tokens, cache = bare_step(params, cache, tokens, np.full(slots, position, np.int32))
        tokens.block_until_ready()
        wall, processor = (np.array([time.perf_counter(), time.process_time()]) - began) / steps
        return wall, processor

    def engine_loop(engine: Engine) -> tuple[float, float]:
        async def play() -> None:
            keys = jax.random.split(jax.random.key(0), slots)
            await asyncio.gather(*(engine.generate([number + 1], keys[number], steps) for number in range(slots)))

        before = engine.statistics()
        began = np.array([time.perf_counter(), time.process_time()])
        asyncio.run(play())
        spent = np.array([time.perf_counter(), time.process_time()]) - began
        wall, processor = spent / engine.statistics().since(before).decode_steps
        return wall, processor

    with Engine(model, EngineConfig(slots=slots, max_length=length)) as engine:
        bare(), engine_loop(engine)  # compiles
        runs = [(bare(), engine_loop(engine)) for _ in range(3 * rounds)]
    for name, at in (("bare loop", 0), ("engine", 1)):
        wall, processor = (1000 * statistics.median(run[at][clock] for run in runs) for clock in (0, 1))
        print(f"  {name:10} {wall:8.2f} ms a step of {slots} slots, {processor:8.2f} ms of processor time")
    ratio, processor_ratio = (statistics.median(run[0][clock] / run[1][clock] for run in runs) for clock in (0, 1))
    print(f"  speed of the engine over the loop's {ratio:.3f}  (wanted ≥ 0.9); by processor time {processor_ratio:.3f}")
    return ratio >= 0.9


def bench_pauses(model: Model, seconds: float, tasks: int = 256, slots: int = 32) -> bool:
    """The part of the slots' time that is busy, where each task asks, rests and asks again."""
    config, _ = model

    async def play(engine: Engine) -> float:
        deadline = time.perf_counter() + seconds

        async def task(number: int) -> None:
            generator = random.Random(number)
            turn = 0
            while time.perf_counter() < deadline:
                prompt = [generator.randrange(config.vocab_size) for _ in range(generator.randint(16, 128))]
                key = jax.random.fold_in(jax.random.key(number), turn)
                await engine.generate(prompt, key, generator.randint(8, 64))
                await asyncio.sleep(generator.random() * 2)
                turn += 1

        running = [asyncio.create_task(task(number)) for number in range(tasks)]
        await asyncio.sleep(seconds / 6)  # until every task has had its first pause
        before = engine.statistics()
        await asyncio.sleep(deadline - time.perf_counter())
        happened = engine.statistics().since(before)
        await asyncio.gather(*running)
        tokens = happened.decode_tokens / max(1, happened.decode_steps * slots)
        print(f"  {happened.completed} requests in {happened.seconds:.0f} s, queue {happened.queued}")
        print(f"  prefill {happened.prefill_rate:.0f} tokens/s, decoding {happened.decode_rate:.0f} tokens/s")
        print(f"  rows of decode steps that sampled a token: {tokens:.1%}")
        return happened.busy_fraction

    with Engine(model, EngineConfig(slots=slots, max_length=192, prefill_chunk=128, warm_up=True)) as engine:
        busy = asyncio.run(play(engine))
    print(f"  slots busy {busy:.1%}  (wanted ≥ 90 %)")
    return busy >= 0.9


def _engine_rates(engine: Engine, prompts: list[list[int]], new_tokens: int) -> Rates:
    """What the callers see: the prompts' tokens over the time to everybody's first token, then the others' rate."""

    async def play() -> Rates:
        keys = jax.random.split(jax.random.key(0), len(prompts))
        began = time.perf_counter()
        firsts = await asyncio.gather(
            *(engine.generate(prompt, key, 1) for prompt, key in zip(prompts, keys, strict=True))
        )
        middle = time.perf_counter()
        await asyncio.gather(*(engine.resume(first, new_tokens - 1) for first in firsts))
        ended = time.perf_counter()
        prefilled = sum(len(prompt) for prompt in prompts)
        return prefilled / (middle - began), len(prompts) * (new_tokens - 1) / (ended - middle)

    return asyncio.run(play())


def _transformers_rates(config: TransformerConfig, seed: int) -> Callable[[list[list[int]], int], Rates]:
    """The same by transformers' own `generate`, for a model of this shape: the time of one token, then of the rest."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    import transformers  # type: ignore[import-not-found,unused-ignore]

    torch.manual_seed(seed)
    shape = transformers.LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.embed_dim,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.kv_heads,
        intermediate_size=config.mlp_dim,
        max_position_embeddings=config.max_length,
        tie_word_embeddings=config.tied_embeddings,
    )
    model = transformers.LlamaForCausalLM(shape).eval().to(torch.float32)
    model.generation_config.eos_token_id = None

    def rates(prompts: list[list[int]], new_tokens: int) -> Rates:
        tokens = torch.tensor(prompts)

        def seconds(count: int) -> float:
            began = time.perf_counter()
            with torch.no_grad():
                mask = torch.ones_like(tokens)
                model.generate(tokens, attention_mask=mask, do_sample=False, min_new_tokens=count, max_new_tokens=count)
            return time.perf_counter() - began

        first, whole = seconds(1), seconds(new_tokens)
        return tokens.numel() / first, len(prompts) * (new_tokens - 1) / (whole - first)

    return rates


def bench_speed(model: Model, flags: BenchFlags) -> bool:
    """Tokens a second at each batch size."""
    config, _ = model
    other = None if flags.compare is None else _transformers_rates(config, seed=0)
    holds = True
    for batch in map(int, flags.batches.split(",")):
        size = EngineConfig(slots=batch, max_length=flags.prompt + flags.tokens, prefill_chunk=256)
        with Engine(model, size) as engine:
            _engine_rates(engine, _prompts(config, batch, flags.prompt, seed=99), 3)  # compiles
            if other is not None:
                other(_prompts(config, 1, 8, seed=99), 3)  # its first calls are slow too
            runs: list[tuple[Rates, Rates | None]] = []
            for seed in range(flags.rounds):
                prompts = _prompts(config, batch, flags.prompt, seed)
                ours = _engine_rates(engine, prompts, flags.tokens)
                runs.append((ours, None if other is None else other(prompts, flags.tokens)))
        prefill, decode = (statistics.median(ours[at] for ours, _ in runs) for at in (0, 1))
        line = f"  batch {batch:3}  prefill {prefill:7.1f}  decoding {decode:7.1f} tokens/s"
        if other is not None:
            ratios = [statistics.median(ours[at] / theirs[at] for ours, theirs in runs if theirs) for at in (0, 1)]
            wanted = PREFILL_WANTED.get(batch, 0.0), DECODE_WANTED.get(batch, 0.0)
            line += f"; × transformers {ratios[0]:.2f} (wanted ≥ {wanted[0]}), {ratios[1]:.2f} (wanted ≥ {wanted[1]})"
            holds &= ratios[0] >= wanted[0] and ratios[1] >= wanted[1]
        print(line, flush=True)
    return holds


def main() -> int:
    try:
        flags, rest = parse(BenchFlags, sys.argv[1:])
        parts = flags.only.split(",")
        if rest or not set(parts) <= set(PARTS):
            raise UsageError(f"the parts are {', '.join(PARTS)}")
        if flags.compare not in (None, "transformers"):
            raise UsageError("--compare takes transformers")
        model = _random_model(flags.model)
    except (UsageError, ValueError) as error:
        print(f"bench_engine: {error}", file=sys.stderr)
        return 2
    if flags.cache is not None:
        use_compilation_cache(flags.cache)
    runs = {
        "overhead": lambda: bench_overhead(model, flags.rounds),
        "pauses": lambda: bench_pauses(model, flags.seconds),
        "speed": lambda: bench_speed(model, flags),
    }
    outcomes = {}
    for part in parts:
        print(f"\n== {part}", flush=True)
        outcomes[part] = runs[part]()
        print(f"   {part}: {_verdict(outcomes[part])}", flush=True)
    return 0 if all(outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
