"""A checkpoint of a run is a model like any other."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.shapes import ROTARY, random_parameters
from webgpt_jax.models import (
    Params,
    PretrainedError,
    Tokenizer,
    TransformerConfig,
    initial_parameters,
    load_pretrained,
    parameters,
)
from webgpt_jax.models.tokenizer import byte_level_bpe
from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer
from webgpt_jax.training.train_state import TrainState


@pytest.fixture(scope="module")
def params() -> Params:
    return jax.tree.map(jnp.asarray, random_parameters(ROTARY))


def save(folder: Path, params: Params, config: TransformerConfig = ROTARY) -> None:
    state = TrainState(step=jnp.array(3), params=params, ema_params=None, opt_state=())
    with Checkpointer(folder, CheckpointConfig(), {"model": dataclasses.asdict(config)}) as checkpointer:
        checkpointer.save(3, state, jax.random.key(0), None)


@pytest.fixture(scope="module")
def run(params: Params, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    save(folder, params)
    return folder


def assert_same(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("step", ["", "3"])
def test_a_run_or_one_of_its_steps(step: str, run: Path, params: Params) -> None:
    model, tokenizer = load_pretrained(run / step)
    assert tokenizer is None
    assert model.config == ROTARY
    assert_same(parameters(model), params)


def test_options_hold_here_too(run: Path, params: Params) -> None:
    model, _ = load_pretrained(run, param_dtype="bfloat16", attention="xla")
    assert model.config == replace(ROTARY, param_dtype="bfloat16", attention="xla")
    assert_same(parameters(model), jax.tree.map(lambda array: array.astype(jnp.bfloat16), params))
    with pytest.raises(PretrainedError, match="the parameter embedding has shape"):
        load_pretrained(run, vocab_multiple=8)


def test_the_tokenizer_of_a_run(run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    Tokenizer(byte_level_bpe({"a": 0, "b": 1}, [])).save(folder)
    for path in (folder, folder / "3"):
        _, tokenizer = load_pretrained(path)
        assert tokenizer is not None
        assert tokenizer.encode("ab") == [0, 1]
    Tokenizer(byte_level_bpe({"a": 29}, [])).save(folder)
    with pytest.raises(PretrainedError, match="the tokenizer has 30 tokens, the model only 29"):
        load_pretrained(folder)


def test_what_is_no_language_model(tmp_path: Path) -> None:
    with pytest.raises(PretrainedError, match=r"has no config.json, and holds no checkpoint of ours"):
        load_pretrained(tmp_path)
    save(tmp_path / "reward", initial_parameters(ROTARY, jax.random.key(0), "scalar"))
    with pytest.raises(PretrainedError, match="holds a reward or value model"):
        load_pretrained(tmp_path / "reward")


def test_a_damaged_checkpoint_is_refused(run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    shutil.rmtree(folder / "3" / "record")
    with pytest.raises(PretrainedError, match="run"):
        load_pretrained(folder)
