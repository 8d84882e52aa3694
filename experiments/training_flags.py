"""The flags of a training, and running it as a program."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from webgpt_jax.datasets import DataError
from webgpt_jax.flags import UsageError, describe, option, parse
from webgpt_jax.models import ConfigError, PretrainedError
from webgpt_jax.models.checkpoint_folder import CheckpointError
from webgpt_jax.training import ShardingError
from webgpt_jax.training.distributed import DistributedConfig, DistributedError, initialize, shutdown
from webgpt_jax.training.loop import LoopError, NonFiniteError
from webgpt_jax.training.metrics import MetricsError
from webgpt_jax.training.optimizer import OptimizerError
from webgpt_jax.training.train_step import StepError

Flags = TypeVar("Flags", bound="TrainingFlags")


class RunError(Exception):
    """The run failed; one line says why and what to do. Exit status 1."""


@dataclass(frozen=True)
class TrainingFlags:
    """The flags that every training has. What is None here, `choose` in `training_run.py` finds."""

    model: str | None = option(None, "where to start: a folder, a .gguf file, or a preset (760m, …) without training")
    data: str | None = option(None, "files of JSON lines, with commas between them")
    workdir: str | None = option(None, "folder of the run, which goes on where it was left")
    tokenizer: str | None = option(None, "folder with tokenizer.json, for a preset (default: GPT-2's)")

    base_step_size: float | None = option(None, "Adam's, of the model's pre-training (default: webgpt.json's)")
    multiplier: float | None = option(None, "step size ÷ base step size (default: the paper's)")
    beta1: float = option(0.9, "Adam's decay of the mean of gradients (GPT-3's)")
    beta2: float = option(0.95, "Adam's decay of the mean of squared gradients (GPT-3's)")
    weight_decay: float = option(0.0, "of matrices (AdamW)")
    warmup_steps: int = option(0, "updates over which the step size rises from 0")
    schedule: str = option("constant", "of the step size after the warm-up: constant, linear or cosine")
    max_gradient_norm: float = option(1.0, "longer gradients are cut to it (GPT-3's); 0: none is")
    ema_decay: float = option(0.99, "of the average of weights, which is the final model (paper)")
    dropout: float = option(0.0, "share of activations left out (the paper's tables have none)")

    batch_size: int | None = option(None, "rows of a minibatch, on all hosts together (default: the paper's)")
    microbatches: int = option(1, "parts that a minibatch is computed in, one after the other")
    length: int | None = option(None, "tokens of a row (default: what the model's webgpt.json says, 2048 at most)")
    epochs: int | None = option(None, "at most (default: the paper's)")
    max_steps: int | None = option(None, "updates, at most")
    held_out: float = option(0.04, "share of the questions that are held out, for validation (paper)")
    share: float = option(1.0, "of the questions that are trained on, how many are taken")
    seed: int = option(0, "of the order of the data, of new weights and of dropout")
    skip_bad_records: bool = option(False, "count and report lines that are no record, and pass over them")

    evaluate_every: int | None = option(None, "updates between evaluations (default: at the end of each epoch)")
    patience: int = option(2, "evaluations without a better one after which training stops; 0: it never does")
    save_every: int = option(500, "updates between checkpoints")
    keep_last: int = option(2, "newest checkpoints kept, beside the best")
    log_every: int = option(10, "updates between lines of metrics.jsonl")
    log_seconds: float = option(30.0, "seconds between lines of progress, where the output is no terminal")
    tensorboard: bool = option(False, "write TensorBoard's files too; takes TensorFlow")

    dtype: str = option("float32", "what is computed in: float32 or bfloat16")
    param_dtype: str = option("float32", "what weights are kept in: float32 or bfloat16")
    attention: str = option("plain", "plain, xla, splash (TPUs) or cudnn (GPUs)")
    remat: str = option("none", "computed again for the backward pass: none, dots or full")
    mesh_data: int = option(-1, "copies of the model; -1: as many as there are devices for")
    mesh_fsdp: int = option(1, "devices that split batch and parameters")
    mesh_tensor: int = option(1, "devices that split heads, MLP and vocabulary")

    num_processes: int = option(1, "processes of the run, one a host; 0: as the cluster says")
    process_id: int = option(0, "this process's number, from 0")
    coordinator_host: str = option("127.0.0.1", "where all reach process 0")
    coordinator_port: int = option(8476, "free port of process 0's host")

    def check(self) -> None:
        """Raises `UsageError` for flags that cannot work."""
        for name in ("model", "data", "workdir"):
            if not getattr(self, name):
                raise UsageError(f"--{name}=… is needed")
        counts = ("batch_size", "microbatches", "length", "epochs", "max_steps", "evaluate_every", "save_every")
        for name in (*counts, "keep_last", "log_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be at least 1, not {value}")
        if not 0 <= self.held_out < 1:
            raise UsageError(f"--held_out must be from 0 to less than 1, not {self.held_out}")
        for name in ("seed", "patience"):
            if getattr(self, name) < 0:
                raise UsageError(f"--{name} must not be negative: {getattr(self, name)}")

    @property
    def files(self) -> list[Path]:
        """Of the data."""
        return [Path(name) for name in (self.data or "").split(",") if name]


# What is wrong with the command, and what went wrong.
MISUSES = (UsageError, ConfigError, LoopError, OptimizerError, ShardingError, StepError)
FAILURES = (RunError, CheckpointError, DataError, DistributedError, MetricsError, NonFiniteError, PretrainedError)


def main(name: str, usage: str, flags: type[Flags], run: Callable[[Flags], Any]) -> int:
    """A training as a program: exit status 0, 1 (it failed), 2 (wrong usage) or 75 (told to leave: run it again)."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(f"{usage}\n\n{describe(flags)}")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        given, rest = parse(flags, arguments)
        if rest:
            raise UsageError(f"no argument {rest[0]!r} is known")
        given.check()
        initialize(
            DistributedConfig(given.num_processes, given.process_id, given.coordinator_host, given.coordinator_port)
        )
        run(given)
        shutdown()
    except MISUSES as error:
        print(f"{name}: {error} (--help)", file=sys.stderr)
        return 2
    except FAILURES as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 1
    return 0
