"""Prompts in, completions out, fast and the same every time. Takes JAX and Flax with it."""

from webgpt_jax.sampling.engine import Engine, EngineConfig
from webgpt_jax.sampling.programs import ShardingOf, use_compilation_cache
from webgpt_jax.sampling.requests import Completion, EngineError, LogitsMask
from webgpt_jax.sampling.rules import CommandMask, CommandRules, Offer
from webgpt_jax.sampling.statistics import Statistics
from webgpt_jax.sampling.vocabulary import Vocabulary, vocabulary_of

__all__ = [
    "CommandMask",
    "CommandRules",
    "Completion",
    "Engine",
    "EngineConfig",
    "EngineError",
    "LogitsMask",
    "Offer",
    "ShardingOf",
    "Statistics",
    "Vocabulary",
    "use_compilation_cache",
    "vocabulary_of",
]
