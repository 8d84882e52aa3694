"""Which tensor of a Hugging Face architecture is which of our arrays: one table each, names without the architecture's
prefix. Patterns are `layout.Part`'s."""

from __future__ import annotations

from webgpt_jax.models.layout import Layout, Part


def _norms(ours: str, theirs: str) -> Layout:
    return {f"{ours}/scale": (Part(f"{theirs}.weight", "d -> d"),), f"{ours}/bias": (Part(f"{theirs}.bias", "d -> d"),)}


def _linear(ours: str, theirs: str, weight: str, bias: str) -> Layout:
    return {ours: (Part(f"{theirs}.weight", weight),), f"{ours}_bias": (Part(f"{theirs}.bias", bias),)}


def _three(ours: str, theirs: str) -> Layout:
    """Query, key and value in tensors of their own: rows in the file are outputs."""
    names = ((f"{theirs}.q_proj", "k g h"), (f"{theirs}.k_proj", "k o h"), (f"{theirs}.v_proj", "k o h"))
    return {
        ours: tuple(Part(f"{name}.weight", f"({group}) d -> d {group}") for name, group in names),
        f"{ours}_bias": tuple(Part(f"{name}.bias", f"({group}) -> {group}") for name, group in names),
    }


# GPT-2's matrices are stored [in, out], as its `Conv1D` multiplies; everyone else's are [out, in].
GPT2_LAYOUT: Layout = {
    "embedding": (Part("wte.weight", "v d -> v d"),),
    "position_embedding": (Part("wpe.weight", "p d -> p d"),),
    **_norms("blocks/attention_norm", "h.{}.ln_1"),
    **_linear("blocks/attention/qkv", "h.{}.attn.c_attn", "d (t k h) -> d k t h", "(t k h) -> k t h"),
    **_linear("blocks/attention/out", "h.{}.attn.c_proj", "(n h) d -> n h d", "d -> d"),
    **_norms("blocks/mlp_norm", "h.{}.ln_2"),
    **_linear("blocks/mlp/up", "h.{}.mlp.c_fc", "d f -> d f", "f -> f"),
    **_linear("blocks/mlp/down", "h.{}.mlp.c_proj", "f d -> f d", "d -> d"),
    **_norms("final_norm", "ln_f"),
}

# Query, key and value of a head lie together.
NEOX_LAYOUT: Layout = {
    "embedding": (Part("embed_in.weight", "v d -> v d"),),
    **_norms("blocks/attention_norm", "layers.{}.input_layernorm"),
    **_linear(
        "blocks/attention/qkv", "layers.{}.attention.query_key_value", "(k t h) d -> d k t h", "(k t h) -> k t h"
    ),
    **_linear("blocks/attention/out", "layers.{}.attention.dense", "d (n h) -> n h d", "d -> d"),
    **_norms("blocks/mlp_norm", "layers.{}.post_attention_layernorm"),
    **_linear("blocks/mlp/up", "layers.{}.mlp.dense_h_to_4h", "f d -> d f", "f -> f"),
    **_linear("blocks/mlp/down", "layers.{}.mlp.dense_4h_to_h", "d f -> f d", "d -> d"),
    **_norms("final_norm", "final_layer_norm"),
}

OPT_LAYOUT: Layout = {
    "embedding": (Part("embed_tokens.weight", "v d -> v d"),),
    "position_embedding": (Part("embed_positions.weight", "p d -> p d"),),
    **_norms("blocks/attention_norm", "layers.{}.self_attn_layer_norm"),
    **_three("blocks/attention/qkv", "layers.{}.self_attn"),
    **_linear("blocks/attention/out", "layers.{}.self_attn.out_proj", "d (n h) -> n h d", "d -> d"),
    **_norms("blocks/mlp_norm", "layers.{}.final_layer_norm"),
    **_linear("blocks/mlp/up", "layers.{}.fc1", "f d -> d f", "f -> f"),
    **_linear("blocks/mlp/down", "layers.{}.fc2", "d f -> f d", "d -> d"),
    **_norms("final_norm", "final_layer_norm"),
}

LLAMA_LAYOUT: Layout = {
    "embedding": (Part("embed_tokens.weight", "v d -> v d"),),
    "blocks/attention_norm/scale": (Part("layers.{}.input_layernorm.weight", "d -> d"),),
    **_three("blocks/attention/qkv", "layers.{}.self_attn"),
    "blocks/attention/query_norm": (Part("layers.{}.self_attn.q_norm.weight", "h -> h"),),
    "blocks/attention/key_norm": (Part("layers.{}.self_attn.k_norm.weight", "h -> h"),),
    **_linear("blocks/attention/out", "layers.{}.self_attn.o_proj", "d (n h) -> n h d", "d -> d"),
    "blocks/mlp_norm/scale": (Part("layers.{}.post_attention_layernorm.weight", "d -> d"),),
    "blocks/mlp/gate_up": (
        Part("layers.{}.mlp.gate_proj.weight", "(o f) d -> d o f"),
        Part("layers.{}.mlp.up_proj.weight", "(o f) d -> d o f"),
    ),
    "blocks/mlp/gate_up_bias": (
        Part("layers.{}.mlp.gate_proj.bias", "(o f) -> o f"),
        Part("layers.{}.mlp.up_proj.bias", "(o f) -> o f"),
    ),
    **_linear("blocks/mlp/down", "layers.{}.mlp.down_proj", "d f -> f d", "d -> d"),
    "final_norm/scale": (Part("norm.weight", "d -> d"),),
}
