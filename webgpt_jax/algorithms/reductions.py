"""Means over what counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def weighted_mean(values: jax.Array, weights: jax.Array) -> jax.Array:
    """The mean [] of `values` by `weights`, two arrays of one shape; 0 where the weights add up to nothing."""
    total = weights.sum()
    return (values * weights).sum() / jnp.where(total > 0, total, 1)
