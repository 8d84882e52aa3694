"""Behaviour cloning from its command line to its final folder."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import jax
import numpy as np

from experiments.train_bc import BCFlags, train_bc
from experiments.training_flags import main
from experiments.training_run import Trained
from tests.experiments.training_samples import write_demonstrations, write_tokenizer
from webgpt_jax.flags import UsageError, parse
from webgpt_jax.models import FolderSettings, load_pretrained, parameters, read_settings
from webgpt_jax.models.checkpoint_folder import restore_params
from webgpt_jax.training.metrics import METRICS, read_metrics

LENGTH = 320


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_tokenizer(folder / "tokenizer")
    write_demonstrations(folder / "demos.jsonl")
    return folder


def flags(files: Path, workdir: Path, **changes: Any) -> BCFlags:
    """Of a short run: a few updates of a tiny model."""
    given = BCFlags(
        model="tiny",
        tokenizer=str(files / "tokenizer"),
        data=str(files / "demos.jsonl"),
        workdir=str(workdir),
        batch_size=8,
        length=LENGTH,
        epochs=3,
        held_out=0.2,
        multiplier=3.0,
        log_every=1,
    )
    given = replace(given, **changes)
    given.check()
    return given


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained]:
    workdir = tmp_path_factory.mktemp("runs") / "bc"
    return workdir, train_bc(flags(files, workdir))


@pytest.mark.slow
def test_it_learns_and_says_so(trained: tuple[Path, Trained]) -> None:
    workdir, result = trained
    lines = read_metrics(workdir)
    assert [line["step"] for line in lines] == list(range(1, result.step + 1))
    assert lines[-1]["loss"] < lines[0]["loss"] - 1
    evaluated = [line["step"] for line in lines if "validation/loss" in line]
    assert len(evaluated) == 3  # an epoch each
    assert evaluated[-1] == result.step
    assert result.best_score == min(line["validation/loss"] for line in lines if "validation/loss" in line)
    names = {name.removeprefix("validation/") for line in lines for name in line}
    assert {"loss", "gradient_norm", "epoch", "accuracy"} <= names <= {"step", *METRICS}


@pytest.mark.slow
def test_the_final_folder_is_the_best_average_of_weights(trained: tuple[Path, Trained]) -> None:
    workdir, result = trained
    assert result.final == workdir / "final"
    model, tokenizer = load_pretrained(result.final)
    _, average = restore_params(workdir / "checkpoints", step=result.best_step, ema=True)
    average["embedding"] = average["embedding"][:257]  # without its padding
    jax.tree.map(np.testing.assert_array_equal, parameters(model), average)
    assert tokenizer is not None
    assert tokenizer.decode(tokenizer.encode("Why ♦?")) == "Why ♦?"
    assert read_settings(result.final) == FolderSettings(
        "policy", base_step_size=1e-3, context_tokens=LENGTH, max_command_tokens=64, max_answer_tokens=160
    )


@pytest.mark.slow
def test_the_settings_are_left_beside_the_checkpoints(trained: tuple[Path, Trained]) -> None:
    settings = json.loads((trained[0] / "run.json").read_text())
    assert settings["model"]["vocab_size"] == 257
    assert settings["optimizer"]["beta2"] == 0.95
    assert settings["step"] == {"microbatches": 1, "max_gradient_norm": 1.0, "ema_decay": 0.99}
    assert settings["chosen"] == {
        "base_step_size": 1e-3,
        "multiplier": 3.0,
        "batch_size": 8,
        "epochs": 3,
        "length": LENGTH,
    }


@pytest.mark.slow
def test_from_a_final_folder_on(trained: tuple[Path, Trained], files: Path, tmp_path: Path) -> None:
    _, before = trained
    result = train_bc(
        flags(files, tmp_path / "again", model=str(before.final), tokenizer=None, length=None, max_steps=1)
    )
    first = read_metrics(tmp_path / "again")[0]
    np.testing.assert_allclose(first["loss"], before.best_score, atol=0.2)  # of other rows
    assert read_settings(result.final) == read_settings(before.final)


@pytest.mark.slow
def test_told_to_leave_it_goes_on_to_the_same_weights(
    trained: tuple[Path, Trained], files: Path, tmp_path: Path
) -> None:
    def judge(model: Any, tokenizer: Any, settings: FolderSettings) -> Mapping[str, float]:
        if not leaves:
            leaves.append(True)
            os.kill(os.getpid(), signal.SIGTERM)
        return {}

    leaves: list[bool] = []
    given = flags(files, tmp_path / "bc")
    with pytest.raises(SystemExit) as left:
        train_bc(given, judge)
    assert left.value.code == 75
    assert not (tmp_path / "bc" / "final").exists()
    result = train_bc(given, judge)
    model, _ = load_pretrained(result.final)
    expected, _ = load_pretrained(trained[1].final)
    jax.tree.map(np.testing.assert_array_equal, parameters(model), parameters(expected))
    assert replace(result, final=trained[1].final) == trained[1]


@pytest.mark.slow
def test_stopping_by_what_a_judge_says(files: Path, tmp_path: Path) -> None:
    scores = iter([1.0, 3.0, 2.0, 2.5])
    told: list[FolderSettings] = []

    def judge(model: Any, tokenizer: Any, settings: FolderSettings) -> Mapping[str, float]:
        told.append(settings)
        assert model(np.zeros((1, 4), np.int32)).shape == (1, 4, 257)
        return {"validation/rm_score": next(scores)}

    given = flags(files, tmp_path / "bc", stop_by="rm_score", epochs=9, evaluate_every=1)
    result = train_bc(given, judge)
    assert (result.step, result.best_step, result.best_score, result.ended) == (4, 2, 3.0, "patience")
    assert len(told) == 4


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["train_bc", *arguments])
    return main("train_bc", "usage", BCFlags, train_bc)


GIVEN = ["--model=tiny", "--data=D", "--workdir=W", "--tokenizer=T"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--model=… is needed"),
        (["--model=tiny"], "--data=… is needed"),
        (["--model=tiny", "--data=x", "--workdir=W", "--epochs=0"], "--epochs must be at least 1, not 0"),
        (["--model=tiny", "--data=x", "--workdir=W", "--held_out=1"], "--held_out must be from 0 to less than 1"),
        (["--model=tiny", "--data=x", "--workdir=W", "--stop_by=luck"], "--stop_by=luck is none of loss, rm_score"),
        (["--model=tiny", "--data=x", "--workdir=W", "--stop_by=rm_score"], "needs --reward_model=…"),
        (["--model=tiny", "--data=x", "--workdir=W", "--lenght=3"], "Unknown command line flag 'lenght'"),
        (["--model=tiny", "--data=x", "--workdir=W", "more"], "no argument 'more' is known"),
        ([*GIVEN, "--mesh_data=3"], "cannot be made of 8 devices"),
        ([*GIVEN, "--length=4096"], "more than the model's 2048"),
        ([*GIVEN, "--dtype=int8"], "dtype 'int8' is none of"),
        ([*GIVEN, "--schedule=square"], "schedule 'square' is none"),
        ([*GIVEN, "--batch_size=12"], "a batch of 12 does not divide over data 8 × fsdp 1 × 1 microbatches"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    message: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"--data=D": files / "demos.jsonl", "--workdir=W": tmp_path / "run", "--tokenizer=T": files / "tokenizer"}
    given = [f"{word.partition('=')[0]}={places[word]}" if word in places else word for word in arguments]
    assert status(monkeypatch, *given) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert error.startswith("train_bc: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model=nowhere", "--data=demos.jsonl"], "nowhere does not exist"),
        (["--model=tiny", "--tokenizer=tokenizer", "--data=none.jsonl"], "none.jsonl cannot be read: No such file"),
        (["--model=tiny", "--tokenizer=tokenizer", "--data=tokenizer/tokenizer.json"], "tokenizer.json, line 1: "),
        (["--model=tiny", "--tokenizer=.", "--data=demos.jsonl"], ". holds no tokenizer.json"),
    ],
)
def test_failures(
    arguments: list[str],
    message: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(files)
    places = {
        "--data=D": "--data=demos.jsonl",
        "--tokenizer=T": "--tokenizer=tokenizer",
        "--tokenizer=F": "--tokenizer=.",
    }
    given = [places.get(word, word).replace("=T/", "=tokenizer/") for word in arguments]
    assert status(monkeypatch, *given, f"--workdir={tmp_path / 'run'}") == 1
    assert message in capsys.readouterr().err


def test_help_names_every_flag(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(monkeypatch, "--help") == 0
    shown = capsys.readouterr().out
    for name in ("--model=…", "--stop_by=…", "--[no]pack", "--ema_decay=…", "(default: 0.99)", "--mesh_tensor=…"):
        assert name in shown


def test_flags_are_read_from_the_command_line() -> None:
    given, rest = parse(BCFlags, ["--model=tiny", "--nopack", "--batch_size=16", "--held_out=0"])
    assert (given.model, given.pack, given.batch_size, given.held_out, rest) == ("tiny", False, 16, 0.0, [])
    with pytest.raises(UsageError, match="beside the held-out data"):
        replace(given, data="d", workdir="w", stop_by="rm_score").check()
