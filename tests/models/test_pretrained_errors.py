"""What is wrong with a folder of weights is said by its file and the tensor or the field."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from webgpt_jax.models import PretrainedError, load_pretrained

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"


def copy(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / name, tmp_path / name))


def with_field(name: str, tmp_path: Path, **fields: Any) -> Path:
    folder = copy(name, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    for field, value in fields.items():
        if value is ...:
            del config[field]
        else:
            config[field] = value
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def with_tensors(name: str, tmp_path: Path, change: Callable[[dict[str, np.ndarray]], None]) -> Path:
    folder = copy(name, tmp_path)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def assert_refused(folder: Path, *words: str) -> None:
    with pytest.raises(PretrainedError) as caught:
        load_pretrained(folder)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


ROTARY = {"rope_theta": 10_000.0}
REFUSED_FIELDS: list[tuple[str, dict[str, Any], str]] = [
    ("gpt2", {"model_type": "mamba"}, "the architecture 'mamba' is not supported, only gpt2"),
    ("gpt2", {"model_type": ...}, "the architecture None"),
    ("gpt2", {"activation_function": "quick_gelu"}, "activation_function 'quick_gelu'"),
    ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights False"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx True"),
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
    ("gpt2", {"n_head": 5}, "n_embd 24 is not a multiple of n_head 5"),
    ("gpt2", {"n_layer": -1}, "n_layer must be a whole number above 0, not -1"),
    ("gpt2", {"n_layer": "2"}, "n_layer must be a whole number above 0, not '2'"),
    ("gpt2", {"n_layer": True}, "n_layer must be a whole number"),
    ("gpt2", {"n_layer": 10**30}, "n_layer must be a whole number"),
    ("gpt2", {"n_layer": 10**9}, "the tensor transformer.h.2.ln_1.weight is missing"),
    ("gpt2", {"vocab_size": 10**9}, "the tensor transformer.wte.weight has shape (61, 24)"),
    ("gpt2", {"layer_norm_epsilon": "small"}, "layer_norm_epsilon must be a number above 0"),
    ("gpt2", {"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon must be a number above 0"),
    ("gpt2", {"tie_word_embeddings": "yes"}, "tie_word_embeddings must be true or false"),
    ("gpt2", {"quantization_config": {"bits": 4}}, "quantization_config"),
    ("pythia", {"hidden_act": "relu2"}, "hidden_act 'relu2'"),
    ("pythia", {"rope_parameters": {"partial_rotary_factor": 0.1, **ROTARY}}, "rotary_fraction 0.1"),
    ("opt", {"do_layer_norm_before": False}, "do_layer_norm_before False is not supported, only True"),
    ("opt", {"word_embed_proj_dim": 12}, "word_embed_proj_dim 12 is not supported, only 24"),
    ("opt", {"_remove_final_layer_norm": True}, "_remove_final_layer_norm"),
    ("opt", {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine"),
    ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, **ROTARY}}, "rope_parameters.rope_type 'yarn'"),
    ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic'"),
    ("llama", {"rope_parameters": ..., "rope_scaling": {"type": "longrope"}}, "rope_scaling.type 'longrope'"),
    ("llama", {"rope_parameters": {"beta_fast": 32, **ROTARY}}, "rope_parameters.beta_fast 32"),
    ("llama", {"rope_parameters": {"full_attention": ROTARY}}, "rope_parameters.full_attention"),
    ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5, **ROTARY}}, "partial_rotary_factor 0.5"),
    ("llama", {"rope_parameters": {"rope_type": "linear"}}, "rope_parameters.factor is missing"),
    ("llama", {"rope_parameters": [1]}, "rope_parameters must be an object"),
    ("llama", {"num_key_value_heads": 3}, "num_heads 4 is not a multiple of num_kv_heads 3"),
    ("llama", {"rope_interleaved": True}, "rope_interleaved"),
    ("mistral", {"layer_types": ["sliding_attention", "full_attention"]}, "layer_types"),
    ("mistral", {"sliding_window": -3}, "sliding_window must be a whole number above 0"),
    ("qwen2", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types differ between layers"),
    ("qwen2-window", {"layer_types": ..., "max_window_layers": 1}, "layer_types differ between layers"),
    ("qwen3", {"layer_types": ["chunked_attention"] * 2}, "layer_types"),
    ("qwen2", {"use_mrope": True}, "use_mrope"),
    ("opt", {"scale_embeddings": True}, "scale_embeddings"),
    ("opt", {"learned_embeddings": False}, "learned_embeddings"),
    ("llama", {"is_causal": False}, "is_causal False"),
    ("llama", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
    ("llama", {"attention_multiplier": 0.1}, "attention_multiplier 0.1 is not known"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("llama", {"use_qk_norm": False}, "use_qk_norm"),  # what false means is not known either
    ("mistral", {"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
]


@pytest.mark.parametrize(("name", "fields", "words"), REFUSED_FIELDS, ids=lambda value: str(value)[:60])
def test_a_field_that_would_change_the_logits_is_named(
    name: str, fields: dict[str, Any], words: str, tmp_path: Path
) -> None:
    assert_refused(with_field(name, tmp_path, **fields), words)


def test_a_field_that_is_not_known_is_refused_and_one_that_says_nothing_is_not(tmp_path: Path) -> None:
    assert_refused(
        with_field("llama", tmp_path / "known", logit_multiplier=[0.5] * 99), "logit_multiplier [0.5,", "is not known"
    )
    model, _ = load_pretrained(with_field("llama", tmp_path, logit_multiplier=None))
    assert model.config == load_pretrained(GOLDEN / "llama")[0].config


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    assert_refused(with_tensors("llama", tmp_path, lambda tensors: tensors.pop(name)), f"the tensor {name} is missing")


def test_an_untied_unembedding_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = with_tensors("llama", tmp_path, lambda tensors: tensors.pop("lm_head.weight"))
    assert_refused(folder, "the tensor lm_head.weight is missing")


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    name = "transformer.h.0.mlp.c_fc.weight"

    def transpose(tensors: dict[str, np.ndarray]) -> None:
        tensors[name] = np.ascontiguousarray(tensors[name].T)

    assert_refused(
        with_tensors("gpt2", tmp_path, transpose), f"the tensor {name} has shape (96, 24), the config says (24, 96)"
    )


@pytest.mark.parametrize(
    "name", ["score.weight", "model.layers.2.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.lora_A"]
)
def test_a_tensor_too_many_is_named(name: str, tmp_path: Path) -> None:
    folder = with_tensors("llama", tmp_path, lambda tensors: tensors.update({name: np.zeros(3, np.float32)}))
    assert_refused(folder, f"the tensor {name} is none of this architecture's")


def test_a_tied_unembedding_that_differs_is_refused(tmp_path: Path) -> None:
    def untie(tensors: dict[str, np.ndarray]) -> None:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + np.float32(1e-3)

    assert_refused(with_tensors("smollm2", tmp_path, untie), "lm_head.weight is tied to model.embed_tokens.weight")


def test_integers_are_no_weights(tmp_path: Path) -> None:
    def quantize(tensors: dict[str, np.ndarray]) -> None:
        tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.int8)

    assert_refused(
        with_tensors("llama", tmp_path, quantize), "model.norm.weight is of type I8, none of BF16, F16, F32, F64"
    )


@pytest.mark.parametrize("kept", [0, 3, 8, 200, 20_000])
def test_a_file_cut_short_is_refused(kept: int, tmp_path: Path) -> None:
    folder = copy("llama", tmp_path)
    content = (folder / "model.safetensors").read_bytes()
    assert kept < len(content)
    (folder / "model.safetensors").write_bytes(content[:kept])
    assert_refused(folder, "model.safetensors is not a whole safetensors file")


def header(**tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


HOSTILE = {
    "a header longer than the file": struct.pack("<Q", 2**63) + b"{}",
    "a header of a gigabyte": struct.pack("<Q", 2**30) + b"{}",
    "no JSON": struct.pack("<Q", 4) + b"abcd",
    "offsets outside": header(a={"dtype": "F32", "shape": [2], "data_offsets": [0, 10**15]}),
    "offsets backwards": header(a={"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}) + bytes(8),
    "a shape that overflows": header(a={"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}) + bytes(8),
    "a negative shape": header(a={"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}) + bytes(8),
    "an unknown type": header(a={"dtype": "PICKLE", "shape": [2], "data_offsets": [0, 8]}) + bytes(8),
    "tensors that overlap": header(
        a={"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        b={"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
    )
    + bytes(12),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_headers_are_refused(content: bytes, tmp_path: Path) -> None:
    folder = copy("llama", tmp_path)
    (folder / "model.safetensors").write_bytes(content)
    assert_refused(folder, "model.safetensors is not a whole safetensors file")


def sharded(tmp_path: Path, weight_map: Any) -> Path:
    folder = copy("llama", tmp_path)
    (folder / "model.safetensors").rename(folder / "one.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


@pytest.mark.parametrize(
    ("weight_map", "words"),
    [
        ({"a": "two.safetensors"}, "two.safetensors is missing"),
        ({"a": "one.safetensors"}, "the index lists the tensor a, and its file does not hold it"),
        ({"a": "../llama/one.safetensors"}, "no safetensors file of the folder"),
        ({"a": "/etc/passwd"}, "no safetensors file of the folder"),
        ({"a": "one.bin"}, "no safetensors file of the folder"),
        ({"a": 3}, "no safetensors file of the folder"),
        ({}, "has no weight_map"),
        ([1], "has no weight_map"),
    ],
)
def test_a_bad_index_is_refused(weight_map: Any, words: str, tmp_path: Path) -> None:
    assert_refused(sharded(tmp_path, weight_map), words)


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    folder = sharded(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    shutil.copy(folder / "one.safetensors", folder / "two.safetensors")
    assert_refused(folder, "stands in two files")


def test_pickles_are_refused(tmp_path: Path) -> None:
    folder = copy("gpt2", tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert_refused(folder, "pickled PyTorch weights, which can run code: convert them to safetensors")


def test_no_weights_no_folder_and_no_config(tmp_path: Path) -> None:
    folder = copy("gpt2", tmp_path)
    (folder / "model.safetensors").unlink()
    assert_refused(folder, "holds neither model.safetensors nor model.safetensors.index.json")
    assert_refused(tmp_path / "nowhere", "nowhere does not exist")
    (tmp_path / "weights.pt").write_bytes(b"")
    assert_refused(tmp_path / "weights.pt", "is neither a folder with config.json and safetensors nor a .gguf file")


@pytest.mark.parametrize(
    "content", ["", "[]", "{", "[" * 100_000, "\ud800"], ids=["empty", "list", "cut", "deep", "bytes"]
)
def test_a_config_that_is_no_object_is_refused(content: str, tmp_path: Path) -> None:
    folder = copy("gpt2", tmp_path)
    (folder / "config.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    assert_refused(folder, "config.json")


def test_options_that_contradict_are_refused() -> None:
    with pytest.raises(PretrainedError, match="dtype 'float8' is none of"):
        load_pretrained(GOLDEN / "gpt2", dtype="float8")  # type: ignore[typeddict-item]


def test_a_vocabulary_larger_than_the_models_is_refused(tmp_path: Path) -> None:
    folder = copy("gpt2", tmp_path)
    (folder / "vocab.json").write_text(json.dumps({chr(256 + number): number for number in range(62)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    assert_refused(folder, "the tokenizer has 62 tokens, the model only 61")
