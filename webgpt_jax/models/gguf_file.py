"""GGUF files: llama.cpp's models with their vocabulary in one file, quantised or not.

The header is read here (see `gguf_header`: the `gguf` package takes seconds for one with a vocabulary, and trusts it);
numbers are dequantised by that package. In Llama's files the rows of queries and keys are permuted, so that rotary
pairs lie next to each other; they are put back, and the model is the one that the Hugging Face folder gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gguf.quants import dequantize

from webgpt_jax.models.config import RotaryScaling, TransformerConfig
from webgpt_jax.models.fields import Fields
from webgpt_jax.models.gguf_header import GgufHeader, read_header
from webgpt_jax.models.layout import Layout, Part
from webgpt_jax.models.rotary import rotary_frequencies
from webgpt_jax.models.tensors import PretrainedError, Slices
from webgpt_jax.models.tokenizer import Tokenizer
from webgpt_jax.models.tokenizer_gguf import tokenizer_from_gguf

FREQUENCIES = "rope_freqs.weight"  # what llama3's stretched frequencies are divided by
LLAMA3_ORIGINAL_LENGTH = 8192  # tokens; of all models that are stretched so
# Said by files and without weight for the logits: what a conversion noted, or what holds for no stretching.
HARMLESS = ("rope.scaling.original_context_length", "rope.scaling.finetuned", "tensor_data_layout", "vocab_size")


class GgufFile:
    """The tensors of a GGUF file, dequantised to float32 as they are read, and its settings in our terms."""

    def __init__(self, path: Path, header: GgufHeader) -> None:
        self.path = path
        self.header = header
        self.shapes: Mapping[str, tuple[int, ...]] = {name: tensor.shape for name, tensor in header.tensors.items()}
        self._numbers = np.memmap(path, mode="r").view(np.ndarray)
        architecture = header.metadata.get("general.architecture")
        reader = READERS.get(str(architecture))
        if reader is None:
            raise PretrainedError(
                f"{path}: the architecture {architecture!r} is not supported, only {', '.join(READERS)}"
            )
        fields = Fields(header.metadata, path)
        self.config, self.layout = reader(fields, self)
        known = {f"{architecture}.{name}" for name in HARMLESS}
        for name in fields.unread():
            if name.startswith(f"{architecture}.") and name not in known:
                raise fields.error(name, f"{header.metadata[name]!r} is not supported")
        self.ignored = frozenset([FREQUENCIES]) & self.shapes.keys()

    def tokenizer(self) -> Tokenizer:
        """The file's own vocabulary."""
        return tokenizer_from_gguf(self.header.metadata, self.path)

    def read(self, name: str, slices: Slices) -> np.ndarray[Any, Any]:
        """A part of a tensor in float32; only its rows are read and dequantised."""
        tensor = self.header.tensors[name]
        first, last = (slices[0], slices[-1]) if len(slices) > 1 else (slice(0, 1), slices[0])
        raw = self._numbers[
            tensor.start + first.start * tensor.row_bytes : tensor.start + first.stop * tensor.row_bytes
        ]
        try:
            rows = dequantize(raw.reshape(first.stop - first.start, tensor.row_bytes), tensor.kind)
        except NotImplementedError as error:
            raise PretrainedError(
                f"{self.path}: the tensor {name} is of type {tensor.kind.name}, which is not read"
            ) from error
        columns: np.ndarray[Any, Any] = rows[:, last]
        return columns if len(slices) > 1 else columns[0]


def open_gguf(path: Path) -> GgufFile:
    """The file, its header read and checked."""
    return GgufFile(path, read_header(path))


def _norms(ours: str, theirs: str) -> Layout:
    return {f"{ours}/scale": (Part(f"{theirs}.weight", "d -> d"),), f"{ours}/bias": (Part(f"{theirs}.bias", "d -> d"),)}


# As in `tensor_tables`, in llama.cpp's names. Matrices are [out, in] for all, GPT-2's too.
COMMON_LAYOUT: Layout = {
    "embedding": (Part("token_embd.weight", "v d -> v d"),),
    **_norms("blocks/attention_norm", "blk.{}.attn_norm"),
    "blocks/attention/out": (Part("blk.{}.attn_output.weight", "d (n h) -> n h d"),),
    "blocks/attention/out_bias": (Part("blk.{}.attn_output.bias", "d -> d"),),
    **_norms("blocks/mlp_norm", "blk.{}.ffn_norm"),
    "blocks/mlp/down": (Part("blk.{}.ffn_down.weight", "d f -> f d"),),
    "blocks/mlp/down_bias": (Part("blk.{}.ffn_down.bias", "d -> d"),),
    **_norms("final_norm", "output_norm"),
    "unembedding": (Part("output.weight", "v d -> d v"),),
}

GPT2_LAYOUT: Layout = {
    **COMMON_LAYOUT,
    "position_embedding": (Part("position_embd.weight", "p d -> p d"),),
    "blocks/attention/qkv": (Part("blk.{}.attn_qkv.weight", "(t k h) d -> d k t h"),),
    "blocks/attention/qkv_bias": (Part("blk.{}.attn_qkv.bias", "(t k h) -> k t h"),),
    "blocks/mlp/up": (Part("blk.{}.ffn_up.weight", "f d -> d f"),),
    "blocks/mlp/up_bias": (Part("blk.{}.ffn_up.bias", "f -> f"),),
}


def _rotary_layout(query: str, key: str, entries: str) -> Layout:
    """`query` and `key`: how rows run in the file; `entries`: how a head's entries are made of that in our order."""
    rows = (("q", query, f"k g {entries}"), ("k", key, f"k o {entries}"), ("v", "k o h", "k o h"))
    return {
        **COMMON_LAYOUT,
        "blocks/attention/qkv": tuple(
            Part(f"blk.{{}}.attn_{name}.weight", f"({file}) d -> d {ours}") for name, file, ours in rows
        ),
        "blocks/attention/qkv_bias": tuple(
            Part(f"blk.{{}}.attn_{name}.bias", f"({file}) -> {ours}") for name, file, ours in rows
        ),
        "blocks/attention/query_norm": (Part("blk.{}.attn_q_norm.weight", "h -> h"),),
        "blocks/attention/key_norm": (Part("blk.{}.attn_k_norm.weight", "h -> h"),),
        "blocks/mlp/gate_up": tuple(Part(f"blk.{{}}.ffn_{name}.weight", "(o f) d -> d o f") for name in ("gate", "up")),
        "blocks/mlp/gate_up_bias": tuple(Part(f"blk.{{}}.ffn_{name}.bias", "(o f) -> o f") for name in ("gate", "up")),
    }


LLAMA_LAYOUT = _rotary_layout("k g i s", "k o i s", "(s i)")
QWEN_LAYOUT = _rotary_layout("k g h", "k o h", "h")


def _read_gpt2(fields: Fields, file: GgufFile) -> tuple[TransformerConfig, Layout]:
    config = TransformerConfig(
        vocab_size=_vocab_size(file),
        num_layers=fields.integer("gpt2.block_count"),
        embed_dim=fields.integer("gpt2.embedding_length"),
        num_heads=fields.integer("gpt2.attention.head_count"),
        head_dim=fields.divided("gpt2.embedding_length", "gpt2.attention.head_count"),
        mlp_dim=fields.integer("gpt2.feed_forward_length"),
        max_length=fields.integer("gpt2.context_length"),
        norm_eps=fields.number("gpt2.attention.layer_norm_epsilon", 1e-5),
        activation="gelu_tanh",
        tied_embeddings=_tied(file),
    )
    fields.expect("gpt2.attention.head_count_kv", config.num_heads)
    return config, GPT2_LAYOUT


def _read_rotary(
    name: str, layout: Layout, qk_norm: bool
) -> Callable[[Fields, GgufFile], tuple[TransformerConfig, Layout]]:
    def read(fields: Fields, file: GgufFile) -> tuple[TransformerConfig, Layout]:
        heads = fields.integer(f"{name}.attention.head_count")
        own = fields.get(f"{name}.attention.key_length") is not None
        head_dim = (
            fields.integer(f"{name}.attention.key_length")
            if own
            else fields.divided(f"{name}.embedding_length", f"{name}.attention.head_count")
        )
        fields.expect(f"{name}.attention.value_length", head_dim)
        fields.expect(f"{name}.rope.dimension_count", head_dim)
        fields.expect(f"{name}.expert_count", 0)
        fields.expect(f"{name}.expert_used_count", 0)
        fields.expect(f"{name}.attention.causal", True)
        window = fields.get(f"{name}.attention.sliding_window")
        config = TransformerConfig(
            vocab_size=_vocab_size(file),
            num_layers=fields.integer(f"{name}.block_count"),
            embed_dim=fields.integer(f"{name}.embedding_length"),
            num_heads=heads,
            num_kv_heads=fields.integer(f"{name}.attention.head_count_kv", heads),
            head_dim=head_dim,
            mlp_dim=fields.integer(f"{name}.feed_forward_length"),
            max_length=fields.integer(f"{name}.context_length"),
            norm="rmsnorm",
            norm_eps=fields.number(f"{name}.attention.layer_norm_rms_epsilon", 1e-6),
            activation="silu",
            gated_mlp=True,
            positions="rotary",
            rotary_theta=fields.number(f"{name}.rope.freq_base", 10_000.0),
            sliding_window=fields.integer(f"{name}.attention.sliding_window") if window else None,
            qk_norm=qk_norm,
            qkv_bias="blk.0.attn_q.bias" in file.shapes,
            out_bias="blk.0.attn_output.bias" in file.shapes,
            mlp_bias="blk.0.ffn_down.bias" in file.shapes,
            tied_embeddings=_tied(file),
        )
        return replace(config, rotary_scaling=_scaling(fields, name, config, file)), layout

    return read


def _scaling(fields: Fields, name: str, config: TransformerConfig, file: GgufFile) -> RotaryScaling | None:
    # A file that gives a factor and no type means "linear" to llama.cpp.
    kinds: dict[str, str | None] = {"none": None, "linear": "linear"}
    kind = fields.choice(f"{name}.rope.scaling.type", kinds, "linear")
    old = fields.number(f"{name}.rope.scale_linear", 1.0)
    factor = fields.number(f"{name}.rope.scaling.factor", old)
    if FREQUENCIES in file.shapes:
        return _llama3(config, file)
    return RotaryScaling("linear", factor=factor) if kind == "linear" and factor != 1.0 else None


def _llama3(config: TransformerConfig, file: GgufFile) -> RotaryScaling:
    """The settings behind the divisors of a file's frequencies, found by making the divisors again from them."""
    size = config.rotary_dim // 2
    if file.shapes[FREQUENCIES] != (size,):
        raise PretrainedError(
            f"{file.path}: the tensor {FREQUENCIES} has shape {file.shapes[FREQUENCIES]}, not ({size},)"
        )
    divisors = file.read(FREQUENCIES, (slice(0, size),))
    scaling = RotaryScaling("llama3", float(divisors.max()), original_length=LLAMA3_ORIGINAL_LENGTH)
    made = rotary_frequencies(config) / rotary_frequencies(replace(config, rotary_scaling=scaling))
    if not np.allclose(made, divisors, rtol=1e-4):
        raise PretrainedError(f"{file.path}: the tensor {FREQUENCIES} stretches positions as Llama 3 does not")
    return scaling


def _vocab_size(file: GgufFile) -> int:
    shape = file.shapes.get("token_embd.weight", ())
    if len(shape) != 2:
        raise PretrainedError(f"{file.path}: the tensor token_embd.weight is missing or no matrix")
    return shape[0]


def _tied(file: GgufFile) -> bool:
    return "output.weight" not in file.shapes


READERS: dict[str, Callable[[Fields, GgufFile], tuple[TransformerConfig, Layout]]] = {
    "llama": _read_rotary("llama", LLAMA_LAYOUT, qk_norm=False),
    "qwen2": _read_rotary("qwen2", QWEN_LAYOUT, qk_norm=False),
    "qwen3": _read_rotary("qwen3", QWEN_LAYOUT, qk_norm=True),
    "gpt2": _read_gpt2,
}
