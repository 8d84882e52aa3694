"""One size of the family through the paper's main line: demonstrations → BC → comparisons → reward models.

Each step leaves a file or a folder and is skipped where it is there, so that what was interrupted goes on. The policy,
the reward model and the validation reward model learn from questions about animals that no other of them sees, and
none of them is tested on what it learned from.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from experiments.make_demonstrations import DemonstrationFlags, browser_settings, make_demonstrations
from experiments.tinyweb_lab.answers import make_comparisons, sample_answers, some_questions
from experiments.train_bc import BCFlags, train_bc
from experiments.train_rm import RMFlags, train_rm
from experiments.training_flags import RunError, TrainingFlags
from experiments.training_run import Trained
from webgpt_jax.datasets import write_comparisons
from webgpt_jax.tinyweb.web import open_tinyweb
from webgpt_jax.tinyweb.world import World, make_world

FAMILY = Path("data/tinyweb")
SIZES = ("0.3m", "1m", "3m")

Say = Callable[[str], None]
Flags = TypeVar("Flags", bound=TrainingFlags)


@dataclass(frozen=True)
class Plan:
    """How much of everything. The defaults are the studies'; the demo has smaller ones."""

    world: int = 0
    seed: int = 0
    demonstrations: int = 3000  # episodes
    questions: int = 1500  # that the reward model's comparisons are about
    validation_questions: int = 1000  # and the validation reward model's
    answers: int = 4  # sampled for each
    comparisons: int = 3  # of each question
    bc_batch: int = 32  # rows of packed examples
    bc_multiplier: float = 0.3  # of the base step size; the paper's 0.1 is for batches of 512 and as many steps
    bc_epochs: int = 4
    rm_length: int = 224  # tokens of a prompt and answer: the longest have some 150
    rm_batch: int = 64
    rm_multiplier: float = 0.1
    rm_epochs: int = 6


# The demo's. Batches are small, so that there are some hundred updates: the average of weights, which is the
# final model, holds 0.99^updates of the model that was begun with.
SMALL = Plan(
    demonstrations=400,
    questions=160,
    validation_questions=120,
    answers=3,
    comparisons=2,
    bc_batch=8,
    bc_epochs=2,
    rm_batch=8,
)


def policy_of(size: str, pretrained: Path, workdir: Path, plan: Plan, say: Say = print) -> Path:
    """Behaviour cloning of one size, in its folder, whose parent holds the demonstrations that all sizes share.

    Args:
      size: of the family, or any other name.
      pretrained: the folder of the model to begin with.
      workdir: of this size.
      plan: how much.
      say: told what it came to.
    """
    trained = clone(pretrained, demonstrations_of(workdir.parent, pretrained, plan), workdir / "bc", plan)
    say(f"{size} BC: {trained.best_step} updates, held-out loss {_shown(trained.best_score)}")
    return trained.final


def reward_model_of(size: str, policy: Path, workdir: Path, plan: Plan, say: Say = print) -> Path:
    """The reward model that picks, from comparisons of the policy's answers."""
    return _reward_model(f"{size} RM", policy, "rm", workdir / "rm", plan, say)


def validation_reward_model_of(size: str, policy: Path, workdir: Path, plan: Plan, say: Say = print) -> Path:
    """The reward model that only ever judges, likewise."""
    return _reward_model(f"{size} validation RM", policy, "validation", workdir / "validation_rm", plan, say)


def _reward_model(name: str, policy: Path, split: str, workdir: Path, plan: Plan, say: Say) -> Path:
    data = comparisons_of(policy, make_world(plan.world), split, plan, workdir)
    trained = train_reward_model(policy, data, workdir, plan)
    say(f"{name}: {trained.best_step} updates, accuracy {_shown(trained.best_score)} on held-out comparisons")
    return trained.final


def _shown(score: float | None) -> str:
    return "not measured" if score is None else f"{score:.3f}"  # so little data that none of it is held out


def demonstrations_of(folder: Path, pretrained: Path, plan: Plan) -> Path:
    """The file of demonstrations, made as far as it is not there; lengths are counted in the model's tokens."""
    path = folder / "demonstrations.jsonl"
    flags = DemonstrationFlags(
        output=str(path),
        count=plan.demonstrations,
        split="bc",
        seed=plan.seed,
        world=plan.world,
        tokenizer=str(pretrained),
    )

    async def make() -> None:
        async with open_tinyweb(plan.world) as web:
            await make_demonstrations(flags, web, browser_settings(flags.tokenizer))

    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(make())
    return path


def clone(pretrained: Path, demonstrations: Path, workdir: Path, plan: Plan, share: float = 1.0) -> Trained:
    """Behaviour cloning, on a share of the demonstrations' questions."""
    flags = BCFlags(
        model=str(pretrained),
        data=str(demonstrations),
        workdir=str(workdir),
        batch_size=plan.bc_batch,
        multiplier=plan.bc_multiplier,
        epochs=plan.bc_epochs,
        ema_decay=_decay(BCFlags.ema_decay, share),
        share=share,
        seed=plan.seed,
        patience=0,
    )
    return _once(workdir, flags, train_bc)


def train_reward_model(policy: Path, data: Path, workdir: Path, plan: Plan, share: float = 1.0) -> Trained:
    """A reward model from a share of the questions of a file of comparisons."""
    flags = RMFlags(
        model=str(policy),
        data=str(data),
        workdir=str(workdir),
        length=plan.rm_length,
        batch_size=plan.rm_batch,
        multiplier=plan.rm_multiplier,
        epochs=plan.rm_epochs,
        ema_decay=_decay(RMFlags.ema_decay, share),
        share=share,
        seed=plan.seed,
        patience=0,
    )
    return _once(workdir, flags, train_rm)


def _decay(paper: float, share: float) -> float:
    """With a share of the data there are as many fewer updates: the average of weights then forgets as much faster, or
    it would be mostly of the first weights (our reading)."""
    return round(1 - (1 - paper) / share, 9)


def _once(workdir: Path, flags: Flags, train: Callable[[Flags], Trained]) -> Trained:
    """The training, or what it came to where the same flags have been trained before."""
    record = workdir / "trained.json"
    asked = dataclasses.asdict(flags)
    if record.exists():
        found = json.loads(record.read_text(encoding="utf-8"))
        if found.pop("flags") == asked:
            return Trained(workdir / "final", **found)
    trained = train(flags)
    came_to = {name: value for name, value in dataclasses.asdict(trained).items() if name != "final"}
    partial = record.with_suffix(".partial")
    partial.write_text(json.dumps({**came_to, "flags": asked}, indent=2) + "\n", encoding="utf-8")
    partial.replace(record)
    return trained


def comparisons_of(policy: Path, world: World, split: str, plan: Plan, folder: Path) -> Path:
    """The file of comparisons for a reward model, sampled and judged where it is not there."""
    path = folder / "comparisons.jsonl"
    if path.exists():
        return path
    count = plan.questions if split == "rm" else plan.validation_questions
    asked = some_questions(world, split, count, plan.seed)  # type: ignore[arg-type]  # it looks at it
    file = folder / "answers.jsonl"
    answers = sample_answers(policy, world, asked, plan.answers, file, seed=_key_of(split, plan.seed))
    found = make_comparisons(world, asked, answers, per_question=plan.comparisons, seed=plan.seed)
    if not found:
        raise RunError(
            f"{policy} answers no question of the set {split!r} twice, so there is nothing to compare: it needs more"
            " pre-training or more demonstrations"
        )
    partial = path.with_suffix(".partial")
    write_comparisons(partial, found)
    partial.replace(path)
    return path


def _key_of(name: str, seed: int) -> int:
    """Another key for what is sampled for another purpose."""
    return seed * 1000 + sum(map(ord, name))


def models_are_there(sizes: Sequence[str]) -> list[str]:
    """Which sizes have a pre-trained model."""
    return [size for size in sizes if (FAMILY / size / "config.json").exists()]
