"""Losses, advantages and best-of-n: pure functions of arrays.

The names are fetched when they are first used, so that `predicted_score` and `select_best`, which are NumPy, need no
JAX. No file is named as a function is: importing it would put the module in the function's place.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webgpt_jax.algorithms.advantages import gae
    from webgpt_jax.algorithms.bc import bc_loss, bc_weight
    from webgpt_jax.algorithms.best_of_n import predicted_score, select_best
    from webgpt_jax.algorithms.reward_model import elo_loss, reward_model_loss, reward_model_weight, score

__all__ = [
    "bc_loss",
    "bc_weight",
    "elo_loss",
    "gae",
    "predicted_score",
    "reward_model_loss",
    "reward_model_weight",
    "score",
    "select_best",
]

_HOMES = {
    "bc_loss": "bc",
    "bc_weight": "bc",
    "elo_loss": "reward_model",
    "gae": "advantages",
    "predicted_score": "best_of_n",
    "reward_model_loss": "reward_model",
    "reward_model_weight": "reward_model",
    "score": "reward_model",
    "select_best": "best_of_n",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
