"""A tiny random model that reads and writes bytes, for episodes in tests."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from tokenizers import pre_tokenizers

from tests.models.shapes import ROTARY, random_parameters
from webgpt_jax.models import Tokenizer, Transformer
from webgpt_jax.models.tokenizer import byte_level_bpe

CONFIG = replace(ROTARY, vocab_size=320, max_length=3072)
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}{% endfor %}<|im_start|>\n"
)


def tiny_model() -> Transformer:
    return Transformer(CONFIG, params=jax.tree.map(jnp.asarray, random_parameters(CONFIG)))


def tiny_tokenizer(chat_template: str | None = CHATML) -> Tokenizer:
    merges = [("Q", "u"), ("Ġ", "t"), ("e", "Ġ"), ("Ġ", "a")]
    texts = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(merge) for merge in merges)]
    library = byte_level_bpe({text: number for number, text in enumerate(texts)}, merges)
    library.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return Tokenizer(library, specials={"eos": "<|im_end|>"}, chat_template=chat_template)
