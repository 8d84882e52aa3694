"""Answers sampled from a model on TinyWeb: the file that they are kept in, and what is told meanwhile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

from flax import nnx

from experiments.tinyweb_lab.answers import sample_answers, some_questions
from tests.experiments.training_samples import write_tokenizer
from webgpt_jax.models import FolderSettings, Transformer, preset, save_pretrained
from webgpt_jax.models.tokenizer import tokenizer_from_folder
from webgpt_jax.tinyweb.world import make_world


def test_answers_are_told_of_as_they_end_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = tokenizer_from_folder(write_tokenizer(tmp_path / "bytes"))
    assert tokenizer is not None
    model = Transformer(preset("tiny", vocab_size=tokenizer.vocab_size, max_length=2048), rngs=nnx.Rngs(0))
    settings = FolderSettings(
        "policy", 1e-3, window_chars=200, context_tokens=2048, max_command_tokens=4, max_answer_tokens=4, max_actions=2
    )
    save_pretrained(model, tmp_path / "model", tokenizer, settings=settings)
    world, output = make_world(0, 20), tmp_path / "answers.jsonl"
    asked = some_questions(world, "test", 2)

    found = sample_answers(tmp_path / "model", world, asked, 2, output)
    assert [[episode.question for episode in row] for row in found] == [[question.text] * 2 for question in asked]
    assert re.search(r"step 4/4 \(100%\)", capsys.readouterr().err)

    lines = output.read_text(encoding="utf-8").splitlines(keepends=True)
    output.write_text("".join(lines[:3]) + lines[3][:20], encoding="utf-8")  # killed amid a line
    assert sample_answers(tmp_path / "model", world, asked, 2, output) == found
    assert "step 4/4" in capsys.readouterr().err
    assert output.read_text(encoding="utf-8") == "".join(lines)
    assert sample_answers(tmp_path / "model", world, asked, 2, output) == found
    assert capsys.readouterr().err == ""
