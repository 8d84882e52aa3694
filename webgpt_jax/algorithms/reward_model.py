"""The reward model: which of two answers people prefer, as a difference of scores (paper, section 3.2 and appendix E).

A score is an Elo score in natural units: the difference of two is the logit of the preference. A reward model begins as
the behaviour-cloned model with its unembedding removed: `webgpt_jax.models.scalar_from`.

Legend: B comparisons or inputs, T length.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from webgpt_jax.models import ActivationSharding, Params, ScalarTransformer, TransformerConfig, Unsharded, last_real
from webgpt_jax.training.train_step import Batch, LossFunction, Metrics


def elo_loss(
    score_a: ArrayLike, score_b: ArrayLike, label: ArrayLike, mask: ArrayLike | None = None
) -> tuple[jax.Array, Metrics]:
    """The mean cross-entropy of the preference, sigmoid(score_a - score_b), and what there is to say of it.

    Args:
      score_a, score_b: [B], of any type; reckoned with in float32.
      label: [B], 1 where A is better, 0 where B is, 0.5 for a tie: the mean of the two losses.
      mask: [B], 0 for comparisons that do not count. None: all do.

    Returns:
      [] float32, and metrics, [] float32:
        accuracy: the side with the higher score is the better one; a tie against a difference counts half.
        margin: mean distance between the two scores.
        score, score_std: mean and standard deviation of the scores of all sides.
        comparisons: how many count.
      All are 0 where no comparison counts.
    """
    a, b, target = (jnp.asarray(array, jnp.float32) for array in (score_a, score_b, label))
    counts = jnp.ones_like(target) if mask is None else jnp.asarray(mask, jnp.float32)
    count = counts.sum()

    def mean(values: jax.Array) -> jax.Array:
        return jnp.where(counts > 0, values * counts, 0).sum() / jnp.where(count > 0, count, 1)

    difference = a - b
    loss = -target * jax.nn.log_sigmoid(difference) - (1 - target) * jax.nn.log_sigmoid(-difference)
    centre = mean((a + b) / 2)
    return mean(loss), {
        "accuracy": mean(1 - jnp.abs(jnp.sign(difference) - jnp.sign(target - 0.5)) / 2),
        "margin": mean(jnp.abs(difference)),
        "score": centre,
        "score_std": jnp.sqrt(mean((jnp.square(a - centre) + jnp.square(b - centre)) / 2)),
        "comparisons": count,
    }


def reward_model_loss(config: TransformerConfig, sharding: ActivationSharding | None = None) -> LossFunction:
    """`elo_loss` of a `ScalarTransformer` of that config, which reads both sides in one pass.

    The loss reads of a batch:
      tokens_a, tokens_b: [B, T] int32, each side's answering prompt, answer and end token.
      mask_a, mask_b: [B, T], 1 for these, 0 for padding, which may stand on either side.
      label: [B] float32, as of `elo_loss`.

    Rows without a token on one of the sides do not count. The key is dropout's, where the config has some.
    """
    sharding = Unsharded() if sharding is None else sharding

    def loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        # The sides of a comparison next to each other: split over devices, no row has to move.
        tokens, mask = (
            jnp.stack([batch[f"{name}_a"], batch[f"{name}_b"]], axis=1).reshape(-1, batch["tokens_a"].shape[1])
            for name in ("tokens", "mask")
        )  # [2B, T]
        model = ScalarTransformer(config, params=params, sharding=sharding)
        scores = model(tokens, mask=mask, dropout_key=key if config.dropout > 0 else None)
        sides = last_real(scores, mask).reshape(-1, 2)
        return elo_loss(sides[:, 0], sides[:, 1], batch["label"], _counts(batch))

    return loss


def reward_model_weight(batch: Batch) -> jax.Array:
    """What `reward_model_loss` is a mean over, []: the comparisons that count."""
    return _counts(batch).sum()


def _counts(batch: Batch) -> jax.Array:
    """[B] float32."""
    real = [jnp.any(jnp.asarray(batch[f"mask_{side}"]) > 0, axis=1) for side in ("a", "b")]
    return (real[0] & real[1]).astype(jnp.float32)


@functools.partial(jax.jit, static_argnames=("config", "sharding"))
def score(
    config: TransformerConfig,
    params: Params,
    tokens: jax.Array,
    mask: jax.Array,
    *,
    sharding: ActivationSharding | None = None,
) -> jax.Array:
    """The scores [B] float32 of whole inputs, each read at its last real token. Compiled once for a shape.

    A score does not depend on the input's padding, on either side, nor on what else is in the batch, but for rounding.

    Args:
      config: without dropout or with: none is applied.
      params: of a `ScalarTransformer`.
      tokens: [B, T] int32, answering prompts with their answers and end tokens.
      mask: [B, T], 1 or True for these, 0 for padding. A row of padding alone gets 0.
      sharding: where activations lie. None: on one device.
    """
    model = ScalarTransformer(config, params=params, sharding=Unsharded() if sharding is None else sharding)
    return last_real(model(tokens, mask=mask), mask)
