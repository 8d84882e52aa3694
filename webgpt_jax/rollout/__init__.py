"""Models in the browser: a policy that speaks through the sampling engine. Takes JAX and Flax with it."""

from webgpt_jax.rollout.chat import ChatPrompts, TemplateFault
from webgpt_jax.rollout.model_policy import ModelPolicy, PlainPrompts, Prompts, SamplingConfig
from webgpt_jax.rollout.offer import may_stand_in_query, offer_of, short_offer_of
from webgpt_jax.rollout.player import Player, Task, open_player
from webgpt_jax.rollout.scorer import Scorer

__all__ = [
    "ChatPrompts",
    "ModelPolicy",
    "PlainPrompts",
    "Player",
    "Prompts",
    "SamplingConfig",
    "Scorer",
    "Task",
    "TemplateFault",
    "may_stand_in_query",
    "offer_of",
    "open_player",
    "short_offer_of",
]
