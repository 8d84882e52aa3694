"""webgpt.json: written and read as literals, and refused where it means nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from webgpt_jax.models.settings import FolderSettings, read_settings, write_settings
from webgpt_jax.models.tensors import PretrainedError

POLICY = """\
{
  "format": 1,
  "kind": "policy",
  "base_step_size": 0.001,
  "prompts": "plain",
  "window_chars": 900,
  "context_tokens": 320,
  "max_command_tokens": 48,
  "max_answer_tokens": 96,
  "max_actions": 30
}
"""
SETTINGS = FolderSettings(
    kind="policy",
    base_step_size=0.001,
    window_chars=900,
    context_tokens=320,
    max_command_tokens=48,
    max_answer_tokens=96,
    max_actions=30,
)


def test_the_file_as_it_is_written_and_read(tmp_path: Path) -> None:
    write_settings(tmp_path, SETTINGS)
    assert (tmp_path / "webgpt.json").read_text() == POLICY
    assert read_settings(tmp_path) == SETTINGS


def test_what_is_not_said_is_the_papers(tmp_path: Path) -> None:
    (tmp_path / "webgpt.json").write_text('{"format": 1, "kind": "reward_model"}')
    assert read_settings(tmp_path) == FolderSettings("reward_model", None, "plain", 3000, 2048, 64, 256, 100)


def test_folders_without_it(tmp_path: Path) -> None:
    assert read_settings(tmp_path) is None
    assert read_settings(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "another format"),
        ({"kind": "value"}, "kind 'value' is none of pretrained, policy, reward_model"),
        ({"prompts": "chat"}, "prompts 'chat' is none of plain"),
        ({"base_step_size": "0.1"}, "base_step_size must be a number above 0, or null, not '0.1'"),
        ({"base_step_size": True}, "base_step_size must be a number above 0, or null, not True"),
        ({"base_step_size": 0}, "base_step_size must be a number above 0, or null, not 0"),
        ({"max_actions": 0}, "max_actions must be a whole number above 0, not 0"),
        ({"window_chars": 1.5}, "window_chars must be a whole number above 0, not 1.5"),
        ({"context_tokens": 96}, "context_tokens 96 has no room for a completion of 96"),
        ({"temperature": 1}, "the field temperature is unknown"),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "webgpt.json").write_text(json.dumps(json.loads(POLICY) | change))
    with pytest.raises(PretrainedError, match=message):
        read_settings(tmp_path)


def test_a_file_without_a_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "webgpt.json").write_text('{"format": 1}')
    with pytest.raises(PretrainedError, match="kind"):
        read_settings(tmp_path)


def test_what_means_nothing_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_actions"):
        write_settings(tmp_path, FolderSettings("policy", max_actions=0))
    assert not list(tmp_path.iterdir())
