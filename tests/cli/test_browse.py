"""`webgpt browse`, driven through a pipe as a person would drive it by hand."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from webgpt_jax.cli.main import main
from webgpt_jax.env import EpisodeEnd, read_episodes


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "crows.html").write_text("<title>Crows</title><p>Crows bring gifts.</p>", encoding="utf-8")
    return folder


def browse(pages: Path, monkeypatch: pytest.MonkeyPatch, typed: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    output = pages.parent / "episodes.jsonl"
    return main(["browse", f"--web=folder:{pages}", f"--output={output}", "What do crows bring?"])


def test_a_person_browses_quotes_and_answers(
    pages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = "Search crows\nserch crows\nClicked on link 0\nQuote: crows bring gifts.\nEnd: Answer\nGifts [1].\n.\n"
    assert browse(pages, monkeypatch, typed) == 0
    shown = capsys.readouterr()
    assert "♦Question\nWhat do crows bring?\n\n♦Quotes\n" in shown.out
    assert "Search results for: crows" in shown.out
    assert "What do crows bring?■\n[1] Crows (pages.localhost)\n\nCrows bring gifts.■\n" in shown.out
    assert shown.err.count("That is no command") == 1
    (episode,) = read_episodes(pages.parent / "episodes.jsonl")
    assert episode.answer is not None
    assert episode.answer.text == "Gifts [1]."
    assert [step.action.text for step in episode.steps] == [
        "Search crows",
        "Clicked on link 0",
        "Quote: crows bring gifts.",
        "End: Answer",
    ]


def test_an_action_that_changes_nothing_says_why(
    pages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = "Search crows\nClicked on link 7\nClicked on link 0\nQuote: ravens\nFind in page: owls\nScrolled down 1\n"
    browse(pages, monkeypatch, typed + "Quote: crows[...]gifts.\nEnd: Answer\nGifts [1].\n")
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Nothing changed")]
    assert lines == [
        "Nothing changed: the page has no link of that number.",
        "Nothing changed: the page does not hold that text, or it is quoted already.",
        "Nothing changed: the page does not hold that text.",
        "Nothing changed: there is no more to see.",
    ]
    (episode,) = read_episodes(pages.parent / "episodes.jsonl")
    assert [quote.text for quote in episode.quotes] == ["Crows bring gifts."]
    assert episode.answer is not None
    assert episode.answer.text == "Gifts [1]."  # the input ended without the closing line: what was written counts


def test_an_interrupt_keeps_the_episode(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(["Search crows"])

    def typed(prompt: str) -> str:
        for line in lines:
            return line
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", typed)
    assert browse(pages, monkeypatch, "") == 1
    (episode,) = read_episodes(pages.parent / "episodes.jsonl")
    assert episode.error == "interrupted before the episode ended"
    assert len(episode.steps) == 1


def test_input_that_ends_keeps_the_episode(
    pages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert browse(pages, monkeypatch, "Search crows\n") == 1
    assert "the input ended" in capsys.readouterr().out
    (episode,) = read_episodes(pages.parent / "episodes.jsonl")
    assert episode.end is EpisodeEnd.FAILURE
    assert len(episode.steps) == 1
