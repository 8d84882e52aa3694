"""`webgpt preflight`: whether a training run fits on a TPU slice or a GPU cluster, and how fast it can be, before that
is paid for.

The step is compiled for it on this machine, which needs no TPU or GPU; see `preflight/compiler.py`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webgpt_jax.cli import CommandError, emit
from webgpt_jax.flags import UsageError, describe, option, parse

if TYPE_CHECKING:
    from webgpt_jax.models import TransformerConfig
    from webgpt_jax.preflight.compiler import Compiled
    from webgpt_jax.preflight.plans import Plan

SECONDS_A_DAY = 86_400
VOCABULARY_MULTIPLE = 128  # what the vocabulary of a model of others' is padded to


@dataclass(frozen=True)
class PreflightFlags:
    """The flags of `webgpt preflight`."""

    model: str = option("175b", "a preset (760m, 13b, 175b, …), a folder with config.json, or a .gguf file")
    topology: str = option("v5p:8x8x8", "v4:2x2x1, v5e:4x4, v5p:8x8x8, v6e:16x16, …, h100:8 (GPUs), h200:16x8 (nodes)")
    task: str = option("bc", "bc (behaviour cloning), rm (reward model) or ppo")
    batch: int | None = option(None, "sequences a step, for rm comparisons (default: the paper's)")
    length: int | None = option(None, "tokens of a sequence (default: 2048, or what the model takes)")
    data: int | None = option(None, "copies of the model (default: the quickest mesh that fits, by estimate)")
    fsdp: int | None = option(None, "devices that split batch and parameters (default: likewise)")
    tensor: int | None = option(None, "devices that split heads, MLP and vocabulary (default: likewise)")
    microbatches: int = option(1, "parts that a batch is computed in")
    remat: str = option("full", "kept for the backward pass: none (all), dots (matrix products), full (block inputs)")
    attention: str | None = option(None, "splash (TPUs) or cudnn (GPUs, tensor 1), the defaults; plain or xla")
    dtype: str = option("bfloat16", "what is computed in: bfloat16 or float32")
    param_dtype: str = option("bfloat16", "what parameters are kept in; Adam's moments are float32")
    ema: bool = option(True, "keep the float32 average of weights, for bc and rm")
    compile: bool = option(True, "compile the step; without, the figures reckoned by hand alone")
    json: bool = option(False, "print one JSON object")


def usage() -> str:
    return "\n".join(
        [
            "usage: webgpt preflight [--model=NAME] [--topology=NAME] [--task=bc|rm|ppo] [flag …]",
            "",
            "Compiles the training step for a TPU slice or a cluster of GPUs on this machine, which needs neither, and",
            "says what memory and time it takes. Compiling needs libtpu for TPUs, pip install -e '.[tpu]', and JAX's",
            "CUDA plugin for GPUs, pip install -e '.[train,gpu]'. What is said of GPUs is experimental.",
            "",
            "Times are bounds, not forecasts: chips and links at their peak, computing, HBM and network all at",
            "once or one after the other. With ppo, policy and value model learn, and the reference and the reward",
            "model rest beside them; sampling's cache is not counted. Exit status 1 where the run does not fit.",
            "",
            describe(PreflightFlags),
        ]
    )


def run(arguments: Sequence[str]) -> int:
    flags, rest = parse(PreflightFlags, arguments)
    if rest:
        raise UsageError(f"no argument {rest[0]!r} is known; say --model=NAME --topology=NAME --task=NAME")
    os.environ["JAX_PLATFORMS"] = "cpu"  # nothing runs; a TPU or GPU that is here is left to others
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # compilers warn of what is judged below
    try:
        from webgpt_jax.preflight import plans
    except ImportError as error:
        raise CommandError(f"needs JAX ({error.name} is missing): pip install -e '.[train]'") from None
    from webgpt_jax.preflight.compiler import CompilerMissingError, DoesNotFitError, PreflightError, compile_plan
    from webgpt_jax.training.sharding import ShardingError

    plan = _plan(flags)
    compiled: Compiled | None = None
    refusal = note = None
    if flags.compile:
        print("compiling: a minute or so …", file=sys.stderr, flush=True)
        try:
            compiled = compile_plan(plan)
        except DoesNotFitError as error:
            refusal = str(error)
        except CompilerMissingError as error:
            note = f"{error}; memory and verdict are reckoned by hand"
        except (PreflightError, ShardingError) as error:
            raise CommandError(str(error)) from None
    reckoned = plans.estimate_memory(plan).peak
    fits = refusal is None and (compiled.reserved if compiled else reckoned) <= plan.topology.chip.memory
    others = [] if fits else _alternatives(plan, check=flags.compile and note is None)
    report = _report(flags, plan, compiled, refusal, fits, others)
    emit(json.dumps(report) if flags.json else "\n".join(_lines(report)))
    if note is not None:
        print(note, file=sys.stderr)
    return 0 if fits else 1


def _plan(flags: PreflightFlags) -> Plan:
    """The plan that the flags say, on its mesh."""
    from webgpt_jax.models import ConfigError
    from webgpt_jax.preflight.plan_search import best_mesh
    from webgpt_jax.preflight.plans import TASKS, Plan
    from webgpt_jax.preflight.topologies import TopologyError, parse_topology
    from webgpt_jax.training.sharding import MeshConfig, ShardingError

    if flags.task not in TASKS:
        raise UsageError(f"no task {flags.task!r}; there are {', '.join(TASKS)}")
    for name in ("batch", "length", "data", "fsdp", "tensor", "microbatches"):
        value = getattr(flags, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be at least 1, not {value}")
    try:
        topology = parse_topology(flags.topology)
        config = _config(flags, topology.chip.platform)
        length = min(2048, config.max_length) if flags.length is None else flags.length
        if length > config.max_length:
            raise UsageError(f"--length={length} is more than the model's {config.max_length} tokens")
        batch = _paper_batch(flags) if flags.batch is None else flags.batch
        keep_ema = flags.ema and flags.task != "ppo"
        plan = Plan(config, flags.task, topology, (1, 1, 1), batch, length, flags.microbatches, keep_ema)
        if config.attention == "cudnn" and (flags.tensor or 1) > 1:
            raise UsageError("--attention=cudnn does not split heads: leave out --tensor, or say --attention=plain")
        best = best_mesh(plan, (flags.data, flags.fsdp, flags.tensor))
        if best is not None:
            best.validate()
            return best
        # None divides: the error of the plainest one of them says what would.
        rest = -1 if flags.fsdp is None and flags.data is not None else 1
        mesh = MeshConfig(flags.data or -1, flags.fsdp or rest, flags.tensor or 1).sizes(topology.chips)
        Plan(config, flags.task, topology, mesh, batch, length, flags.microbatches, keep_ema).validate()
        raise UsageError(f"no mesh of {topology.name} divides this model")
    except (ConfigError, ShardingError, TopologyError) as error:
        raise UsageError(str(error)) from None


def _paper_batch(flags: PreflightFlags) -> int:
    """Minibatches of the paper's hyperparameters; PPO's 256 × 256 timesteps come in 128 minibatches."""
    if flags.task == "rm":
        return 32 if flags.model == "175b" else 64
    return 256 if flags.task == "bc" and flags.model == "760m" else 512


def _config(flags: PreflightFlags, platform: str) -> TransformerConfig:
    from dataclasses import replace

    from webgpt_jax.models import PRESETS

    if flags.model in PRESETS:
        config = PRESETS[flags.model].config
    else:
        config = replace(_config_of(flags.model), vocab_multiple=VOCABULARY_MULTIPLE)
    kernels = {"tpu": "splash", "cuda": "plain" if flags.dtype == "float32" else "cudnn"}
    attention = flags.attention or kernels[platform]
    for other, kernel in (("cuda", "splash"), ("tpu", "cudnn")):
        if (platform, attention) == (other, kernel):
            raise UsageError(f"--attention={kernel} is not for this topology: say {kernels[platform]}, plain or xla")
    chosen: dict[str, Any] = {name: getattr(flags, name) for name in ("remat", "dtype", "param_dtype")}
    config = replace(config, **{**chosen, "attention": attention})
    config.validate()
    return config


def _config_of(name: str) -> TransformerConfig:
    """The config of a model in files, whose weights are not read."""
    path = Path(name)
    from webgpt_jax.models import PRESETS, PretrainedError
    from webgpt_jax.models.families import read_config
    from webgpt_jax.models.gguf_file import open_gguf
    from webgpt_jax.models.tensors import read_json

    try:
        if path.suffix == ".gguf" and path.is_file():
            return open_gguf(path).config
        if not (path / "config.json").is_file():
            known = ", ".join(PRESETS)
            raise UsageError(f"no model {name!r}: a preset ({known}), a folder with config.json, or a .gguf file")
        return read_config(read_json(path / "config.json"), path / "config.json")[1]
    except PretrainedError as error:
        raise CommandError(str(error)) from None


def _alternatives(plan: Plan, *, check: bool) -> list[dict[str, Any]]:
    """What would fit instead. The compiler is asked of the first, and of the next where it says no."""
    from webgpt_jax.preflight.compiler import PreflightError, compile_plan
    from webgpt_jax.preflight.plan_search import alternatives
    from webgpt_jax.preflight.plans import estimate_memory
    from webgpt_jax.preflight.topologies import GIB
    from webgpt_jax.training.sharding import ShardingError

    shown = []
    for alternative in alternatives(plan):
        entry = {
            "change": alternative.change,
            "mesh": list(alternative.plan.mesh),
            "reckoned_gib": round(estimate_memory(alternative.plan).peak / GIB, 2),
        }
        if check:
            try:
                entry["compiled_gib"] = round(compile_plan(alternative.plan).reserved / GIB, 2)
            except (PreflightError, ShardingError):
                continue
            check = False
        shown.append(entry)
    return shown


def _report(
    flags: PreflightFlags,
    plan: Plan,
    compiled: Compiled | None,
    refusal: str | None,
    fits: bool,
    others: list[dict[str, Any]],
) -> dict[str, Any]:
    """All that is said, as JSON. GiB and seconds on one chip, operations and tokens of all."""
    from webgpt_jax.models.flops import parameter_count
    from webgpt_jax.preflight.plans import estimate_memory, estimate_work
    from webgpt_jax.preflight.topologies import GIB

    memory, work, tokens = estimate_memory(plan), estimate_work(plan), plan.sequences * plan.length
    parts = ("parameters", "optimizer", "average", "frozen", "gradients", "activations", "peak")
    return {
        "model": flags.model,
        "parameters": parameter_count(plan.config, plan.heads[0]),
        "task": plan.task,
        "topology": plan.topology.name,
        "experimental": plan.topology.chip.platform == "cuda",
        "chips": plan.topology.chips,
        "mesh": dict(zip(("data", "fsdp", "tensor"), plan.mesh, strict=True)),
        "batch": plan.batch,
        "sequences": plan.sequences,
        "length": plan.length,
        "microbatches": plan.microbatches,
        "remat": plan.config.remat,
        "attention": plan.config.attention,
        "param_dtype": plan.config.param_dtype,
        "chip_gib": round(plan.topology.chip.memory / GIB, 2),
        "reckoned_gib": {part: round(getattr(memory, part) / GIB, 2) for part in parts},
        "compiled_gib": compiled
        and {
            "state": round(compiled.state / GIB, 2),
            "activations": round((compiled.peak - compiled.state) / GIB, 2),
            "peak": round(compiled.peak / GIB, 2),
            "reserved": round(compiled.reserved / GIB, 2),
        },
        "compile_seconds": compiled and round(compiled.seconds, 1),
        "refusal": refusal,
        "flops": work.flops,
        "model_flops": work.model_flops,
        "seconds": {
            "compute": work.compute_seconds,
            "memory": work.memory_seconds,
            "network": work.network_seconds,
            "least": work.least_seconds,
            "most": work.most_seconds,
        },
        "mfu": {
            "most": work.utilization(plan, work.least_seconds),
            "least": work.utilization(plan, work.most_seconds),
        },
        "tokens_per_day": {
            "most": tokens / work.least_seconds * SECONDS_A_DAY,
            "least": tokens / work.most_seconds * SECONDS_A_DAY,
        },
        "fits": fits,
        "alternatives": others,
    }


NAMES = {
    "parameters": "parameters",
    "optimizer": "Adam's moments",
    "average": "average of weights",
    "frozen": "models that rest",
    "gradients": "gradients",
    "activations": "activations, work",
    "peak": "peak",
}


def _lines(report: dict[str, Any]) -> list[str]:
    from webgpt_jax.preflight.topologies import GPU_SHARE

    seconds, mfu, tokens = report["seconds"], report["mfu"], report["tokens_per_day"]
    mesh = " × ".join(f"{name} {size}" for name, size in report["mesh"].items())
    compiled = report["compiled_gib"] or {}
    reckoned = report["reckoned_gib"]
    needed = compiled.get("reserved", reckoned["peak"])
    state = sum(reckoned[part] for part in ("parameters", "optimizer", "average", "frozen"))
    unit = "GPU" if report["experimental"] else "chip"
    lines = [
        f"{report['model']}, {_count(report['parameters'])} parameters in {report['param_dtype']}, "
        f"task {report['task']}",
        f"{report['sequences']} sequences × {report['length']} tokens a step in {report['microbatches']} part(s), "
        f"remat {report['remat']}, attention {report['attention']}",
        f"{report['topology']}: {report['chips']} {unit}s of {report['chip_gib']:.1f} GiB as {mesh}",
        "",
        f"{f'memory of a {unit}, GiB':<24}{'reckoned':>10}{'compiled':>10}",
    ]
    for part, name in NAMES.items():
        if part == "gradients":
            lines.append(f"  {'in all, step to step':<22}{state:>10.2f}" + _cell(compiled.get("state")))
        if reckoned[part]:
            lines.append(f"  {name:<22}{reckoned[part]:>10.2f}" + (_cell(compiled.get(part)) if part == "peak" else ""))
    if compiled:
        lines.append(f"  {'peak, with gaps':<22}{'':>10}" + _cell(needed))
    lines += [
        "",
        f"operations a step     {report['flops']:.3g}, of them the model's {report['model_flops']:.3g}",
        f"step time             {seconds['least']:.3g} s with all work at once, {seconds['most']:.3g} s with none "
        f"(compute {seconds['compute']:.2g}, HBM {seconds['memory']:.2g}, network {seconds['network']:.2g})",
        f"MFU, at most          {mfu['most']:.0%}, {mfu['least']:.0%} with none at once",
        f"tokens a day, at most {tokens['most']:.3g}, {tokens['least']:.3g} with none at once",
        "",
    ]
    if report["experimental"]:
        lines.insert(
            3,
            "experimental: kernels are chosen untried; memory is what JAX has with XLA_PYTHON_CLIENT_MEM_FRACTION="
            f"{GPU_SHARE}",
        )
    if report["fits"]:
        how = f"compiled in {report['compile_seconds']:.0f} s" if compiled else "reckoned, not compiled"
        return [*lines, f"fits: {needed:.1f} of {report['chip_gib']:.1f} GiB a {unit} ({how})"]
    reason = report["refusal"] or f"{needed:.1f} GiB a {unit} by the reckoning"
    lines.append(f"does not fit: {reason}; a {unit} has {report['chip_gib']:.1f} GiB")
    for other in report["alternatives"]:
        data, fsdp, tensor = other["mesh"]
        size = f"{other['reckoned_gib']:.1f} GiB reckoned"
        if "compiled_gib" in other:
            size = f"{other['compiled_gib']:.1f} GiB compiled"
        lines.append(f"  fits with {other['change']} (data {data} × fsdp {fsdp} × tensor {tensor}): {size}")
    if not report["alternatives"]:
        lines.append("  nothing near it fits: shorten --length, or say --remat=full")
    return lines


def _count(number: int) -> str:
    for size, name in ((10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return str(number)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:>10.2f}"
