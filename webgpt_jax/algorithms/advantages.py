"""Generalised advantage estimation over the tokens of a stream of episodes (paper, section 3.2 and appendix E).

A timestep is one completion. Within it there is neither bootstrapping nor discounting: as our reading of the paper has
it, one recursion runs over all tokens whose gamma and lambda are 1 from a token to the next of the same timestep, and
the given ones from a timestep to the next.

Legend: B environments, T tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    timestep_ids: ArrayLike,
    episode_ids: ArrayLike,
    mask: ArrayLike,
    bootstrap: ArrayLike,
    gamma: float,
    lam: float,
) -> tuple[jax.Array, jax.Array]:
    """Advantages and returns, [B, T] float32 each; 0 where `mask` is 0.

    Args:
      rewards: [B, T], given for each token. A row is one environment's stream of action tokens, in order.
      values: [B, T], the value before each token.
      timestep_ids: [B, T] int, equal for neighbours of one timestep.
      episode_ids: [B, T] int, equal for neighbours of one episode. Nothing crosses from one to the next: an episode
        that is followed by another in its row has ended.
      mask: [B, T], 0 for what is no token of an action, wherever it stands: it is passed over.
      bootstrap: [B], the value after the row's last token; 0 if its episode ended with it.
      gamma: discount from one timestep to the next.
      lam: GAE's lambda, likewise.

    Returns:
      (advantages, returns), returns being advantages + values.
    """
    return _gae(
        jnp.asarray(rewards, jnp.float32),
        jnp.asarray(values, jnp.float32),
        jnp.asarray(timestep_ids),
        jnp.asarray(episode_ids),
        jnp.asarray(mask) > 0,
        jnp.asarray(bootstrap, jnp.float32),
        jnp.asarray(gamma, jnp.float32),
        jnp.asarray(lam, jnp.float32),
    )


@jax.jit
def _gae(
    rewards: jax.Array,
    values: jax.Array,
    timestep_ids: jax.Array,
    episode_ids: jax.Array,
    mask: jax.Array,
    bootstrap: jax.Array,
    gamma: jax.Array,
    lam: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    def step(later: tuple[jax.Array, ...], token: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], jax.Array]:
        """A token of each row [B], given the next one that counts."""
        next_value, next_advantage, next_timestep, next_episode, is_last = later
        reward, value, timestep, episode, counts = token
        goes_on = is_last | (episode == next_episode)
        inside = ~is_last & goes_on & (timestep == next_timestep)
        discount = jnp.where(inside, 1, gamma)
        decay = jnp.where(inside, 1, lam)
        # delta + gamma lambda next_advantage, with delta = reward + gamma next_value - value
        advantage = reward - value + jnp.where(goes_on, discount * (next_value + decay * next_advantage), 0)
        now = (value, advantage, timestep, episode, jnp.zeros_like(is_last))
        kept = tuple(jnp.where(counts, new, old) for new, old in zip(now, later, strict=True))
        return kept, jnp.where(counts, advantage, 0)

    nothing = jnp.zeros_like(bootstrap)
    after = (bootstrap, nothing, timestep_ids[:, -1], episode_ids[:, -1], jnp.ones_like(bootstrap, bool))
    tokens = tuple(array.T for array in (rewards, values, timestep_ids, episode_ids, mask))
    _, advantages = jax.lax.scan(step, after, tokens, reverse=True)
    advantages = advantages.T
    return advantages, jnp.where(mask, advantages + values, 0)
