"""The models in data/tinyweb: whole, as their hashes say, of their sizes, and able to read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import jax

from experiments.pretraining.skills import skill_measure
from webgpt_jax.models import load_pretrained, parameters, read_settings

DATA = Path(__file__).resolve().parents[2] / "data" / "tinyweb"
FOLDERS = sorted(path for path in DATA.iterdir() if path.is_dir())
PARAMETERS = {"0.3m": 275_136, "1m": 1_020_000, "3m": 2_870_000}


def test_the_smallest_is_there() -> None:
    assert FOLDERS[0].name == "0.3m"


def test_every_file_is_as_its_hash_says() -> None:
    listed = [line.split("  ") for line in (DATA / "SHA256SUMS").read_text(encoding="utf-8").splitlines()]
    files = {path.relative_to(DATA).as_posix(): path for folder in FOLDERS for path in folder.iterdir()}
    assert {name for _, name in listed} == set(files)
    for digest, name in listed:
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest
    assert sum(path.stat().st_size for path in files.values()) < 20_000_000


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_loads_and_says_how_it_browses(folder: Path) -> None:
    model, tokenizer = load_pretrained(folder)
    assert tokenizer is not None
    count = sum(array.size for array in jax.tree.leaves(parameters(model)))
    assert count == pytest.approx(PARAMETERS[folder.name], rel=0.03)
    settings = read_settings(folder)
    assert settings is not None
    assert (settings.kind, settings.window_chars, settings.context_tokens) == ("pretrained", 400, 384)
    assert settings.base_step_size is not None


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_model_reads(folder: Path) -> None:
    model, tokenizer = load_pretrained(folder)
    assert tokenizer is not None
    rates = skill_measure(model.config, tokenizer, 64)(parameters(model))
    assert all(rates[skill] > 0.9 for skill in ("copy", "repeat", "query", "missing"))
    assert rates["link"] > 0.8
    assert rates["answer"] > 0.7
    assert rates["sentence"] > 0.5
