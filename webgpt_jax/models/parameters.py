"""Every parameter of the transformer in one table: its shape, its logical axes and how it starts.

Blocks are stacked: their arrays have a leading layer axis, so that they run under one scan and a mesh rule names each
axis once. Query, key and value share one array, grouped by key-value head ([D, K, G + 2, H]: G = N / K queries, the
key, the value), as do gate and up ([D, 2, F]): one matrix product instead of three and two, and a mesh that splits K or
F keeps what belongs together on one device. Query head n reads key-value head n // G.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx

from webgpt_jax.models.config import TransformerConfig

Axes: TypeAlias = tuple[str | None, ...]  # logical axis names, one an axis; None is never split
Params: TypeAlias = dict[str, Any]  # arrays by name, nested: what the pure functions take
Head: TypeAlias = Literal["logits", "scalar"]  # what a model ends in: logits, or one number a position

Leaf = TypeVar("Leaf")
New = TypeVar("New")
Tree: TypeAlias = dict[str, "Leaf | Tree[Leaf]"]


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter: shape, logical axis names, and the constant or normal distribution it starts from."""

    shape: tuple[int, ...]
    axes: Axes
    mean: float = 0.0
    std: float = 0.0  # 0: the constant `mean`

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    def initialize(self, key: jax.Array, dtype: str) -> jax.Array:
        """A first value, drawn in float32 and then rounded to `dtype`."""
        if self.std == 0:
            return jnp.full(self.shape, self.mean, dtype)
        return (self.mean + self.std * jax.random.normal(key, self.shape, jnp.float32)).astype(dtype)


def parameter_specs(config: TransformerConfig, head: Head = "logits") -> Tree[ParameterSpec]:
    """The table. `head="scalar"` has a number a position where the unembedding was (reward and value models)."""
    vocab, dim = config.padded_vocab_size, config.embed_dim
    specs: Tree[ParameterSpec] = {"embedding": ParameterSpec((vocab, dim), ("vocab", "embed"), std=config.init_std)}
    if config.positions == "learned":
        rows = config.max_length + config.position_offset
        specs["position_embedding"] = ParameterSpec((rows, dim), ("position", "embed"), std=config.init_std)
    specs["blocks"] = map_tree(lambda spec: _stacked(spec, config.num_layers), _block(config))
    specs["final_norm"] = _norm(config)
    if head == "scalar":
        std = 1 / math.sqrt(dim + 1)
        specs["scalar_head"] = {"kernel": ParameterSpec((dim,), ("embed",), std=std), "bias": ParameterSpec((), ())}
        return specs
    if not config.tied_embeddings:
        specs["unembedding"] = ParameterSpec((dim, vocab), ("embed", "vocab"), std=config.init_std)
    if config.unembedding_bias:
        specs["unembedding_bias"] = ParameterSpec((vocab,), ("vocab",))
    return specs


def _stacked(spec: ParameterSpec, layers: int) -> ParameterSpec:
    return ParameterSpec((layers, *spec.shape), ("layers", *spec.axes), spec.mean, spec.std)


def _norm(config: TransformerConfig) -> Tree[ParameterSpec]:
    norm: Tree[ParameterSpec] = {"scale": ParameterSpec((config.embed_dim,), ("embed",), mean=1.0)}
    if config.norm == "layernorm" and config.norm_bias:
        norm["bias"] = ParameterSpec((config.embed_dim,), ("embed",))
    return norm


def _block(config: TransformerConfig) -> Tree[ParameterSpec]:
    block: Tree[ParameterSpec] = {"attention_norm": _norm(config), "attention": _attention(config)}
    if not config.shared_norm:
        block["mlp_norm"] = _norm(config)
    block["mlp"] = _mlp(config)
    return block


def _attention(config: TransformerConfig) -> Tree[ParameterSpec]:
    dim, heads, kv_heads, head_dim = config.embed_dim, config.num_heads, config.kv_heads, config.head_dim
    grouped = (kv_heads, heads // kv_heads + 2, head_dim)
    grouped_axes = ("kv_heads", None, "head_dim")
    specs: Tree[ParameterSpec] = {
        "qkv": ParameterSpec((dim, *grouped), ("embed", *grouped_axes), std=config.init_std),
        "out": ParameterSpec((heads, head_dim, dim), ("heads", "head_dim", "embed"), std=_residual_std(config)),
    }
    if config.qkv_bias:
        specs["qkv_bias"] = ParameterSpec(grouped, grouped_axes)
    if config.out_bias:
        specs["out_bias"] = ParameterSpec((dim,), ("embed",))
    if config.qk_norm:
        specs["query_norm"] = ParameterSpec((head_dim,), ("head_dim",), mean=1.0)
        specs["key_norm"] = ParameterSpec((head_dim,), ("head_dim",), mean=1.0)
    return specs


def _mlp(config: TransformerConfig) -> Tree[ParameterSpec]:
    dim, hidden = config.embed_dim, config.mlp_dim
    up, up_axes, name = ((2, hidden), (None, "mlp"), "gate_up") if config.gated_mlp else ((hidden,), ("mlp",), "up")
    specs: Tree[ParameterSpec] = {
        name: ParameterSpec((dim, *up), ("embed", *up_axes), std=config.init_std),
        "down": ParameterSpec((hidden, dim), ("mlp", "embed"), std=_residual_std(config)),
    }
    if config.mlp_bias:
        specs[f"{name}_bias"] = ParameterSpec(up, up_axes)
        specs["down_bias"] = ParameterSpec((dim,), ("embed",))
    return specs


def _residual_std(config: TransformerConfig) -> float:
    """GPT-2's: 2 L branches add to the residual stream, and their sum keeps the variance of one."""
    return config.init_std / math.sqrt(2 * config.num_layers)


def map_tree(function: Callable[[Leaf], New], tree: Tree[Leaf]) -> Tree[New]:
    """The same nested names with `function` of each leaf."""
    return map_named(lambda _, leaf: function(leaf), tree)


def map_named(function: Callable[[str, Leaf], New], tree: Tree[Leaf], prefix: str = "") -> Tree[New]:
    """As `map_tree`; the function is given the leaf's path first, as in "blocks/attention/qkv"."""
    mapped: Tree[New] = {}
    for name, leaf in tree.items():
        path = prefix + name
        mapped[name] = map_named(function, leaf, f"{path}/") if isinstance(leaf, dict) else function(path, leaf)
    return mapped


def check_parameters(specs: Tree[ParameterSpec], arrays: Params, prefix: str = "") -> None:
    """Raises `ValueError` naming the first array that is missing, of another shape, or not one of the model's."""
    for name, spec in specs.items():
        path = prefix + name
        if name not in arrays:
            raise ValueError(f"the parameter {path} is missing")
        if isinstance(spec, dict):
            check_parameters(spec, arrays[name], f"{path}/")
        elif arrays[name].shape != spec.shape:
            raise ValueError(f"the parameter {path} has shape {arrays[name].shape}, the model's is {spec.shape}")
    for name in arrays:
        if name not in specs:
            raise ValueError(f"{prefix}{name} is not a parameter of this model")


def initial_parameters(config: TransformerConfig, key: jax.Array, head: Head = "logits") -> Params:
    """First values. Each depends on the key and its own path alone, so an option that adds one changes no other."""

    def initialize(path: str, spec: ParameterSpec) -> jax.Array:
        return spec.initialize(jax.random.fold_in(key, zlib.crc32(path.encode())), config.param_dtype)

    return map_named(initialize, parameter_specs(config, head))


def parameters(model: nnx.Module | nnx.State[Any, Any]) -> Params:
    """The arrays of a model, or of a state split from one, in nested dictionaries: `params` of the pure functions."""
    state = model if isinstance(model, nnx.State) else nnx.state(model, nnx.Param)
    return nnx.to_pure_dict(state)


def logical_axes(model: nnx.Module | nnx.State[Any, Any]) -> Tree[Axes]:
    """The axis names of each parameter, nested as `parameters` nests the arrays: what a mesh's rules are for."""
    state = model if isinstance(model, nnx.State) else nnx.state(model, nnx.Param)

    def nested(entries: Mapping[str, Any]) -> Tree[Axes]:
        return {
            name: entry.axes if isinstance(entry, nnx.Variable) else nested(entry) for name, entry in entries.items()
        }

    return nested(state)
