"""The paper's shapes and step sizes as literals."""

from __future__ import annotations

import pytest

from webgpt_jax.models import PRESETS, parameter_specs, preset
from webgpt_jax.models.config import ConfigError


@pytest.mark.parametrize(
    ("name", "layers", "width", "heads", "head_dim", "step_size"),
    [
        ("760m", 24, 1536, 16, 96, 2.5e-4),
        ("13b", 40, 5140, 40, 128, 1.0e-4),
        ("175b", 96, 12_288, 96, 128, 0.6e-4),
    ],
)
def test_the_papers_models(name: str, layers: int, width: int, heads: int, head_dim: int, step_size: float) -> None:
    config = preset(name)
    assert (config.num_layers, config.embed_dim, config.num_heads, config.head_dim) == (layers, width, heads, head_dim)
    assert PRESETS[name].base_step_size == step_size
    assert (config.max_length, config.vocab_size, config.padded_vocab_size) == (2048, 50_257, 50_304)
    specs = parameter_specs(config)
    assert specs["embedding"].shape == (50_304, width)
    assert specs["blocks"]["attention"]["out"].shape == (layers, heads, head_dim, width)
    assert specs["blocks"]["mlp"]["up"].shape == (layers, width, 4 * width)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid(name: str) -> None:
    PRESETS[name].config.validate()


def test_a_preset_is_changed_and_checked() -> None:
    assert preset("tiny", num_layers=5).num_layers == 5
    with pytest.raises(ConfigError, match="num_heads 4 is not a multiple of num_kv_heads 3"):
        preset("tiny", num_kv_heads=3)
    with pytest.raises(ValueError, match="no preset 'huge'; there are 760m, 13b, 175b, tiny"):
        preset("huge")
