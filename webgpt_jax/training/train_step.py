"""One update: gradients over microbatches, their norm clipped, the optimizer, the average of weights. One program for
every way of training, which differ in their loss alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from webgpt_jax.models import Params
from webgpt_jax.training.sharding import batch_sharding, check_batch, replicated
from webgpt_jax.training.train_state import TrainState

Batch: TypeAlias = Any  # arrays [B, ...] in any nesting
Metrics: TypeAlias = dict[str, jax.Array]  # [] each
LossFunction: TypeAlias = Callable[[Params, Batch, jax.Array], tuple[jax.Array, Metrics]]
Weight: TypeAlias = Callable[[Batch], jax.Array]


class StepError(ValueError):
    """Settings that no step can be made of; the message names the field and what it may be."""


@dataclass(frozen=True)
class StepConfig:
    """How an update is made of a batch."""

    microbatches: int = field(default=1, metadata={"help": "parts that a batch is computed in, one after the other"})
    max_gradient_norm: float | None = field(default=1.0, metadata={"help": "longer gradients are cut to it (GPT-3's)"})
    ema_decay: float = field(default=0.99, metadata={"help": "of the average of weights, a step (BC's and RM's)"})

    def validate(self) -> None:
        """Raises `StepError` for a setting that means nothing."""
        if self.microbatches < 1:
            raise StepError(f"microbatches must be at least 1, not {self.microbatches}")
        if self.max_gradient_norm is not None and not self.max_gradient_norm > 0:
            raise StepError(f"max_gradient_norm must be above 0, or None, not {self.max_gradient_norm}")
        if not 0 <= self.ema_decay < 1:
            raise StepError(f"ema_decay must be at least 0 and below 1, not {self.ema_decay}")


def make_train_step(
    loss_function: LossFunction,
    optimizer: optax.GradientTransformation,
    shardings: TrainState,
    config: StepConfig | None = None,
    weight: Weight | None = None,
) -> jax.stages.Wrapped:
    """The compiled update: `train_step(state, batch, key) -> (state, metrics)`.

    The state is given away: its arrays are overwritten, the caller's are gone. `key` is the run's own, the same at each
    step: the step's is `fold_in(key, state.step)`, a microbatch's that with its number, so that resuming changes
    nothing. The metrics are the loss function's, "loss" and "gradient_norm" (before it is clipped), each [] float32.

    Args:
      loss_function: `(params, batch, key) -> (loss, metrics)`, pure; each is a mean over the batch it is given.
      optimizer: of `make_optimizer`.
      shardings: of the state: `shardings_of(state)`.
      config: microbatches, clipping, averaging.
      weight: `batch -> []`, how many things the loss is a mean over (tokens that count, comparisons), so that the
        microbatches' means make up the batch's. Without it they count alike.
    """
    config = StepConfig() if config is None else config
    config.validate()
    mesh = _mesh(shardings)

    def train_step(state: TrainState, batch: Batch, key: jax.Array) -> tuple[TrainState, Metrics]:
        step_key = jax.random.fold_in(key, state.step)
        loss, metrics, gradients = _mean_gradients(
            loss_function, weight, config.microbatches, shardings, state.params, batch, step_key
        )
        norm = optax.tree.norm(gradients)
        if config.max_gradient_norm is not None:
            gradients = clip_by_norm(gradients, norm, config.max_gradient_norm)
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        average = None if state.ema_params is None else move_average(state.ema_params, params, config.ema_decay)
        return TrainState(state.step + 1, params, average, opt_state), {
            **metrics,
            "loss": loss,
            "gradient_norm": norm,
        }

    return jax.jit(
        train_step,
        donate_argnums=0,
        in_shardings=(shardings, batch_sharding(mesh), replicated(mesh)),
        out_shardings=(shardings, replicated(mesh)),
    )


def make_gradient_step(
    loss_function: LossFunction, shardings: TrainState, microbatches: int = 1, weight: Weight | None = None
) -> jax.stages.Wrapped:
    """The first half of an update, to look at: `gradient_step(params, batch, key) -> (loss, metrics, gradients)`.

    The gradients are float32, before clipping, and lie as the update finds them. Arguments as in `make_train_step`;
    `key` is the step's.
    """
    mesh = _mesh(shardings)

    def gradient_step(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics, Params]:
        return _mean_gradients(loss_function, weight, microbatches, shardings, params, batch, key)

    return jax.jit(gradient_step, in_shardings=(shardings.params, batch_sharding(mesh), replicated(mesh)))


def clip_by_norm(gradients: Params, norm: jax.Array, limit: float) -> Params:
    """Gradients of this global norm, scaled down to `limit` where it is longer."""
    clipped: Params = jax.tree.map(lambda gradient: gradient * (limit / jnp.maximum(norm, limit)), gradients)
    return clipped


def move_average(average: Params, params: Params, decay: float) -> Params:
    """The average after one more step, in its own type."""
    moved: Params = jax.tree.map(
        lambda old, param: decay * old + (1 - decay) * param.astype(old.dtype), average, params
    )
    return moved


def _mean_gradients(
    loss_function: LossFunction,
    weight: Weight | None,
    microbatches: int,
    shardings: TrainState,
    params: Params,
    batch: Batch,
    key: jax.Array,
) -> tuple[jax.Array, Metrics, Params]:
    """Loss, metrics and float32 gradients of a batch, the means of its microbatches' by weight."""
    mesh = _mesh(shardings)
    for rows in jax.tree.leaves(batch):
        check_batch(mesh, rows.shape[0], microbatches)

    def gradients_of(rows: Batch, index: jax.Array) -> tuple[jax.Array, Metrics, Params]:
        differentiate = jax.value_and_grad(loss_function, has_aux=True)
        (loss, metrics), gradients = differentiate(params, rows, jax.random.fold_in(key, index))
        gradients = jax.tree.map(lambda gradient: gradient.astype(jnp.float32), gradients)
        return loss, metrics, jax.lax.with_sharding_constraint(gradients, shardings.params)

    if microbatches == 1:
        return gradients_of(batch, jnp.zeros((), jnp.int32))

    def add(total: Params, part: tuple[Batch, jax.Array]) -> tuple[Params, tuple[jax.Array, Metrics, jax.Array]]:
        rows, index = part
        rows = jax.lax.with_sharding_constraint(rows, batch_sharding(mesh))
        loss, metrics, gradients = gradients_of(rows, index)
        share = jnp.ones(()) if weight is None else weight(rows).astype(jnp.float32)
        total = jax.tree.map(lambda total, gradient: total + _weighted(gradient, share), total, gradients)
        return total, (loss, metrics, share)

    zeros = jax.tree.map(lambda param: jnp.zeros(param.shape, jnp.float32), params)
    zeros = jax.lax.with_sharding_constraint(zeros, shardings.params)
    parts = (_split(batch, microbatches), jnp.arange(microbatches))
    total, (losses, metrics, shares) = jax.lax.scan(add, zeros, parts)
    whole = jnp.where(shares.sum() > 0, shares.sum(), 1.0)
    loss, means = jax.tree.map(lambda values: _weighted(values, shares).sum() / whole, (losses, metrics))
    return loss, means, jax.tree.map(lambda gradient: gradient / whole, total)


def _weighted(values: jax.Array, weight: jax.Array) -> jax.Array:
    """The mean of nothing may be NaN; it weighs nothing all the same."""
    return jnp.where(weight > 0, values.astype(jnp.float32) * weight, 0.0)


def _split(batch: Batch, microbatches: int) -> Batch:
    """[B, ...] -> [microbatches, B / microbatches, ...], each device's rows dealt out, so that none has to move."""

    def deal(rows: jax.Array) -> jax.Array:
        dealt = rows.reshape(rows.shape[0] // microbatches, microbatches, *rows.shape[1:])
        return jnp.moveaxis(dealt, 1, 0)

    return jax.tree.map(deal, batch)


def _mesh(shardings: TrainState) -> Mesh:
    mesh: Mesh = shardings.step.mesh  # type: ignore[attr-defined]  # a tree of shardings, typed as the one of arrays
    return mesh
