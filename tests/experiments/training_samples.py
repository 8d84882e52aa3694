"""A byte-level tokenizer's folder, and data that a tiny model learns from in a few updates."""

from __future__ import annotations

from pathlib import Path

from tokenizers import pre_tokenizers

from tests.datasets.samples import comparison, episode, write_episodes
from webgpt_jax.datasets import write_comparisons
from webgpt_jax.models import Tokenizer
from webgpt_jax.models.tokenizer import byte_level_bpe

END = "<|end|>"


def write_tokenizer(folder: Path) -> Path:
    """A token a byte, and one that ends a text."""
    folder.mkdir()
    library = byte_level_bpe({piece: at for at, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    library.add_special_tokens([END])
    Tokenizer(library, specials={"eos": END}).save(folder)
    return folder


def write_demonstrations(path: Path, questions: int = 30) -> Path:
    return write_episodes(path, [episode(f"Why is {number} so?") for number in range(questions)])


def write_labels(path: Path, questions: int = 40) -> Path:
    """Comparisons in which the first answer, the one with a reference, is better, and some ties."""
    write_comparisons(path, [comparison(number, 0.5 if number % 5 == 0 else 1.0) for number in range(questions)])
    return path
