"""`webgpt view`: files and folders of episodes in, a page out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from lxml import html

from webgpt_jax.cli.main import main
from webgpt_jax.env import (
    Action,
    BrowserConfig,
    Episode,
    EpisodeEnd,
    Quote,
    Step,
    episode_from_json,
    episode_to_json,
)

QUOTE = Quote("Crows bring gifts.", "Crows", "wiki.test", "http://wiki.test/crows", 0, 18)


def line(question: str, answer: str, web: str = "factbook") -> str:
    steps = (Step("♦Question", Action("Search crows")), Step("♦Question", Action("Fly")))
    said = Action(answer) if answer else None
    end = EpisodeEnd.ANSWER if answer else EpisodeEnd.NONSENSE
    return episode_to_json(Episode(question, steps, (QUOTE,), end, "?■\n", said, info={"web": web})) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "bc.jsonl").write_text(line("Why?", "Gifts [1].") + line("How?", "Slowly."), encoding="utf-8")
    (runs / "rl.jsonl").write_text(line("How?", "Fast [1].") + line("Who?", ""), encoding="utf-8")
    (runs / "notes.txt").write_text("no episode", encoding="utf-8")
    return runs


def cards(page: Path) -> list[tuple[str, list[str]]]:
    """Each question of a page with the labels of its answers."""
    root = html.document_fromstring(page.read_bytes())
    return [
        (section.xpath("./h2")[0].text_content(), [label.text_content() for label in section.xpath(".//article/h3")])
        for section in root.xpath("//section")
    ]


def view(*arguments: str | Path) -> int:
    return main(["view", *map(str, arguments)])


@pytest.mark.parametrize("whole", [True, False])
def test_files_stand_side_by_side_by_question(folder: Path, whole: bool, capsys: pytest.CaptureFixture[str]) -> None:
    page = folder.parent / "page.html"
    files = [folder] if whole else [folder / "bc.jsonl", folder / "rl.jsonl"]
    assert view(*files, f"--html={page}", "--title=Two runs") == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert cards(page) == [("Why?", ["bc"]), ("How?", ["bc", "rl"]), ("Who?", ["rl"])]
    root = html.document_fromstring(page.read_bytes())
    assert root.xpath("//h1")[0].text == "Two runs"
    assert [[cell.text_content() for cell in row] for row in root.xpath("//table//tr")] == [
        ["bc", "2 episodes, 2 answered, 4 actions, 2 invalid"],
        ["rl", "2 episodes, 1 answered, 4 actions, 2 invalid"],
    ]
    assert root.xpath("//header/p") == []


def test_several_episodes_of_a_question_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "bc.jsonl").write_text(line("Why?", "Gifts.") + line("Why?", "Food."), encoding="utf-8")
    assert view(tmp_path / "bc.jsonl", f"--html={tmp_path / 'page.html'}") == 0
    assert cards(tmp_path / "page.html") == [("Why?", ["bc, 1", "bc, 2"])]


def test_files_of_one_name_are_told_apart_by_their_paths(folder: Path) -> None:
    other = folder.parent / "bc.jsonl"
    other.write_text(line("Why?", "Food."), encoding="utf-8")
    assert view(folder / "bc.jsonl", other, other, f"--html={folder.parent / 'page.html'}") == 0
    assert cards(folder.parent / "page.html")[0] == ("Why?", [f"{folder}/bc.jsonl", f"{other}"])


def test_a_synthetic_web_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "bc.jsonl").write_text(line("Why?", "Gifts.", web="tinyweb:3"), encoding="utf-8")
    assert view(tmp_path / "bc.jsonl", f"--html={tmp_path / 'page.html'}") == 0
    root = html.document_fromstring((tmp_path / "page.html").read_bytes())
    assert "synthetic" in root.xpath("//header/p")[0].text


@pytest.mark.parametrize(
    ("arguments", "status", "named"),
    [
        ([], 2, "give a file of episodes"),
        (["runs/bc.jsonl"], 2, "--html=PAGE.html"),
        (["runs/bc.jsonl", "--html=runs/rl.jsonl"], 2, "must end in .html"),
        (["missing.jsonl", "--html=page.html"], 1, "cannot read missing.jsonl"),
        (["runs/notes.txt", "--html=page.html"], 1, "runs/notes.txt, line 1: not JSON"),
        (["empty", "--html=page.html"], 1, "no .jsonl files in empty"),
        (["empty.jsonl", "--html=page.html"], 1, "no episodes in empty.jsonl"),
        (["runs", "--html=missing/page.html"], 1, "cannot write missing/page.html: No such file"),
    ],
)
def test_what_goes_wrong_is_one_line(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    named: str,
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("empty").mkdir()
    Path("empty.jsonl").touch()
    assert view(*arguments) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert named in shown.err
    assert not Path("page.html").exists()
    assert Path("runs/rl.jsonl").read_text(encoding="utf-8").startswith("{")


def best_of(best: str, scores: str) -> str:
    episodes = [line("Why?", "Gifts [1].").strip(), "null", line("Why?", "Food.").strip(), line("Why?", "").strip()]
    fields = f'"question":"Why?","best":{best},"scores":{scores},"episodes":[{",".join(episodes)}]'
    return f'{{"format":"webgpt-best-of-1",{fields}}}\n'


def test_all_attempts_of_a_best_of_n_are_shown_the_best_first(folder: Path) -> None:
    (folder / "best.jsonl").write_text(best_of("2", "[0.5,null,1.25,null]"), encoding="utf-8")
    assert view(folder / "best.jsonl", folder / "bc.jsonl", f"--html={folder.parent / 'page.html'}") == 0
    assert cards(folder.parent / "page.html")[0] == (
        "Why?",
        ["best, attempt 3score 1.25best", "bc", "best, attempt 1score 0.50", "best, attempt 4"],
    )
    root = html.document_fromstring((folder.parent / "page.html").read_bytes())
    assert len(root.xpath("//section[1]/details")) == 2


def test_the_score_by_which_an_episode_was_chosen_is_shown(tmp_path: Path) -> None:
    kept = line("Why?", "Gifts.").replace('"web":', '"score":"1.2345","web":')
    odd = line("How?", "Gifts.").replace('"web":', '"score":"high","web":')
    (tmp_path / "bc.jsonl").write_text(kept + odd, encoding="utf-8")
    assert view(tmp_path / "bc.jsonl", f"--html={tmp_path / 'page.html'}") == 0
    assert cards(tmp_path / "page.html") == [("Why?", ["bcscore 1.23"]), ("How?", ["bc"])]


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (best_of("2", "[0.5]"), '"episodes": expected a list as long as "scores"'),
        (best_of('"2"', "[null,null,null,null]"), '"best": expected int'),
        (best_of("2", '[null,"x",null,null]'), '"scores[1]": expected float'),
        (best_of("0", "[1,1,1,1]").replace('"end":"answer"', '"end":"won"'), "'won' is none of"),
        (best_of("0", "[1,1,1,1]")[:-9], "not JSON"),
    ],
)
def test_a_malformed_best_of_n_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: str, named: str
) -> None:
    (tmp_path / "best.jsonl").write_text(record, encoding="utf-8")
    assert view(tmp_path / "best.jsonl", f"--html={tmp_path / 'page.html'}") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "best.jsonl, line 1: " in error
    assert named in error


def test_ask_writes_its_answers_as_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "crows.html").write_text("<title>Crows</title><p>Crows bring gifts.</p>", encoding="utf-8")
    page = tmp_path / "page.html"
    web, output = f"--web=folder:{tmp_path / 'pages'}", f"--output={tmp_path / 'episodes.jsonl'}"
    assert main(["ask", web, output, f"--html={page}", "What do crows bring?"]) == 0
    assert f"the page is {page}\n" in capsys.readouterr().err
    assert cards(page) == [("What do crows bring?", ["scripted"])]
    root = html.document_fromstring(page.read_bytes())
    assert root.xpath("//blockquote")[0].text == "Crows bring gifts."
    assert "http://pages.localhost/crows.html" in root.text_content()
    page.unlink()
    assert main(["ask", web, output, f"--html={page}", "What do crows bring?"]) == 0  # it is skipped
    assert "no answers in this run" in capsys.readouterr().err
    assert not page.exists()
    assert main(["ask", web, output, f"--html={output}", "What do crows bring?"]) == 2
    assert "must end in .html" in capsys.readouterr().err


def test_ask_shows_all_attempts_on_its_page_and_view_reads_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "crows.html").write_text("<p>Crows bring gifts.", encoding="utf-8")
    answers = iter(["Food [1].", "Gifts [1]."])

    @asynccontextmanager
    async def policies(*_: object, **__: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(browser=BrowserConfig(), info={}, make=lambda *_: None)

    async def play(*_: object, **__: object) -> Episode:
        return episode_from_json(line("Why?", next(answers)))

    def scored(episode: Episode) -> float:
        return 2.5 if episode.answer == Action("Gifts [1].") else -1.0

    monkeypatch.setattr("webgpt_jax.cli.ask.open_policies", policies)
    monkeypatch.setattr("webgpt_jax.cli.ask.run_episode", play)
    monkeypatch.setattr("webgpt_jax.cli.ask.load_scorer", lambda folder: scored)
    page = tmp_path / "page.html"
    flags = ["--policy=model", "--best_of=2", "--reward_model=rm", f"--web=folder:{tmp_path / 'pages'}", "--json"]
    assert main(["ask", *flags, f"--html={page}", "Why?"]) == 0
    assert cards(page) == [("Why?", ["model, attempt 2score 2.50best", "model, attempt 1score -1.00"])]
    (tmp_path / "all.jsonl").write_text(capsys.readouterr().out, encoding="utf-8")
    assert view(tmp_path / "all.jsonl", f"--html={page}") == 0
    assert cards(page) == [("Why?", ["all, attempt 2score 2.50best", "all, attempt 1score -1.00"])]
