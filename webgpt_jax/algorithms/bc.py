"""Behaviour cloning: the likelihood of what people did (paper, section 3.2).

Legend: B sequences, T length, V vocabulary.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from webgpt_jax.models import ActivationSharding, Params, TransformerConfig, Unsharded, forward, unembed
from webgpt_jax.training.train_step import Batch, LossFunction, Metrics


def bc_loss(config: TransformerConfig, sharding: ActivationSharding | None = None) -> LossFunction:
    """The mean cross-entropy of the tokens that count.

    The loss reads of a batch:
      tokens: [B, T] int32, the model's input; padding stands behind them.
      targets: [B, T] int32, the token that follows each.
      mask: [B, T] float32, what each target counts: 0 for what the environment wrote and for padding.
      segments: [B, T] int32, where rows hold several examples: equal within one.

    Its metrics, [] float32:
      accuracy: share of the tokens that count, weighted as they are, that are the likeliest (one of them, if equal).
      exact: share of completions of which every token is. A completion is a run of tokens that count.
      tokens: tokens that count.

    A batch in which nothing counts has loss and metrics of 0. The key is dropout's, where the config has some.
    """
    sharding = Unsharded() if sharding is None else sharding

    def loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        segments, mask = batch.get("segments"), batch["mask"]
        hidden = forward(
            config,
            params,
            batch["tokens"],
            segments=segments,
            dropout_key=key if config.dropout > 0 else None,
            sharding=sharding,
        )
        logits = unembed(config, params, hidden, sharding=sharding)  # [B, T, V]
        chosen = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
        cross_entropy = jax.nn.logsumexp(logits, axis=-1) - chosen
        # The largest is part of the log-sum-exp: it costs nothing, an argmax would be one more pass over the logits.
        likeliest = chosen >= jax.lax.stop_gradient(logits.max(axis=-1))
        return _mean(cross_entropy, mask), {
            "accuracy": _mean(likeliest, mask),
            "exact": _exact(likeliest, mask > 0, segments),
            "tokens": (mask > 0).sum().astype(jnp.float32),
        }

    return loss


def bc_weight(batch: Batch) -> jax.Array:
    """What `bc_loss` is a mean over, []: the weight of the tokens that count."""
    return jnp.asarray(batch["mask"]).sum()


def _mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    total = mask.sum()
    return jnp.where(mask > 0, values * mask, 0).sum() / jnp.where(total > 0, total, 1)


def _exact(right: jax.Array, counts: jax.Array, segments: jax.Array | None) -> jax.Array:
    """[]: of the runs of tokens that count, the share without a wrong one. Arguments are [B, T]."""
    joined = counts[:, 1:] & counts[:, :-1]  # a token and the one before it, in one run
    if segments is not None:
        joined &= segments[:, 1:] == segments[:, :-1]
    begins = counts & ~jnp.pad(joined, ((0, 0), (1, 0)))
    ends = counts & ~jnp.pad(joined, ((0, 0), (0, 1)))
    wrong = (counts & ~right).astype(jnp.int32)
    so_far = jnp.cumsum(wrong, axis=1)
    before = jax.lax.cummax(jnp.where(begins, so_far - wrong, 0), axis=1)  # errors before the run that is going on
    return (ends & (so_far == before)).sum() / jnp.maximum(ends.sum(), 1)
