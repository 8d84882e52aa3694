"""Behaviour cloning (paper, sections 3.2 and 7): a language model learns to browse and answer from demonstrations.

    python -m experiments.train_bc --model=data/tinyweb/1m --data=demos.jsonl --workdir=runs/bc
    python -m experiments.train_bc --model=760m --data=demos.jsonl --workdir=runs/bc --dtype=bfloat16 --remat=full

The defaults are the paper's: minibatches of 512 (256 for 760M), a tenth of the base step size, at most 12 epochs, the
average of weights as the final model, 4% of the questions held out. It stops by the held-out loss, or by the reward
model's score of sampled episodes, as the paper does, which improves for longer (--stop_by=rm_score).

runs/bc/final is what `webgpt ask --policy=model --model=runs/bc/final` and `experiments.train_rm` take. Run again, the
command goes on where it was left; exit status 75 says that it was told to leave and can be run again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from experiments.judge import make_judge
from experiments.training_flags import TrainingFlags, main
from experiments.training_run import Recipe, Trained, run
from webgpt_jax.algorithms import bc_loss, bc_weight
from webgpt_jax.datasets.batches import demonstration_batches
from webgpt_jax.flags import UsageError, option
from webgpt_jax.models import FolderSettings, Tokenizer, Transformer

STOPS = ("loss", "rm_score")

# Samples episodes from a model and scores their answers: metrics by name, "validation/rm_score" among them.
Judge: TypeAlias = Callable[[Transformer, Tokenizer, FolderSettings], Mapping[str, float]]


@dataclass(frozen=True)
class BCFlags(TrainingFlags):
    """The flags of behaviour cloning."""

    pack: bool = option(True, "put several examples into a row")
    stop_by: str = option("loss", "what ranks states: loss (held-out) or rm_score (of sampled episodes)")
    reward_model: str | None = option(None, "rm_score: the reward model's folder")
    web: str | None = option(
        None, "rm_score: where episodes browse, as `webgpt ask --web=…` has it: tinyweb, factbook, …"
    )
    questions: str | None = option(
        None, 'rm_score: file of the episodes\' questions: {"question": …} a line of .jsonl, or plain lines'
    )
    episodes: int = option(64, "rm_score: how many are sampled at each evaluation")

    def check(self) -> None:
        super().check()
        if self.stop_by not in STOPS:
            raise UsageError(f"--stop_by={self.stop_by} is none of {', '.join(STOPS)}")
        if self.stop_by == "rm_score" and self.held_out == 0:
            raise UsageError("--stop_by=rm_score evaluates beside the held-out data: --held_out must be more than 0")
        if self.stop_by == "rm_score" and self.episodes < 1:
            raise UsageError(f"--episodes must be at least 1, not {self.episodes}")


def bc_recipe(flags: BCFlags, judge: Judge | None = None) -> Recipe:
    """The paper's recipe."""
    return Recipe(
        kind="policy",
        head="logits",
        epochs=12,
        batch_sizes={None: 512, "760m": 256},
        multipliers={None: 0.1},
        best_metric=f"validation/{flags.stop_by}",
        best_mode="min" if flags.stop_by == "loss" else "max",
        batches=demonstration_batches,
        loss=bc_loss,
        weight=bc_weight,
        data={"pack": flags.pack},
        judge=judge,
    )


def train_bc(flags: BCFlags, judge: Judge | None = None) -> Trained:
    """Trains, and leaves the final folder. Raises: see `experiments.training_run.run`.

    Args:
      flags: checked.
      judge: what `--stop_by=rm_score` stops by, in place of what its flags name; without `--stop_by`, what it says is
        written down all the same.
    """
    if flags.stop_by == "rm_score" and judge is None:
        missing = [name for name in ("reward_model", "web", "questions") if getattr(flags, name) is None]
        if missing:
            raise UsageError(f"--stop_by=rm_score needs --{missing[0]}=…")
        judge = make_judge(
            Path(flags.reward_model or ""),
            flags.web or "",
            Path(flags.questions or ""),
            episodes=flags.episodes,
            seed=flags.seed,
        )
    return run(flags, bc_recipe(flags, judge))


if __name__ == "__main__":
    sys.exit(main("train_bc", __doc__, BCFlags, train_bc))
