"""`webgpt ask` on a folder of pages: answers, files of questions, what is kept, what a user does wrong."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from webgpt_jax.cli.episodes import EpisodeFile
from webgpt_jax.cli.main import main
from webgpt_jax.env import EpisodeEnd, read_episodes
from webgpt_jax.web.recording import Recording

PAGES = {
    "mongolia.html": "<title>Mongolia</title><h1>Mongolia</h1><p>Mongolia lies between Russia and China.</p>"
    "<p>The capital of Mongolia is Ulaanbaatar, where half of its people live.</p>",
    "crows.html": "<title>Crows</title><h1>Crows</h1><p>Crows bring gifts to people who feed them every day.</p>",
    "notes.txt": "The tallest mountain of Kenya is Mount Kenya, an old volcano.\n",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own and a folder of pages; returns the home."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "pages").mkdir()
    for name, text in PAGES.items():
        (tmp_path / "pages" / name).write_text(text, encoding="utf-8")
    return tmp_path


def ask(home: Path, *arguments: str) -> int:
    return main(["ask", f"--web=folder:{home / 'pages'}", *arguments])


def test_a_question_is_answered_with_references(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(home, "What is the capital of Mongolia?") == 0
    shown = capsys.readouterr()
    question, _, answer, _, reference, url, quote, *_ = shown.out.split("\n")
    assert question == "What is the capital of Mongolia?"
    assert "Ulaanbaatar" in answer
    assert "[1]" in answer
    assert reference == "[1] Mongolia (pages.localhost)"
    assert url == "    http://pages.localhost/mongolia.html"
    assert quote.startswith("    > ")
    (saved,) = (home / "data" / "webgpt_jax" / "episodes").glob("*.jsonl")
    assert f"1 of 1 episodes saved in {saved}" in shown.err
    (episode,) = read_episodes(saved)
    assert episode.end is EpisodeEnd.ANSWER
    assert dict(episode.info) == {"policy": "scripted", "web": f"folder:{home / 'pages'}"}


def test_progress_shows_each_step(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(home, "What is the capital of Mongolia?")
    err = capsys.readouterr().err
    assert "Search capital Mongolia" in err
    assert "Clicked on link 0" in err
    ask(home, "--quiet", "What is the capital of Mongolia?")
    assert "Search" not in capsys.readouterr().err


def test_json_prints_episodes_in_order(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = ["Why do crows bring gifts?", "What is the tallest mountain of Kenya?", "What is Mongolia?"]
    assert ask(home, "--json", "--concurrency=3", *questions) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["question"] for line in lines] == questions
    assert all(json.loads(line)["format"] == "webgpt-episode-1" for line in lines)


def test_questions_come_from_a_file_or_standard_input(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "questions.txt").write_text("\ufeffWhat is Mongolia?\n\nWhy do crows bring gifts?\n", encoding="utf-8")
    assert ask(home, "--json", f"--file={home / 'questions.txt'}") == 0
    from_file = [json.loads(line)["question"] for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setattr("sys.stdin", io.StringIO("What is Mongolia?\nWhy do crows bring gifts?\n"))
    assert ask(home, "--json") == 0
    from_input = [json.loads(line)["question"] for line in capsys.readouterr().out.splitlines()]
    assert from_file == from_input == ["What is Mongolia?", "Why do crows bring gifts?"]


def test_what_an_output_file_holds_is_not_asked_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = home / "episodes.jsonl"
    assert ask(home, f"--output={output}", "What is Mongolia?") == 0
    with output.open("a", encoding="utf-8") as lines:
        lines.write('{"format":"webgpt-epis')  # a crash in the middle of a line
    capsys.readouterr()
    assert ask(home, f"--output={output}", "What is Mongolia?", "Why do crows bring gifts?") == 0
    shown = capsys.readouterr()
    assert f"1 of 2 questions are answered in {output} already and skipped" in shown.err
    assert "cut short" in shown.err
    assert [episode.question for episode in read_episodes(output)] == ["What is Mongolia?", "Why do crows bring gifts?"]


def test_a_recording_replays_to_the_same_episode(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = home / "run.webrec"
    assert ask(home, "--json", f"--record={recording}", "What is the capital of Mongolia?") == 0
    recorded = capsys.readouterr().out
    assert main(["ask", "--json", f"--web=replay:{recording}", "What is the capital of Mongolia?"]) == 0
    assert capsys.readouterr().out == recorded  # byte for byte
    assert json.loads(recorded)["info"]["web"] == "recording:run.webrec"
    assert main(["ask", f"--web=replay:{recording}", "Why do crows bring gifts?"]) == 1
    assert "holds no answer" in capsys.readouterr().out
    assert main(["recording", str(recording), f"--warc={home / 'run.warc.gz'}"]) == 0
    assert (home / "run.warc.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert main(["recording", str(recording)]) == 0
    assert "search capital Mongolia" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--web=folder:/no/such/folder", "why?"], "/no/such/folder"),
        (["--web=wiki:/no/such.zim", "why?"], "/no/such.zim"),
        (["--web=replay:/no/such.webrec", "why?"], "/no/such.webrec"),
        (["--web=live:brave", "why?"], "BRAVE_API_KEY"),
        (["--web=live:searxng", "why?"], "SEARXNG_URL"),
        (["--file=/no/such/file"], "/no/such/file"),
        (["--output=/dev/null/x.jsonl", "why?"], "/dev/null/x.jsonl"),
        (["--output=/dev/null", "why?"], "/dev/null is no ordinary file"),
    ],
)
def test_what_is_missing_is_one_line_and_status_1(
    home: Path, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("BRAVE_API_KEY", "SEARXNG_URL"):
        monkeypatch.delenv(variable, raising=False)
    assert main(["ask", *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert named in shown.err


def test_a_file_that_holds_no_episodes_is_not_written_to(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = home / "notes.jsonl"
    output.write_text("dear diary\n", encoding="utf-8")
    assert ask(home, f"--output={output}", "What is Mongolia?") == 1
    assert f"{output}, line 1" in capsys.readouterr().err
    assert output.read_text(encoding="utf-8") == "dear diary\n"


@pytest.mark.parametrize("text", ["my only line", "{}\nlast line", '{"format":"webgpt-comparison-1"'])
def test_a_last_line_that_is_not_ours_is_not_taken_for_one_cut_short(
    home: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = home / "notes.jsonl"
    output.write_text(text, encoding="utf-8")
    assert ask(home, f"--output={output}", "What is Mongolia?") == 1
    assert str(output) in capsys.readouterr().err
    assert output.read_text(encoding="utf-8") == text


def test_a_failed_episode_is_asked_again(home: Path) -> None:
    output = home / "episodes.jsonl"
    with Recording(home / "empty.webrec"):
        pass
    assert main(["ask", f"--web=replay:{home / 'empty.webrec'}", f"--output={output}", "What is Mongolia?"]) == 1
    assert ask(home, f"--output={output}", "What is Mongolia?") == 0
    assert [episode.end for episode in read_episodes(output)] == [EpisodeEnd.FAILURE, EpisodeEnd.ANSWER]


def test_a_search_engine_that_fails_is_named_and_is_a_failure(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARXNG_URL", "http://127.0.0.1:9/")  # the discard port: nobody listens
    assert main(["ask", "--web=live:searxng", "--deadline=100", "What is Mongolia?"]) == 1
    shown = capsys.readouterr().out
    assert "No answer: The search failed." in shown
    assert "SearXNG" in shown


def test_a_file_is_written_by_one_run_at_a_time(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = home / "episodes.jsonl"
    with EpisodeFile.open(str(output)):
        assert ask(home, f"--output={output}", "What is Mongolia?") == 1
    assert "another run is writing" in capsys.readouterr().err


def test_a_question_given_twice_is_asked_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(home, "--json", "What is Mongolia?", "What is\u200b Mongolia?") == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1
    assert "1 repeated questions are asked once" in shown.err


def test_a_folder_that_is_not_there_is_not_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(home, f"--output={home / 'typo' / 'episodes.jsonl'}", "What is Mongolia?") == 1
    assert "typo" in capsys.readouterr().err
    assert not (home / "typo").exists()


def test_progress_fits_a_narrow_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert ask(home, "What is the capital of Mongolia?", "Why do crows bring gifts?") == 0
    steps = [line for line in terminal.getvalue().splitlines() if line.startswith(("1/2 ", "2/2 "))]
    assert steps
    assert max(map(len, steps)) < 40


def test_a_start_that_fails_leaves_no_file(home: Path) -> None:
    assert main(["ask", "--web=folder:/no/such/folder", "why?"]) == 1
    assert list((home / "data").rglob("*.jsonl")) == []


def command(
    home: Path, *arguments: str, stdout: int | IO[str] = subprocess.PIPE, **environment: str
) -> subprocess.Popen[str]:
    """`webgpt ask` as a process of its own."""
    code = "import sys; from webgpt_jax.cli.main import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, "ask", f"--web=folder:{home / 'pages'}", "--quiet", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def test_a_reader_that_goes_away_is_no_traceback(home: Path) -> None:
    process = command(home, "--concurrency=1", *(f"What is Mongolia, {number}?" for number in range(8)))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    assert process.wait() == 1


def test_a_full_disk_is_one_line(home: Path) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        process = command(home, "What is Mongolia?", stdout=full)
        _, errors = process.communicate()
    assert process.returncode == 1
    assert "cannot write the output: No space left on device" in errors
    assert "Traceback" not in errors


def test_a_terminal_without_our_characters_shows_others(home: Path) -> None:
    process = command(home, "What is the capital of Mongolia?", PYTHONIOENCODING="ascii")
    shown, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "\\u201c" in shown


def test_questions_that_are_no_text(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "questions.txt").write_bytes(b"caf\xe9?\n")
    assert ask(home, f"--file={home / 'questions.txt'}") == 1
    assert "UTF-8" in capsys.readouterr().err


def test_a_question_without_an_answer_says_why(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(home, "qwxz vbnm?") == 0
    assert "No answer: " in capsys.readouterr().out
