"""The open models that our transformer can be: for each architecture of Hugging Face's transformers, what its
config.json says in our terms and back, and which of its tensors is which of our arrays.

Whatever would change the logits and has no counterpart here is refused by the name of its field, and so is a field that
is not known: code newer than ours, or a model's own, may read it. GPT-2 covers
Cerebras-GPT, GPT-NeoX Pythia, Llama SmolLM2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webgpt_jax.models.config import Activation, RotaryScaling, TransformerConfig
from webgpt_jax.models.fields import Fields
from webgpt_jax.models.layout import Layout, Part
from webgpt_jax.models.tensor_tables import GPT2_LAYOUT, LLAMA_LAYOUT, NEOX_LAYOUT, OPT_LAYOUT
from webgpt_jax.models.tensors import PretrainedError

ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
ACTIVATION_NAMES: dict[Activation, str] = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu"}

_ROTARY_FIELDS = """rope_type type rope_theta factor partial_rotary_factor low_freq_factor high_freq_factor
original_max_position_embeddings"""
ROTARY_FIELDS = frozenset(_ROTARY_FIELDS.split())


@dataclass(frozen=True)
class Family:
    """One architecture: its config read and written, its tensors."""

    model_type: str  # as config.json names it
    architecture: str  # the class of transformers that holds it
    prefix: str  # before the names of tensors; older files leave it out
    layout: Layout  # names without the prefix, those of unembedding excepted
    unembedding_names: tuple[str, ...]  # the untied unembedding: any of these, the first is written
    buffers: tuple[str, ...]  # ends of names that hold no parameters: masks and frequencies of older files
    read: Callable[[Fields], TransformerConfig]
    write: Callable[[TransformerConfig], dict[str, Any]]

    def full_layout(self, prefix: str | None = None, unembedding: str | None = None) -> Layout:
        """The table with full names: those of a new file, or with the prefix and the unembedding that a file has."""
        prefix = self.prefix if prefix is None else prefix
        layout = {
            ours: tuple(Part(prefix + part.name, part.pattern) for part in parts) for ours, parts in self.layout.items()
        }
        return {**layout, "unembedding": (Part(unembedding or self.unembedding_names[0], "v d -> d v"),)}


def _read_gpt2(fields: Fields) -> TransformerConfig:
    for name, wanted in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
    ):
        fields.expect(name, wanted)
    dim = fields.integer("n_embd", 768)
    return TransformerConfig(
        vocab_size=fields.integer("vocab_size", 50_257),
        num_layers=fields.integer("n_layer", 12),
        embed_dim=dim,
        num_heads=fields.integer("n_head", 12),
        head_dim=fields.divided("n_embd", "n_head", 768, 12),
        mlp_dim=fields.integer("n_inner", 4 * dim),
        max_length=fields.integer("n_positions", 1024),
        norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        activation=fields.choice("activation_function", ACTIVATIONS, "gelu_new"),
        tied_embeddings=fields.flag("tie_word_embeddings", True),
    )


def _write_gpt2(config: TransformerConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "n_layer": config.num_layers,
        "n_embd": config.embed_dim,
        "n_head": config.num_heads,
        "n_inner": config.mlp_dim,
        "n_positions": config.max_length,
        "layer_norm_epsilon": config.norm_eps,
        "activation_function": ACTIVATION_NAMES[config.activation],
        "tie_word_embeddings": config.tied_embeddings,
    }


def _read_neox(fields: Fields) -> TransformerConfig:
    bias = fields.flag("attention_bias", True)
    theta = fields.number("rotary_emb_base", 10_000.0)
    return TransformerConfig(
        vocab_size=fields.integer("vocab_size"),
        num_layers=fields.integer("num_hidden_layers"),
        embed_dim=fields.integer("hidden_size"),
        num_heads=fields.integer("num_attention_heads"),
        head_dim=fields.divided("hidden_size", "num_attention_heads"),
        mlp_dim=fields.integer("intermediate_size"),
        max_length=fields.integer("max_position_embeddings", 2048),
        norm_eps=fields.number("layer_norm_eps", 1e-5),
        activation=fields.choice("hidden_act", ACTIVATIONS, "gelu"),
        positions="rotary",
        **_rotary(fields, theta=theta, fraction=fields.number("rotary_pct", 0.25)),
        qkv_bias=bias,
        out_bias=bias,
        parallel_residual=fields.flag("use_parallel_residual", True),
        tied_embeddings=fields.flag("tie_word_embeddings", False),
    )


def _write_neox(config: TransformerConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.embed_dim,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.mlp_dim,
        "max_position_embeddings": config.max_length,
        "layer_norm_eps": config.norm_eps,
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "rotary_emb_base": config.rotary_theta,
        "rotary_pct": config.rotary_fraction,
        "rope_scaling": _scaling_fields(config),
        "attention_bias": config.qkv_bias,
        "use_parallel_residual": config.parallel_residual,
        "tie_word_embeddings": config.tied_embeddings,
    }


def _read_opt(fields: Fields) -> TransformerConfig:
    # The 350M model alone norms after each branch and embeds in fewer numbers than its width.
    fields.expect("do_layer_norm_before", True)
    fields.expect("word_embed_proj_dim", fields.integer("hidden_size"))
    fields.expect("_remove_final_layer_norm", False)
    fields.expect("layer_norm_elementwise_affine", True)
    fields.expect("learned_embeddings", True)  # Galactica's
    fields.expect("scale_embeddings", False)
    bias = fields.flag("enable_bias", True)
    return TransformerConfig(
        vocab_size=fields.integer("vocab_size"),
        num_layers=fields.integer("num_hidden_layers"),
        embed_dim=fields.integer("hidden_size"),
        num_heads=fields.integer("num_attention_heads"),
        head_dim=fields.divided("hidden_size", "num_attention_heads"),
        mlp_dim=fields.integer("ffn_dim"),
        max_length=fields.integer("max_position_embeddings", 2048),
        position_offset=2,
        activation=fields.choice("activation_function", ACTIVATIONS, "relu"),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        tied_embeddings=fields.flag("tie_word_embeddings", True),
    )


def _write_opt(config: TransformerConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.embed_dim,
        "word_embed_proj_dim": config.embed_dim,
        "num_attention_heads": config.num_heads,
        "ffn_dim": config.mlp_dim,
        "max_position_embeddings": config.max_length,
        "activation_function": ACTIVATION_NAMES[config.activation],
        "enable_bias": config.qkv_bias,
        "do_layer_norm_before": True,
        "tie_word_embeddings": config.tied_embeddings,
    }


def _llama_like(fields: Fields, **given: Any) -> TransformerConfig:
    """What Llama, Mistral and Qwen share."""
    heads = fields.integer("num_attention_heads")
    if "head_dim" not in given:
        own = fields.get("head_dim") is not None
        given["head_dim"] = fields.integer("head_dim") if own else fields.divided("hidden_size", "num_attention_heads")
    return TransformerConfig(
        vocab_size=fields.integer("vocab_size"),
        num_layers=fields.integer("num_hidden_layers"),
        embed_dim=fields.integer("hidden_size"),
        num_heads=heads,
        mlp_dim=fields.integer("intermediate_size"),
        norm="rmsnorm",
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        activation=fields.choice("hidden_act", ACTIVATIONS, "silu"),
        gated_mlp=True,
        positions="rotary",
        **_rotary(fields, theta=fields.number("rope_theta", 10_000.0), fraction=1.0),
        tied_embeddings=fields.flag("tie_word_embeddings", False),
        **given,
    )


def _read_llama(fields: Fields) -> TransformerConfig:
    bias = fields.flag("attention_bias", False)
    fields.expect("rope_interleaved", False)
    return _llama_like(
        fields,
        max_length=fields.integer("max_position_embeddings", 2048),
        num_kv_heads=_kv_heads(fields, fields.integer("num_attention_heads")),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=fields.flag("mlp_bias", False),
    )


def _read_mistral(fields: Fields) -> TransformerConfig:
    # A missing field means 4096 tokens to transformers, null means none.
    window = fields.get("sliding_window") if fields.has("sliding_window") else 4096
    fields.expect("layer_types", None)
    return _llama_like(
        fields,
        max_length=fields.integer("max_position_embeddings", 131_072),
        num_kv_heads=_kv_heads(fields, 8),
        sliding_window=None if window is None else fields.integer("sliding_window", 4096),
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
    )


def _read_qwen2(fields: Fields) -> TransformerConfig:
    fields.expect("use_mrope", False)  # positions of images
    return _llama_like(
        fields,
        max_length=fields.integer("max_position_embeddings", 32_768),
        num_kv_heads=_kv_heads(fields, 32),
        sliding_window=_qwen_window(fields),
        qkv_bias=True,
        out_bias=False,
        mlp_bias=False,
    )


def _read_qwen3(fields: Fields) -> TransformerConfig:
    bias = fields.flag("attention_bias", False)
    return _llama_like(
        fields,
        head_dim=fields.integer("head_dim", 128),
        max_length=fields.integer("max_position_embeddings", 32_768),
        num_kv_heads=_kv_heads(fields, 32),
        sliding_window=_qwen_window(fields),
        qk_norm=True,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=False,
    )


def _write_llama(config: TransformerConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.embed_dim,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.mlp_dim,
        "max_position_embeddings": config.max_length,
        "rms_norm_eps": config.norm_eps,
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "rope_theta": config.rotary_theta,
        "rope_scaling": _scaling_fields(config),
        "attention_bias": config.qkv_bias,
        "mlp_bias": config.mlp_bias,
        "tie_word_embeddings": config.tied_embeddings,
    }


def _write_mistral(config: TransformerConfig) -> dict[str, Any]:
    fields = _write_llama(config)
    del fields["attention_bias"], fields["mlp_bias"]
    return {**fields, "sliding_window": config.sliding_window}


def _write_qwen2(config: TransformerConfig) -> dict[str, Any]:
    fields = _write_qwen3(config)
    del fields["attention_bias"]
    return fields


def _write_qwen3(config: TransformerConfig) -> dict[str, Any]:
    fields = _write_llama(config)
    del fields["mlp_bias"]
    window = {"use_sliding_window": config.sliding_window is not None, "sliding_window": config.sliding_window}
    return {**fields, **window, "max_window_layers": 0 if config.sliding_window is not None else config.num_layers}


def _kv_heads(fields: Fields, default: int) -> int:
    """Null means as many as query heads, a missing field what the architecture's class says."""
    if fields.has("num_key_value_heads") and fields.get("num_key_value_heads") is None:
        return fields.integer("num_attention_heads")
    return fields.integer("num_key_value_heads", default)


def _qwen_window(fields: Fields) -> int | None:
    """The window, where all layers have it. Qwen's first `max_window_layers` have none."""
    kinds = fields.get("layer_types")
    layers = fields.integer("num_hidden_layers")
    first = fields.get("max_window_layers", 28)
    window = fields.integer("sliding_window", 4096)
    if not fields.flag("use_sliding_window", False):
        kinds = kinds or ["full_attention"]
        window = 0
    elif not isinstance(first, int):
        raise fields.error("max_window_layers", f"must be a whole number, not {first!r}")
    kinds = kinds or ["full_attention"] * min(first, layers) + ["sliding_attention"] * max(layers - first, 0)
    if not isinstance(kinds, list) or any(kind != kinds[0] for kind in kinds):
        raise fields.error(
            "layer_types", "differ between layers (or max_window_layers says so), which is not supported"
        )
    if kinds[0] == "full_attention":
        return None
    if kinds[0] != "sliding_attention" or window == 0:
        raise fields.error("layer_types", f"{kinds[0]!r} without use_sliding_window is not supported")
    return window


def _rotary(fields: Fields, theta: float, fraction: float) -> dict[str, Any]:
    """Our rotary settings from `rope_parameters` (transformers 5) or `rope_scaling` (before)."""
    name = "rope_parameters" if fields.get("rope_parameters") else "rope_scaling"
    own = fields.inside(name, ROTARY_FIELDS)
    if own is None:
        return {"rotary_theta": theta, "rotary_fraction": fraction}
    theta = own.number(f"{name}.rope_theta", theta)
    part = own.number(f"{name}.partial_rotary_factor", fraction)
    if fraction == 1.0 and part != 1.0:
        raise fields.error(f"{name}.partial_rotary_factor", f"{part} is not supported for this architecture, only 1.0")
    kinds = {"default": None, "linear": "linear", "llama3": "llama3"}
    key = "rope_type" if own.has(f"{name}.rope_type") else "type"
    kind = own.choice(f"{name}.{key}", kinds, "default")
    settings: dict[str, Any] = {"rotary_theta": theta, "rotary_fraction": part}
    if kind == "linear":
        settings["rotary_scaling"] = RotaryScaling("linear", factor=own.number(f"{name}.factor"))
    elif kind == "llama3":
        settings["rotary_scaling"] = RotaryScaling(
            "llama3",
            factor=own.number(f"{name}.factor"),
            low_frequency_factor=own.number(f"{name}.low_freq_factor"),
            high_frequency_factor=own.number(f"{name}.high_freq_factor"),
            original_length=own.integer(f"{name}.original_max_position_embeddings"),
        )
    return settings


def _scaling_fields(config: TransformerConfig) -> dict[str, Any] | None:
    scaling = config.rotary_scaling
    if scaling is None:
        return None
    if scaling.kind == "linear":
        return {"rope_type": "linear", "factor": scaling.factor}
    return {
        "rope_type": "llama3",
        "factor": scaling.factor,
        "low_freq_factor": scaling.low_frequency_factor,
        "high_freq_factor": scaling.high_frequency_factor,
        "original_max_position_embeddings": scaling.original_length,
    }


_HEAD = ("lm_head.weight",)
_FREQUENCIES = ("rotary_emb.inv_freq",)
_MASKS = ("attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias")

# In the order in which `save_pretrained` asks which of them a model is.
FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        Family("gpt2", "GPT2LMHeadModel", "transformer.", GPT2_LAYOUT, _HEAD, _MASKS, _read_gpt2, _write_gpt2),
        Family("opt", "OPTForCausalLM", "model.decoder.", OPT_LAYOUT, _HEAD, (), _read_opt, _write_opt),
        Family(
            "gpt_neox",
            "GPTNeoXForCausalLM",
            "gpt_neox.",
            NEOX_LAYOUT,
            ("embed_out.weight", "lm_head.weight"),
            (*_MASKS, *_FREQUENCIES),
            _read_neox,
            _write_neox,
        ),
        Family("llama", "LlamaForCausalLM", "model.", LLAMA_LAYOUT, _HEAD, _FREQUENCIES, _read_llama, _write_llama),
        Family(
            "mistral", "MistralForCausalLM", "model.", LLAMA_LAYOUT, _HEAD, _FREQUENCIES, _read_mistral, _write_mistral
        ),
        Family("qwen2", "Qwen2ForCausalLM", "model.", LLAMA_LAYOUT, _HEAD, _FREQUENCIES, _read_qwen2, _write_qwen2),
        Family("qwen3", "Qwen3ForCausalLM", "model.", LLAMA_LAYOUT, _HEAD, _FREQUENCIES, _read_qwen3, _write_qwen3),
    )
}


def read_config(values: Mapping[str, Any], path: Path) -> tuple[Family, TransformerConfig]:
    """What a config.json says.

    Args:
      values: its fields.
      path: the file, for errors.

    Raises:
      PretrainedError: another architecture, or a field that our model cannot follow or that is not known, by its name.
    """
    family = FAMILIES.get(str(values.get("model_type")))
    if family is None:
        known = ", ".join(FAMILIES)
        raise PretrainedError(f"{path}: the architecture {values.get('model_type')!r} is not supported, only {known}")
    fields = Fields(values, path)
    for name, wanted in (
        ("add_cross_attention", False),
        ("is_causal", True),
        ("pruned_heads", {}),
        ("quantization_config", None),
    ):
        fields.expect(name, wanted)
    config = family.read(fields)
    for name in fields.unread():
        raise fields.error(
            name,
            f"{values[name]!r:.60} is not known and may change what the model computes: if it does not, take it out",
        )
    return family, config
