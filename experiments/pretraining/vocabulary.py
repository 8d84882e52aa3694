"""A byte-pair vocabulary of about a thousand tokens in which every word of TinyWeb is one token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as LibraryTokenizer

from webgpt_jax.models.tokenizer import Tokenizer
from webgpt_jax.tinyweb import lexicon
from webgpt_jax.tinyweb.reading import Reader
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, open_library

VOCABULARY = 1152
END = "<|endoftext|>"
MARKERS = "♦■【】†━"  # the paper's special characters: a token each, and no word goes across them
WORLDS = range(2000, 2020)
TASKS_PER_WORLD = 400


def train_vocabulary() -> Tokenizer:
    """Byte-level, as GPT-2's, so that any text can be written in it. The same on every machine."""
    library = LibraryTokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKERS),
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    library.train_from_iterator(_pieces(_texts()), trainer)
    library.add_tokens([AddedToken(marker, normalized=False) for marker in MARKERS])
    return Tokenizer(library, specials={"eos": END})


def _texts() -> Iterator[str]:
    words = [word for name, words in vars(lexicon).items() if name.isupper() for word in words]
    for seed in WORLDS:
        reader = Reader(open_library(seed, animals=60), TINYWEB_BROWSER, seed)
        for _ in range(TASKS_PER_WORLD):
            task = reader.task()
            yield task.prompt + task.completion
            yield f" {' '.join(words)}"


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from filter(None, re.split(f"[{MARKERS}]", text))
