"""How a web is shown by `webgpt ask` and `webgpt browse`: TinyWeb in its own windows, others in the paper's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from webgpt_jax.cli.main import main
from webgpt_jax.cli.webs import WebFlags, web_browser
from webgpt_jax.env import BrowserConfig
from webgpt_jax.env.episode import Step, episode_from_json
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, open_library

QUESTION = "What does the oak pig eat?"


@pytest.mark.parametrize("web", ["tinyweb", "tinyweb:7"])
def test_tinyweb_has_its_own(web: str) -> None:
    assert web_browser(WebFlags(web=web)) is TINYWEB_BROWSER


@pytest.mark.parametrize("web", ["factbook", "folder:tinyweb", "live:brave", "replay:tinyweb"])
def test_others_have_the_papers(web: str) -> None:
    assert web_browser(WebFlags(web=web)) == BrowserConfig()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with a folder of one page that is longer than the window of TinyWeb, not of the paper."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "pages").mkdir()
    text = " ".join(f"The oak pig eats acorns on day {day}." for day in range(40))
    (tmp_path / "pages" / "pig.txt").write_text(f"Oak pig\n\n{text}\n", encoding="utf-8")
    return tmp_path / "pages"


def steps(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[Step, ...]:
    assert main(["ask", f"--web=folder:{folder}", "--quiet", "--json", *flags, QUESTION]) == 0
    return episode_from_json(capsys.readouterr().out).steps


def test_a_scripted_policy_is_shown_what_the_web_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = max(len(step.observation) for step in steps(folder, capsys))
    monkeypatch.setattr("webgpt_jax.cli.ask.web_browser", lambda _: TINYWEB_BROWSER)
    narrow = steps(folder, capsys)
    assert narrow[0].observation.endswith("\n\n♦Actions left: 30\n\n♦Next action\n")
    assert max(len(step.observation) for step in narrow) < 1100 < wide
    assert "♦Actions left: 7\n" in steps(folder, capsys, "--max_actions=7")[0].observation


@pytest.mark.slow
def test_a_question_on_tinyweb_is_answered_within_its_observations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    library = open_library(0)
    animal = library.world.animals[0]
    library.close()
    assert main(["ask", "--web=tinyweb", "--quiet", "--json", f"What does the {animal} eat?"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["quotes"]
    length = TINYWEB_BROWSER.length
    assert all(length(step["observation"]) <= TINYWEB_BROWSER.observation_limit for step in record["steps"])
