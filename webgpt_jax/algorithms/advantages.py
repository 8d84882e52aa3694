"""Generalized advantage estimation over tokens (Schulman et al., 2015), as the paper has it (section 3.2, PPO).

Our reading of the paper: one recursion over an environment's tokens, in which neither λ nor γ acts between two tokens
of a completion; both do from a completion to the next.

Legend: B environments, T tokens.
"""

from __future__ import annotations

from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

_Arrays: TypeAlias = tuple[jax.Array, ...]


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    timestep_ids: ArrayLike,
    episode_ids: ArrayLike,
    mask: ArrayLike,
    bootstrap: ArrayLike,
    gamma: ArrayLike,
    lam: ArrayLike,
) -> tuple[jax.Array, jax.Array]:
    """Advantages and returns, [B, T] float32 each, 0 where the mask is.

    For a token t and the next one, n, that counts in its row:
      of one timestep:     A_t = r_t + V_n - V_t + A_n
      of one episode:      A_t = r_t + γ V_n - V_t + γ λ A_n
      of another episode:  A_t = r_t - V_t
      and the last token:  A_t = r_t + γ bootstrap - V_t
    A token's return is A_t + V_t.

    Args:
      rewards, values: [B, T]; a row is one environment's stream of action tokens, in order.
      timestep_ids: [B, T] int: equal for the tokens of a completion, different for neighbouring completions.
      episode_ids: [B, T] int: equal for the tokens of an episode, different for neighbouring episodes.
      mask: [B, T], 1 or True for tokens that count; the others are passed over, whatever stands there.
      bootstrap: [B], the value of the state after the last token; 0 if its episode ended with it.
      gamma: [], the discount γ between timesteps.
      lam: [], λ between timesteps.

    Raises:
      ValueError: the shapes do not fit.
    """
    tokens = (
        jnp.asarray(rewards, jnp.float32),
        jnp.asarray(values, jnp.float32),
        jnp.asarray(timestep_ids),
        jnp.asarray(episode_ids),
        jnp.asarray(mask).astype(bool),
    )
    bootstrap = jnp.asarray(bootstrap, jnp.float32)
    shapes = {array.shape for array in tokens}
    if len(shapes) > 1 or tokens[0].ndim != 2 or bootstrap.shape != tokens[0].shape[:1]:
        raise ValueError(f"gae takes arrays [B, T] and bootstrap [B], not {sorted(shapes)} and {bootstrap.shape}")
    advantages: jax.Array = _advantages(tokens, bootstrap, gamma, lam)
    return advantages, jnp.where(tokens[-1], advantages + tokens[1], 0.0)


@jax.jit
def _advantages(tokens: _Arrays, bootstrap: jax.Array, gamma: jax.Array, lam: jax.Array) -> jax.Array:
    def step(following: _Arrays, token: _Arrays) -> tuple[_Arrays, jax.Array]:
        # Of the next token that counts, [B] each, and whether there is one.
        next_value, next_advantage, next_timestep, next_episode, any_next = following
        reward, value, timestep, episode, counts = token
        same_episode = ~any_next | (episode == next_episode)
        same_timestep = any_next & same_episode & (timestep == next_timestep)
        discount, decay = jnp.where(same_timestep, 1.0, gamma), jnp.where(same_timestep, 1.0, lam)
        future = jnp.where(same_episode, discount * (next_value + decay * next_advantage), 0.0)
        advantage = reward + future - value
        found = (value, advantage, timestep, episode, jnp.ones_like(counts))
        kept = tuple(jnp.where(counts, new, old) for new, old in zip(found, following, strict=True))
        return kept, jnp.where(counts, advantage, 0.0)

    ids = (jnp.zeros_like(bootstrap, array.dtype) for array in tokens[2:4])
    none: _Arrays = (bootstrap, jnp.zeros_like(bootstrap), *ids, jnp.zeros_like(bootstrap, bool))
    by_time = tuple(jnp.moveaxis(array, 1, 0) for array in tokens)
    _, advantages = jax.lax.scan(step, none, by_time, reverse=True)
    return jnp.moveaxis(advantages, 0, 1)
