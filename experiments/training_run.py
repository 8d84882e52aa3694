"""What behaviour cloning and the reward model's training share: flags, the model they start from, what they leave.

runs/bc/
  run.json          the resolved settings
  metrics.jsonl     and tensorboard/, where it is asked for
  tokenizer.json …  of the model
  checkpoints/      see webgpt_jax/models/checkpoint_folder.py
  final/            the best state's average of weights, as a folder that `load_pretrained` reads, with webgpt.json
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jax
import optax
from flax import nnx
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from experiments.training_flags import RunError, TrainingFlags
from webgpt_jax.datasets import DataError, Split
from webgpt_jax.datasets.batches import Batches
from webgpt_jax.flags import UsageError
from webgpt_jax.models import (
    PRESETS,
    FolderSettings,
    Params,
    ScalarTransformer,
    Tokenizer,
    Transformer,
    TransformerConfig,
    gpt2_tokenizer,
    load_pretrained,
    parameters,
    preset,
    read_settings,
    save_pretrained,
    scalar_from,
    write_settings,
)
from webgpt_jax.models.checkpoint_folder import MARKER, OPTIMIZER, PARAMS, restore_params
from webgpt_jax.models.export import has_family
from webgpt_jax.models.parameters import Head
from webgpt_jax.models.settings import Kind
from webgpt_jax.models.tokenizer import tokenizer_from_folder
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
    train_state_from,
)
from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer
from webgpt_jax.training.loop import (
    Evaluate,
    LoopConfig,
    batch_shard,
    make_evaluate,
    position_in,
    resume,
    train,
)
from webgpt_jax.training.metrics import MetricsWriter, Progress
from webgpt_jax.training.sharding import check_batch, parameter_shardings
from webgpt_jax.training.train_state import TrainState
from webgpt_jax.training.train_step import Batch, LossFunction, Weight

MAX_HELD_OUT_ROWS = 64
VOCABULARY_MULTIPLE = 128  # what the vocabulary is padded to where tensor devices share it


@dataclass(frozen=True)
class Recipe:
    """What tells one training from another, beside its flags."""

    kind: Kind  # of the folder that is left
    head: Head
    epochs: int  # the paper's defaults, the last two by the paper's sizes; None is any other model
    batch_sizes: Mapping[str | None, int]
    multipliers: Mapping[str | None, float]
    best_metric: str
    best_mode: Literal["min", "max"]
    batches: Callable[..., Batches]  # as those in `webgpt_jax.datasets.batches`
    loss: Callable[[TransformerConfig, MeshSharding], LossFunction]
    weight: Weight  # what the loss is a mean over
    data: Mapping[str, Any]  # what batches of this kind alone are given
    # Of the model that would be final now: metrics beside those of held-out data.
    judge: Callable[[Transformer, Tokenizer, FolderSettings], Mapping[str, float]] | None = None


@dataclass(frozen=True)
class Start:
    """The model that a training starts from."""

    config: TransformerConfig
    params: Params | None  # None: new weights are drawn
    tokenizer: Tokenizer
    settings: FolderSettings | None


@dataclass(frozen=True)
class Trained:
    """What a run left."""

    final: Path
    step: int  # the last update
    ended: str  # "total": all updates were made; "patience": the last evaluations were no better
    best_step: int  # of which update the weights are
    best_score: float | None


def run(flags: TrainingFlags, recipe: Recipe) -> Trained:
    """One training from its flags, checked, to its final folder; in several processes, in all of them.

    Raises:
      What `MISUSES` and `FAILURES` in `training_flags.py` list.
      SystemExit: with 75, when it was told to leave: the same flags go on.
    """
    workdir = Path(flags.workdir or "")
    checkpoints = workdir / "checkpoints"

    # ---- devices
    mesh = make_mesh(MeshConfig(flags.mesh_data, flags.mesh_fsdp, flags.mesh_tensor))
    shard = batch_shard(mesh)

    # ---- model
    start = open_model(flags, mesh)
    chosen = choose(flags, recipe, start)
    check_batch(mesh, chosen.batch_size, flags.microbatches)

    # ---- data
    position = position_in(checkpoints)
    make_batches = functools.partial(_batches, flags, recipe, start.tokenizer, length=chosen.length, shard=shard)
    batches = make_batches("train", chosen.batch_size, num_epochs=chosen.epochs, start=position.batches)
    total = min(filter(None, (batches.total, flags.max_steps)))
    held_out: list[Batch] = []
    if flags.held_out > 0:
        held_out = list(make_batches("validation", held_out_rows(mesh, chosen.batch_size // flags.microbatches)))
    _say(f"training data: {batches.report}")

    # ---- optimizer, state, step
    optimizer_config = OptimizerConfig(
        base_step_size=chosen.base_step_size,
        multiplier=chosen.multiplier,
        beta1=flags.beta1,
        beta2=flags.beta2,
        weight_decay=flags.weight_decay,
        warmup_steps=flags.warmup_steps,
        schedule=flags.schedule,  # type: ignore[arg-type]  # `validate` looks at it
        total_steps=None if flags.schedule == "constant" else total,
    )
    step_config = StepConfig(flags.microbatches, flags.max_gradient_norm or None, flags.ema_decay)
    loop_config = LoopConfig(
        total_steps=total,
        evaluate_every=flags.evaluate_every,
        save_every=flags.save_every,
        log_every=flags.log_every,
        best_metric=recipe.best_metric,
        best_mode=recipe.best_mode,
        patience=flags.patience or None,
    )
    optimizer = make_optimizer(optimizer_config)
    like = abstract_train_state(start.config, optimizer, mesh, head=recipe.head)
    step = make_train_step(
        recipe.loss(start.config, MeshSharding(mesh)), optimizer, shardings_of(like), step_config, recipe.weight
    )
    settings = {
        "model": dataclasses.asdict(start.config),
        "optimizer": dataclasses.asdict(optimizer_config),
        "step": dataclasses.asdict(step_config),
        "data": {
            "held_out": flags.held_out,
            "share": flags.share,
            **recipe.data,
            "examples": batches.report.examples,
            "seed": flags.seed,
        },
        "chosen": dataclasses.asdict(chosen),
        "flags": dataclasses.asdict(flags),
    }

    # ---- restore, loop, save
    keep = CheckpointConfig(
        keep_last=flags.keep_last,
        keep_best=1 if held_out else 0,
        best_metric=recipe.best_metric if held_out else None,
        best_mode=recipe.best_mode,
        may_change=("flags", "chosen.epochs", "optimizer.total_steps"),
    )
    with Checkpointer(checkpoints, keep, settings) as checkpointer:
        _write_run(workdir, start.tokenizer, settings)
        resumed = resume(checkpointer, like)
        if resumed is None:
            state, key = first_state(flags, start, recipe.head, optimizer, mesh), jax.random.key(flags.seed)
        else:
            state, key, position = resumed.state, resumed.key, resumed.position
            _say(f"going on after update {resumed.step}")
        start = replace(start, params=None)  # the state has its own
        evaluate = evaluation(recipe, start, like, held_out, mesh) if held_out else None
        with (
            MetricsWriter(
                workdir, tensorboard=flags.tensorboard, after=0 if resumed is None else resumed.step
            ) as writer,
            Progress(total, every_seconds=flags.log_seconds) as progress,
        ):
            result = train(
                state,
                step,
                batches,
                key,
                loop_config,
                checkpointer,
                position=position,
                evaluate=evaluate,
                metrics=writer,
                progress=progress,
            )
    best = result.position.best_step or result.step
    final = workdir / "final"
    write_final(final, checkpoints, best, start, recipe.head, folder_settings(recipe.kind, start, chosen))
    _say(f"{final}: the average of weights after update {best} of {result.step} ({result.ended})")
    return Trained(final, result.step, result.ended, best, result.position.best_score)


def open_model(flags: TrainingFlags, mesh: Mesh) -> Start:
    """The model that `--model` names. Raises `UsageError` or `PretrainedError`."""
    name = flags.model or ""
    ours: dict[str, Any] = {
        option: getattr(flags, option) for option in ("dtype", "param_dtype", "attention", "remat", "dropout")
    }
    if name in PRESETS:
        tokenizer = _tokenizer(flags)
        return Start(preset(name, vocab_size=tokenizer.vocab_size, **ours), None, tokenizer, None)
    if flags.tokenizer is not None:
        raise UsageError("--tokenizer is for presets: a model in files has its own")
    path = Path(name)
    if flags.mesh_tensor != 1:
        ours["vocab_multiple"] = VOCABULARY_MULTIPLE
    model, found = load_pretrained(path, shardings=functools.partial(parameter_shardings, mesh), **ours)
    if found is None:
        raise RunError(f"{path} has no tokenizer: put the model's tokenizer.json beside it")
    return Start(model.config, parameters(model), found, read_settings(path))


def _tokenizer(flags: TrainingFlags) -> Tokenizer:
    if flags.tokenizer is None:
        return gpt2_tokenizer()
    found = tokenizer_from_folder(Path(flags.tokenizer))
    if found is None:
        raise RunError(f"{flags.tokenizer} holds no tokenizer.json")
    return found


@dataclass(frozen=True)
class Chosen:
    """What flags leave open, after the model, the paper and webgpt.json have been asked."""

    base_step_size: float
    multiplier: float
    batch_size: int
    epochs: int
    length: int


def choose(flags: TrainingFlags, recipe: Recipe, start: Start) -> Chosen:
    """Raises `UsageError` for flags that do not fit the model."""
    base = flags.base_step_size
    if base is None and start.settings is not None:
        base = start.settings.base_step_size
    if base is None and flags.model is not None and flags.model in PRESETS:
        base = PRESETS[flags.model].base_step_size
    if base is None:
        raise UsageError("--base_step_size=… is needed: nothing says with which step size the model was pre-trained")
    context = FolderSettings(recipe.kind).context_tokens if start.settings is None else start.settings.context_tokens
    length = flags.length or min(context, start.config.max_length)
    if length > start.config.max_length:
        raise UsageError(f"--length={length} is more than the model's {start.config.max_length} tokens")
    size = paper_size(start.config)
    return Chosen(
        base_step_size=base,
        multiplier=flags.multiplier or recipe.multipliers.get(size, recipe.multipliers[None]),
        batch_size=flags.batch_size or recipe.batch_sizes.get(size, recipe.batch_sizes[None]),
        epochs=flags.epochs or recipe.epochs,
        length=length,
    )


def paper_size(config: TransformerConfig) -> str | None:
    """Which of the paper's three sizes a model has; None for any other."""
    for name in ("760m", "13b", "175b"):
        paper = PRESETS[name].config
        if (config.num_layers, config.embed_dim) == (paper.num_layers, paper.embed_dim):
            return name
    return None


def _batches(
    flags: TrainingFlags,
    recipe: Recipe,
    tokenizer: Tokenizer,
    split: Split,
    batch_size: int,
    *,
    num_epochs: int = 1,
    **options: Any,
) -> Batches:
    try:
        return recipe.batches(
            flags.files,
            tokenizer,
            split=split,
            batch_size=batch_size,
            num_epochs=num_epochs,
            seed=flags.seed,
            held_out=flags.held_out,
            share=flags.share,
            skip_bad_records=flags.skip_bad_records,
            **recipe.data,
            **options,
        )
    except DataError:
        raise
    except ValueError as error:  # arguments, which are flags here, that do not fit each other
        raise UsageError(str(error)) from None


def held_out_rows(mesh: Mesh, microbatch: int) -> int:
    """Rows of a batch of held-out data: few, since there may be few of them, and as many on each device."""
    devices: int = mesh.shape["data"] * mesh.shape["fsdp"]
    return devices * max(1, min(microbatch, MAX_HELD_OUT_ROWS) // devices)


def first_state(
    flags: TrainingFlags, start: Start, head: Head, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """The model with the head that is trained, before its first update."""
    key = jax.random.fold_in(jax.random.key(flags.seed), 1)  # not the one of dropout
    if start.params is None:
        return create_train_state(start.config, optimizer, mesh, key, head=head)
    params = start.params
    if head == "scalar":  # the unembedding goes (paper, section 3.2)
        params = parameters(scalar_from(Transformer(start.config, params=params), nnx.Rngs(key)))
    return train_state_from(params, start.config, optimizer, mesh, head=head)


def evaluation(recipe: Recipe, start: Start, like: TrainState, held_out: Sequence[Batch], mesh: Mesh) -> Evaluate:
    """The loss and metrics of held-out data, and what the recipe's judge says of the model."""
    still = replace(start.config, dropout=0.0)
    measure = make_evaluate(recipe.loss(still, MeshSharding(mesh)), like, lambda: iter(held_out), recipe.weight)
    judge = recipe.judge
    if judge is None:
        return measure
    settings = start.settings or FolderSettings("policy")

    def evaluate(state: TrainState) -> dict[str, float]:
        average = jax.tree.map(lambda array: array.astype(still.param_dtype), state.ema_params)
        model = Transformer(still, params=average, sharding=MeshSharding(mesh))
        return {**measure(state), **judge(model, start.tokenizer, settings)}

    return evaluate


def folder_settings(kind: Kind, start: Start, chosen: Chosen) -> FolderSettings:
    """What the final folder says: as the model's that the training started from, or the paper's as far as they fit."""
    if start.settings is not None:
        return replace(start.settings, kind=kind, base_step_size=chosen.base_step_size)
    paper = FolderSettings(kind, chosen.base_step_size)
    return replace(
        paper,
        context_tokens=chosen.length,
        max_command_tokens=min(paper.max_command_tokens, max(1, chosen.length // 4)),
        max_answer_tokens=min(paper.max_answer_tokens, max(1, chosen.length // 2)),
    )


def write_final(final: Path, checkpoints: Path, step: int, start: Start, head: Head, settings: FolderSettings) -> None:
    """The average of weights of a checkpoint, as a folder in place of what was there.

    Models that no architecture of transformers is (the paper's 13B: heads that do not add up to its width) are left in
    our own format.
    """
    if has_family(start.config):
        # All processes read, because Orbax has them wait for each other; one writes.
        place = jax.sharding.SingleDeviceSharding(_host())
        config, params = restore_params(checkpoints, step=step, ema=True, shardings=place)
        params = jax.tree.map(lambda array: array.astype(config.param_dtype), params)
        model = Transformer(config, params=params) if head == "logits" else ScalarTransformer(config, params=params)
        if jax.process_index() == 0:
            shutil.rmtree(final, ignore_errors=True)
            save_pretrained(model, final, start.tokenizer, settings=settings)
    elif jax.process_index() == 0:
        shutil.rmtree(final, ignore_errors=True)
        left_out = shutil.ignore_patterns(PARAMS, OPTIMIZER)
        shutil.copytree(checkpoints / str(step), final / str(step), ignore=left_out)
        shutil.copy(checkpoints / MARKER, final / MARKER)
        start.tokenizer.save(final)
        write_settings(final, settings)
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices("webgpt_jax final model")


def _host() -> jax.Device:
    """Where a whole model fits that no accelerator holds alone."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves it out
        return jax.local_devices()[0]


def _write_run(workdir: Path, tokenizer: Tokenizer, settings: Mapping[str, Any]) -> None:
    """The resolved settings and the tokenizer, beside the checkpoints."""
    if jax.process_index() != 0:
        return
    (workdir / "run.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(workdir)


def _say(text: str) -> None:
    if jax.process_index() == 0:
        print(text, file=sys.stderr, flush=True)
