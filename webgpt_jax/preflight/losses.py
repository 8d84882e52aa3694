"""The losses of programs that are compiled and never run: behaviour cloning's and the reward model's own, and for PPO
what has its arrays and arithmetic.

What a step needs of a chip depends on the models and on the logits, hardly on what a loss makes of them.

Legend: B sequences, T length.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from webgpt_jax.algorithms import bc_loss, reward_model_loss
from webgpt_jax.models import ActivationSharding, Params, ScalarTransformer, TransformerConfig, forward, unembed
from webgpt_jax.models.parameters import Head
from webgpt_jax.preflight.plans import Task
from webgpt_jax.training.train_step import Batch, LossFunction, Metrics

CLIP = 0.2  # PPO's, of ratios and values


def loss_for(task: Task, head: Head, config: TransformerConfig, sharding: ActivationSharding) -> LossFunction:
    """The loss of the model with that head."""
    if task == "bc":
        return bc_loss(config, sharding)
    if task == "rm":
        return reward_model_loss(config, sharding)
    return _policy_loss(config, sharding) if head == "logits" else _value_loss(config, sharding)


def _policy_loss(config: TransformerConfig, sharding: ActivationSharding) -> LossFunction:
    def loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        hidden = forward(config, params, batch["tokens"], sharding=sharding)
        logits = unembed(config, params, hidden, sharding=sharding)
        chosen = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
        logprobs = chosen - jax.nn.logsumexp(logits, axis=-1)  # [B, T]
        ratio = jnp.exp(logprobs - batch["logprobs"])
        clipped = jnp.clip(ratio, 1 - CLIP, 1 + CLIP)
        gain = jnp.minimum(ratio * batch["advantages"], clipped * batch["advantages"])
        return -_mean(gain, batch["mask"]), {}

    return loss


def _value_loss(config: TransformerConfig, sharding: ActivationSharding) -> LossFunction:
    def loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        found = ScalarTransformer(config, params=params, sharding=sharding)(batch["tokens"])  # [B, T]
        near = batch["values"] + jnp.clip(found - batch["values"], -CLIP, CLIP)
        errors = jnp.maximum(jnp.square(found - batch["returns"]), jnp.square(near - batch["returns"]))
        return _mean(errors, batch["mask"]), {}

    return loss


def _mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    return (values * mask).sum() / jnp.maximum(mask.sum(), 1)


def batch_shapes(task: Task, head: Head, batch: int, length: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """The shape and type of each array that `loss_for` reads."""
    tokens, numbers = ((batch, length), jnp.int32), ((batch, length), jnp.float32)
    if task == "bc":
        return {"tokens": tokens, "targets": tokens, "mask": numbers}
    if task == "rm":
        sides = {f"{name}_{side}": tokens for name in ("tokens", "mask") for side in ("a", "b")}
        return {**sides, "label": ((batch,), jnp.float32)}
    if head == "logits":
        return {"tokens": tokens, "targets": tokens, "mask": numbers, "logprobs": numbers, "advantages": numbers}
    return {"tokens": tokens, "mask": numbers, "values": numbers, "returns": numbers}
