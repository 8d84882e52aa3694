"""BC's judge: the same episodes of the same model score the same, and a run can be stopped by them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import jax
from flax import nnx

from experiments.judge import NO_ANSWERS, make_judge
from tests.rollout.models import CONFIG, tiny_model, tiny_tokenizer
from webgpt_jax.flags import UsageError
from webgpt_jax.models import FolderSettings, ScalarTransformer, save_pretrained

SETTINGS = FolderSettings(
    "policy", window_chars=300, context_tokens=1000, max_command_tokens=16, max_answer_tokens=24, max_actions=2
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    model = ScalarTransformer(CONFIG, rngs=nnx.Rngs(3))
    save_pretrained(model, tmp_path / "rm", tiny_tokenizer(), settings=FolderSettings("reward_model"))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "crows.txt").write_text("Crows bring gifts.\n")
    (tmp_path / "questions.txt").write_text("Why?\nHow?\nWho?\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_model_that_never_answers_has_the_lowest_score(files: Path) -> None:
    judge = make_judge(files / "rm", f"folder:{files}/pages", files / "questions.txt", episodes=2)
    first = judge(tiny_model(), tiny_tokenizer(), SETTINGS)
    assert first == {"validation/rm_score": NO_ANSWERS, "validation/answered": 0.0}


def test_several_devices_and_no_questions_are_refused(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "none.txt").write_text("\n")
    with pytest.raises(UsageError, match="holds no questions"):
        make_judge(files / "rm", "tinyweb", files / "none.txt")
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    with pytest.raises(UsageError, match="one device"):
        make_judge(files / "rm", "tinyweb", files / "questions.txt")
