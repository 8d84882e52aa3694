"""How many parameters a model has and how many floating-point operations it takes, counted by hand.

A product of [m, k] and [k, n] is 2 m k n operations; norms, softmax and other work without products is left out (a few
per cent in tiny models, nothing in large ones). By hand, because XLA counts the body of a loop once; tested against its
count of programs without loops.

Legend: D embed_dim, N heads, K key-value heads, H head_dim, F mlp_dim, V padded vocabulary, L layers.
"""

from __future__ import annotations

from webgpt_jax.models.config import TransformerConfig
from webgpt_jax.models.parameters import Head, ParameterSpec, Tree, parameter_specs


def parameter_count(config: TransformerConfig, head: Head = "logits") -> int:
    """All parameters, the padded rows of the vocabulary among them."""
    return _size(parameter_specs(config, head))


def _size(specs: Tree[ParameterSpec]) -> int:
    return sum(_size(spec) if isinstance(spec, dict) else spec.size for spec in specs.values())


def block_flops(config: TransformerConfig) -> int:
    """Operations a token in all blocks, without attention's products of queries, keys and values."""
    qkv = config.embed_dim * (config.num_heads + 2 * config.kv_heads) * config.head_dim
    out = config.num_heads * config.head_dim * config.embed_dim
    mlp = (3 if config.gated_mlp else 2) * config.embed_dim * config.mlp_dim
    return 2 * config.num_layers * (qkv + out + mlp)


def attention_flops(config: TransformerConfig, pairs: int) -> int:
    """Operations in all blocks for so many pairs of a query and a key: the score, and the weighted value."""
    return 4 * config.num_layers * config.num_heads * config.head_dim * pairs


def unembedding_flops(config: TransformerConfig, head: Head = "logits") -> int:
    """Operations for the logits, or the score, of one token."""
    return 2 * config.embed_dim * (config.padded_vocab_size if head == "logits" else 1)


def seen_pairs(config: TransformerConfig, length: int) -> int:
    """Pairs of a query and a key that it may see, in a sequence: what a kernel that skips the rest works on."""
    window = length if config.sliding_window is None else min(config.sliding_window, length)
    return window * (window + 1) // 2 + (length - window) * window


def forward_flops(config: TransformerConfig, length: int, head: Head = "logits", *, causal: bool = False) -> int:
    """Operations for one sequence of so many tokens.

    Args:
      config: the model.
      length: tokens.
      head: what it ends in.
      causal: count only the pairs of tokens that see each other (the splash kernel's work) and not all of them.
    """
    pairs = seen_pairs(config, length) if causal else length * length
    return length * (block_flops(config) + unembedding_flops(config, head)) + attention_flops(config, pairs)


def training_flops(
    config: TransformerConfig,
    length: int,
    head: Head = "logits",
    *,
    causal: bool = False,
    rematerialized: bool = False,
) -> int:
    """Operations for one sequence forward and backward: three times the forward pass.

    Args:
      config: the model.
      length: tokens.
      head: what it ends in.
      causal: as of `forward_flops`.
      rematerialized: count the second forward pass through the blocks that `remat="full"` runs. Utilisation of a chip
        (MFU) is by convention reckoned without.
    """
    forward = forward_flops(config, length, head, causal=causal)
    if not rematerialized:
        return 3 * forward
    # What ends a block needs no second run: the backward pass reads its inputs alone.
    ends = config.embed_dim * config.mlp_dim
    if config.parallel_residual:
        ends += config.num_heads * config.head_dim * config.embed_dim
    return 4 * forward - length * (unembedding_flops(config, head) + 2 * config.num_layers * ends)


def prefill_flops(config: TransformerConfig, length: int, cache_length: int = 0) -> int:
    """Operations for a chunk of so many tokens with the logits of its last, read against so many rows of the cache."""
    pairs = length * (length + cache_length)
    return length * block_flops(config) + attention_flops(config, pairs) + unembedding_flops(config)


def decode_flops(config: TransformerConfig, cache_length: int) -> int:
    """Operations for one more token against a cache of so many rows: all of its length, since all of it is read."""
    return block_flops(config) + attention_flops(config, cache_length + 1) + unembedding_flops(config)
