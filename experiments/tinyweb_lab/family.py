"""One size of the family through the paper's main line: demonstrations → BC → comparisons → reward models.

Each step leaves a file or a folder and is skipped where it is there, so that what was interrupted goes on. The policy,
the reward model and the validation reward model learn from questions about animals that no other of them sees, and
none of them is tested on what it learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.make_demonstrations import write_demonstrations
from experiments.tinyweb_lab.answers import make_comparisons, sample_answers, some_questions
from experiments.train_bc import BCFlags, train_bc
from experiments.train_rm import RMFlags, train_rm
from experiments.training_run import Trained
from webgpt_jax.datasets import write_comparisons
from webgpt_jax.tinyweb.world import World, make_world

FAMILY = Path("data/tinyweb")
SIZES = ("0.3m", "1m", "3m")

Say = Callable[[str], None]


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
    rm_batch: int = 64
    rm_multiplier: float = 0.1
    rm_epochs: int = 6


@dataclass(frozen=True)
class Member:
    """What one size came to: folders of models."""

    size: str
    pretrained: Path
    policy: Path
    reward_model: Path
    validation_reward_model: Path


def prepare(size: str, workdir: Path, plan: Plan, say: Say = print, pretrained: Path | None = None) -> Member:
    """Trains what is not there yet, in `workdir`; demonstrations, which all sizes share, are in its parent.

    Args:
      size: of the family; or any name, where `pretrained` is given.
      workdir: of this size.
      plan: how much.
      say: told what each step came to.
      pretrained: the folder of the model to begin with.
    """
    world = make_world(plan.world)
    pretrained = pretrained or FAMILY / size
    demonstrations = workdir.parent / "demonstrations.jsonl"
    write_demonstrations(world, "bc", plan.demonstrations, demonstrations, seed=plan.seed)
    policy = clone(pretrained, demonstrations, workdir / "bc", plan)
    say(f"{size} BC: {policy.best_step} updates, held-out loss {policy.best_score:.3f}")
    reward = train_reward_model(policy.final, world, "rm", plan, workdir / "rm")
    say(f"{size} RM: accuracy {reward.best_score:.3f} on held-out comparisons")
    validation = train_reward_model(policy.final, world, "validation", plan, workdir / "validation_rm")
    say(f"{size} validation RM: accuracy {validation.best_score:.3f}")
    return Member(size, pretrained, policy.final, reward.final, validation.final)


def clone(pretrained: Path, demonstrations: Path, workdir: Path, plan: Plan, share: float = 1.0) -> Trained:
    """Behaviour cloning."""
    return train_bc(
        BCFlags(
            model=str(pretrained),
            data=str(demonstrations),
            workdir=str(workdir),
            batch_size=plan.bc_batch,
            multiplier=plan.bc_multiplier,
            epochs=plan.bc_epochs,
            share=share,
            seed=plan.seed,
            patience=0,
        )
    )


def train_reward_model(
    policy: Path, world: World, split: str, plan: Plan, workdir: Path, share: float = 1.0
) -> Trained:
    """A reward model from comparisons of the policy's own answers to a set's questions.

    Args:
      split: "rm", or "validation" for the one that only ever judges.
      share: of the questions trained on, how many are taken.
    """
    data = comparisons_of(policy, world, split, plan, workdir)
    return train_rm(
        RMFlags(
            model=str(policy),
            data=str(data),
            workdir=str(workdir),
            batch_size=plan.rm_batch,
            multiplier=plan.rm_multiplier,
            epochs=plan.rm_epochs,
            share=share,
            seed=plan.seed,
            patience=0,
        )
    )


def comparisons_of(policy: Path, world: World, split: str, plan: Plan, folder: Path) -> Path:
    """The file of comparisons for a reward model, sampled and judged where it is not there."""
    path = folder / "comparisons.jsonl"
    if path.exists():
        return path
    count = plan.questions if split == "rm" else plan.validation_questions
    asked = some_questions(world, split, count, plan.seed)  # type: ignore[arg-type]  # it looks at it
    answers = sample_answers(
        policy, world, asked, plan.answers, folder / "answers.jsonl", seed=_key_of(split, plan.seed)
    )
    found = make_comparisons(world, asked, answers, per_question=plan.comparisons, seed=plan.seed)
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
