"""Settings that contradict each other are refused, naming the field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.models.shapes import LEARNED, OPTIONS, ROTARY
from webgpt_jax.models import ConfigError, RotaryScaling, TransformerConfig


@pytest.mark.parametrize("config", OPTIONS.values(), ids=OPTIONS)
def test_what_the_tests_use_is_valid(config: TransformerConfig) -> None:
    config.validate()


def test_derived_sizes() -> None:
    assert LEARNED.kv_heads == 4
    assert ROTARY.kv_heads == 2
    assert replace(LEARNED, vocab_size=50_257, vocab_multiple=128).padded_vocab_size == 50_304
    assert replace(LEARNED, vocab_size=50_304, vocab_multiple=128).padded_vocab_size == 50_304
    assert replace(ROTARY, head_dim=80, rotary_fraction=0.25).rotary_dim == 20
    assert LEARNED.rotary_dim == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 0}, "num_heads must be above 0, not 0"),
        ({"num_layers": -1}, "num_layers must be above 0, not -1"),
        ({"num_kv_heads": 3}, "num_heads 4 is not a multiple of num_kv_heads 3"),
        ({"num_kv_heads": 0}, "kv_heads must be above 0"),
        ({"attention": "flash"}, "attention 'flash' is none of plain, xla, cudnn, splash"),
        ({"activation": "gelu_new"}, "activation 'gelu_new' is none of gelu, gelu_tanh, relu, silu"),
        ({"dtype": "float64"}, "dtype 'float64' is none of float32, bfloat16, float16"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"sliding_window": 0}, "sliding_window must be at least 1 token"),
        ({"position_offset": -1}, "position_offset must not be negative"),
        ({"position_offset": 2}, "position_offset is for learned positions"),
        ({"shared_norm": True}, "set parallel_residual too"),
        ({"rotary_fraction": 0.1}, "it must be an even number from 2 to 6"),
        ({"rotary_fraction": 0.5}, "turns 3 entries"),
        ({"rotary_fraction": 2.0}, "turns 12 entries"),
        ({"rotary_theta": 0.0}, "rotary_theta must be above 0"),
        ({"rotary_scaling": RotaryScaling("linear", 0.5)}, "factor must be at least 1"),
        ({"rotary_scaling": RotaryScaling("yarn", 2.0)}, "kind 'yarn' is none of linear, llama3"),  # type: ignore[arg-type]
        ({"rotary_scaling": RotaryScaling("llama3", 2.0, 4.0, 4.0)}, "low_frequency_factor < high_frequency_factor"),
        ({"positions": "learned", "rotary_scaling": RotaryScaling("linear", 2.0)}, "needs positions='rotary'"),
    ],
    ids=str,
)
def test_what_no_model_can_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(ROTARY, **changes).validate()
