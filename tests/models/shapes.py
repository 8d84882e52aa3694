"""Tiny models for the tests: a base and one change of it for each option, and parameters that exercise every one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from webgpt_jax.models import Params, RotaryScaling, TransformerConfig, parameter_specs
from webgpt_jax.models.parameters import Head, ParameterSpec, map_tree

# GPT-2's kind. `mlp_dim`, heads and width share no number, so that swapped axes cannot pass.
LEARNED = TransformerConfig(
    vocab_size=29, num_layers=2, embed_dim=20, num_heads=4, head_dim=6, mlp_dim=28, max_length=24, init_std=0.2
)
# Llama's kind.
ROTARY = replace(
    LEARNED,
    num_kv_heads=2,
    positions="rotary",
    norm="rmsnorm",
    norm_eps=1e-6,
    activation="silu",
    gated_mlp=True,
    qkv_bias=False,
    out_bias=False,
    mlp_bias=False,
    tied_embeddings=False,
)

OPTIONS: dict[str, TransformerConfig] = {
    "gpt2": LEARNED,
    "llama": ROTARY,
    "opt": replace(LEARNED, position_offset=2, activation="relu"),
    "neox": replace(
        LEARNED,
        positions="rotary",
        rotary_fraction=0.34,
        activation="gelu",
        parallel_residual=True,
        tied_embeddings=False,
    ),
    "gptj": replace(
        LEARNED,
        positions="rotary",
        rotary_style="interleaved",
        rotary_fraction=0.67,
        parallel_residual=True,
        shared_norm=True,
        qkv_bias=False,
        out_bias=False,
        tied_embeddings=False,
        unembedding_bias=True,
    ),
    "mistral": replace(ROTARY, sliding_window=3),
    "qwen2": replace(ROTARY, qkv_bias=True, tied_embeddings=True),
    "qwen3": replace(ROTARY, qk_norm=True),
    "one kv head": replace(ROTARY, num_kv_heads=1),
    "as many kv heads": replace(ROTARY, num_kv_heads=None),
    "padded vocabulary": replace(LEARNED, vocab_multiple=8),
    "embedding scale": replace(ROTARY, embedding_scale=20**0.5),
    "norm without bias": replace(LEARNED, norm_bias=False),
    "gated with biases": replace(LEARNED, gated_mlp=True, activation="gelu"),
    "tied with bias": replace(LEARNED, unembedding_bias=True, vocab_multiple=4),
    "theta": replace(ROTARY, rotary_theta=100.0),
    "linear": replace(ROTARY, rotary_scaling=RotaryScaling("linear", factor=4.0)),
    "llama3": replace(
        ROTARY,
        head_dim=16,
        rotary_scaling=RotaryScaling(
            "llama3", factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_length=64
        ),
    ),
}


def random_parameters(config: TransformerConfig, seed: int = 0, head: Head = "logits") -> Params:
    """Parameters with noise on all of them: biases that are not 0 and scales that are not 1."""
    generator = np.random.default_rng(seed)

    def noisy(spec: ParameterSpec) -> Any:
        noise = np.hypot(spec.std, 0.2) * generator.standard_normal(spec.shape)
        return (spec.mean + noise).astype(np.float32)

    return map_tree(noisy, parameter_specs(config, head))
