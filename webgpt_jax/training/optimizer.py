"""Adam with the paper's settings, and the schedules of its step size.

The paper's appendix on hyperparameters gives a base step size for each model size (2.5e-4, 1.0e-4, 0.6e-4 for 760M,
13B, 175B) and a factor of it for each way of training (BC 0.1, RM 0.05 or 1/60, PPO 0.004). It names no warm-up,
schedule or weight decay: they are options here, off by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import optax

from webgpt_jax.models import Params

Schedule = Literal["constant", "linear", "cosine"]


class OptimizerError(ValueError):
    """Settings that no optimizer can be built from; the message names the field and what it may be."""


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam's settings. The step size is `base_step_size * multiplier` times the factors of warm-up and schedule."""

    base_step_size: float = field(default=2.5e-4, metadata={"help": "of the model's size: 2.5e-4 for the paper's 760M"})
    multiplier: float = field(default=1.0, metadata={"help": "of the way of training: 0.1 for the paper's BC"})
    beta1: float = field(default=0.9, metadata={"help": "decay of the mean of gradients (GPT-3's)"})
    beta2: float = field(default=0.95, metadata={"help": "decay of the mean of squared gradients (GPT-3's)"})
    epsilon: float = field(default=1e-8, metadata={"help": "added to the root of squared gradients (GPT-3's)"})
    weight_decay: float = field(default=0.0, metadata={"help": "of matrices, as a factor of the step size (AdamW)"})
    warmup_steps: int = field(default=0, metadata={"help": "updates over which the step size rises from 0"})
    schedule: Schedule = field(default="constant", metadata={"help": "after the warm-up: constant, linear or cosine"})
    total_steps: int | None = field(default=None, metadata={"help": "linear, cosine: updates until the end value"})
    end_factor: float = field(default=0.0, metadata={"help": "linear, cosine: the end value over the peak"})

    def validate(self) -> None:
        """Raises `OptimizerError` for settings that contradict each other or mean nothing."""
        for name in ("base_step_size", "multiplier", "epsilon"):
            if not getattr(self, name) > 0:
                raise OptimizerError(f"{name} must be above 0, not {getattr(self, name)}")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise OptimizerError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        for name in ("weight_decay", "warmup_steps"):
            if not getattr(self, name) >= 0:
                raise OptimizerError(f"{name} must not be negative: {getattr(self, name)}")
        if not 0 <= self.end_factor <= 1:
            raise OptimizerError(f"end_factor must be from 0 to 1, not {self.end_factor}")
        if self.schedule not in get_args(Schedule):
            raise OptimizerError(f"schedule {self.schedule!r} is none of {', '.join(get_args(Schedule))}")
        if self.schedule == "constant":
            return
        if self.total_steps is None or self.total_steps <= self.warmup_steps:
            raise OptimizerError(
                f"schedule {self.schedule!r} needs total_steps above warmup_steps {self.warmup_steps}, "
                f"not {self.total_steps}"
            )


def step_size(config: OptimizerConfig, step: jax.Array) -> jax.Array:
    """The step size of the update that follows `step` updates, both []: the peak at `warmup_steps` - 1 and after."""
    peak = config.base_step_size * config.multiplier
    factor = jnp.minimum(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else jnp.ones(())
    if config.schedule != "constant":
        assert config.total_steps is not None  # `validate` saw to it
        done = (step - config.warmup_steps) / (config.total_steps - config.warmup_steps)
        done = jnp.clip(done, 0.0, 1.0)
        left = 1 - done if config.schedule == "linear" else (1 + jnp.cos(jnp.pi * done)) / 2
        factor = factor * (config.end_factor + (1 - config.end_factor) * left)
    return jnp.asarray(peak * factor, jnp.float32)


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """Adam by these settings. Moments and updates are float32 whatever the parameters are.

    Weight decay leaves out biases and the scales of norms.

    Raises:
      OptimizerError: settings that mean nothing.
    """
    config.validate()
    parts = [optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.epsilon)]
    if config.weight_decay:
        parts.append(optax.add_decayed_weights(config.weight_decay, mask=_decays))
    parts.append(optax.scale_by_learning_rate(lambda step: step_size(config, step)))
    return _in_float32(optax.chain(*parts))


def _decays(params: Params) -> Params:
    """Which parameters decay, nested as they are: all but biases and the scales of norms."""

    def decays(path: tuple[Any, ...], _: jax.Array) -> bool:
        return not jax.tree_util.keystr(path[-1:], simple=True).endswith(("bias", "scale", "norm"))

    return jax.tree_util.tree_map_with_path(decays, params)  # type: ignore[no-any-return]


def _in_float32(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """Optax keeps the second moment in the parameters' type, where bfloat16 loses small changes."""

    def init(params: optax.Params) -> optax.OptState:
        return inner.init(_float32(params))

    def update(
        updates: optax.Updates, state: optax.OptState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, optax.OptState]:
        wide = None if params is None else _float32(params)
        changed: tuple[optax.Updates, optax.OptState] = inner.update(_float32(updates), state, wide)
        return changed

    return optax.GradientTransformation(init, update)


def _float32(tree: optax.Params) -> optax.Params:
    return jax.tree.map(lambda array: array.astype(jnp.float32), tree)
