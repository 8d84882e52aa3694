"""What is optimised and how answers are chosen: losses, advantages and best-of-n, as pure functions.

The names are fetched when they are first used, so that best-of-n needs no JAX. No module here is called as a function
in it that is fetched so: importing the module would put it in the function's place.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from webgpt_jax.algorithms.best_of_n import Sample, Selection, best_of_n, predicted_curve, predicted_score, select_best

if TYPE_CHECKING:
    from webgpt_jax.algorithms.advantages import gae
    from webgpt_jax.algorithms.bc import bc_loss, bc_weight
    from webgpt_jax.algorithms.reward_model import elo_loss, reward_model_loss, reward_model_weight, score

__all__ = [
    "Sample",
    "Selection",
    "bc_loss",
    "bc_weight",
    "best_of_n",
    "elo_loss",
    "gae",
    "predicted_curve",
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
    "reward_model_loss": "reward_model",
    "reward_model_weight": "reward_model",
    "score": "reward_model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
