"""The file of demonstrations: made, gone on with, summed up."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from experiments.make_demonstrations import DemonstrationFlags, Summary, main, make_demonstrations, summarize
from webgpt_jax.cli import CommandError
from webgpt_jax.env import Action, Episode, EpisodeEnd, Quote, Step, read_episodes
from webgpt_jax.flags import UsageError
from webgpt_jax.tinyweb.language import Claim, state
from webgpt_jax.tinyweb.questions import QuestionKind, TinyQuestion, questions
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, open_tinyweb
from webgpt_jax.tinyweb.world import make_world

ANIMALS = 20


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))  # one index for all tests


def make(path: Path, **changes: object) -> Summary:
    flags = replace(DemonstrationFlags(output=str(path), count=12), **changes)  # type: ignore[arg-type]
    flags.check()

    async def run() -> Summary:
        async with open_tinyweb(0, animals=ANIMALS) as web:
            return await make_demonstrations(flags, web, TINYWEB_BROWSER)

    return asyncio.run(run())


def test_a_file_is_made_and_gone_on_with_to_the_byte(tmp_path: Path) -> None:
    whole, cut, short = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl", tmp_path / "short.jsonl"
    summary = make(whole)
    assert summary.episodes == 12
    cut.write_bytes(whole.read_bytes()[:-1000])
    assert make(cut) == summary
    assert cut.read_bytes() == whole.read_bytes()
    make(short, count=5)
    assert make(short) == summary
    assert short.read_bytes() == whole.read_bytes()
    assert make(short) == summary  # nothing is missing
    asked = islice(questions(make_world(0, ANIMALS), "bc"), 12)
    assert [episode.question for episode in read_episodes(whole)] == [question.text for question in asked]


def test_another_files_episodes_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "demos.jsonl"
    make(path, count=3)
    before = path.read_bytes()
    for changes in ({"seed": 1}, {"split": "rm"}, {"count": 2}):
        with pytest.raises(CommandError, match=r"demos\.jsonl holds other episodes than the first 3 of these"):
            make(path, **changes)
    assert path.read_bytes() == before


@pytest.mark.slow
def test_more_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"the set validation has [\d,]+ questions: give --count=\d+ at most"):
        make(tmp_path / "demos.jsonl", split="validation", count=100_000)


def test_what_a_file_holds_is_counted() -> None:
    world = make_world(0, ANIMALS)
    need = world.claim(world.animals[0], "food")
    wrong = Claim(need.animal, "food", world.rumors[need.animal, "food"])
    asked = [TinyQuestion("What?", QuestionKind.FACTS, (need,))] * 3 + [TinyQuestion("Why?", QuestionKind.NONSENSE, ())]

    def episode(*taken: str, said: Claim | None = None, end: EpisodeEnd = EpisodeEnd.ANSWER) -> Episode:
        steps = tuple(Step("", Action(text)) for text in taken)
        if said is None:
            return Episode("What?", steps, (), end, info={"policy": "demonstrator:novice"})
        quote = Quote(state(said), "A page", "wiki.test", "", 0, 0)
        answer = Action(f"{state(said).removesuffix('.')} [1].")
        return Episode("What?", steps, (quote,), end, "", answer, info={"policy": "demonstrator:expert"})

    episodes = [
        episode("Search a", "Quote: b", "End: Answer", said=need),
        episode("Search a", "Quote: b", "End: Answer", said=wrong),
        episode("Search a", "End: Answer", end=EpisodeEnd.NO_REFERENCES),
        episode("End: Nonsense", end=EpisodeEnd.NONSENSE),
    ]
    assert summarize(world, asked, episodes) == Summary(
        episodes=4,
        answered=2 / 3,
        complete=1 / 3,
        actions=9 / 4,
        commands=Counter(Search=3, QuoteText=2, End=4),
        people=Counter(expert=2, novice=2),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": None}, "give --output=FILE"),
        ({"count": 0}, "--count=0 must be at least 1"),
        ({"split": "train"}, "--split=train is none of bc, rm, rl, validation, test"),
    ],
)
def test_flags_that_cannot_work(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make(tmp_path / "demos.jsonl", **changes)


def called(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["make_demonstrations", *arguments])
    return main()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count=1"], "give --output=FILE"),
        (["--outputs=x"], "outputs"),
        (["extra", "--output=x"], "no argument 'extra' is known"),
    ],
)
def test_wrong_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert called(monkeypatch, tmp_path, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_folder_without_a_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax")
    assert called(monkeypatch, tmp_path, "--output=x", f"--tokenizer={tmp_path}") == 1
    assert f"{tmp_path} holds no tokenizer.json" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
