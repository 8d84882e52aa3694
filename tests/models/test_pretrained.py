"""Open weights: each family's logits are those of transformers, and what is written is what was read."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from webgpt_jax.models import Transformer
from webgpt_jax.models.export import save_pretrained
from webgpt_jax.models.pretrained import load_pretrained

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"
NAMES = sorted(path.parent.name for path in GOLDEN.glob("*/config.json"))


def load(path: Path, **options: str) -> Transformer:
    model, tokenizer = load_pretrained(path, **options)
    assert tokenizer is None
    return model


@pytest.fixture(autouse=True)
def _no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    yield
    assert [str(warning.message) for warning in recwarn if "config.json" in str(warning.message)] == []


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name: str) -> None:
    golden = load_file(GOLDEN / name / "golden.safetensors")
    logits = load(GOLDEN / name)(jnp.array(golden["tokens"]), mask=jnp.array(golden["mask"]))
    assert np.abs(golden["logits"]).max() > 1
    np.testing.assert_allclose(logits * golden["mask"][:, :, None], golden["logits"], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_what_was_loaded(name: str, tmp_path: Path) -> None:
    save_pretrained(load(GOLDEN / name), tmp_path / "saved")
    before = load_file(GOLDEN / name / "model.safetensors")
    after = load_file(tmp_path / "saved" / "model.safetensors")
    assert sorted(after) == sorted(before)
    for tensor, array in before.items():
        np.testing.assert_array_equal(after[tensor], array, err_msg=tensor)
    again = load(tmp_path / "saved")
    assert again.config == load(GOLDEN / name).config
