"""The transformer that everything in this project learns with and speaks through. Takes JAX and Flax with it."""

from webgpt_jax.models.activations import ActivationSharding, Unsharded
from webgpt_jax.models.cache import Cache, create_cache, decode_step, fork, prefill, resize, unstack
from webgpt_jax.models.config import ConfigError, RotaryScaling, TransformerConfig
from webgpt_jax.models.parameters import (
    Params,
    initial_parameters,
    logical_axes,
    parameter_specs,
    parameters,
)
from webgpt_jax.models.transformer import Transformer, forward, unembed

__all__ = [
    "ActivationSharding",
    "Cache",
    "ConfigError",
    "Params",
    "RotaryScaling",
    "Transformer",
    "TransformerConfig",
    "Unsharded",
    "create_cache",
    "decode_step",
    "fork",
    "forward",
    "initial_parameters",
    "logical_axes",
    "parameter_specs",
    "parameters",
    "prefill",
    "resize",
    "unembed",
    "unstack",
]
