"""A transformer written the slow way, in NumPy and float64, one sequence, one position and one head at a time: what the
real one is compared with. It shares nothing with it but the config and the names of the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webgpt_jax.models import TransformerConfig

Array = NDArray[np.float64]


def reference_logits(config: TransformerConfig, params: dict[str, Any], tokens: list[int]) -> Array:
    """Logits [T, V] of one sequence without padding, positions from 0."""
    hidden = reference_hidden(config, params, tokens)
    weights = params["embedding"].T if config.tied_embeddings else params["unembedding"]
    logits = np.stack([row @ np.asarray(weights, np.float64) for row in hidden])
    if config.unembedding_bias:
        logits = logits + params["unembedding_bias"]
    return logits[:, : config.vocab_size]


def reference_hidden(config: TransformerConfig, params: dict[str, Any], tokens: list[int]) -> Array:
    """What the last norm gives out, [T, D]."""
    rows = []
    for position, token in enumerate(tokens):
        row = np.asarray(params["embedding"][token], np.float64) * config.embedding_scale
        if config.positions == "learned":
            row = row + params["position_embedding"][position + config.position_offset]
        rows.append(row)
    stream = np.stack(rows)
    for layer in range(config.num_layers):
        stream = _block(config, _layer(params["blocks"], layer), stream)
    return np.stack([_norm(config, params["final_norm"], row) for row in stream])


def _layer(tree: dict[str, Any], layer: int) -> dict[str, Any]:
    return {
        name: _layer(entry, layer) if isinstance(entry, dict) else np.asarray(entry[layer], np.float64)
        for name, entry in tree.items()
    }


def _block(config: TransformerConfig, params: dict[str, Any], stream: Array) -> Array:
    first = np.stack([_norm(config, params["attention_norm"], row) for row in stream])
    attended = _attention(config, params["attention"], first)
    if config.parallel_residual:
        second_norm = params["attention_norm"] if config.shared_norm else params["mlp_norm"]
        second = [_norm(config, second_norm, row) for row in stream]
        return stream + attended + np.stack([_mlp(config, params["mlp"], row) for row in second])
    stream = stream + attended
    return stream + np.stack([_mlp(config, params["mlp"], _norm(config, params["mlp_norm"], row)) for row in stream])


def _norm(config: TransformerConfig, params: dict[str, Any], row: Array) -> Array:
    if config.norm == "rmsnorm":
        return _rms(config, params["scale"], row)
    normed = (row - row.mean()) / math.sqrt(row.var() + config.norm_eps) * params["scale"]
    return normed + params["bias"] if config.norm_bias else normed


def _rms(config: TransformerConfig, scale: Array, row: Array) -> Array:
    return row / math.sqrt((row * row).mean() + config.norm_eps) * scale


def _attention(config: TransformerConfig, params: dict[str, Any], rows: Array) -> Array:
    group = config.num_heads // config.kv_heads
    out = np.zeros_like(rows)
    for head in range(config.num_heads):
        kv_head = head // group
        queries = _project(config, params, rows, kv_head, head % group, params.get("query_norm"))
        keys = _project(config, params, rows, kv_head, group, params.get("key_norm"))
        values = rows @ params["qkv"][:, kv_head, group + 1]
        if config.qkv_bias:
            values = values + params["qkv_bias"][kv_head, group + 1]
        for at in range(len(rows)):
            first = 0 if config.sliding_window is None else max(0, at + 1 - config.sliding_window)
            scores = np.array([queries[at] @ keys[past] for past in range(first, at + 1)]) / math.sqrt(config.head_dim)
            weights = np.exp(scores - scores.max())
            mixed = (weights / weights.sum()) @ values[first : at + 1]
            out[at] += mixed @ params["out"][head]
    return out + params["out_bias"] if config.out_bias else out


def _project(
    config: TransformerConfig, params: dict[str, Any], rows: Array, kv_head: int, slot: int, scale: Array | None
) -> Array:
    projected = []
    for position, row in enumerate(rows):
        vector = row @ params["qkv"][:, kv_head, slot]
        if config.qkv_bias:
            vector = vector + params["qkv_bias"][kv_head, slot]
        if scale is not None:
            vector = _rms(config, scale, vector)
        projected.append(_turn(config, vector, position) if config.positions == "rotary" else vector)
    return np.stack(projected)


def _turn(config: TransformerConfig, vector: Array, position: int) -> Array:
    """Pairs as complex numbers, multiplied by exp(i angle)."""
    turned = vector.copy()
    size = int(config.head_dim * config.rotary_fraction)
    for pair in range(size // 2):
        angle = position * _frequency(config, pair, size)
        real, imaginary = (pair, pair + size // 2) if config.rotary_style == "half" else (2 * pair, 2 * pair + 1)
        number = complex(vector[real], vector[imaginary]) * complex(math.cos(angle), math.sin(angle))
        turned[real], turned[imaginary] = number.real, number.imag
    return turned


def _frequency(config: TransformerConfig, pair: int, size: int) -> float:
    frequency = config.rotary_theta ** (-2 * pair / size)
    scaling = config.rotary_scaling
    if scaling is None:
        return frequency
    if scaling.kind == "linear":
        return frequency / scaling.factor
    wavelength = 2 * math.pi / frequency
    if wavelength < scaling.original_length / scaling.high_frequency_factor:
        return frequency
    if wavelength > scaling.original_length / scaling.low_frequency_factor:
        return frequency / scaling.factor
    smooth = (scaling.original_length / wavelength - scaling.low_frequency_factor) / (
        scaling.high_frequency_factor - scaling.low_frequency_factor
    )
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency


def _mlp(config: TransformerConfig, params: dict[str, Any], row: Array) -> Array:
    if config.gated_mlp:
        gate, up = row @ params["gate_up"][:, 0], row @ params["gate_up"][:, 1]
        if config.mlp_bias:
            gate, up = gate + params["gate_up_bias"][0], up + params["gate_up_bias"][1]
        inner = np.array([_activation(config, number) for number in gate]) * up
    else:
        up = row @ params["up"]
        if config.mlp_bias:
            up = up + params["up_bias"]
        inner = np.array([_activation(config, number) for number in up])
    out = inner @ params["down"]
    return out + params["down_bias"] if config.mlp_bias else out


def _activation(config: TransformerConfig, number: float) -> float:
    match config.activation:
        case "relu":
            return max(number, 0.0)
        case "silu":
            return number / (1 + math.exp(-number))
        case "gelu":
            return number * 0.5 * math.erfc(-number / math.sqrt(2))
        case "gelu_tanh":
            return number * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (number + 0.044715 * number**3)))
