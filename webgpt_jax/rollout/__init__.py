"""Models in the browser: a policy that speaks through the sampling engine. Takes JAX and Flax with it."""

from webgpt_jax.rollout.chat import ChatPrompts, TemplateFault
from webgpt_jax.rollout.model_policy import ModelPolicy, PlainPrompts, Prompts, SamplingConfig
from webgpt_jax.rollout.offer import may_stand_in_query, offer_of, short_offer_of

__all__ = [
    "ChatPrompts",
    "ModelPolicy",
    "PlainPrompts",
    "Prompts",
    "SamplingConfig",
    "TemplateFault",
    "may_stand_in_query",
    "offer_of",
    "short_offer_of",
]
