"""`webgpt` itself: help, wrong usage, exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest

from webgpt_jax.cli.main import COMMANDS, main


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]])
def test_help_names_every_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n  {name} " not in shown] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: webgpt {name}")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["fly"], "'fly'"),
        (["ask", "--colour=red", "why?"], "colour"),
        (["ask", "--flagfile=/etc/passwd", "why?"], "flagfile"),
        (["ask", "--undefok=colour", "--colour=red", "why?"], "undefok"),
        (["ask", "--concurrency=0", "why?"], "--concurrency"),
        (["ask", "--policy=oracle", "why?"], "'oracle'"),
        (["ask", "--web=gopher:x", "why?"], "gopher:x"),
        (["ask", "--web=folder:", "why?"], "folder:"),
        (["ask", "--web=live:altavista", "why?"], "'altavista'"),
        (["ask", "--web=live:brave", "--searches_per_second=-1", "why?"], "--searches_per_second"),
        (["ask", "--web=replay:x", "--record=y", "why?"], "--record"),
        (["ask", "--file=x", "why?"], "--file"),
        (["ask", "  "], "no question"),
        (["browse"], "one question"),
        (["browse", "one", "two"], "one question"),
        (["corpus", "build"], "webgpt corpus build"),
        (["corpus", "build", "atlas"], "'atlas'"),
        (["recording"], "one recording"),
        (["recording", "run.webrec", "--warc=run.webrec"], ".warc.gz"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert named in shown.err


def test_no_arguments_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: webgpt")


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys; from webgpt_jax.cli.main import main; main(['--help']);"
        "print(sorted({'absl', 'aiohttp', 'asyncio', 'jax', 'tensorflow', 'bs4', 'lxml'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
