"""seqio tasks and mixtures: the same examples as our own batches, token for token."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.datasets.samples import ByteTokenizer, comparison, episode, text_of, write_episodes
from webgpt_jax.datasets import DataError, Side, write_comparisons
from webgpt_jax.datasets.batches import comparison_batches, demonstration_batches
from webgpt_jax.datasets.tasks import add_comparisons, add_demonstrations, add_mixture, add_questions

HAS_DATA = all(importlib.util.find_spec(name) is not None for name in ("seqio", "tensorflow"))
# Importing TensorFlow alone takes more than 5 s.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_DATA, reason="needs the extra data: pip install -e '.[data]'"),
]


@pytest.fixture
def episodes(tmp_path: Path) -> Path:
    return write_episodes(tmp_path / "episodes.jsonl", [episode(f"Why is {'so ' * number}it?") for number in range(12)])


@pytest.fixture
def registered() -> Iterator[Callable[[Any], Any]]:
    """Tasks and mixtures passed through it are taken out of the registries afterwards."""
    import seqio

    names: list[str] = []

    def note(added: Any) -> Any:
        names.append(added.name)
        return added

    yield note
    for name in names:
        for registry in (seqio.TaskRegistry, seqio.MixtureRegistry):
            if name in registry.names():
                registry.remove(name)


def _examples(dataset: Any) -> Counter[tuple[str, str]]:
    return Counter((text_of(one["inputs"]), text_of(one["targets"])) for one in dataset.as_numpy_iterator())


def test_demonstrations_are_those_of_our_batches(episodes: Path, registered: Callable[[Any], Any]) -> None:
    task = registered(add_demonstrations("webgpt_demonstrations", [episodes], ByteTokenizer(), held_out=0.4))
    for split in ("train", "validation"):
        expected: Counter[tuple[str, str]] = Counter()
        arguments: dict[str, Any] = {"batch_size": 1, "length": 400, "seed": 0, "num_epochs": 1, "pack": False}
        for batch in demonstration_batches([episodes], ByteTokenizer(), split=split, held_out=0.4, **arguments):
            targets, mask = batch["targets"][0], batch["mask"][0]
            prompt = np.concatenate([batch["tokens"][0][:1], targets[: int(mask.argmax())]])
            expected[text_of(prompt), text_of(targets[mask == 1])] += 1
        assert _examples(task.get_dataset(split=split, shuffle=False)) == expected
        assert len(expected) > 6


def test_hosts_see_disjoint_examples_and_a_seed_one_order(episodes: Path, registered: Callable[[Any], Any]) -> None:
    import seqio

    task = registered(add_demonstrations("webgpt_demonstrations", [episodes], ByteTokenizer(), held_out=0))
    parts = [
        _examples(task.get_dataset(split="train", shuffle=False, shard_info=seqio.ShardInfo(index, 3)))
        for index in range(3)
    ]
    assert [sum(part.values()) for part in parts] == [12, 12, 12]
    assert parts[0] + parts[1] + parts[2] == _examples(task.get_dataset(split="train", shuffle=False))

    def order(seed: int) -> list[str]:
        dataset = task.get_dataset(split="train", shuffle=True, seed=seed)
        return [text_of(one["inputs"]) for one in dataset.as_numpy_iterator()]

    assert order(1) == order(1) != order(2)


def test_long_demonstrations_are_dropped_and_not_cut(episodes: Path, registered: Callable[[Any], Any]) -> None:
    task = registered(add_demonstrations("webgpt_demonstrations", [episodes], ByteTokenizer(), held_out=0))
    whole = _examples(task.get_dataset(split="train", shuffle=False))
    short = _examples(task.get_dataset({"inputs": 150, "targets": 11}, split="train", shuffle=False))
    assert short == Counter(
        {pair: count for pair, count in whole.items() if len(pair[0].encode()) <= 150 and len(pair[1]) <= 11}
    )
    assert 0 < len(short) < len(whole)


def test_the_prefix_converter_s_loss_is_on_completions_alone(episodes: Path, registered: Callable[[Any], Any]) -> None:
    import seqio

    registered(add_demonstrations("webgpt_demonstrations", [episodes], ByteTokenizer(), held_out=0))
    dataset = seqio.get_dataset(
        "webgpt_demonstrations",
        {"inputs": 256, "targets": 16},
        seqio.PrefixLMFeatureConverter(pack=True),
        "train",
        shuffle=False,
    )
    learned: Counter[str] = Counter()
    for batch in dataset.as_numpy_iterator():
        tokens = batch["decoder_target_tokens"][batch["decoder_loss_weights"] == 1]
        learned += Counter(text_of(tokens).split("$"))
    assert learned["Search sky"] == learned["End: Answer"] == learned["Blue."] == 12
    assert set(learned) == {"Search sky", "End: Answer", "Blue.", ""}


def test_comparisons_are_those_of_our_batches(tmp_path: Path, registered: Callable[[Any], Any]) -> None:
    path = tmp_path / "comparisons.jsonl"
    long = replace(comparison(9), a=Side((), "x" * 50))
    write_comparisons(path, [*(comparison(number, (1.0, 0.5, 0.0)[number % 3]) for number in range(9)), long])
    task = registered(add_comparisons("webgpt_comparisons", [path], ByteTokenizer(), held_out=0))
    dataset = task.get_dataset({"tokens_a": 50, "tokens_b": 50}, split="train", shuffle=False)
    found = Counter()
    for one in dataset.as_numpy_iterator():
        assert one.keys() == {"tokens_a", "tokens_b", "label"}
        found[bytes(one["tokens_a"] % 256), bytes(one["tokens_b"] % 256), float(one["label"])] += 1
    expected = Counter()
    (batch,) = comparison_batches([path], ByteTokenizer(), batch_size=9, length=50, seed=0, num_epochs=1, held_out=0)
    for at in range(9):
        sides = [batch[f"tokens_{name}"][at][batch[f"mask_{name}"][at] == 1] for name in "ab"]
        expected[bytes(sides[0] % 256), bytes(sides[1] % 256), float(batch["label"][at])] += 1
    assert found == expected


def test_questions(tmp_path: Path, registered: Callable[[Any], Any]) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("Why?\nHow?\n", encoding="utf-8")
    task = registered(add_questions("webgpt_questions", [path], ByteTokenizer(), held_out=0))
    found = list(task.get_dataset(split="train", shuffle=False).as_numpy_iterator())
    assert [(text_of(one["inputs"]), one["question"]) for one in found] == [("Why?", b"Why?"), ("How?", b"How?")]


def test_a_mixture_draws_by_its_rates(tmp_path: Path, registered: Callable[[Any], Any]) -> None:
    for name in ("crows", "skies"):
        path = write_episodes(tmp_path / f"{name}.jsonl", [episode(f"Why {name}?", ["Top"], answer=None)])
        registered(add_demonstrations(f"webgpt_{name}", [path], ByteTokenizer(), held_out=0))
    mixture = registered(add_mixture("webgpt_mixture", {"webgpt_crows": 3, "webgpt_skies": 1}))
    dataset = mixture.get_dataset({"inputs": 400, "targets": 20}, split="train", seed=0, num_epochs=None)
    drawn = [text_of(one["inputs"]).split("\n")[1] for one in dataset.take(2000).as_numpy_iterator()]
    assert abs(drawn.count("Why crows?") - 1500) < 4 * (2000 * 0.75 * 0.25) ** 0.5
    with pytest.raises(DataError, match="rates above 0"):
        add_mixture("webgpt_none", {"webgpt_crows": 0})


def test_names_are_taken_once(episodes: Path, registered: Callable[[Any], Any]) -> None:
    registered(add_demonstrations("webgpt_demonstrations", [episodes], ByteTokenizer()))
    with pytest.raises(ValueError, match="webgpt_demonstrations"):
        add_demonstrations("webgpt_demonstrations", [episodes], ByteTokenizer())


def test_a_malformed_line_is_named(episodes: Path, registered: Callable[[Any], Any]) -> None:
    import tensorflow

    with episodes.open("a", encoding="utf-8") as lines:
        lines.write("half a li")
    task = registered(add_demonstrations("webgpt_demonstrations", [episodes], ByteTokenizer(), held_out=0))
    with pytest.raises(tensorflow.errors.OpError, match=r"DataError: .*episodes\.jsonl, line 13: not JSON"):
        _examples(task.get_dataset(split="train", shuffle=False))
