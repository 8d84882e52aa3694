"""The transformer that everything in this project learns with and speaks through. Takes JAX and Flax with it."""

from webgpt_jax.models.activations import ActivationSharding, Unsharded
from webgpt_jax.models.cache import Cache, create_cache, decode_step, fork, prefill, resize, unstack
from webgpt_jax.models.config import ConfigError, RotaryScaling, TransformerConfig
from webgpt_jax.models.heads import ScalarTransformer, last_real, scalar_from
from webgpt_jax.models.layers import unembed
from webgpt_jax.models.parameters import (
    Params,
    initial_parameters,
    logical_axes,
    parameter_specs,
    parameters,
)
from webgpt_jax.models.presets import PRESETS, Preset, preset
from webgpt_jax.models.transformer import Transformer, TransformerBase, forward

__all__ = [
    "PRESETS",
    "ActivationSharding",
    "Cache",
    "ConfigError",
    "Params",
    "Preset",
    "RotaryScaling",
    "ScalarTransformer",
    "Transformer",
    "TransformerBase",
    "TransformerConfig",
    "Unsharded",
    "create_cache",
    "decode_step",
    "fork",
    "forward",
    "initial_parameters",
    "last_real",
    "logical_axes",
    "parameter_specs",
    "parameters",
    "prefill",
    "preset",
    "resize",
    "scalar_from",
    "unembed",
    "unstack",
]
