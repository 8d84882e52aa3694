"""Pre-trains the three small models that play GPT-3's part on TinyWeb.

    python -m experiments.pretrain_tinyweb --size=0.3m --workdir=runs/pretrain-0.3m      # an hour or two on 2 cores
    python -m experiments.pretrain_tinyweb --size=0.3m --workdir=runs/pretrain-0.3m --keep  # and put into data/tinyweb
    python -m experiments.pretrain_tinyweb --size=0.3m --show_skills    # what the one that is kept there can do

They read pages and do reading tasks (webgpt_jax/tinyweb/reading.py) of worlds that nothing else is trained or tested
on, with the loss on every token, the answers' counting more. Every so many updates the share of exactly right answers
is measured on a world that was held out, skill by skill. The final folder holds the average of weights, the tokenizer
and webgpt.json. Run again, the command goes on where it was left.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import jax

from experiments.pretraining.batches import (
    BUCKETS,
    Batch,
    BatchConfig,
    batches,
)
from experiments.pretraining.skills import skill_measure
from experiments.pretraining.vocabulary import train_vocabulary
from webgpt_jax.algorithms import bc_loss, bc_weight
from webgpt_jax.flags import UsageError, option, parse
from webgpt_jax.models import (
    PRESETS,
    FolderSettings,
    PretrainedError,
    Tokenizer,
    Transformer,
    TransformerConfig,
    load_pretrained,
    parameters,
    preset,
    save_pretrained,
)
from webgpt_jax.models.checkpoint_folder import CheckpointError
from webgpt_jax.models.tokenizer import tokenizer_from_folder
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER
from webgpt_jax.training import (
    MeshConfig,
    MeshSharding,
    OptimizerConfig,
    StepConfig,
    abstract_train_state,
    create_train_state,
    make_mesh,
    make_optimizer,
    make_train_step,
    shardings_of,
)
from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer
from webgpt_jax.training.loop import Evaluate, LoopConfig, position_in, resume, train
from webgpt_jax.training.metrics import MetricsWriter, Progress
from webgpt_jax.training.train_state import TrainState

DATA = Path("data/tinyweb")
SIZES = ("0.3m", "1m", "3m")
TASKS_PER_SKILL = 64  # of the held-out world, at an evaluation
MEASURED_TASKS = 512  # for `--show_skills`
EXACT = "validation/exact_"


@dataclass(frozen=True)
class PretrainFlags:
    size: str = option("0.3m", f"which model: {', '.join(SIZES)}")
    workdir: str | None = option(None, "the run's folder (default: runs/pretrain-<size>)")
    steps: int = option(5000, "updates")
    tokens: int = option(4096, "tokens of a batch")
    seed: int = option(0, "of weights and tasks")
    base_step_size: float | None = option(None, "Adam's, at its peak (default: the preset's)")
    warmup_steps: int = option(200, "updates over which the step size rises")
    evaluate_every: int = option(250, "updates between evaluations")
    show_skills: bool = option(False, f"measure the model in {DATA}/<size> instead, and print it")
    keep: bool = option(False, f"copy the final folder to {DATA}/<size>")


class _Batches:
    """`batches` as the training loop wants them."""

    def __init__(self, config: BatchConfig, start: int, steps: int) -> None:
        self.taken = start
        self._steps = steps
        self._made = batches(config, start)

    @property
    def epoch(self) -> float:
        return self.taken / self._steps

    def __next__(self) -> Batch:
        self.taken += 1
        return next(self._made)


def pretrain(flags: PretrainFlags) -> Path:
    """Trains, and returns the final folder."""
    workdir = Path(flags.workdir or f"runs/pretrain-{flags.size}")
    name = f"tinyweb-{flags.size}"
    config, size = preset(name), flags.base_step_size or PRESETS[name].base_step_size
    tokenizer = _vocabulary(workdir)
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])  # rows differ in number from length to length
    optimizer_config = OptimizerConfig(
        base_step_size=size,
        warmup_steps=flags.warmup_steps,
        schedule="linear",
        total_steps=flags.steps,
        end_factor=0.05,
    )
    optimizer = make_optimizer(optimizer_config)
    like = abstract_train_state(config, optimizer, mesh)
    step = make_train_step(bc_loss(config, MeshSharding(mesh)), optimizer, shardings_of(like), StepConfig(), bc_weight)
    checkpoints = workdir / "checkpoints"
    position = position_in(checkpoints)
    source = _Batches(BatchConfig(workdir / "tokenizer", flags.tokens, flags.seed), position.batches, flags.steps)
    settings = {"flags": dataclasses.asdict(flags), "optimizer": dataclasses.asdict(optimizer_config)}
    keep = CheckpointConfig(keep_last=2, may_change=("flags", "optimizer.total_steps"))
    with Checkpointer(checkpoints, keep, {"model": dataclasses.asdict(config), **settings}) as checkpointer:
        resumed = resume(checkpointer, like)
        if resumed is None:
            key = jax.random.key(flags.seed)
            state = create_train_state(config, optimizer, mesh, jax.random.fold_in(key, 1))
        else:
            state, key, position = resumed.state, resumed.key, resumed.position
        with (
            MetricsWriter(workdir, after=0 if resumed is None else resumed.step) as writer,
            Progress(flags.steps, every_seconds=60) as progress,
        ):
            result = train(
                state,
                step,
                source,
                key,
                LoopConfig(
                    total_steps=flags.steps,
                    evaluate_every=flags.evaluate_every,
                    save_every=flags.evaluate_every,
                    best_metric=f"{EXACT}sentence",
                    best_mode="max",
                ),
                checkpointer,
                position=position,
                evaluate=_evaluation(config, tokenizer),
                metrics=writer,
                progress=progress,
            )
    final = workdir / "final"
    shutil.rmtree(final, ignore_errors=True)
    model = Transformer(config, params=result.state.ema_params)
    save_pretrained(model, final, tokenizer, settings=folder_settings(size))
    if flags.keep:
        shutil.rmtree(DATA / flags.size, ignore_errors=True)
        shutil.copytree(final, DATA / flags.size)
    return final


def folder_settings(base_step_size: float) -> FolderSettings:
    """What the models' folders say: how they browse."""
    assert TINYWEB_BROWSER.max_observation_tokens is not None
    return FolderSettings(
        "pretrained",
        base_step_size,
        window_chars=TINYWEB_BROWSER.window_chars,
        context_tokens=384,
        max_command_tokens=384 - TINYWEB_BROWSER.max_observation_tokens,
        max_answer_tokens=96,
        max_actions=TINYWEB_BROWSER.max_actions,
    )


def _vocabulary(workdir: Path) -> Tokenizer:
    """The one that is kept, or a new one, in the run's folder."""
    folder = workdir / "tokenizer"
    found = tokenizer_from_folder(folder) or tokenizer_from_folder(DATA / SIZES[0]) or train_vocabulary()
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder)
    return found


def _evaluation(config: TransformerConfig, tokenizer: Tokenizer) -> Evaluate:
    measure = skill_measure(config, tokenizer, TASKS_PER_SKILL)

    def evaluate(state: TrainState) -> dict[str, float]:
        assert state.ema_params is not None
        return {EXACT + skill: share for skill, share in measure(state.ema_params).items()}

    return evaluate


def show_skills(size: str) -> None:
    """Prints what the model that is kept can do."""
    model, tokenizer = load_pretrained(DATA / size)
    if tokenizer is None:
        raise PretrainedError(f"{DATA / size} has no tokenizer")
    for skill, share in skill_measure(model.config, tokenizer, MEASURED_TASKS)(parameters(model)).items():
        print(f"{skill:10} {share:.3f}")


def main() -> int:
    try:
        flags, rest = parse(PretrainFlags, sys.argv[1:])
        if rest or flags.size not in SIZES or flags.tokens < BUCKETS[-1] or flags.evaluate_every < 1:
            raise UsageError(
                f"--size is one of {', '.join(SIZES)}, --evaluate_every above 0, --tokens at least {BUCKETS[-1]}"
            )
        if not 0 <= flags.warmup_steps < flags.steps:
            raise UsageError(f"--steps must be more than --warmup_steps={flags.warmup_steps}, not {flags.steps}")
    except UsageError as error:
        print(f"pretrain_tinyweb: {error}", file=sys.stderr)
        return 2
    try:
        if flags.show_skills:
            show_skills(flags.size)
        else:
            print(pretrain(flags))
    except (CheckpointError, PretrainedError) as error:
        print(f"pretrain_tinyweb: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
