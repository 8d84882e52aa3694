"""Prompts in, completions out, fast and the same every time. Takes JAX and Flax with it."""

from webgpt_jax.sampling.engine import Engine, EngineConfig
from webgpt_jax.sampling.programs import ShardingOf, use_compilation_cache
from webgpt_jax.sampling.requests import Completion, EngineError, LogitsMask
from webgpt_jax.sampling.statistics import Statistics

__all__ = [
    "Completion",
    "Engine",
    "EngineConfig",
    "EngineError",
    "LogitsMask",
    "ShardingOf",
    "Statistics",
    "use_compilation_cache",
]
