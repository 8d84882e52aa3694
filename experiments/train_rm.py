"""The reward model (paper, sections 3.2 and 7): a behaviour-cloned model learns which of two answers people prefer.

    python -m experiments.train_rm --model=runs/bc/final --data=comparisons.jsonl --workdir=runs/rm

Its unembedding is taken off, and one number at the last token put in its place. The defaults are the paper's:
minibatches of 64 comparisons (32 for 175B), a twentieth of the base step size (a sixtieth for 175B), at most 6 epochs,
the average of weights as the final model. It stops by the accuracy on held-out questions, a quarter of them.

runs/rm/final is what `load_reward_model` reads. Run again, the command goes on where it was left; exit status 75 says
that it was told to leave and can be run again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from experiments.training_flags import TrainingFlags, main
from experiments.training_run import Recipe, Trained, run
from webgpt_jax.algorithms import reward_model_loss, reward_model_weight
from webgpt_jax.datasets.batches import comparison_batches
from webgpt_jax.flags import option


@dataclass(frozen=True)
class RMFlags(TrainingFlags):
    """The flags of the reward model's training."""

    held_out: float = option(0.25, "share of the questions that are held out (5,500 of the paper's 21,500)")
    released_tokens: bool = option(False, "take the tokens released with the paper's comparisons in the text's place")


def rm_recipe(flags: RMFlags) -> Recipe:
    """The paper's recipe."""
    return Recipe(
        kind="reward_model",
        head="scalar",
        epochs=6,
        batch_sizes={None: 64, "175b": 32},
        multipliers={None: 0.05, "175b": 1 / 60},
        best_metric="validation/accuracy",
        best_mode="max",
        batches=comparison_batches,
        loss=reward_model_loss,
        weight=reward_model_weight,
        data={"released_tokens": flags.released_tokens},
    )


def train_rm(flags: RMFlags) -> Trained:
    """Trains, and leaves the final folder. Raises: see `experiments.training_run.run`."""
    return run(flags, rm_recipe(flags))


if __name__ == "__main__":
    sys.exit(main("train_rm", __doc__, RMFlags, train_rm))
