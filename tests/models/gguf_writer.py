"""Golden models as GGUF files, written with the `gguf` package as llama.cpp's converter does it: what reading is tested
on. Shares nothing with the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from safetensors.numpy import load_file

LLAMA_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
GPT2_NAMES = {
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "lm_head": "output",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
}


def gguf_name(name: str, names: dict[str, str]) -> str:
    """The name of a Hugging Face tensor in a GGUF file."""
    stem, _, kind = name.rpartition(".")
    if stem in names:
        return f"{names[stem]}.{kind}"
    _, layer, rest = stem.removeprefix("model.").removeprefix("transformer.").split(".", 2)
    return f"blk.{layer}.{names[rest]}.{kind}"


def permute(weights: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's `LlamaModel.permute`."""
    return (
        weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
        .swapaxes(1, 2)
        .reshape(weights.shape)
    )


def write_gguf(
    folder: Path,
    path: Path,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    metadata: dict[str, Any] | None = None,
    tensors: dict[str, np.ndarray] | None = None,
) -> None:
    """A golden folder as a GGUF file with a vocabulary of its own; matrices in `kind`, vectors in float32.

    Args:
      metadata: more fields, over those of the model; None leaves one out.
      tensors: more tensors.
    """
    config = json.loads((folder / "config.json").read_text())
    architecture = {"mistral": "llama"}.get(config["model_type"], config["model_type"])
    fields = {**_model_fields(config, architecture), **_vocabulary(config["vocab_size"]), **(metadata or {})}
    writer = GGUFWriter(path, architecture)
    for name, value in fields.items():
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif value is not None:
            writer.add_array(name, value)
    arrays = {}
    for name, array in load_file(folder / "model.safetensors").items():
        if architecture == "gpt2" and name.endswith(("attn.weight", "c_proj.weight", "c_fc.weight")):
            array = array.T
        if architecture == "llama" and ".q_proj." in name:
            array = permute(array, config["num_attention_heads"])
        if architecture == "llama" and ".k_proj." in name:
            array = permute(array, config["num_key_value_heads"])
        arrays[gguf_name(name, GPT2_NAMES if architecture == "gpt2" else LLAMA_NAMES)] = array
    for name, array in {**arrays, **(tensors or {})}.items():
        if array.ndim == 1 or kind == GGMLQuantizationType.F32:
            writer.add_tensor(name, np.ascontiguousarray(array, np.float32))
        else:
            raw = gguf.quants.quantize(np.ascontiguousarray(array, np.float32), kind)
            writer.add_tensor(name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _model_fields(config: dict[str, Any], architecture: str) -> dict[str, Any]:
    if architecture == "gpt2":
        return {
            "gpt2.block_count": config["n_layer"],
            "gpt2.embedding_length": config["n_embd"],
            "gpt2.attention.head_count": config["n_head"],
            "gpt2.feed_forward_length": config["n_inner"] or 4 * config["n_embd"],
            "gpt2.context_length": config["n_positions"],
            "gpt2.attention.layer_norm_epsilon": config["layer_norm_epsilon"],
        }
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rotary = config["rope_parameters"]
    fields = {
        "block_count": config["num_hidden_layers"],
        "embedding_length": config["hidden_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "rope.dimension_count": head_dim,
        "rope.freq_base": rotary["rope_theta"],
        "feed_forward_length": config["intermediate_size"],
        "context_length": config["max_position_embeddings"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "vocab_size": config["vocab_size"],
    }
    if rotary["rope_type"] == "linear":
        fields |= {"rope.scaling.type": "linear", "rope.scaling.factor": rotary["factor"]}
    return {f"{architecture}.{name}": value for name, value in fields.items()}


def _vocabulary(size: int) -> dict[str, Any]:
    """Printable characters from "!" on, a space, one merge, and one control token at the end."""
    characters = [chr(33 + number) for number in range(size - 3)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*characters, "\u0120", "AB", "<|end|>"],
        "tokenizer.ggml.token_type": [1] * (size - 1) + [3],
        "tokenizer.ggml.merges": ["A B"],
        "tokenizer.ggml.eos_token_id": size - 1,
    }
