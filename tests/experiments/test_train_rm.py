"""The reward model's training, from a policy's folder to one that `load_reward_model` reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import jax
import numpy as np
from flax import nnx

from experiments.train_rm import RMFlags, train_rm
from experiments.training_flags import main
from experiments.training_run import Trained
from tests.experiments.training_samples import write_labels, write_tokenizer
from webgpt_jax.datasets import read_comparisons
from webgpt_jax.models import (
    FolderSettings,
    Transformer,
    load_reward_model,
    parameters,
    preset,
    read_settings,
    save_pretrained,
)
from webgpt_jax.models.checkpoint_folder import restore_params
from webgpt_jax.models.tokenizer import tokenizer_from_folder
from webgpt_jax.training.metrics import METRICS, read_metrics

POLICY = FolderSettings("policy", 0.002, window_chars=900, context_tokens=160, max_answer_tokens=60, max_actions=30)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy's folder and comparisons."""
    folder = tmp_path_factory.mktemp("files")
    tokenizer = tokenizer_from_folder(write_tokenizer(folder / "tokenizer"))
    policy = Transformer(preset("tiny", vocab_size=257, max_length=256), rngs=nnx.Rngs(0))
    save_pretrained(policy, folder / "bc", tokenizer, settings=POLICY)
    write_labels(folder / "comparisons.jsonl")
    return folder


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained]:
    workdir = tmp_path_factory.mktemp("runs") / "rm"
    given = RMFlags(
        model=str(files / "bc"),
        data=str(files / "comparisons.jsonl"),
        workdir=str(workdir),
        batch_size=8,
        ema_decay=0.5,
        multiplier=1.0,
        log_every=1,
        epochs=3,
    )
    given.check()
    return workdir, train_rm(given)


@pytest.mark.slow
def test_it_prefers_what_was_preferred(trained: tuple[Path, Trained], files: Path) -> None:
    _, result = trained
    model, tokenizer = load_reward_model(result.final)
    assert tokenizer is not None
    right = []
    for comparison in read_comparisons([files / "comparisons.jsonl"], split="validation"):
        if comparison.label == 0.5:
            continue
        scores = []
        for side in (comparison.a, comparison.b):
            assert tokenizer.eos_id is not None
            tokens = [*tokenizer.encode(comparison.prompt(side) + side.answer), tokenizer.eos_id]
            scores.append(float(model(np.array([tokens]))[0, -1]))
        right.append(scores[0] > scores[1])
    assert len(right) > 3
    assert all(right)
    assert result.best_score is not None
    assert result.best_score > 0.85  # ties are half right
    assert result.best_step <= result.step


@pytest.mark.slow
def test_the_final_folder(trained: tuple[Path, Trained]) -> None:
    workdir, result = trained
    model, _ = load_reward_model(result.final)
    _, average = restore_params(workdir / "checkpoints", step=result.best_step, ema=True)
    jax.tree.map(np.testing.assert_array_equal, parameters(model), average)
    assert read_settings(result.final) == FolderSettings(
        "reward_model", 0.002, window_chars=900, context_tokens=160, max_answer_tokens=60, max_actions=30
    )


@pytest.mark.slow
def test_every_metric_is_documented(trained: tuple[Path, Trained]) -> None:
    names = {name.removeprefix("validation/") for line in read_metrics(trained[0]) for name in line}
    assert {"loss", "accuracy", "gradient_norm", "epoch"} <= names <= {"step", *METRICS}


def test_released_tokens_need_gpt2s_vocabulary(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"--model={files / 'bc'}", f"--data={files / 'comparisons.jsonl'}", f"--workdir={tmp_path / 'rm'}"]
    monkeypatch.setattr(sys, "argv", ["train_rm", *arguments, "--released_tokens"])
    assert main("train_rm", "usage", RMFlags, train_rm) == 1
    assert "the released tokens are GPT-2's, and this tokenizer is another" in capsys.readouterr().err
