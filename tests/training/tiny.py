"""Tiny models, batches and losses for the tests of training. Axes divide by 8: any mesh of 8 devices takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from webgpt_jax.models import (
    ActivationSharding,
    Params,
    ScalarTransformer,
    TransformerConfig,
    Unsharded,
    forward,
    last_real,
    parameter_specs,
    unembed,
)
from webgpt_jax.models.parameters import Head, ParameterSpec, map_tree
from webgpt_jax.training.train_step import Batch, LossFunction, Metrics

LEARNED = TransformerConfig(
    vocab_size=29,
    vocab_multiple=8,
    num_layers=2,
    embed_dim=32,
    num_heads=8,
    head_dim=4,
    mlp_dim=64,
    max_length=16,
    init_std=0.2,
)
ROTARY = replace(
    LEARNED,
    num_kv_heads=2,  # on 8 tensor devices each has both
    positions="rotary",
    norm="rmsnorm",
    activation="silu",
    gated_mlp=True,
    qkv_bias=False,
    out_bias=False,
    mlp_bias=False,
    tied_embeddings=False,
)
MODELS: dict[str, TransformerConfig] = {
    "gpt2": LEARNED,
    "llama": ROTARY,
    "neox": replace(
        LEARNED, positions="rotary", rotary_fraction=0.5, parallel_residual=True, tied_embeddings=False, remat="full"
    ),
    "qwen": replace(ROTARY, num_kv_heads=4, qkv_bias=True, qk_norm=True, tied_embeddings=True, scan_layers=False),
    "unembedding bias": replace(LEARNED, unembedding_bias=True, gated_mlp=True, remat="dots", attention="xla"),
}
HEADS: tuple[Head, ...] = ("logits", "scalar")


def random_parameters(config: TransformerConfig, head: Head) -> Params:
    """NumPy arrays with noise on all of them: biases that are not 0 and scales that are not 1."""
    generator = np.random.default_rng(0)

    def draw(spec: ParameterSpec) -> Any:
        return (spec.mean + 0.2 * generator.standard_normal(spec.shape)).astype(np.float32)

    return map_tree(draw, parameter_specs(config, head))


def random_batch(rows: int = 8, length: int = 8, seed: int = 0) -> Batch:
    """Tokens, which of them count (a part of each row, none of the last), which are no padding, and a target a row."""
    generator = np.random.default_rng(seed)
    mask = np.arange(length) < generator.integers(3, length + 1, (rows, 1))
    counts = generator.random((rows, length)) < 0.6
    counts[-1] = False
    return {
        "tokens": generator.integers(0, 29, (rows, length)).astype(np.int32),
        "counts": counts.astype(np.float32),
        "mask": mask.astype(np.int32),
        "target": generator.standard_normal(rows).astype(np.float32),
    }


def loss_of(config: TransformerConfig, head: Head, sharding: ActivationSharding | None = None) -> LossFunction:
    """The mean cross-entropy of next tokens that count, or the mean squared error of the score at the last one."""
    sharding = Unsharded() if sharding is None else sharding

    def logits_loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        hidden = forward(config, params, batch["tokens"][:, :-1], sharding=sharding)
        logits = unembed(config, params, hidden, sharding=sharding)
        logprobs = jax.nn.log_softmax(logits, axis=-1)
        chosen = jnp.take_along_axis(logprobs, batch["tokens"][:, 1:, None], axis=-1)[..., 0]
        counts = batch["counts"][:, 1:]
        loss = -(chosen * counts).sum() / counts.sum()
        return loss, {"accuracy": ((jnp.argmax(logits, -1) == batch["tokens"][:, 1:]) * counts).sum() / counts.sum()}

    def scalar_loss(params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        scores = ScalarTransformer(config, params=params, sharding=sharding)(batch["tokens"], mask=batch["mask"])
        found = last_real(scores, batch["mask"])
        return jnp.square(found - batch["target"]).mean(), {"mean": found.mean()}

    return logits_loss if head == "logits" else scalar_loss


def quickly(function: jax.stages.Wrapped, *arguments: Any) -> Any:
    """`function(*arguments)`, compiled without the machine code's optimisation, which takes most of a test's time."""
    return function.lower(*arguments).compile({"xla_backend_optimization_level": "0"})(*arguments)


def weight_of(head: Head) -> Callable[[Batch], jax.Array]:
    """What `loss_of` is a mean over."""
    if head == "logits":
        return lambda batch: batch["counts"][:, 1:].sum()
    return lambda batch: jnp.asarray(batch["target"].shape[0])
