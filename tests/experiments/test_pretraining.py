"""Pre-training's batches, its vocabulary, and a run of three updates that is interrupted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

from experiments.pretrain_tinyweb import PretrainFlags, pretrain
from experiments.pretraining import batches as pretraining_batches
from experiments.pretraining import vocabulary
from experiments.pretraining.batches import BatchConfig, chunk, encode, pad
from webgpt_jax.models import Tokenizer, load_pretrained, read_settings
from webgpt_jax.tinyweb import lexicon
from webgpt_jax.tinyweb.reading import Reading
from webgpt_jax.training.metrics import read_metrics


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary trained on less than the real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "WORLDS", range(2000, 2003))
        patch.setattr(vocabulary, "TASKS_PER_WORLD", 150)
        folder = tmp_path_factory.mktemp("tokenizer")
        vocabulary.train_vocabulary().save(folder)
    return folder


@pytest.fixture
def few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining_batches, "TASKS_PER_CHUNK", 200)
    monkeypatch.setattr(pretraining_batches, "WORLD_ANIMALS", 20)


def read(folder: Path) -> Tokenizer:
    found = pretraining_batches._tokenizer(folder)
    assert isinstance(found, Tokenizer)
    return found


def test_every_word_and_every_marker_is_one_token(tokenizer: Path) -> None:
    found = read(tokenizer)
    assert found.vocab_size == 1152
    words = [word for name, words in vars(lexicon).items() if name.isupper() for word in words]
    assert [word for word in words if len(found.encode(f" {word}")) != 1] == []
    assert [marker for marker in "♦■【】†━" if len(found.encode(marker)) != 1] == []
    text = "♦Text\n【0†The moss owl†wiki.test】\nКот 猫 ■"
    assert found.decode(found.encode(text)) == text


def test_what_answers_weighs_more_and_padding_nothing(tokenizer: Path) -> None:
    found = read(tokenizer)
    tokens, given = encode(Reading("copy", "♦Again\n", "the owl"), found)
    assert tokens[given:] == [*found.encode("the owl"), found.eos_id]
    rows = pad([(tokens, given)], len(tokens) + 2)
    assert rows["tokens"][0, : len(tokens)].tolist() == tokens
    assert rows["targets"][0, : len(tokens) - 1].tolist() == tokens[1:]
    answers = len(tokens) - given
    assert rows["mask"][0].tolist() == [1.0] * (given - 1) + [4.0] * answers + [0.0] * 3


def test_a_chunk_is_the_same_again_and_another_is_not(tokenizer: Path, few_tasks: None) -> None:
    config = BatchConfig(tokenizer, tokens=1344)
    first, again, other = chunk(config, 0), chunk(config, 0), chunk(config, 1)
    assert all(np.array_equal(a["tokens"], b["tokens"]) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0]["tokens"], other[0]["tokens"])
    for batch in first:
        rows, length = batch["tokens"].shape
        assert rows == 1344 // length


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_leaves_a_folder_that_loads_and_goes_on_where_it_was_left(tokenizer: Path, tmp_path: Path) -> None:
    workdir = tmp_path / "run"
    shutil.copytree(tokenizer, workdir / "tokenizer")
    flags = PretrainFlags(workdir=str(workdir), steps=2, tokens=672, warmup_steps=0, evaluate_every=1)
    assert pretrain(flags) == workdir / "final"
    final = pretrain(replace(flags, steps=3))
    lines = read_metrics(workdir)
    assert [line["step"] for line in lines if "validation/exact_copy" in line] == [1, 2, 3]
    model, found = load_pretrained(final)
    assert found is not None
    assert (model.config.vocab_size, model.config.num_layers) == (1152, 4)
    settings = read_settings(final)
    assert settings is not None
    assert (settings.kind, settings.window_chars, settings.context_tokens) == ("pretrained", 400, 384)
    assert json.loads((final / "config.json").read_text())["model_type"] == "qwen3"
