"""The file of comparisons: made of sampled answers, made again, and what is refused."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

from experiments import make_comparisons
from experiments.make_comparisons import ComparisonFlags, main, write
from experiments.training_flags import RunError
from webgpt_jax.datasets import read_comparisons
from webgpt_jax.env import Browser, Episode, episode_to_json, run_episode
from webgpt_jax.models import FolderSettings
from webgpt_jax.tinyweb.demonstrators import MIX, Demonstrator
from webgpt_jax.tinyweb.preferences import Rating
from webgpt_jax.tinyweb.questions import TinyQuestion
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, open_tinyweb
from webgpt_jax.tinyweb.world import World, make_world

ANIMALS = 20
RATED = {"unsupported", "irrelevant", "usefulness strong", "usefulness weak", "usefulness none", "coherence", "overall"}


def scripted_answers(
    model: Path, world: World, asked: Sequence[TinyQuestion], n: int, output: Path, **_: Any
) -> list[list[Episode]]:
    """In `sample_answers`'s place: scripted people of several skills."""
    skills = list(MIX)

    async def play() -> list[list[Episode]]:
        async with open_tinyweb(world.seed, animals=ANIMALS) as web:
            browser = Browser(web, TINYWEB_BROWSER)
            return [
                [
                    await run_episode(
                        browser,
                        Demonstrator(question, skills[at % len(skills)], f"{number} {at}"),
                        question.text,
                    )
                    for at in range(n)
                ]
                for number, question in enumerate(asked)
            ]

    answers = asyncio.run(play())
    output.write_text("".join(f"{episode_to_json(one)}\n" for row in answers for one in row), encoding="utf-8")
    return answers


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> ComparisonFlags:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))  # one index for all tests
    monkeypatch.setattr(make_comparisons, "sample_answers", scripted_answers)
    monkeypatch.setattr(make_comparisons, "make_world", lambda seed: make_world(seed, ANIMALS))
    monkeypatch.setattr(make_comparisons, "read_settings", lambda folder: FolderSettings("policy"))
    return ComparisonFlags(model="bc", output=str(tmp_path / "labels.jsonl"), count=10, answers=3, per_question=2)


def test_a_file_is_made_and_made_again(flags: ComparisonFlags, tmp_path: Path) -> None:
    output = tmp_path / "labels.jsonl"
    found = write(flags)
    assert list(read_comparisons([output], split="train", held_out=0.0)) == found
    assert 8 < len(found) <= 20
    before = output.read_bytes()
    output.unlink()
    kept = tmp_path / "labels.answers.jsonl"
    kept.write_bytes(kept.read_bytes()[:-100])  # killed in the middle of a line
    assert write(flags) == found
    assert output.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.answers.jsonl", "labels.jsonl"]


def test_every_rating_of_the_form_is_kept(flags: ComparisonFlags) -> None:
    for comparison in write(flags):
        assert set(comparison.info) == RATED
        ratings = {name: Rating[value.upper().replace(" ", "_")] for name, value in comparison.info.items()}
        assert comparison.rating == ratings["overall"] / 2


def test_other_files_are_left_alone(flags: ComparisonFlags, tmp_path: Path) -> None:
    write(flags)
    before = (tmp_path / "labels.jsonl").read_bytes()
    for changes in ({"answers": 2}, {"seed": 1}, {"split": "rl"}):
        with pytest.raises(RunError, match=r"labels\.answers\.jsonl, line \d+ answers another question"):
            write(replace(flags, **changes))  # type: ignore[arg-type]
    (tmp_path / "labels.answers.jsonl").unlink()
    with pytest.raises(RunError, match="was not made by this command"):
        write(flags)
    assert (tmp_path / "labels.jsonl").read_bytes() == before


def test_what_are_no_episodes_is_an_error(flags: ComparisonFlags, tmp_path: Path) -> None:
    (tmp_path / "labels.answers.jsonl").write_text("{}\n")
    with pytest.raises(RunError, match=r"labels\.answers\.jsonl, line 1"):
        write(flags)


def test_more_than_there_are_is_refused(flags: ComparisonFlags, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"give --count=\d+ at most"):
        write(replace(flags, count=10**6))
    assert not list(tmp_path.iterdir())


def called(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["make_comparisons", *arguments])
    return main()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--output=x"], 2, "give --model="),
        (["--model=m"], 2, "give --output="),
        (["--model=m", "--output=x", "--answers=1"], 2, "--answers=1 must be at least 2"),
        (["--model=m", "--output=x", "--split=train"], 2, "--split=train is none of bc, rm, rl, validation, test"),
        (["extra"], 2, "no argument 'extra' is known"),
        (["--model=m", "--output=x", "--count=1"], 1, "m has no webgpt.json"),
    ],
)
def test_what_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    message: str,
) -> None:
    assert called(monkeypatch, tmp_path, *arguments) == status
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
