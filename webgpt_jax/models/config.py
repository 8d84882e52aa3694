"""The settings of the one transformer: every option that the paper's GPT-3 shapes and the open models need.

A model is described by values alone, so that a checkpoint, a Hugging Face `config.json` and a preset all say what they
are with the same frozen dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

Positions = Literal["learned", "rotary"]
RotaryStyle = Literal["half", "interleaved"]
RotaryScalingKind = Literal["linear", "llama3"]
Norm = Literal["layernorm", "rmsnorm"]
Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]
AttentionKind = Literal["plain", "xla", "cudnn", "splash"]
Remat = Literal["none", "dots", "full"]
FloatType = Literal["float32", "bfloat16", "float16"]


class ConfigError(ValueError):
    """Settings that no model can be built from; the message names the field and what it may be."""


@dataclass(frozen=True)
class RotaryScaling:
    """How rotary frequencies are stretched beyond the length a model was first trained at."""

    kind: RotaryScalingKind  # "linear" slows all frequencies alike, "llama3" only the slow ones
    factor: float  # new length over original length
    low_frequency_factor: float = 1.0  # llama3: wavelengths above original_length / this are slowed by the whole factor
    high_frequency_factor: float = 4.0  # llama3: wavelengths below original_length / this are left alone
    original_length: int = 8192  # llama3: tokens of context before stretching


@dataclass(frozen=True)
class TransformerConfig:
    """One decoder-only transformer. `validate()` says what is wrong with a combination."""

    # Shape
    vocab_size: int  # tokens of the vocabulary, V
    num_layers: int  # blocks, L
    embed_dim: int  # width of the residual stream, D
    num_heads: int  # query heads, N
    head_dim: int  # width of a head, H; not always embed_dim / num_heads (the paper's 13B: 40 × 128, width 5140)
    mlp_dim: int  # hidden width of the MLP, F
    max_length: int  # longest sequence in tokens
    num_kv_heads: int | None = None  # key and value heads, K, each shared by N / K query heads; None: as many as N
    vocab_multiple: int = 1  # the vocabulary is padded to a multiple of this, so that it shards (50,257 -> 50,304)

    # Positions
    positions: Positions = "learned"
    position_offset: int = 0  # learned: row of the table that position 0 reads (OPT: 2)
    rotary_fraction: float = 1.0  # rotary: the part of each head that turns (Pythia: 0.25)
    rotary_theta: float = 10_000.0  # rotary: base of the wavelengths
    rotary_style: RotaryStyle = "half"  # rotary: i pairs with i + half (Llama, NeoX), or 2i with 2i + 1 (GPT-J, GGUF)
    rotary_scaling: RotaryScaling | None = None  # rotary: stretched frequencies

    # Blocks
    norm: Norm = "layernorm"
    norm_eps: float = 1e-5  # added to the variance
    norm_bias: bool = True  # layernorm: has a bias; rmsnorm has none whatever this says
    activation: Activation = "gelu_tanh"  # "gelu" is the exact one, "gelu_tanh" its approximation (GPT-2, GPT-3)
    gated_mlp: bool = False  # activation(gate) * up (SwiGLU with "silu") and not activation(up)
    qkv_bias: bool = True  # biases of the query, key and value projections
    out_bias: bool = True  # bias of the attention's output projection
    mlp_bias: bool = True  # biases of the MLP's projections
    parallel_residual: bool = False  # attention and MLP both read the block's input (NeoX)
    shared_norm: bool = False  # parallel residual: one norm feeds both (GPT-J) and not one each (NeoX)
    qk_norm: bool = False  # RMSNorm over each head's query and key before positions (Qwen 3)
    sliding_window: int | None = None  # a token attends to itself and this many tokens less one before it (Mistral)

    # Ends
    tied_embeddings: bool = True  # logits by the token embedding, no unembedding of its own
    unembedding_bias: bool = False  # bias of the logits
    embedding_scale: float = 1.0  # token embeddings are multiplied by this

    # Training and arithmetic
    dropout: float = 0.0  # on embeddings and on what each branch adds, when a key is given; off in the paper's tables
    init_std: float = 0.02  # of matrices and embeddings; what ends a residual branch has this / sqrt(2 L) (GPT-2)
    dtype: FloatType = "float32"  # of activations and matrix products; norms, softmax and logits are float32 always
    param_dtype: FloatType = "float32"  # of parameters
    attention: AttentionKind = "plain"  # which program computes attention; see `attention.py`
    remat: Remat = "none"  # kept for the backward pass: "none" all, "dots" matrix products, "full" block inputs alone
    scan_layers: bool = True  # blocks under one `jax.lax.scan` (96 compile like one), or unrolled

    @property
    def kv_heads(self) -> int:
        """Key and value heads, K."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def padded_vocab_size(self) -> int:
        """Rows of the embedding: `vocab_size` rounded up to `vocab_multiple`."""
        return -(-self.vocab_size // self.vocab_multiple) * self.vocab_multiple

    @property
    def rotary_dim(self) -> int:
        """Entries of a head that turn with the position: even, 0 with learned positions."""
        return 0 if self.positions == "learned" else int(self.head_dim * self.rotary_fraction)

    def validate(self) -> None:
        """Raises `ConfigError` for settings that contradict each other or mean nothing."""
        self._check_choices()
        self._check_numbers()
        if self.num_heads % self.kv_heads:
            raise ConfigError(f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.num_kv_heads}")
        if self.shared_norm and not self.parallel_residual:
            raise ConfigError("shared_norm feeds both branches of a parallel residual: set parallel_residual too")
        if self.positions == "rotary":
            self._check_rotary()
        elif self.rotary_scaling is not None:
            raise ConfigError("rotary_scaling needs positions='rotary'")

    def _check_choices(self) -> None:
        for name, hint in get_type_hints(TransformerConfig).items():
            value, choices = getattr(self, name), get_args(hint)
            if choices and all(isinstance(choice, str) for choice in choices) and value not in choices:
                raise ConfigError(f"{name} {value!r} is none of {', '.join(choices)}")

    def _check_numbers(self) -> None:
        positive = ("vocab_size", "num_layers", "embed_dim", "num_heads", "head_dim", "mlp_dim", "max_length")
        for name in (*positive, "kv_heads", "vocab_multiple", "norm_eps", "init_std"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0, not {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be at least 0 and below 1, not {self.dropout}")
        if self.position_offset < 0:
            raise ConfigError(f"position_offset must not be negative: {self.position_offset}")
        if self.sliding_window is not None and self.sliding_window < 1:
            raise ConfigError(f"sliding_window must be at least 1 token, not {self.sliding_window}; None for no window")

    def _check_rotary(self) -> None:
        if self.rotary_dim < 2 or self.rotary_dim > self.head_dim or self.rotary_dim % 2:
            raise ConfigError(
                f"rotary_fraction {self.rotary_fraction} of head_dim {self.head_dim} turns {self.rotary_dim} entries; "
                f"it must be an even number from 2 to {self.head_dim}"
            )
        if self.position_offset:
            raise ConfigError("position_offset is for learned positions; rotary ones are relative")
        if self.rotary_theta <= 0:
            raise ConfigError(f"rotary_theta must be above 0, not {self.rotary_theta}")
        scaling = self.rotary_scaling
        if scaling is None:
            return
        if scaling.kind not in get_args(RotaryScalingKind):
            known = ", ".join(get_args(RotaryScalingKind))
            raise ConfigError(f"rotary_scaling of kind {scaling.kind!r} is none of {known}")
        if scaling.factor < 1:
            raise ConfigError(f"rotary_scaling.factor must be at least 1, not {scaling.factor}")
        if not 0 < scaling.low_frequency_factor < scaling.high_frequency_factor:
            raise ConfigError("rotary_scaling needs 0 < low_frequency_factor < high_frequency_factor")
