"""The transformer that everything in this project learns with and speaks through. Takes JAX and Flax with it."""

from webgpt_jax.models.activations import ActivationSharding, Unsharded
from webgpt_jax.models.cache import Cache, create_cache, decode_step, fork, prefill, resize, unstack
from webgpt_jax.models.config import ConfigError, RotaryScaling, TransformerConfig
from webgpt_jax.models.export import save_pretrained
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
from webgpt_jax.models.pretrained import load_pretrained, load_reward_model, smollm2_path
from webgpt_jax.models.settings import FolderSettings, read_settings, write_settings
from webgpt_jax.models.tensors import PretrainedError
from webgpt_jax.models.tokenizer import Tokenizer, gpt2_tokenizer
from webgpt_jax.models.transformer import Transformer, TransformerBase, forward

__all__ = [
    "PRESETS",
    "ActivationSharding",
    "Cache",
    "ConfigError",
    "FolderSettings",
    "Params",
    "Preset",
    "PretrainedError",
    "RotaryScaling",
    "ScalarTransformer",
    "Tokenizer",
    "Transformer",
    "TransformerBase",
    "TransformerConfig",
    "Unsharded",
    "create_cache",
    "decode_step",
    "fork",
    "forward",
    "gpt2_tokenizer",
    "initial_parameters",
    "last_real",
    "load_pretrained",
    "load_reward_model",
    "logical_axes",
    "parameter_specs",
    "parameters",
    "prefill",
    "preset",
    "read_settings",
    "resize",
    "save_pretrained",
    "scalar_from",
    "smollm2_path",
    "unembed",
    "unstack",
    "write_settings",
]
