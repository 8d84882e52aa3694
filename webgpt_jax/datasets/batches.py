"""Batches for a training step, in NumPy: the same for a seed, whatever the number of hosts and wherever one resumes.

An epoch's order is drawn from the seed and the epoch's number. Its rows follow one another over all epochs, and batch k
is rows k·B to (k+1)·B of them; a host fills only its own part of a batch. So any number of hosts together see the same
batches, and what comes after `start` batches is known without making those before. Only the last batch of all may have
rows left over: they are empty, with masks of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from webgpt_jax.datasets.comparisons import read_comparisons
from webgpt_jax.datasets.demonstrations import read_demonstrations
from webgpt_jax.datasets.records import DataError, Report
from webgpt_jax.datasets.splits import Split
from webgpt_jax.datasets.tokenization import (
    TokenizedExample,
    Tokenizer,
    check_gpt2,
    end_token,
    tokenize_example,
    tokenize_side,
)

OPEN_ROWS = 32  # rows that packing looks at for room; more of them fill better and mix the order more

Batch = dict[str, npt.NDArray[Any]]
Row = Sequence[int]  # the numbers of the examples in it
TooLong = Literal["drop", "error"]


class Batches(Iterator[Batch]):
    """An iterator over batches that knows where it is and what the data were."""

    def __init__(
        self,
        plan: Callable[[int], Sequence[Row]],
        fill: Callable[[Sequence[Row]], Batch],
        report: Report,
        *,
        batch_size: int,
        num_epochs: int | None,
        shard: tuple[int, int],
        start: int,
    ) -> None:
        self.report = report  # what was read and what was left out
        self.taken = start  # batches that were given, those before `start` included
        self._plan = plan
        self._fill = fill
        self._batch_size = batch_size
        self._num_epochs = num_epochs
        share = batch_size // shard[1]
        self._own = slice(shard[0] * share, (shard[0] + 1) * share)
        self._epoch, self._at = 0, start * batch_size
        self._rows = plan(0)
        self._settle()
        if self._ended and self._at >= batch_size:
            raise ValueError(f"start={start}, but {num_epochs} epochs of these data have {self.total} batches")

    def _settle(self) -> None:
        """Makes the place one within an epoch, or the end."""
        while self._at >= len(self._rows) and not self._ended:
            self._at -= len(self._rows)
            self._epoch += 1
            self._rows = () if self._ended else self._plan(self._epoch)

    @property
    def _ended(self) -> bool:
        return self._epoch == self._num_epochs

    @property
    def epoch(self) -> float:
        """How many epochs were taken, by rows: 1.5 is half of the second."""
        return self._epoch + (0.0 if self._ended else self._at / len(self._rows))

    @cached_property
    def total(self) -> int | None:
        """How many batches there are in all epochs, those before `start` included; None where there is no end."""
        if self._num_epochs is None:
            return None
        rows = sum(len(self._plan(epoch)) for epoch in range(self._num_epochs))
        return -(-rows // self._batch_size)

    def __next__(self) -> Batch:
        rows: list[Row] = []
        while len(rows) < self._batch_size and not self._ended:
            taken = self._rows[self._at : self._at + self._batch_size - len(rows)]
            rows += taken
            self._at += len(taken)
            self._settle()
        if not rows:
            raise StopIteration
        rows += [()] * (self._batch_size - len(rows))
        self.taken += 1
        return self._fill(rows[self._own])


def demonstration_batches(
    paths: Sequence[Path],
    tokenizer: Tokenizer,
    *,
    batch_size: int,
    length: int,
    seed: int,
    num_epochs: int | None = None,
    split: Split = "train",
    held_out: float = 0.04,
    share: float = 1.0,
    shard: tuple[int, int] = (0, 1),
    start: int = 0,
    pack: bool = True,
    too_long: TooLong = "drop",
    skip_bad_records: bool = False,
) -> Batches:
    """Batches of demonstrations for behaviour cloning. All is read and cut into tokens at once, before the first batch.

    A batch holds, for the B rows of this shard and T = `length`:
      tokens: [B, T] int32, the model's input.
      targets: [B, T] int32, the token that follows each of them in its example.
      mask: [B, T] float32, 1 where the target is one of the completion's tokens or the end token behind it, else 0.
      segments: [B, T] int32, the examples of a row numbered from 1; 0 is padding.

    Args:
      paths: files of episodes, see `read_demonstrations`.
      tokenizer: the model's.
      batch_size: rows of the global batch, of all shards together.
      length: tokens a row. An example has one token less than its text, since the last is a target only.
      seed: not negative; with the epoch's number it decides the order.
      num_epochs: None never ends.
      split: "train" or "validation".
      held_out: the share of questions in "validation".
      share: of the questions of "train", how many are taken; a smaller share's are among a larger one's.
      shard: this host's number and the number of hosts. The batch size must be a multiple of the latter.
      start: how many batches were taken before, to resume after them.
      pack: whether a row may hold several examples.
      too_long: whether examples longer than a row are counted and dropped, or are an error.
      skip_bad_records: whether lines that are no episode are counted and passed over.

    Raises:
      DataError: the data cannot be used, or nothing is left of them in this split.
      ValueError: the arguments do not fit each other.
    """
    _check(batch_size, length, seed, num_epochs, shard, start)
    report, kind = Report(), _token_type(tokenizer)
    examples: list[npt.NDArray[Any]] = []
    prompts: list[int] = []  # the lengths of the prompts
    for found in read_demonstrations(
        paths, split=split, held_out=held_out, share=share, skip_bad_records=skip_bad_records, report=report
    ):
        for number, example in enumerate(found.examples):
            cut = tokenize_example(example, tokenizer)
            tokens = cut.prompt + cut.completion
            if len(tokens) - 1 > length:
                _leave_out(report, too_long, f"example {number} of {found.question[:80]!r}", len(tokens) - 1, length)
            else:
                examples.append(np.array(tokens, kind))
                prompts.append(len(cut.prompt))
    _check_some(report, paths, split)
    lengths = [len(tokens) - 1 for tokens in examples]

    def plan(epoch: int) -> Sequence[Row]:
        order = _order(len(examples), seed, epoch)
        return pack_rows(lengths, order, length) if pack else [(number,) for number in order]

    def fill(rows: Sequence[Row]) -> Batch:
        shape = (len(rows), length)
        batch: Batch = {name: np.zeros(shape, np.int32) for name in ("tokens", "targets", "segments")}
        batch["mask"] = np.zeros(shape, np.float32)
        for at, row in enumerate(rows):
            begin = 0
            for segment, number in enumerate(row, start=1):
                end = begin + lengths[number]
                batch["tokens"][at, begin:end] = examples[number][:-1]
                batch["targets"][at, begin:end] = examples[number][1:]
                batch["mask"][at, begin + max(prompts[number] - 1, 0) : end] = 1
                batch["segments"][at, begin:end] = segment
                begin = end
        return batch

    return Batches(plan, fill, report, batch_size=batch_size, num_epochs=num_epochs, shard=shard, start=start)


def comparison_batches(
    paths: Sequence[Path],
    tokenizer: Tokenizer,
    *,
    batch_size: int,
    length: int,
    seed: int,
    num_epochs: int | None = None,
    split: Split = "train",
    held_out: float = 0.25,
    share: float = 1.0,
    shard: tuple[int, int] = (0, 1),
    start: int = 0,
    released_tokens: bool = False,
    too_long: TooLong = "drop",
    skip_bad_records: bool = False,
) -> Batches:
    """Batches of comparisons for a reward model. All is read and cut into tokens at once, before the first batch.

    A batch holds, for the B rows of this shard and T = `length`:
      tokens_a, tokens_b: [B, T] int32, each side's answering prompt, answer and end token, then padding.
      mask_a, mask_b: [B, T] float32, 1 for these tokens, 0 for padding.
      label: [B] float32, 1 where A is better, 0.5 for a tie, 0 where B is better.
    A row left over at the end of all has masks of 0, equal sides and label 0.5: its gradient is 0.

    A prompt that does not fit loses its front, so that the answer and the end token stay.

    Args:
      paths: files of comparisons, see `read_comparisons`.
      released_tokens: whether the tokens that were released with the paper's comparisons are taken in the text's place;
        the tokenizer must be GPT-2's then.
      too_long: whether comparisons with an answer longer than a row are counted and dropped, or are an error.
      tokenizer, batch_size, length, seed, num_epochs, split, held_out, share, shard, start, skip_bad_records: see
        `demonstration_batches`.

    Raises:
      DataError: the data cannot be used, or nothing is left of them in this split.
      ValueError: the arguments do not fit each other.
    """
    _check(batch_size, length, seed, num_epochs, shard, start)
    report, kind = Report(), _token_type(tokenizer)
    if released_tokens:
        check_gpt2(tokenizer)
    pairs: list[tuple[npt.NDArray[Any], ...]] = []
    labels: list[float] = []
    for found in read_comparisons(
        paths, split=split, held_out=held_out, share=share, skip_bad_records=skip_bad_records, report=report
    ):
        sides = [tokenize_side(found, side, tokenizer, released_tokens=released_tokens) for side in (found.a, found.b)]
        longest = max(len(side.completion) for side in sides)
        if longest > length:
            _leave_out(report, too_long, f"an answer of comparison {found.id!r}", longest, length)
            continue
        report.truncated += sum(_size(side) > length for side in sides)
        pairs.append(tuple(np.array((side.prompt + side.completion)[-length:], kind) for side in sides))
        labels.append(found.label)
    _check_some(report, paths, split)

    def plan(epoch: int) -> Sequence[Row]:
        return [(number,) for number in _order(len(pairs), seed, epoch)]

    def fill(rows: Sequence[Row]) -> Batch:
        shape = (len(rows), length)
        batch: Batch = {"label": np.full(len(rows), 0.5, np.float32)}
        for side, name in enumerate("ab"):
            batch[f"tokens_{name}"], batch[f"mask_{name}"] = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
            for at, row in enumerate(rows):
                for number in row:
                    tokens = pairs[number][side]
                    batch[f"tokens_{name}"][at, : len(tokens)] = tokens
                    batch[f"mask_{name}"][at, : len(tokens)] = 1
                    batch["label"][at] = labels[number]
        return batch

    return Batches(plan, fill, report, batch_size=batch_size, num_epochs=num_epochs, shard=shard, start=start)


def pack_rows(lengths: Sequence[int], order: Sequence[int], capacity: int) -> list[list[int]]:
    """Examples put into rows: each, in that order, into the first of the last rows with room for it, or a new one.

    Args:
      lengths: of the examples, in tokens; none more than the capacity.
      order: the examples' numbers.
      capacity: of a row, in tokens.

    Returns:
      The rows, each the numbers of its examples.
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for number in order:
        for at in range(max(0, len(rows) - OPEN_ROWS), len(rows)):
            if lengths[number] <= room[at]:
                break
        else:
            at = len(rows)
            rows.append([])
            room.append(capacity)
        rows[at].append(number)
        room[at] -= lengths[number]
    return rows


def _order(count: int, seed: int, epoch: int) -> list[int]:
    # Sorting by raw random bits: NumPy promises that those stay as they are over its versions, and no more than that.
    bits = np.random.Philox(key=np.array([seed, epoch], np.uint64)).random_raw(count)
    order: list[int] = np.argsort(bits, kind="stable").tolist()
    return order


def _token_type(tokenizer: Tokenizer) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every token: the paper's demonstrations are some 200 million of them."""
    return np.uint16 if max(tokenizer.vocab_size - 1, end_token(tokenizer)) < 2**16 else np.uint32


def _size(example: TokenizedExample) -> int:
    return len(example.prompt) + len(example.completion)


def _leave_out(report: Report, too_long: TooLong, what: str, tokens: int, length: int) -> None:
    if too_long == "error":
        raise DataError(f'{what} has {tokens} tokens, and a row {length}: too_long="drop" leaves such out')
    report.too_long += 1
    report.examples -= 1


def _check_some(report: Report, paths: Sequence[Path], split: Split) -> None:
    if not report.examples:
        names = ", ".join(map(str, paths)) or "no files"
        raise DataError(f"nothing is left in the split {split!r} of {names}: {report}; held_out sets the split's size")


def _check(batch_size: int, length: int, seed: int, num_epochs: int | None, shard: tuple[int, int], start: int) -> None:
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard must be (number, count) with 0 <= number < count, not {shard}")
    if batch_size < 1 or batch_size % count:
        raise ValueError(f"batch_size must be a multiple of the {count} shards, not {batch_size}")
    if length < 1 or seed < 0 or start < 0 or (num_epochs is not None and num_epochs < 1):
        raise ValueError(
            "length and num_epochs must be at least 1, seed and start at least 0, not "
            f"{length=}, {num_epochs=}, {seed=}, {start=}"
        )
