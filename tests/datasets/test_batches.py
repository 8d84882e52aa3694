"""Batches, as literals and against slow versions: masks, packing, order, hosts, resuming."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.samples import ByteTokenizer, comparison, episode, text_of, write_episodes
from webgpt_jax.datasets import Comparison, DataError, ReleasedTokens, Side, demonstration, write_comparisons
from webgpt_jax.datasets.batches import Batch, Batches, comparison_batches, demonstration_batches, pack_rows

LENGTH = 400


class Gpt2Tokenizer(ByteTokenizer):
    """Says what GPT-2's says to the texts by which it is known."""

    vocab_size = 50257
    eos_id: int | None = 50256

    def encode(self, text: str) -> list[int]:
        return {"■": [29316], "Hello world": [15496, 995]}.get(text, [1000 + byte for byte in text.encode("utf-8")])


@pytest.fixture
def episodes(tmp_path: Path) -> Path:
    """Twelve questions, three examples each, of different lengths."""
    found = [episode(f"Why is {'so ' * number}it?", answer=f"{'Since ' * number}[1].") for number in range(12)]
    return write_episodes(tmp_path / "episodes.jsonl", found)


@pytest.fixture
def comparisons(tmp_path: Path) -> Path:
    path = tmp_path / "comparisons.jsonl"
    write_comparisons(path, [comparison(number, (1.0, 0.5, 0.0)[number % 3]) for number in range(23)])
    return path


def _demonstrations(paths: Path | list[Path], **changes: Any) -> Batches:
    arguments: dict[str, Any] = {"batch_size": 4, "length": LENGTH, "seed": 3, "num_epochs": 1, "held_out": 0.0}
    paths = paths if isinstance(paths, list) else [paths]
    return demonstration_batches(paths, ByteTokenizer(), **(arguments | changes))


def _comparisons(path: Path, **changes: Any) -> Batches:
    arguments: dict[str, Any] = {"batch_size": 4, "length": LENGTH, "seed": 3, "num_epochs": 1, "held_out": 0.0}
    tokenizer = changes.pop("tokenizer", ByteTokenizer())
    return comparison_batches([path], tokenizer, **(arguments | changes))


def _examples(batches: Sequence[Batch]) -> list[tuple[str, str]]:
    """Each example's input and what of its targets is learned, in the batches' order; and checks what always holds."""
    found = []
    for batch in batches:
        for tokens, targets, mask, segments in zip(
            *(batch[name] for name in ("tokens", "targets", "mask", "segments")), strict=True
        ):
            assert not tokens[segments == 0].any()
            assert not targets[segments == 0].any()
            assert not mask[segments == 0].any()
            for number in range(1, segments.max(initial=0) + 1):
                own = segments == number
                assert (np.diff(np.flatnonzero(own)) == 1).all()
                assert (targets[own][:-1] == tokens[own][1:]).all()
                found.append((text_of(tokens[own]), text_of(targets[own][mask[own] == 1])))
    return found


def _equal(left: Sequence[Batch], right: Sequence[Batch]) -> bool:
    return len(left) == len(right) and all(
        one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
        for one, other in zip(left, right, strict=True)
    )


# ---- literals


def test_one_example_in_a_row(tmp_path: Path) -> None:
    class Words(ByteTokenizer):
        def encode(self, text: str) -> list[int]:
            return [1, 2, 3] if text.startswith("♦Question") else [7, 8]

    path = write_episodes(tmp_path / "one.jsonl", [episode("Why?", ["Top"], answer=None)])
    (batch,) = demonstration_batches([path], Words(), batch_size=1, length=7, seed=0, num_epochs=1, held_out=0)
    assert {name: array.tolist() for name, array in batch.items()} == {
        "tokens": [[1, 2, 3, 7, 8, 0, 0]],
        "targets": [[2, 3, 7, 8, 256, 0, 0]],
        "mask": [[0, 0, 1, 1, 1, 0, 0]],
        "segments": [[1, 1, 1, 1, 1, 0, 0]],
    }
    assert {name: array.dtype.name for name, array in batch.items()} == {
        "tokens": "int32",
        "targets": "int32",
        "mask": "float32",
        "segments": "int32",
    }


def test_two_examples_in_a_row(tmp_path: Path) -> None:
    class Words(ByteTokenizer):
        def encode(self, text: str) -> list[int]:
            return [1, 2, 3] if text.startswith("♦Question") else [7]

    path = write_episodes(tmp_path / "one.jsonl", [episode("Why?", ["Top", "Back"], answer=None)])
    (batch,) = demonstration_batches([path], Words(), batch_size=1, length=9, seed=0, num_epochs=1, held_out=0)
    assert {name: array.tolist() for name, array in batch.items()} == {
        "tokens": [[1, 2, 3, 7, 1, 2, 3, 7, 0]],
        "targets": [[2, 3, 7, 256, 2, 3, 7, 256, 0]],
        "mask": [[0, 0, 1, 1, 0, 0, 1, 1, 0]],
        "segments": [[1, 1, 1, 1, 2, 2, 2, 2, 0]],
    }


def test_one_comparison(tmp_path: Path) -> None:
    class Words(ByteTokenizer):
        def encode(self, text: str) -> list[int]:
            return {"Why 5?■\n": [1, 2, 3], "Because of 5 [1].": [7, 8], "No idea 5.": [9]}.get(text, [1, 2, 3, 4, 5])

    path = tmp_path / "one.jsonl"
    write_comparisons(path, [comparison(5, 0.0)])
    batches = comparison_batches([path], Words(), batch_size=2, length=6, seed=0, num_epochs=1, held_out=0)
    (batch,) = batches
    assert {name: array.tolist() for name, array in batch.items()} == {
        "label": [0.0, 0.5],  # the second row is left over
        "tokens_a": [[3, 4, 5, 7, 8, 256], [0] * 6],
        "mask_a": [[1] * 6, [0] * 6],
        "tokens_b": [[1, 2, 3, 9, 256, 0], [0] * 6],
        "mask_b": [[1, 1, 1, 1, 1, 0], [0] * 6],
    }
    assert {name: array.dtype.name for name, array in batch.items()} == {
        "label": "float32",
        "tokens_a": "int32",
        "mask_a": "float32",
        "tokens_b": "int32",
        "mask_b": "float32",
    }
    assert (batches.report.examples, batches.report.truncated) == (1, 1)


# ---- what is in the batches


@pytest.mark.parametrize("pack", [True, False])
def test_each_epoch_holds_every_example_once_in_another_order(episodes: Path, pack: bool) -> None:
    expected = Counter()
    for number in range(12):
        played = episode(f"Why is {'so ' * number}it?", answer=f"{'Since ' * number}[1].")
        for example in demonstration(played).examples:
            expected[example.prompt + example.completion, f"{example.completion}$"] += 1
    found = _examples(list(_demonstrations(episodes, num_epochs=3, batch_size=1, pack=pack)))
    epochs = [found[at : at + 36] for at in range(0, len(found), 36)]
    assert [Counter(epoch) for epoch in epochs] == [expected] * 3
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_packing_fills_rows(episodes: Path) -> None:
    packed, single = _demonstrations(episodes, batch_size=1), _demonstrations(episodes, batch_size=1, pack=False)
    assert (packed.total, single.total) == (len(list(packed)), 36)
    assert packed.total is not None
    assert packed.total < 22


@given(st.lists(st.integers(1, 50), max_size=200), st.integers(50, 120), st.randoms())
def test_rows_hold_all_examples_and_no_more_than_fits(lengths: list[int], capacity: int, random: Any) -> None:
    order = list(range(len(lengths)))
    random.shuffle(order)
    rows = pack_rows(lengths, order, capacity)
    assert sorted(number for row in rows for number in row) == sorted(order)
    assert all(0 < sum(lengths[number] for number in row) <= capacity for row in rows)
    # Of two rows within reach of each other, the first had no room for the second's first example.
    for at in range(1, min(len(rows), 32)):
        first = rows[at][0]
        before = [number for number in rows[at - 1] if order.index(number) < order.index(first)]
        assert sum(lengths[number] for number in before) + lengths[first] > capacity


def test_the_held_out_questions_are_in_no_batch_of_the_other_split(episodes: Path) -> None:
    texts = {
        split: {
            text.split("\n")[1]
            for text, _ in _examples(list(_demonstrations(episodes, split=split, held_out=0.4)))
            if text.startswith("♦Question")
        }
        for split in ("train", "validation")
    }
    assert len(texts["train"]) + len(texts["validation"]) == 12
    assert texts["train"].isdisjoint(texts["validation"])


def test_comparisons_keep_their_labels_and_answers(comparisons: Path) -> None:
    found = {}
    for batch in _comparisons(comparisons):
        for at in range(4):
            sides = [text_of(batch[f"tokens_{name}"][at][batch[f"mask_{name}"][at] == 1]) for name in "ab"]
            if sides[0]:
                found[sides[0], sides[1]] = float(batch["label"][at])
    assert found == {
        (
            f"Why {number}?■\n[1] Sky (sky.test)\n\nBlue light scatters.■\nBecause of {number} [1].$",
            f"Why {number}?■\nNo idea {number}.$",
        ): (1.0, 0.5, 0.0)[number % 3]
        for number in range(23)
    }


# ---- order, hosts, resuming


@pytest.mark.parametrize("kind", ["packed", "single", "comparisons"])
def test_the_same_seed_gives_the_same_batches(episodes: Path, comparisons: Path, kind: str) -> None:
    def batches(**changes: Any) -> list[Batch]:
        if kind == "comparisons":
            return list(_comparisons(comparisons, num_epochs=2, **changes))
        return list(_demonstrations(episodes, num_epochs=2, pack=kind == "packed", **changes))

    whole = batches()
    assert _equal(whole, batches())
    assert not _equal(whole, batches(seed=4))
    for count in (2, 4):  # the hosts' parts, side by side, are the whole
        parts = [batches(shard=(index, count)) for index in range(count)]
        joined = [
            {name: np.concatenate([one[name] for one in group]) for name in group[0]}
            for group in zip(*parts, strict=True)
        ]
        assert _equal(joined, whole)
    for start in range(len(whole) + 1):
        assert _equal(batches(start=start), whole[start:])
    with pytest.raises(
        ValueError, match=f"start={len(whole) + 1}, but 2 epochs of these data have {len(whole)} batches"
    ):
        batches(start=len(whole) + 1)


def test_the_order_never_changes(comparisons: Path) -> None:
    # Written down once: another NumPy or Python must not continue a run with other batches.
    (batch,) = _comparisons(comparisons, batch_size=23, length=300)
    order = [int(text_of(row[row > 0]).split()[1].rstrip("?■")) for row in batch["tokens_b"]]
    assert order == [6, 13, 1, 18, 11, 19, 8, 5, 2, 7, 10, 21, 22, 9, 15, 4, 3, 20, 17, 16, 12, 0, 14]


def test_place_and_end(comparisons: Path) -> None:
    batches = _comparisons(comparisons, num_epochs=2)
    assert (batches.total, batches.taken, batches.epoch) == (12, 0, 0.0)
    epochs = [batches.epoch for _ in batches]
    assert epochs[0] == 4 / 23
    assert epochs[5] == 1 + 1 / 23
    assert epochs[-1] == 2.0
    assert (batches.taken, len(epochs)) == (12, 12)
    with pytest.raises(StopIteration):
        next(batches)
    endless = _comparisons(comparisons, num_epochs=None, start=1000)
    assert (endless.total, endless.taken, endless.epoch) == (None, 1000, 4000 / 23)
    next(endless)


# ---- what is left out


def test_too_long_demonstrations_are_counted_or_an_error(tmp_path: Path) -> None:
    path = write_episodes(tmp_path / "a.jsonl", [episode("Why?"), episode(f"Why{'?' * LENGTH}")])
    batches = _demonstrations(path)
    assert (batches.report.too_long, batches.report.examples) == (3, 3)
    assert len(_examples(list(batches))) == 3
    with pytest.raises(DataError, match=r"example 0 of 'Why\?\?.* has 5\d\d tokens, and a row 400: too_long=\"drop\""):
        _demonstrations(path, too_long="error")


def test_an_example_that_fits_exactly(tmp_path: Path) -> None:
    path = write_episodes(tmp_path / "a.jsonl", [episode("Why?", ["Top"], answer=None)])
    (found,) = demonstration(episode("Why?", ["Top"], answer=None)).examples
    size = len((found.prompt + found.completion).encode())
    assert _examples(list(_demonstrations(path, length=size))) == [(found.prompt + "Top", "Top$")]
    with pytest.raises(DataError, match=r"nothing is left in the split 'train' of .*too_long 1"):
        _demonstrations(path, length=size - 1)


def test_answers_that_are_too_long(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    long = replace(comparison(1), b=Side((), "x" * 20))
    write_comparisons(path, [comparison(0), long])
    batches = _comparisons(path, length=20)
    assert (batches.report.too_long, batches.report.examples, batches.report.truncated) == (1, 1, 2)
    batch = next(batches)
    assert text_of(batch["tokens_a"][0][1:]) == "\nBecause of 0 [1].$"
    assert batch["mask_a"].sum() == 20
    with pytest.raises(DataError, match="an answer of comparison 'c-1' has 21 tokens, and a row 20"):
        _comparisons(path, length=20, too_long="error")
    assert _comparisons(path, length=21).report.too_long == 0


def test_bad_records_are_counted(episodes: Path) -> None:
    with episodes.open("a", encoding="utf-8") as lines:
        lines.write("half a li")
    with pytest.raises(DataError, match=r"episodes\.jsonl, line 13: not JSON"):
        _demonstrations(episodes)
    report = _demonstrations(episodes, skip_bad_records=True).report
    assert (report.records, report.bad_records) == (12, 1)


def test_empty_splits_and_wrong_arguments(episodes: Path) -> None:
    with pytest.raises(DataError, match="nothing is left in the split 'validation'"):
        _demonstrations(episodes, split="validation")
    with pytest.raises(DataError, match="nothing is left in the split 'train' of no files: nothing was read"):
        _demonstrations([])
    with pytest.raises(ValueError, match="batch_size must be a multiple of the 3 shards, not 4"):
        _demonstrations(episodes, shard=(0, 3))
    for wrong in ({"shard": (2, 2)}, {"length": 0}, {"seed": -1}, {"start": -1}, {"num_epochs": 0}, {"batch_size": 0}):
        with pytest.raises(ValueError, match="must be"):
            _demonstrations(episodes, **wrong)


def test_a_tokenizer_without_an_end_token(episodes: Path) -> None:
    class Endless(ByteTokenizer):
        eos_id = None

    with pytest.raises(DataError, match="no end token"):
        demonstration_batches([episodes], Endless(), batch_size=1, length=9, seed=0)


# ---- released tokens


def test_released_tokens_where_there_are_such(tmp_path: Path) -> None:
    released = Comparison(
        "c",
        "Why?",
        Side((), "It is.", ReleasedTokens((1, 2, 3), (4, 5))),
        Side((), "No.", ReleasedTokens((1, 2), (6, 50256))),
        1.0,
    )
    path = tmp_path / "a.jsonl"
    write_comparisons(path, [released])
    (batch,) = _comparisons(path, tokenizer=Gpt2Tokenizer(), released_tokens=True, batch_size=1, length=7)
    assert batch["tokens_a"].tolist() == [[1, 2, 3, 4, 5, 50256, 0]]
    assert batch["tokens_b"].tolist() == [[1, 2, 6, 50256, 0, 0, 0]]
    (batch,) = _comparisons(path, tokenizer=Gpt2Tokenizer(), batch_size=1, length=20)
    assert bytes((batch["tokens_a"][0][batch["mask_a"][0] == 1][:-1] - 1000).tolist()).decode() == "Why?■\nIt is."
    with pytest.raises(DataError, match="the released tokens are GPT-2's, and this tokenizer is another"):
        _comparisons(path, released_tokens=True)


# ---- what is imported


def test_reading_takes_no_numpy_and_batches_no_tensorflow() -> None:
    program = (
        "import sys; import webgpt_jax.datasets as _; print({*sys.modules} & {'numpy', 'tensorflow', 'seqio', 'jax'})"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
    program = program.replace(
        "import webgpt_jax.datasets as _", "import webgpt_jax.datasets.batches, webgpt_jax.datasets.tasks"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "{'numpy'}\n"
