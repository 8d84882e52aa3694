"""The reward model's loss and its scores (paper, section 3.2): the difference of two scores is the logit of the
probability that people prefer the one to the other, so that a score is an Elo score but for its scale.

Legend: B comparisons or texts, T length.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from webgpt_jax.algorithms.reductions import weighted_mean
from webgpt_jax.models import ActivationSharding, Params, ScalarTransformer, TransformerConfig, last_real, parameters
from webgpt_jax.training.train_step import Batch, LossFunction, Metrics


def elo_loss(
    score_a: ArrayLike, score_b: ArrayLike, label: ArrayLike, counts: ArrayLike | None = None
) -> tuple[jax.Array, Metrics]:
    """The mean cross-entropy [] of preferences, in nats; a tie's is the mean of those of either preference.

    "accuracy" is the share of comparisons that the scores have right; a tie against a difference counts half.
    "margin" is the mean distance of the two scores, "score" and "score_std" are of both sides' scores together,
    "comparisons" is how many there are. Where there is none, all are 0.

    Args:
      score_a, score_b: [B] each, or [] each.
      label: as the scores, or one for all: 1 where A is preferred, 0.5 for a tie, 0 where B is. Any type; what is
        between is a probability.
      counts: as the scores: 1 for comparisons, 0 for rows that are none. Default: all are.

    Raises:
      ValueError: the shapes are not one.
    """
    score_a, score_b, label = (jnp.asarray(array, jnp.float32) for array in (score_a, score_b, label))
    label = jnp.broadcast_to(label, score_a.shape) if label.ndim == 0 else label
    counts = jnp.ones_like(score_a) if counts is None else jnp.asarray(counts, jnp.float32)
    if not score_a.shape == score_b.shape == label.shape == counts.shape:
        shapes = ", ".join(str(array.shape) for array in (score_a, score_b, label, counts))
        raise ValueError(f"score_a, score_b, label and counts must have one shape, not {shapes}")
    difference = score_a - score_b
    # log σ of both signs: the difference of a softplus and a product would lose the small losses of sure preferences.
    crossentropy = -label * jax.nn.log_sigmoid(difference) - (1 - label) * jax.nn.log_sigmoid(-difference)

    wrong = jnp.abs(jnp.sign(label - 0.5) - jnp.sign(difference)) / 2
    mean = weighted_mean((score_a + score_b) / 2, counts)
    variance = weighted_mean((jnp.square(score_a - mean) + jnp.square(score_b - mean)) / 2, counts)
    return weighted_mean(crossentropy, counts), {
        "accuracy": weighted_mean(1 - wrong, counts),
        "margin": weighted_mean(jnp.abs(difference), counts),
        "score": mean,
        "score_std": jnp.sqrt(variance),
        "comparisons": counts.sum(),
    }


def reward_model_loss(config: TransformerConfig, sharding: ActivationSharding) -> LossFunction:
    """The loss of a scalar model, `(params, batch, key) -> (loss, metrics)`; both are `elo_loss`'s.

    A batch holds `tokens_a` and `tokens_b` [B, T] int32; `mask_a` and `mask_b` [B, T], 1 for real tokens, 0 for padding
    on either side; `label` [B] as in `elo_loss`. Rows with a side of padding alone do not count. The key is dropout's.
    """

    def loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        # A row's two sides lie beside each other: on a mesh none has to move.
        tokens, mask = (
            jnp.stack([batch[f"{name}_a"], batch[f"{name}_b"]], axis=1).reshape(-1, batch[f"{name}_a"].shape[1])
            for name in ("tokens", "mask")
        )  # [2B, T]
        scores = _scores(config, params, tokens, mask, key if config.dropout > 0 else None, sharding).reshape(-1, 2)
        return elo_loss(scores[:, 0], scores[:, 1], batch["label"], _counts(batch))

    return loss


def reward_model_weight(batch: Batch) -> jax.Array:
    """What `reward_model_loss` is a mean over: the number [] of comparisons, rows of padding left out."""
    return _counts(batch).sum()


def score(model: ScalarTransformer, tokens: ArrayLike, mask: ArrayLike) -> jax.Array:
    """The rewards [B], float32, of whole texts. Compiled once for a model's config and each shape of tokens.

    A row's reward depends on its real tokens alone: not on the side, amount or content of its padding, nor on the
    other rows.

    Args:
      model: a reward model, of `load_reward_model` say.
      tokens: [B, T] int, of the vocabulary, padding included.
      mask: [B, T], 1 or True for real tokens. A row without any gets 0.
    """
    rewards: jax.Array = _scores(
        model.config, parameters(model), jnp.asarray(tokens), jnp.asarray(mask), None, model.sharding
    )
    return rewards


@functools.partial(jax.jit, static_argnames=("config", "sharding"))
def _scores(
    config: TransformerConfig,
    params: Params,
    tokens: jax.Array,
    mask: jax.Array,
    dropout_key: jax.Array | None,
    sharding: ActivationSharding,
) -> jax.Array:
    """[B] at the last real tokens of [B, T]."""
    # Padding goes to the right, where causal attention needs no mask and its fused kernels are at their fastest.
    order = jnp.argsort(~mask.astype(bool), axis=1, stable=True)
    tokens, mask = (jnp.take_along_axis(array, order, axis=1) for array in (tokens, mask))
    model = ScalarTransformer(config, params=params, sharding=sharding)
    return last_real(model(tokens, dropout_key=dropout_key), mask)


def _counts(batch: Batch) -> jax.Array:
    """[B], 1 for comparisons, 0 for rows that only fill a batch."""
    sides = [(batch[f"mask_{side}"] > 0).any(axis=1) for side in "ab"]
    counts: jax.Array = (sides[0] & sides[1]).astype(jnp.float32)
    return counts
