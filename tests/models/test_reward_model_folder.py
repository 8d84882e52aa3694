"""Reward models as folders: the same scores after saving, and never taken for language models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file

from webgpt_jax.models import (
    FolderSettings,
    PretrainedError,
    ScalarTransformer,
    Transformer,
    TransformerConfig,
    load_pretrained,
    load_reward_model,
    parameter_specs,
    parameters,
    read_settings,
    save_pretrained,
)

GPT2 = TransformerConfig(
    vocab_size=29, vocab_multiple=8, num_layers=1, embed_dim=16, num_heads=4, head_dim=4, mlp_dim=32, max_length=16
)
LLAMA = replace(
    GPT2,
    num_kv_heads=2,
    positions="rotary",
    norm="rmsnorm",
    activation="silu",
    gated_mlp=True,
    qkv_bias=False,
    out_bias=False,
    mlp_bias=False,
    tied_embeddings=False,
)
CONFIGS = {"tied": GPT2, "untied": LLAMA}
TOKENS = np.arange(12, dtype=np.int32).reshape(2, 6)


def reward_model(config: TransformerConfig) -> ScalarTransformer:
    model = ScalarTransformer(config, rngs=nnx.Rngs(0))
    params = parameters(model)
    params["scalar_head"]["bias"] = params["scalar_head"]["bias"] + 0.25
    return ScalarTransformer(config, params=params)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_scores_after_saving(name: str, tmp_path: Path) -> None:
    model = reward_model(CONFIGS[name])
    save_pretrained(model, tmp_path / "rm", settings=FolderSettings("reward_model", base_step_size=0.001))
    assert {path.name for path in (tmp_path / "rm").iterdir()} == {
        "config.json",
        "model.safetensors",
        "scalar_head.safetensors",
        "webgpt.json",
    }
    head = load_file(tmp_path / "rm" / "scalar_head.safetensors")
    assert {name: array.shape for name, array in head.items()} == {"kernel": (16,), "bias": ()}
    loaded, tokenizer = load_reward_model(tmp_path / "rm", vocab_multiple=8)
    assert tokenizer is None
    assert loaded.config == CONFIGS[name]
    np.testing.assert_array_equal(loaded(TOKENS), model(TOKENS))
    assert read_settings(tmp_path / "rm") == FolderSettings("reward_model", base_step_size=0.001)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_reward_model_is_no_language_model(name: str, tmp_path: Path) -> None:
    save_pretrained(reward_model(CONFIGS[name]), tmp_path / "rm")
    with pytest.raises(PretrainedError, match="rm holds a reward or value model, which speaks no tokens: load_rewa"):
        load_pretrained(tmp_path / "rm")


def test_a_language_model_is_no_reward_model(tmp_path: Path) -> None:
    save_pretrained(Transformer(GPT2, rngs=nnx.Rngs(0)), tmp_path / "bc")
    with pytest.raises(PretrainedError, match=r"bc holds no reward model: it has no scalar_head\.safetensors"):
        load_reward_model(tmp_path / "bc")
    with pytest.raises(PretrainedError, match="none is no folder of a reward model"):
        load_reward_model(tmp_path / "none")
    with pytest.raises(PretrainedError, match=r"has no config\.json, and holds no checkpoint of ours"):
        load_reward_model(tmp_path)


def test_onto_a_mesh_in_another_type(tmp_path: Path) -> None:
    model = reward_model(GPT2)
    save_pretrained(model, tmp_path / "rm")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("fsdp",))

    def places(config: TransformerConfig) -> Any:
        def place(spec: Any) -> Any:
            if isinstance(spec, dict):
                return {name: place(entry) for name, entry in spec.items()}
            axes = ["fsdp" if axis == "embed" else None for axis in spec.axes]
            return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))

        return place(parameter_specs(config, "scalar"))

    loaded, _ = load_reward_model(tmp_path / "rm", shardings=places, vocab_multiple=8, param_dtype="bfloat16")
    arrays = parameters(loaded)
    assert {array.dtype.name for array in jax.tree.leaves(arrays)} == {"bfloat16"}
    assert arrays["scalar_head"]["kernel"].addressable_shards[0].data.shape == (8,)
    assert arrays["embedding"].addressable_shards[0].data.shape == (32, 8)
    np.testing.assert_allclose(loaded(TOKENS), model(TOKENS), atol=0.02)


def test_a_head_that_is_cut_short_or_of_another_model(tmp_path: Path) -> None:
    save_pretrained(reward_model(GPT2), tmp_path / "rm")
    save_pretrained(reward_model(replace(GPT2, embed_dim=24, num_heads=6)), tmp_path / "other")
    head = tmp_path / "rm" / "scalar_head.safetensors"
    head.write_bytes((tmp_path / "other" / "scalar_head.safetensors").read_bytes())
    with pytest.raises(PretrainedError, match="the parameter scalar_head/kernel has shape"):
        load_reward_model(tmp_path / "rm")
    head.write_bytes(head.read_bytes()[:-8])
    with pytest.raises(PretrainedError, match=r"scalar_head\.safetensors is not a whole safetensors file"):
        load_reward_model(tmp_path / "rm")
