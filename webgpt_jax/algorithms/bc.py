"""Behaviour cloning's loss (paper, section 3.2): the cross-entropy of what people wrote, given what they saw.

Pre-training is the same with weights on all of a text.

Legend: B rows, T length, V padded vocabulary.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from webgpt_jax.algorithms.reductions import weighted_mean
from webgpt_jax.models import ActivationSharding, Params, TransformerConfig, forward, unembed
from webgpt_jax.training.train_step import Batch, LossFunction, Metrics


def bc_loss(config: TransformerConfig, sharding: ActivationSharding) -> LossFunction:
    """The loss of a language model, `(params, batch, key) -> (loss, metrics)`.

    A batch holds `tokens` and `targets` [B, T] int32, the token that follows each; `mask` [B, T] float32, how much each
    target counts, 0 for what the browser wrote and for padding; and, where rows are packed, `segments` [B, T] int32:
    examples have numbers of their own, each in one piece. Without them padding must stand on the right.

    The loss is the mean cross-entropy by the mask, in nats. So is "accuracy", the share of targets that are the
    likeliest (a tie counts). "exact" is the share of the examples with targets that count, of which all are the
    likeliest. "tokens" is how many targets count. Where none does, all are 0. The key is dropout's.
    """

    def loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        hidden = forward(
            config,
            params,
            batch["tokens"],
            segments=batch.get("segments"),
            dropout_key=key if config.dropout > 0 else None,
            sharding=sharding,
        )
        logits = unembed(config, params, hidden, sharding=sharding)  # [B, T, V]
        # All T of them, and their normaliser in place of log-probabilities: no second array of this size arises.
        chosen = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]  # [B, T]
        crossentropy = jax.nn.logsumexp(logits, axis=-1) - chosen
        # The normaliser has taken this maximum; an argmax would be one more pass over the logits.
        likeliest = chosen >= jax.lax.stop_gradient(logits.max(axis=-1))

        mask, counts = batch["mask"], batch["mask"] > 0
        begins = _begins(batch.get("segments"), counts.shape[1])
        examples = _examples_with(counts, begins)
        right = examples - _examples_with(counts & ~likeliest, begins)
        return weighted_mean(crossentropy, mask), {
            "accuracy": weighted_mean(likeliest.astype(jnp.float32), mask),
            "exact": right / jnp.maximum(examples, 1),
            "tokens": jnp.sum(counts, dtype=jnp.float32),
        }

    return loss


def bc_weight(batch: Batch) -> jax.Array:
    """What `bc_loss` is a mean over: the weight [] of a batch's targets."""
    weight: jax.Array = batch["mask"].sum()
    return weight


def _begins(segments: jax.Array | None, length: int) -> jax.Array:
    """[B, T], or [1, T] where rows are one example each: where the example of each position begins."""
    steps = jnp.arange(length)[None]
    if segments is None:
        return jnp.zeros_like(steps)
    first = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))
    return jax.lax.cummax(jnp.where(first, steps, 0), axis=1)


def _examples_with(hits: jax.Array, begins: jax.Array) -> jax.Array:
    """How many examples [] have a hit [B, T]: the number of hits with none before them in their example."""
    latest = jax.lax.cummax(jnp.where(hits, jnp.arange(hits.shape[1])[None], -1), axis=1)
    before = jnp.pad(latest[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
    return jnp.sum(hits & (before < begins))
