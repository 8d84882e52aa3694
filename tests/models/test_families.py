"""The config.json of published models, cut to the fields that matter and some that don't: all are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from webgpt_jax.models import RotaryScaling
from webgpt_jax.models.families import read_config

LLAMA = {"model_type": "llama", "hidden_act": "silu", "pretraining_tp": 1, "rms_norm_eps": 1e-5, "use_cache": True}
QWEN = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0, "use_sliding_window": False}

PUBLISHED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gpt2": (
        {
            "model_type": "gpt2",
            "activation_function": "gelu_new",
            "n_ctx": 1024,
            "n_embd": 768,
            "n_head": 12,
            "n_layer": 12,
            "n_positions": 1024,
            "resid_pdrop": 0.1,
            "task_specific_params": {"text-generation": {"do_sample": True}},
            "vocab_size": 50257,
        },
        {"head_dim": 64, "mlp_dim": 3072, "activation": "gelu_tanh", "tied_embeddings": True, "dropout": 0.0},
    ),
    "cerebras-gpt-111m": (
        {
            "model_type": "gpt2",
            "activation_function": "gelu",
            "n_embd": 768,
            "n_head": 12,
            "n_inner": 3072,
            "n_layer": 10,
            "n_positions": 2048,
            "scale_attn_weights": True,
            "vocab_size": 50257,
        },
        {"activation": "gelu", "max_length": 2048},
    ),
    "pythia-160m": (
        {
            "model_type": "gpt_neox",
            "hidden_act": "gelu",
            "hidden_size": 768,
            "intermediate_size": 3072,
            "max_position_embeddings": 2048,
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "rotary_emb_base": 10000,
            "rotary_pct": 0.25,
            "tie_word_embeddings": False,
            "use_parallel_residual": True,
            "vocab_size": 50304,
        },
        {"rotary_dim": 16, "parallel_residual": True, "tied_embeddings": False, "qkv_bias": True},
    ),
    "opt-125m": (
        {
            "model_type": "opt",
            "_remove_final_layer_norm": False,
            "activation_dropout": 0.0,
            "activation_function": "relu",
            "do_layer_norm_before": True,
            "ffn_dim": 3072,
            "hidden_size": 768,
            "max_position_embeddings": 2048,
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "prefix": "</s>",
            "vocab_size": 50272,
            "word_embed_proj_dim": 768,
        },
        {"position_offset": 2, "max_length": 2048, "activation": "relu", "tied_embeddings": True},
    ),
    "smollm2-135m": (
        {
            **LLAMA,
            "hidden_size": 576,
            "intermediate_size": 1536,
            "is_llama_config": True,
            "max_position_embeddings": 8192,
            "num_attention_heads": 9,
            "num_hidden_layers": 30,
            "num_key_value_heads": 3,
            "rope_interleaved": False,
            "rope_scaling": None,
            "rope_theta": 100000,
            "tie_word_embeddings": True,
            "vocab_size": 49152,
        },
        {"head_dim": 64, "kv_heads": 3, "rotary_theta": 100_000.0, "tied_embeddings": True, "norm_eps": 1e-5},
    ),
    "llama-3.2-1b": (
        {
            **LLAMA,
            "eos_token_id": [128001, 128008, 128009],
            "head_dim": 64,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "max_position_embeddings": 131072,
            "num_attention_heads": 32,
            "num_hidden_layers": 16,
            "num_key_value_heads": 8,
            "rope_scaling": {
                "factor": 32.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            },
            "rope_theta": 500000.0,
            "tie_word_embeddings": True,
            "vocab_size": 128256,
        },
        {"rotary_scaling": RotaryScaling("llama3", 32.0, 1.0, 4.0, 8192), "rotary_theta": 500_000.0},
    ),
    "mistral-7b": (
        {
            "model_type": "mistral",
            "hidden_act": "silu",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "max_position_embeddings": 32768,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "sliding_window": 4096,
            "vocab_size": 32000,
        },
        {"sliding_window": 4096, "kv_heads": 8, "tied_embeddings": False},
    ),
    "qwen2.5-0.5b": (
        {
            **QWEN,
            "model_type": "qwen2",
            "hidden_size": 896,
            "intermediate_size": 4864,
            "max_position_embeddings": 32768,
            "max_window_layers": 21,
            "num_attention_heads": 14,
            "num_hidden_layers": 24,
            "num_key_value_heads": 2,
            "sliding_window": 32768,
            "tie_word_embeddings": True,
            "vocab_size": 151936,
        },
        {"sliding_window": None, "qkv_bias": True, "out_bias": False, "qk_norm": False},
    ),
    "qwen3-0.6b": (
        {
            **QWEN,
            "model_type": "qwen3",
            "attention_bias": False,
            "head_dim": 128,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "max_position_embeddings": 40960,
            "max_window_layers": 28,
            "num_attention_heads": 16,
            "num_hidden_layers": 28,
            "num_key_value_heads": 8,
            "sliding_window": None,
            "tie_word_embeddings": True,
            "vocab_size": 151936,
        },
        {"head_dim": 128, "qk_norm": True, "qkv_bias": False},
    ),
}


# What transformers 4 writes of every model that its own settings do not differ from.
COMMON: dict[str, Any] = {
    "add_cross_attention": False,
    "architectures": None,
    "bad_words_ids": None,
    "begin_suppress_tokens": None,
    "chunk_size_feed_forward": 0,
    "cross_attention_hidden_size": None,
    "decoder_start_token_id": None,
    "diversity_penalty": 0.0,
    "do_sample": False,
    "early_stopping": False,
    "encoder_no_repeat_ngram_size": 0,
    "exponential_decay_length_penalty": None,
    "finetuning_task": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
    "is_decoder": False,
    "is_encoder_decoder": False,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    "length_penalty": 1.0,
    "max_length": 20,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "num_beams": 1,
    "num_return_sequences": 1,
    "output_attentions": False,
    "output_hidden_states": False,
    "output_scores": False,
    "prefix": None,
    "problem_type": None,
    "pruned_heads": {},
    "remove_invalid_values": False,
    "repetition_penalty": 1.0,
    "return_dict": True,
    "return_dict_in_generate": False,
    "sep_token_id": None,
    "suppress_tokens": None,
    "task_specific_params": None,
    "temperature": 1.0,
    "tf_legacy_loss": False,
    "tie_encoder_decoder": False,
    "tokenizer_class": None,
    "top_k": 50,
    "top_p": 1.0,
    "torch_dtype": "bfloat16",
    "torchscript": False,
    "transformers_version": "4.46.0",
    "typical_p": 1.0,
    "use_bfloat16": False,
}

# What single models of the families have besides.
OWN: dict[str, dict[str, Any]] = {
    "gpt2": {"_num_labels": 1, "n_special": 0, "predict_special_tokens": True, "output_past": True, "n_ctx": 1024},
    "pythia-160m": {"attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0, "gradient_checkpointing": False},
    "opt-125m": {"enable_bias": True, "learned_embeddings": True, "scale_embeddings": False, "layerdrop": 0.0},
    "smollm2-135m": {"transformers.js_config": {"dtype": "q4"}, "max_sequence_length": 2048, "unsloth_fixed": True},
    "mistral-7b": {"_flash_attn_2_enabled": True, "_attn_implementation_autoset": True, "unk_token_id": 0},
    "qwen2.5-0.5b": {"use_mrope": False},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_known_to_be_harmless_changes_nothing(name: str) -> None:
    values, _ = PUBLISHED[name]
    plain = read_config(values, Path("config.json"))
    assert read_config({**COMMON, **OWN.get(name, {}), **values}, Path("config.json")) == plain


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config(name: str) -> None:
    values, expected = PUBLISHED[name]
    family, config = read_config(values, Path("config.json"))
    config.validate()
    assert family.model_type == values["model_type"]
    assert {option: getattr(config, option) for option in expected} == expected
    # And what is written of it says the same.
    written = {**family.write(config), "model_type": family.model_type}
    assert read_config(written, Path("config.json")) == (family, config)
