"""Makes the golden models in this folder from transformers: one small random model of each kind and its logits.
Nothing of ours is used. Run where torch, transformers, gguf and sentencepiece are installed (the extra `parity`):

    python tests/golden/models/make_goldens.py

Each folder is what transformers' own `save_pretrained` writes, with `golden.safetensors` beside it: tokens and mask
[B, T], and the logits of real tokens (0 where padding stands), computed in float32 on the CPU.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
VOCAB, LENGTH = 61, 12

# Widths, heads and MLPs share no number where they may, so that swapped axes cannot pass.
ROTARY = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "initializer_range": 0.2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
NEOX = {name: value for name, value in ROTARY.items() if name != "num_key_value_heads"}
GPT2 = {"vocab_size": VOCAB, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16, "initializer_range": 0.2}
OPT = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 20,
    "max_position_embeddings": 16,
    "init_std": 0.2,
}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", GPT2),
    "cerebras-gpt": ("gpt2", {**GPT2, "n_inner": 20, "activation_function": "gelu", "tie_word_embeddings": False}),
    "pythia": ("gpt_neox", {**NEOX, "hidden_size": 32, "rotary_pct": 0.25}),
    "neox-serial": ("gpt_neox", {**NEOX, "use_parallel_residual": False, "rotary_pct": 1.0, "hidden_act": "gelu_new"}),
    "opt": ("opt", OPT),
    "opt-without-biases": ("opt", {**OPT, "enable_bias": False, "activation_function": "gelu"}),
    "llama": ("llama", ROTARY),
    "smollm2": ("llama", {**ROTARY, "tie_word_embeddings": True, "rope_theta": 100_000.0, "rms_norm_eps": 1e-5}),
    "llama3": ("llama", {**ROTARY, "head_dim": 8, "rope_parameters": LLAMA3}),
    "llama-with-biases": (
        "llama",
        {
            **ROTARY,
            "attention_bias": True,
            "mlp_bias": True,
            "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0},
        },
    ),
    "mistral": ("mistral", {**ROTARY, "sliding_window": 5}),
    "mistral-without-window": ("mistral", {**ROTARY, "sliding_window": None, "head_dim": 10}),
    "qwen2": ("qwen2", {**ROTARY, "tie_word_embeddings": True}),
    "qwen2-window": ("qwen2", {**ROTARY, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}),
    "qwen3": ("qwen3", {**ROTARY, "head_dim": 10}),
}


def build(model_type: str, settings: dict[str, Any]) -> Any:
    """A model with noise on every parameter: biases that are not 0 and scales that are not 1."""
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[model_type](**settings, attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config, torch_dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Tokens and mask of four rows: whole, padded on the left, padded on the right, and a single token."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(3, VOCAB, (4, LENGTH))
    mask = np.ones((4, LENGTH), np.int64)
    mask[1, :5] = mask[2, 7:] = mask[3, 1:] = 0
    return tokens, mask


def logits_of(model: Any, tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Logits [B, T, V], with positions counted from each row's first real token, 0 where padding stands."""
    inputs = {"input_ids": torch.tensor(tokens), "attention_mask": torch.tensor(mask)}
    if model.config.model_type != "opt":  # which counts positions by the mask itself
        inputs["position_ids"] = torch.tensor(np.maximum(mask.cumsum(axis=1) - 1, 0))
    with torch.no_grad():
        logits = model(**inputs).logits.numpy()
    return logits * mask[:, :, None]


def main() -> None:
    tokens, mask = batch()
    for name, (model_type, settings) in MODELS.items():
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model = build(model_type, settings)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        golden = {
            "tokens": tokens.astype(np.int32),
            "mask": mask.astype(np.int32),
            "logits": logits_of(model, tokens, mask),
        }
        save_file(golden, folder / "golden.safetensors")


if __name__ == "__main__":
    main()
