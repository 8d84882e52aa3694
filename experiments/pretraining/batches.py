"""Batches of reading tasks, each found again by its number: a run that is resumed sees what it would have seen.

Tasks are drawn in chunks, each from a few worlds by a seed of its own, and sorted by length into buckets, so that
little is computed for padding; a batch mixes all skills that have its length.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from webgpt_jax.env import BrowserConfig
from webgpt_jax.models.tokenizer import Tokenizer, tokenizer_from_folder
from webgpt_jax.tinyweb.reading import BEGINNING, LATER, Reader, Reading
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, Library, open_library

Batch = dict[str, NDArray[np.generic]]

BUCKETS = (64, 96, 128, 192, 256, 336)  # tokens
FIRST_WORLD = 1000  # seeds below are left for training and tests of what comes after
HELD_OUT_WORLD = 900
WORLDS = 300  # different ones, before the first is read again
WORLD_ANIMALS = 120
WORLDS_PER_CHUNK = 4
TASKS_PER_CHUNK = 4096
LATER_FROM = 21  # the chunk from which on the skills that take longer are practised most: after 10 million tokens
COMPLETION_WEIGHT = 4.0  # of a token that answers, beside one that was given


@dataclass(frozen=True)
class BatchConfig:
    """Which batches."""

    tokenizer: Path  # a folder
    tokens: int = 4096  # of a batch, padding included
    seed: int = 0


def batches(config: BatchConfig, start: int = 0) -> Iterator[Batch]:
    """`tokens`, `targets` [B, T] int32 and `mask` [B, T] float32, without end, from batch number `start` on.

    Chunks are made ahead in a process of their own. Those before `start` are drawn again, to know how many batches
    they gave; of a long run that takes a while.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        ahead: list[Future[list[Batch]]] = []
        left = start
        for number in itertools.count():
            while len(ahead) < 2:
                ahead.append(pool.submit(chunk, config, number + len(ahead)))
            made = ahead.pop(0).result()
            yield from made[left:]
            left = max(0, left - len(made))


def chunk(config: BatchConfig, number: int) -> list[Batch]:
    """The batches of one chunk, in an order of its own."""
    draw = random.Random(f"pretraining {config.seed} {number}")
    first = number * WORLDS_PER_CHUNK
    tokenizer = _tokenizer(config.tokenizer)
    shares = BEGINNING if number < LATER_FROM else LATER
    sorted_by_length: dict[int, list[tuple[list[int], int]]] = {length: [] for length in BUCKETS}
    for at in range(WORLDS_PER_CHUNK):
        reader = Reader(
            _library(FIRST_WORLD + (first + at) % WORLDS),
            browser_config(tokenizer),
            draw.randrange(1 << 30),
            shares,
        )
        for _ in range(TASKS_PER_CHUNK // WORLDS_PER_CHUNK):
            tokens, given = encode(reader.task(), tokenizer)
            bucket = next((length for length in BUCKETS if len(tokens) <= length + 1), None)
            if bucket is not None:
                sorted_by_length[bucket].append((tokens, given))
    made = []
    for length, examples in sorted_by_length.items():
        draw.shuffle(examples)
        rows = max(1, config.tokens // length)
        whole = len(examples) // rows * rows  # a batch with another shape would be compiled anew
        made += [pad(examples[at : at + rows], length) for at in range(0, whole, rows)]
    draw.shuffle(made)
    return made


def browser_config(tokenizer: Tokenizer) -> BrowserConfig:
    """TinyWeb's, with lengths in the model's own tokens."""
    return replace(TINYWEB_BROWSER, count_tokens=tokenizer.count)


def encode(task: Reading, tokenizer: Tokenizer) -> tuple[list[int], int]:
    """The task's tokens with the end of text, and how many of them are given."""
    given = tokenizer.encode(task.prompt)
    assert tokenizer.eos_id is not None
    return [*given, *tokenizer.encode(task.completion), tokenizer.eos_id], len(given)


def pad(examples: Sequence[tuple[list[int], int]], length: int) -> Batch:
    """Rows of one length. Every token but the first is predicted; those that answer count more."""
    tokens = np.zeros((len(examples), length + 1), np.int32)
    mask = np.zeros((len(examples), length), np.float32)
    for row, (example, given) in enumerate(examples):
        tokens[row, : len(example)] = example
        mask[row, : len(example) - 1] = 1.0
        mask[row, given - 1 : len(example) - 1] = COMPLETION_WEIGHT
    return {"tokens": tokens[:, :-1], "targets": tokens[:, 1:], "mask": mask}


@lru_cache(2 * WORLDS_PER_CHUNK)
def _library(seed: int) -> Library:
    return open_library(seed, animals=WORLD_ANIMALS)


@lru_cache(1)
def _tokenizer(folder: Path) -> Tokenizer:
    tokenizer = tokenizer_from_folder(folder)
    assert tokenizer is not None
    return tokenizer
