"""What the README says can be done, is done here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from webgpt_jax.cli.main import COMMANDS

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.slow
def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    shown = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True).stdout
    assert "Thailand" in shown
    assert "factbook.localhost/laos.html" in shown


def test_every_command_it_names_exists() -> None:
    named = set(re.findall(r"webgpt (\w+) ", "\n".join(re.findall(r"```\n(.*?)```", README.read_text(), re.DOTALL))))
    assert named
    assert named <= set(COMMANDS)


def test_every_folder_and_target_it_names_exists() -> None:
    text = README.read_text(encoding="utf-8")
    (tree,) = re.findall(r"## Where things are\n\n```\n(.*?)```", text, re.DOTALL)
    for line in tree.splitlines():
        if folder := re.match(r"( *)([\w]+/)", line):
            assert (README.parent / ("webgpt_jax" if folder[1] else "") / folder[2]).is_dir(), folder[2]
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
