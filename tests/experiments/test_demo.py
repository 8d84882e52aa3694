"""The demo: whole with the tiniest counts, and its parts."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")
pytest.importorskip("matplotlib")

import numpy as np
from flax import nnx
from lxml import etree

from experiments import demo
from experiments.demo import Counts, DemoFlags
from experiments.demo_parts.stages import Stages
from experiments.demo_parts.targets import Check, accuracy, checks, table
from experiments.fig05_best_of_n import BestOfNPoint
from experiments.pretraining import vocabulary
from experiments.studies import samples
from experiments.tinyweb_lab import family
from experiments.tinyweb_lab.answers import judgement
from experiments.tinyweb_lab.family import Plan
from experiments.training_flags import RunError
from webgpt_jax.cli import demo as command
from webgpt_jax.cli.main import main as webgpt
from webgpt_jax.env import (
    Action,
    Browser,
    Episode,
    EpisodeEnd,
    Quote,
    Step,
    episode_to_json,
    read_episodes,
    run_episode,
)
from webgpt_jax.models import FolderSettings, Transformer, preset, save_pretrained
from webgpt_jax.tinyweb.demonstrators import NOVICE, Demonstrator
from webgpt_jax.tinyweb.language import state
from webgpt_jax.tinyweb.preferences import LabelerConfig, preference_probability
from webgpt_jax.tinyweb.questions import QuestionKind, TinyQuestion
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, open_tinyweb
from webgpt_jax.tinyweb.world import World, make_world

# ---- whole

TINY = Counts(
    Plan(
        demonstrations=16,
        questions=12,
        validation_questions=12,
        answers=2,
        comparisons=1,
        bc_batch=8,
        bc_epochs=1,
        rm_batch=8,
        rm_epochs=1,
    ),
    asked=3,
    n=2,
)


class People:
    """In the place of an untrained model, which answers nothing: scripted people, several to a question."""

    def __init__(self) -> None:
        self.played = 0

    def sample(
        self, model: Path, world: World, asked: Sequence[TinyQuestion], n: int, output: Path, **how: Any
    ) -> list[list[Episode]]:
        async def play() -> list[Episode]:
            async with open_tinyweb(world.seed, animals=len(world.animals)) as web:
                return [
                    await run_episode(
                        Browser(web, TINYWEB_BROWSER),
                        Demonstrator(question, NOVICE, f"{how['seed']} {number}"),
                        question.text,
                    )
                    for question in asked
                    for number in range(n)
                ]

        assert (model / "config.json").exists()
        if not output.exists():
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text("".join(f"{episode_to_json(episode)}\n" for episode in asyncio.run(play())))
            self.played += n * len(asked)
        found = list(read_episodes(output))
        return [found[at * n : (at + 1) * n] for at in range(len(asked))]


@pytest.fixture
def pretrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An untrained model with a vocabulary of TinyWeb's words."""
    monkeypatch.setattr(vocabulary, "WORLDS", range(2000, 2001))
    tokenizer = vocabulary.train_vocabulary()
    model = Transformer(preset("tiny", vocab_size=tokenizer.vocab_size, max_length=320), rngs=nnx.Rngs(0))
    settings = FolderSettings(
        "pretrained",
        0.002,
        window_chars=400,
        context_tokens=320,
        max_command_tokens=40,
        max_answer_tokens=96,
        max_actions=30,
    )
    save_pretrained(model, tmp_path / "small", tokenizer, settings=settings)
    return tmp_path / "small"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_whole_demo_and_once_more(
    pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in ("tensorflow", "tensorflow_datasets", "seqio", "clu"):
        monkeypatch.setitem(sys.modules, library, None)  # an import of it fails
    people = People()
    monkeypatch.setattr(family, "sample_answers", people.sample)
    monkeypatch.setattr(samples, "sample_answers", people.sample)
    flags = DemoFlags(workdir=str(tmp_path / "runs"), model=str(pretrained))

    page = demo.run(flags, TINY)
    first = capsys.readouterr().out.splitlines()
    assert page == tmp_path / "runs" / "demo.html"
    assert first[-1] == str(page)
    assert "ask --web=tinyweb --policy=model --model=" in first[-3]
    names = ["demonstrations", "behaviour cloning", "reward model", "validation reward model", "answers"]
    names += ["figure 5", "figure 8", "page"]
    assert [line[:26].rstrip() for line in first[1:9]] == names
    assert all(line[26:].split()[1] == "s" for line in first[1:9])
    rows = [line for line in first if line.endswith((" ok", " below target"))]
    assert [row.split("  ")[0].partition(" (")[0].partition(":")[0] for row in rows] == [
        "valid commands",
        "questions answered, with a reference",
        "reward model right",
        "… and by the answers' length alone",
        "best of 2 preferred to one answer",
        "figure 5, n = 1",
        "figure 5, n = 2",
    ]
    assert rows[0].split() == ["valid", "commands", "at", "least", "97%", "100.0%", "ok"]

    tree = etree.HTML(page.read_text(encoding="utf-8"))
    assert len(tree.findall(".//section")) == 3
    assert len(tree.findall(".//article")) == 9
    assert len(tree.findall(".//figure/img")) == 2
    text = " ".join(tree.itertext())
    assert "TinyWeb is synthetic" in text
    assert text.count("behaviour cloning's single answer") >= 3
    assert text.count("of labelers, a tie counting half") == 3
    asked = {episode.question for episode in read_episodes(tmp_path / "runs" / "small" / "test-3x3-0.jsonl")}
    assert {heading.text for heading in tree.findall(".//section/h2")} == asked

    played, before = people.played, page.read_bytes()
    assert played == 12 * 2 + 12 * 2 + 3 * 3
    demo.run(flags, TINY)
    second = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in second[1:9]] == [line.split("  ")[0] for line in first[1:9]]
    assert all(line[26:].split()[0] == "kept" for line in second[1:9])
    assert [line for line in second if line.endswith((" ok", " below target"))] == rows
    assert (people.played, page.read_bytes()) == (played, before)

    with pytest.raises(
        RunError, match=r"was made with .*'questions': 3.*, not .*'questions': 4.*: give another --workdir"
    ):
        demo.run(flags, replace(TINY, asked=4))


# ---- what is measured

WORLD = make_world(0, 20)
NEED = WORLD.claim(WORLD.animals[0], "food")
QUESTION = TinyQuestion("What does it eat?", QuestionKind.FACTS, (NEED,))


def answered(text: str, *commands: str) -> Episode:
    """An episode with one reference, which says what is needed."""
    steps = tuple(Step("", Action(command)) for command in commands)
    quote = Quote(state(NEED), "A page", "wiki.test", "", 0, 0)
    return Episode(QUESTION.text, steps, (quote,), EpisodeEnd.ANSWER, "", Action(text))


GOOD = answered(f"{state(NEED).removesuffix('.')} [1].", "Search a", "End: Answer")
BAD = answered("It is said to be the best of all animals that ever there were.", "Search a", "Fly")
NONE = Episode(QUESTION.text, (Step("", Action("End: Answer")),), (), EpisodeEnd.NO_REFERENCES)


@pytest.mark.parametrize("scores", [(1.0, -1.0, np.nan), (-1.0, 1.0, np.nan), (0.5, 0.5, np.nan)])
def test_accuracy_is_what_labelers_are_expected_to_say(scores: tuple[float, ...]) -> None:
    found = accuracy(WORLD, [QUESTION], [[GOOD, BAD, NONE]], np.array([scores]))
    assert found is not None
    better = preference_probability(judgement(WORLD, QUESTION, GOOD), judgement(WORLD, QUESTION, BAD), LabelerConfig())
    assert better > 0.7
    right = {1.0: better, -1.0: 1 - better, 0.5: 0.5}[scores[0]]
    assert found.model.mean == pytest.approx(right)
    assert found.ceiling.mean == pytest.approx(better)
    assert found.missing.mean == pytest.approx(better - right, abs=1e-9)
    assert found.length.mean == pytest.approx(better)  # the shorter is better, and that is taken


def test_accuracy_is_a_mean_over_questions_that_have_two_answers() -> None:
    answers = [[GOOD, BAD, BAD], [GOOD, NONE, NONE], [BAD, BAD, NONE]]
    nan = np.nan
    found = accuracy(WORLD, [QUESTION] * 3, answers, np.array([[2.0, 1.0, 0.0], [1.0, nan, nan], [1.0, 0.0, nan]]))
    assert found is not None
    better = preference_probability(judgement(WORLD, QUESTION, GOOD), judgement(WORLD, QUESTION, BAD), LabelerConfig())
    assert found.model.count == 2
    assert found.model.mean == pytest.approx(((better + better + 0.5) / 3 + 0.5) / 2)
    assert accuracy(WORLD, [QUESTION], [[GOOD, NONE]], np.array([[1.0, nan]])) is None


def point(n: int, measured: float, apart: float) -> BestOfNPoint:
    return BestOfNPoint("0.3m", 300_000, n, 0.6, 0.01, measured, 0.02, apart, 0.5, 0.1, 48, 0.99)


def test_each_figure_stands_beside_its_target() -> None:
    scores = np.array([[1.0, -1.0]])
    rows = checks(WORLD, [QUESTION], [[GOOD, BAD]], scores, [point(16, 0.61, 2.1), point(1, 0.5, 0.0)])
    assert [(row.target, row.measured, row.reached) for row in rows if "reward" not in row.what] == [
        ("at least 97%", "75.0%", False),
        ("at least 90%", "100.0%", True),
        ("below 96.9%", "96.9% ± nan%", False),
        ("at least 60%", "61.0% ± 2.0%", True),
        ("2 standard errors", "50.0% ± 2.0%, 0.0 apart", True),
        ("2 standard errors", "61.0% ± 2.0%, 2.1 apart", False),
    ]
    below = checks(WORLD, [QUESTION], [[GOOD, NONE]], np.array([[1.0, np.nan]]), [point(16, 0.59, 2.0)])
    assert [(row.measured, row.reached) for row in below] == [
        ("100.0%", True),
        ("50.0%", False),
        ("no question has two answers", False),
        ("59.0% ± 2.0%", False),
        ("59.0% ± 2.0%, 2.0 apart", True),
    ]


def test_the_table_is_aligned() -> None:
    rows = [Check("valid commands", "at least 97%", "98.0%", True), Check("answers", "at least 90%", "7.0%", False)]
    assert table(rows).splitlines() == [
        "measured on held-out questions  target        measured",
        "valid commands                  at least 97%  98.0%     ok",
        "answers                         at least 90%  7.0%      below target",
    ]


# ---- stages


def test_a_stage_is_kept_until_what_it_left_is_gone(tmp_path: Path) -> None:
    output, stream, calls = tmp_path / "out", io.StringIO(), []

    def work() -> str:
        calls.append(1)
        output.touch()
        return f"done {len(calls)}"

    Stages(tmp_path, {}, stream).run("first", work, output)
    Stages(tmp_path, {}, stream).run("first", work, output)
    output.unlink()
    stages = Stages(tmp_path, {}, stream)
    stages.run("first", work, output)
    assert stages.result("first") == "done 2"
    assert stream.getvalue().splitlines() == [
        "first                        0 s  done 1",
        "first                       kept  done 1",
        "first                        0 s  done 2",
    ]


def test_what_other_settings_made_is_not_kept(tmp_path: Path) -> None:
    Stages(tmp_path, {"n": 1}, io.StringIO()).run("first", lambda: "done", tmp_path)
    Stages(tmp_path, {"n": 1})
    with pytest.raises(RunError, match=r"was made with {'n': 1}, not {'n': 2}: give another --workdir"):
        Stages(tmp_path, {"n": 2})


def test_an_interrupted_stage_is_done_again(tmp_path: Path) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        Stages(tmp_path, {}, stream).run("first", interrupted, tmp_path)
    assert stream.getvalue() == ""
    Stages(tmp_path, {}, stream).run("first", lambda: "done", tmp_path)
    assert stream.getvalue().endswith("0 s  done\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_progress_is_one_line_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, stream = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)

    def work() -> str:
        print("training data: 3 examples", file=sys.stderr)
        print("\rstep 1/9", end="", file=sys.stderr)
        print("\r\x1b[Kstep 2/9", end="", file=sys.stderr)
        until = time.monotonic() + 20
        while "step 2/9" not in terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        print("\r         \rstep 2: loss 1", file=sys.stderr)
        return "done"

    Stages(tmp_path, {}, stream).run("first", work, tmp_path)
    assert sys.stderr is terminal
    assert "\n" not in terminal.getvalue()
    assert "s  step 2/9" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert (tmp_path / "demo.log").read_text() == "---- first\ntraining data: 3 examples\nstep 2: loss 1\n"
    assert stream.getvalue().endswith("done\n")


# ---- commands


class Raises:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, _flags: DemoFlags) -> None:
        raise self.error


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["demo", *arguments])
    return demo.main()


def test_without_a_model_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(monkeypatch, f"--model={tmp_path}", f"--workdir={tmp_path / 'runs'}") == 1
    assert capsys.readouterr().err == (
        f"demo: {tmp_path} holds no model: python -m experiments.pretrain_tinyweb --size=0.3m --keep makes one, or give"
        " --model=FOLDER\n"
    )
    (tmp_path / "config.json").write_text("{}")
    assert called(monkeypatch, f"--model={tmp_path}", f"--workdir={tmp_path / 'runs'}") == 1
    assert "has no webgpt.json" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("arguments", [["--colour=red"], ["extra"]])
def test_wrong_use(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(monkeypatch, *arguments) == 2
    assert capsys.readouterr().err.startswith("demo: ")


GOES_ON = "demo: interrupted; the same command goes on from here\n"


@pytest.mark.parametrize(("raised", "said"), [(KeyboardInterrupt(), GOES_ON), (OSError("full"), "demo: full\n")])
def test_a_failure_is_one_line(
    raised: BaseException, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "run", Raises(raised))
    assert called(monkeypatch) == 1
    assert capsys.readouterr().err == said


def test_a_training_that_was_told_to_leave_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "run", Raises(SystemExit(75)))
    with pytest.raises(SystemExit, match="75"):
        called(monkeypatch)
    assert capsys.readouterr().err == GOES_ON


def test_webgpt_demo_runs_the_checkouts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(os, "execve", lambda *call: calls.append(call))
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    command.run(["--workdir=x"])
    ((program, arguments, environment),) = calls
    assert program == sys.executable
    assert arguments == [sys.executable, "-P", "-m", "experiments.demo", "--workdir=x"]
    checkout, elsewhere = environment["PYTHONPATH"].split(os.pathsep)
    assert (Path(checkout) / "experiments" / "demo.py").is_file()
    assert elsewhere == "/elsewhere"


def no_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "webgpt_jax", SimpleNamespace(__file__="/lib/webgpt_jax/__init__.py"))


def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_is_installed", lambda name: name != "matplotlib")


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        (no_checkout, "webgpt demo: the demo comes with a checkout of the repository"),
        (no_matplotlib, "webgpt demo: the demo needs matplotlib: pip install -e '.[train,studies]', or make demo\n"),
    ],
)
def test_webgpt_demo_says_what_is_missing(
    lacking: Callable[[pytest.MonkeyPatch], None],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lacking(monkeypatch)
    assert webgpt(["demo"]) == 1
    assert capsys.readouterr().err.startswith(message)
