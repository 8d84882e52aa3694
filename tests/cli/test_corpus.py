"""`webgpt corpus`: a bundled web from a source of the user's, and questions to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpus.test_wordnet import DATA, INDEX, LICENCE
from webgpt_jax.cli.main import main


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def test_what_was_rendered_from_a_source_is_what_questions_go_to(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source / "dict").mkdir()
    for kind, files in (("data", DATA), ("index", INDEX)):
        for name, content in files.items():
            (source / "dict" / f"{kind}.{name}").write_text(LICENCE + content, encoding="utf-8")
    assert main(["corpus", "build", "wordnet", f"--source={source / 'dict'}"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert (folder / "webgpt-folder.json").is_file()
    assert main(["ask", "--json", "--web=wordnet", "What is a domestic dog?"]) == 0
    episode = json.loads(capsys.readouterr().out)
    assert "the dog barked" in episode["quotes"][0]["text"]


def test_a_source_that_is_missing_names_the_cure(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "build", "wordnet", f"--source={source / 'nowhere'}"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "--source" in shown.err
