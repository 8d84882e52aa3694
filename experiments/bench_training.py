"""How fast a training step is, and how much memory it takes, on this machine's processors.

    python -m experiments.bench_training                  # some 4 minutes on 2 idle cores
    python -m experiments.bench_training --model=10m --steps=20

The step is the one that training runs: loss, gradients, clipping, Adam, average of weights; float32, 4 sequences of 512
tokens, blocks under a scan and rematerialised. Wanted, as measured on 2 idle Zen 4 cores with a probe: 1,240 tokens/s
at 10M parameters and 122 at 135M, in 5 GiB at 135M.
"""

from __future__ import annotations

import dataclasses
import resource
import statistics
import sys
import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from webgpt_jax.algorithms import bc_loss
from webgpt_jax.flags import UsageError, option, parse
from webgpt_jax.models.presets import PRESETS, preset
from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
from webgpt_jax.training.sharding import MeshConfig, MeshSharding, make_mesh
from webgpt_jax.training.train_state import create_train_state, shardings_of
from webgpt_jax.training.train_step import make_train_step

WANTED = {"10m": 1240.0, "smollm2-135m": 122.0}  # tokens a second
WANTED_GIB = {"smollm2-135m": 5.0}


@dataclass(frozen=True)
class TrainingFlags:
    model: str = option("smollm2-135m", "the preset whose shape is measured")
    batch: int = option(4, "sequences a step")
    length: int = option(512, "tokens of a sequence")
    steps: int = option(5, "steps that are counted, after one that is not")


def main() -> int:
    try:
        flags, rest = parse(TrainingFlags, sys.argv[1:])
        if rest or flags.model not in PRESETS:
            raise UsageError(f"the models are {', '.join(PRESETS)}")
    except UsageError as error:
        print(f"bench_training: {error}", file=sys.stderr)
        return 2
    config = dataclasses.replace(preset(flags.model), remat="full", scan_layers=True)
    mesh = make_mesh(MeshConfig())
    optimizer = make_optimizer(OptimizerConfig())
    state = create_train_state(config, optimizer, mesh, jax.random.key(0))
    step = make_train_step(bc_loss(config, MeshSharding(mesh)), optimizer, shardings_of(state))
    tokens = jax.random.randint(jax.random.key(1), (flags.batch, flags.length), 0, config.vocab_size)
    batch = {"tokens": tokens, "targets": jnp.roll(tokens, -1, axis=1), "mask": jnp.ones(tokens.shape, jnp.float32)}
    seconds = []
    for _ in range(flags.steps + 1):
        start = time.perf_counter()
        state, metrics = step(state, batch, jax.random.key(2))
        jax.block_until_ready(metrics)
        seconds.append(time.perf_counter() - start)
    speed = flags.batch * flags.length / statistics.median(seconds[1:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    wanted, wanted_gib = WANTED.get(flags.model, 0.0), WANTED_GIB.get(flags.model, float("inf"))
    print(f"{flags.model}: {speed:.0f} tokens/s (wanted ≥ {wanted:.0f}), {peak:.1f} GiB (wanted ≤ {wanted_gib:g})")
    print(f"the first step, compiling included: {seconds[0]:.1f} s; the loss went to {float(metrics['loss']):.3f}")
    return 0 if speed >= wanted and peak <= wanted_gib else 1


if __name__ == "__main__":
    sys.exit(main())
