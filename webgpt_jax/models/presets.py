"""Models by name: the paper's three GPT-3 shapes with their step sizes, and small ones for tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from webgpt_jax.models.config import TransformerConfig


@dataclass(frozen=True)
class Preset:
    """A model, and the step size that those of its trainings are fractions of (the paper's hyperparameters)."""

    config: TransformerConfig
    base_step_size: float  # Adam's; BC uses 0.1 of it, the reward model 0.05, PPO 0.004


def _gpt3(num_layers: int, embed_dim: int, num_heads: int, head_dim: int) -> TransformerConfig:
    """GPT-3 (Brown et al., arXiv:2005.14165, table 2.1) with its vocabulary padded to shard: 50,257 -> 50,304."""
    return TransformerConfig(
        vocab_size=50_257,
        vocab_multiple=128,
        num_layers=num_layers,
        embed_dim=embed_dim,
        num_heads=num_heads,
        head_dim=head_dim,
        mlp_dim=4 * embed_dim,
        max_length=2048,
    )


_SMOLLM2_135M = TransformerConfig(
    vocab_size=49_152,
    num_layers=30,
    embed_dim=576,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    mlp_dim=1536,
    max_length=8192,
    positions="rotary",
    rotary_theta=100_000.0,
    norm="rmsnorm",
    activation="silu",
    gated_mlp=True,
    qkv_bias=False,
    out_bias=False,
    mlp_bias=False,
)


def _tinyweb(num_layers: int, embed_dim: int, num_heads: int, mlp_dim: int) -> TransformerConfig:
    """The small models of TinyWeb, in the shape of Qwen 3: they have to learn to look things up from little text."""
    return TransformerConfig(
        vocab_size=1152,
        num_layers=num_layers,
        embed_dim=embed_dim,
        num_heads=num_heads,
        head_dim=embed_dim // num_heads,
        mlp_dim=mlp_dim,
        max_length=384,
        positions="rotary",
        norm="rmsnorm",
        norm_eps=1e-6,
        activation="silu",
        gated_mlp=True,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        qk_norm=True,
        init_std=0.08,
        scan_layers=False,
    )


PRESETS = MappingProxyType(
    {
        "760m": Preset(_gpt3(24, 1536, 16, 96), 2.5e-4),
        "13b": Preset(_gpt3(40, 5140, 40, 128), 1.0e-4),
        "175b": Preset(_gpt3(96, 12_288, 96, 128), 0.6e-4),
        "tinyweb-0.3m": Preset(_tinyweb(4, 64, 4, 176), 5e-3),
        "tinyweb-1m": Preset(_tinyweb(6, 112, 4, 288), 3e-3),
        "tinyweb-3m": Preset(_tinyweb(6, 192, 4, 512), 2e-3),
        "tiny": Preset(_gpt3(2, 64, 4, 16), 1e-3),
        "10m": Preset(_gpt3(6, 192, 6, 32), 1e-3),  # two thirds of it the embedding
        "smollm2-135m": Preset(_SMOLLM2_135M, 6e-4),
    }
)


def preset(name: str, **changes: Any) -> TransformerConfig:
    """The config of that name with some fields changed, validated. `ValueError` names the presets there are."""
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    config = replace(PRESETS[name].config, **changes)
    config.validate()
    return config
