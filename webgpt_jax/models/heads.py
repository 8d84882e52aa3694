"""Reward and value models: the transformer with its unembedding removed and one number a position in its place.

The paper's section 3.2: "we take the BC model with the final unembedding layer removed" and train it to give a scalar
reward. A value model for PPO is the same with its numbers read at every token.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from webgpt_jax.models.parameters import Head, initial_parameters, parameters
from webgpt_jax.models.transformer import Transformer, TransformerBase


class ScalarTransformer(TransformerBase):
    """`model(tokens) -> scores [B, T]`, float32. Built as a `Transformer` is, or from one by `scalar_from`."""

    head: Head = "scalar"

    def __call__(
        self,
        tokens: jax.Array,
        *,
        mask: jax.Array | None = None,
        segments: jax.Array | None = None,
        positions: jax.Array | None = None,
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        """A score for each position; arguments as of `Transformer`. Where padding stands, scores mean nothing."""
        hidden = self.hidden(tokens, mask=mask, segments=segments, positions=positions, dropout_key=dropout_key)
        params = parameters(self)["scalar_head"]
        kernel = params["kernel"].astype(jnp.float32)
        scores: jax.Array = hidden.astype(jnp.float32) @ kernel + params["bias"].astype(jnp.float32)
        return scores


def scalar_from(model: Transformer, rngs: nnx.Rngs) -> ScalarTransformer:
    """A model with the weights of `model`, shared and not copied, and a new head, drawn with variance 1 / (D + 1).

    A logits model's own unembedding is left behind; a tied one stays, as the embedding.
    """
    head = initial_parameters(model.config, rngs.params(), "scalar")["scalar_head"]
    kept = {name: arrays for name, arrays in parameters(model).items() if not name.startswith("unembedding")}
    return ScalarTransformer(model.config, params={**kept, "scalar_head": head}, sharding=model.sharding)


def last_real(scores: jax.Array, mask: jax.Array) -> jax.Array:
    """The score [B] at each row's last real token, wherever its padding stands. A row of padding alone gets 0.

    Args:
      scores: [B, T].
      mask: [B, T], 1 or True for real tokens.
    """
    real = mask.astype(bool)
    last = mask.shape[1] - 1 - jnp.argmax(real[:, ::-1], axis=1)
    found = jnp.take_along_axis(scores, last[:, None], axis=1)[:, 0]
    return jnp.where(jnp.any(real, axis=1), found, 0)
