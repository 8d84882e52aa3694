"""The studies: their estimators against enumeration, what they keep, and all four on tiny models."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")
pytest.importorskip("matplotlib")

import numpy as np
from flax import nnx
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as LibraryTokenizer

from experiments import fig05_best_of_n, fig06_demonstrations, fig07_comparisons, fig08_compute_frontier
from experiments.fig05_best_of_n import BestOfNFlags, apart, best_over_one, counts, expected_preference
from experiments.fig06_demonstrations import DemonstrationsFlags
from experiments.fig07_comparisons import ComparisonsFlags
from experiments.fig08_compute_frontier import FrontierFlags, FrontierPoint, frontier_of, lengths_of
from experiments.studies import samples
from experiments.studies.labelers import Pair, accuracy_of_labelers, accuracy_of_scores
from experiments.studies.points import Points
from experiments.studies.shares import SHARES, folder_of, name_of
from experiments.studies.slopes import mean_slope, said
from experiments.studies.study import StudyFlags, main, open_study
from experiments.tinyweb_lab import family
from experiments.training_flags import RunError
from experiments.training_run import Trained
from tests.datasets.samples import episode
from tests.experiments.training_samples import write_tokenizer
from webgpt_jax.env import Browser, Episode, episode_to_json, run_episode
from webgpt_jax.evaluation.flops import CompletionLengths, EpisodeLengths
from webgpt_jax.evaluation.stats import Estimate
from webgpt_jax.flags import UsageError
from webgpt_jax.models import FolderSettings, Tokenizer, Transformer, preset, save_pretrained
from webgpt_jax.models.tokenizer import tokenizer_from_folder
from webgpt_jax.tinyweb import lexicon
from webgpt_jax.tinyweb.demonstrators import MIX, Demonstrator
from webgpt_jax.tinyweb.preferences import Outcome
from webgpt_jax.tinyweb.questions import TinyQuestion
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, open_tinyweb
from webgpt_jax.tinyweb.world import World

END = "<|endoftext|>"


# ---- estimators


def test_the_best_of_n_over_one_is_the_mean_over_all_choices() -> None:
    draw = np.random.default_rng(0)
    train = draw.normal(size=6)
    preferred = draw.uniform(size=(6, 6))
    expected = []
    for n in range(1, 6):
        found = []
        for single in range(6):
            for chosen in itertools.combinations([at for at in range(6) if at != single], n):
                pick = max(chosen, key=lambda at: train[at])
                found.append(preferred[pick, single])
        expected.append(np.mean(found))
    np.testing.assert_allclose(best_over_one(train, preferred), expected, rtol=1e-12)


def test_one_answer_over_another_of_the_same_policy_is_a_half() -> None:
    scores = np.array([2.0, -1.0, np.nan, 0.5])
    assert best_over_one(scores, expected_preference(scores))[0] == pytest.approx(0.5)


def test_no_answer_is_picked_last() -> None:
    preferred = np.where(np.arange(3)[:, None] == 1, 0.9, 0.2) * np.ones((3, 3))
    # Of two: the first where it may be had, else the only one that has a score.
    assert best_over_one(np.array([1.0, 0.0, np.nan]), preferred)[1] == pytest.approx((0.9 + 0.2 + 0.2) / 3)


def test_the_expected_preference_is_the_logistic_function_of_the_difference() -> None:
    expected = [
        [0.5, 0.75, 1.0, 1.0],
        [0.25, 0.5, 1.0, 1.0],
        [0.0, 0.0, 0.5, 0.5],
        [0.0, 0.0, 0.5, 0.5],
    ]
    np.testing.assert_allclose(expected_preference(np.array([math.log(3), 0.0, np.nan, np.nan])), expected)


@pytest.mark.parametrize(("largest", "expected"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (16, [1, 2, 4, 8, 16])])
def test_the_n_of_a_figure(largest: int, expected: list[int]) -> None:
    assert counts(largest) == expected


def test_how_far_apart() -> None:
    assert apart(Estimate(0.61, 0.5, 9), Estimate(0.65, 0.02, 9)) == pytest.approx(2)
    assert apart(Estimate(0.5, 0.0, 9), Estimate(0.5 + 1e-12, 0.0, 9)) == 0
    assert apart(Estimate(0.6, 0.0, 9), Estimate(0.5, 0.0, 9)) == math.inf


@pytest.mark.parametrize("labelers", [1, 2, 3, 5])
def test_the_majority_of_labelers_by_enumeration(labelers: int) -> None:
    chances = Outcome(0.5, 0.2, 0.3)
    probability = {1: 0.5, 0: 0.2, -1: 0.3}
    total = 0.0
    for votes in itertools.product(probability, repeat=labelers):
        majority = int(np.sign(sum(votes)))
        for label, how_often in probability.items():
            total += math.prod(probability[vote] for vote in votes) * how_often * (1 - abs(majority - label) / 2)
    assert accuracy_of_labelers(chances, labelers) == pytest.approx(total)
    if labelers == 1:
        assert total == pytest.approx(chances.agreement)


def test_the_accuracy_of_scores() -> None:
    pairs = [
        Pair(0, 0, 1, Outcome(0.6, 0.2, 0.2)),
        Pair(0, 0, 2, Outcome(0.1, 0.1, 0.8)),
        Pair(1, 1, 2, Outcome(0.3, 0.4, 0.3)),
    ]
    scores = np.array([[1.0, 0.0, 0.5], [0.0, 2.0, 2.0]])
    np.testing.assert_allclose(accuracy_of_scores(pairs, scores), [0.7, 0.15, 0.7])


def test_the_slope_of_lines_side_by_side() -> None:
    points = [(group, x, 10 * group + 0.5 * math.log2(x)) for group in (1, 2) for x in (100, 200, 400, 800)]
    slope = mean_slope(points)
    assert slope is not None
    assert slope.mean == pytest.approx(0.5)
    assert slope.standard_error == pytest.approx(0, abs=1e-9)
    assert slope.count == 8
    # One group's line rises by 0.4 and the other's by 0.6, and its points lie off it by turns.
    bent = [(0, x, 0.4 * math.log2(x)) for x in (1, 2, 4)] + [(1, 1, 0.1), (1, 2, 0.5), (1, 4, 1.3)]
    slope = mean_slope(bent)
    assert slope is not None
    assert slope.mean == pytest.approx(0.5)
    # Residuals 1/15, -2/15, 1/15 with one degree of freedom over a spread of 2, and the other line's none; halved.
    assert slope.standard_error == pytest.approx(math.sqrt(6 / 225 / 2) / 2)
    assert said("score", slope) == "score: +0.500 ± 0.058 (6 points)"


def test_one_value_of_x_has_no_slope() -> None:
    assert mean_slope([(0, 5, 1.0), (1, 5, 2.0)]) is None
    assert said("score", None) == "score: no slope, there is one value alone"


def test_shares() -> None:
    assert [name_of(share) for share in SHARES] == ["1/8", "1/4", "1/2", "1"]
    assert folder_of(0.125, 2) == "1-8-seed2"


def test_a_share_is_averaged_over_the_same_part_of_its_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    def train(flags: Any) -> Trained:
        taken.append(flags)
        return Trained(tmp_path / "final", 3, "total", 2, 0.5)

    monkeypatch.setattr(family, "train_bc", train)
    monkeypatch.setattr(family, "train_rm", train)
    plan = family.Plan(seed=7)
    for share, expected in ((1.0, 0.99), (0.5, 0.98), (0.125, 0.92)):
        for kind in ("bc", "rm"):
            workdir = tmp_path / f"{kind}{share}"
            workdir.mkdir()
            start = family.clone if kind == "bc" else family.train_reward_model
            trained = start(tmp_path / "model", tmp_path / "data", workdir, plan, share)
            assert (taken[-1].ema_decay, taken[-1].share, taken[-1].seed) == (expected, share, 7)
            assert start(tmp_path / "model", tmp_path / "data", workdir, plan, share) == replace(
                trained, final=workdir / "final"
            )
    assert len(taken) == 6  # what has been trained is not trained again


def test_the_lengths_of_an_episode(tmp_path: Path) -> None:
    tokenizer = tokenizer_from_folder(write_tokenizer(tmp_path / "bytes"))
    assert tokenizer is not None
    one = episode("Why?", ["Search sky", "End: Answer"], "Blue.")
    read = [len(step.observation.encode()) for step in one.steps]
    assert one.answer_prompt is not None
    prompt = len(one.answer_prompt.encode())
    assert lengths_of(one, tokenizer) == EpisodeLengths(
        (CompletionLengths(read[0], 11), CompletionLengths(read[1], 12), CompletionLengths(prompt, 6)), prompt + 6
    )
    assert lengths_of(episode("Why?", ["End: Nonsense"], None), tokenizer).scored == 0
    # What a model spoke is counted as it was sampled, not as its text would be.
    assert one.answer is not None
    spoken = replace(one, answer=replace(one.answer, tokens=(1, 2, 3)))
    assert lengths_of(spoken, tokenizer).completions[-1] == CompletionLengths(prompt, 3)


def test_the_frontier() -> None:
    rows = [
        FrontierPoint("s", 1, 1, 10.0, 0.0, 0.1, 5, 1.0),
        FrontierPoint("s", 1, 2, 20.0, 1.0, 0.1, 5, 1.0),
        FrontierPoint("m", 3, 1, 30.0, 0.5, 0.1, 5, 1.0),
        FrontierPoint("m", 3, 2, 60.0, 2.0, 0.1, 5, 1.0),
    ]
    assert [row.label for row in frontier_of(rows)] == ["s best-of-1", "s best-of-2", "m best-of-2"]


# ---- what is kept


@dataclass(frozen=True)
class Row:
    name: str
    n: int
    value: float


def test_points_are_kept(tmp_path: Path) -> None:
    points = Points(tmp_path / "new" / "figure.csv", Row)
    assert points.rows == []
    points.add([Row("a, b", 1, 0.1 + 0.2)])
    points.add([Row("c", 2, math.inf), Row("c", 3, -1.0)])
    assert points.path.read_text() == 'name,n,value\n"a, b",1,0.30000000000000004\nc,2,inf\nc,3,-1.0\n'
    again = Points(points.path, Row)
    assert again.rows == points.rows
    assert again.find(name="c", n=3) == [Row("c", 3, -1.0)]
    assert again.find(name="d") == []


@pytest.mark.parametrize("text", ["", "name,n\na,1\n", "name,n,value\na,one,1\n", "name,n,value\na,1\n"])
def test_a_file_of_something_else_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "figure.csv"
    path.write_text(text)
    with pytest.raises(RunError, match=r"figure\.csv holds no points of this study .*move it away"):
        Points(path, Row)


def test_other_settings_are_an_error(pretrained: Path, tmp_path: Path) -> None:
    flags = StudyFlags(models=str(pretrained / "small"), workdir=str(tmp_path), demonstrations=9)
    with open_study("fig", flags, {"n": 4}) as study:
        assert [model.name for model in study.models] == ["small"]
        assert study.plan.demonstrations == 9
    with open_study("fig", flags, {"n": 5}):
        pass  # no point was made with the 4
    (tmp_path / "fig.csv").write_text("")
    with (
        pytest.raises(RunError, match=r"was made with n 5, not 6: give another --workdir.*move fig.csv away"),
        open_study("fig", flags, {"n": 6}),
    ):
        pass
    with (
        pytest.raises(RunError, match="was made with demonstrations 9, not 8"),
        open_study("other", replace(flags, demonstrations=8), {}),
    ):
        pass
    with open_study("fig", replace(flags, models=f"{pretrained / 'large'},{pretrained / 'small'}"), {"n": 5}) as study:
        assert [model.name for model in study.models] == ["small", "large"]
        assert study.largest.name == "large"
    kept = json.loads((tmp_path / "config.json").read_text())
    assert kept["fig"] == {"n": 5}
    assert set(kept["models"]) == {"small", "large"}
    assert kept["plan"]["demonstrations"] == 9


def test_one_study_at_a_time(pretrained: Path, tmp_path: Path) -> None:
    flags = StudyFlags(models=str(pretrained / "small"), workdir=str(tmp_path))
    with (
        open_study("fig", flags, {}),
        pytest.raises(RunError, match="another study runs in"),
        open_study("x", flags, {}),
    ):
        pass


# ---- the command line


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fig05_best_of_n", *arguments])
    return main("fig05_best_of_n", "usage", BestOfNFlags, fig05_best_of_n.run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes=0.3m", "--models=x"], "give --sizes or --models, not both"),
        (["--sizes=7b"], "--sizes=7b is none of 0.3m, 1m, 3m; other models go into --models"),
        (["--n=0"], "--n must be at least 1, not 0"),
        (["--seed=-1"], "--seed must be at least 0, not -1"),
        (["--m=3"], "Unknown command line flag 'm'"),
        (["more"], "no argument 'more' is known"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(monkeypatch, *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_size_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("experiments.studies.study.models_are_there", lambda sizes: [])
    for arguments in ([], ["--sizes=0.3m,1m"]):
        assert status(monkeypatch, f"--workdir={tmp_path}", *arguments) == 1
        assert "python -m experiments.pretrain_tinyweb --size=0.3m --keep makes it" in capsys.readouterr().err


def test_help_names_every_flag(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(monkeypatch, "--help") == 0
    shown = capsys.readouterr().out
    for name in ("--sizes=…", "--models=…", "--[no]small", "--n=…", "(default: 16)", "--demonstrations=…"):
        assert name in shown


def test_small_is_small() -> None:
    small, full = StudyFlags(small=True), StudyFlags()
    assert small.plan == family.SMALL
    assert full.plan == family.Plan()
    assert small.asked < full.asked
    assert StudyFlags(small=True, rm_epochs=1, test_questions=5).plan == replace(family.SMALL, rm_epochs=1)
    with pytest.raises(UsageError, match="--test_questions must be at least 1"):
        StudyFlags(test_questions=0).check()


# ---- all of it


def word_tokenizer() -> Tokenizer:
    """A token for each of TinyWeb's words: its windows fit the models' context."""
    words = [word for name, found in vars(lexicon).items() if name.isupper() for word in found]
    library = LibraryTokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    library.train_from_iterator(
        [f" {word} {word.capitalize()} the of is and that Search Clicked link" for word in words], trainer
    )
    library.add_tokens([AddedToken(marker, normalized=False) for marker in "♦■【】†━"])
    return Tokenizer(library, specials={"eos": END})


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two untrained models."""
    folder = tmp_path_factory.mktemp("pretrained")
    tokenizer = word_tokenizer()
    settings = FolderSettings(
        "pretrained", 5e-3, window_chars=400, context_tokens=384, max_command_tokens=64, max_answer_tokens=96
    )
    for name, width in (("small", 16), ("large", 32)):
        config = preset(
            "tinyweb-0.3m", vocab_size=tokenizer.vocab_size, num_layers=1, embed_dim=width, mlp_dim=2 * width
        )
        save_pretrained(Transformer(config, rngs=nnx.Rngs(0)), folder / name, tokenizer, settings=settings)
    return folder


def scripted_answers(
    model: Path, world: World, asked: Sequence[TinyQuestion], n: int, output: Path, *, seed: int = 0, **_: Any
) -> list[list[Episode]]:
    """In `sample_answers`'s place: untrained models answer nothing, so scripted people do."""
    skills = list(MIX)

    async def play() -> list[list[Episode]]:
        async with open_tinyweb(world.seed) as web:
            browser = Browser(web, TINYWEB_BROWSER)
            return [
                [
                    await run_episode(
                        browser,
                        Demonstrator(question, skills[(number + sample) % len(skills)], f"{seed} {number} {sample}"),
                        question.text,
                    )
                    for sample in range(n)
                ]
                for number, question in enumerate(asked)
            ]

    answers = asyncio.run(play())
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("".join(f"{episode_to_json(one)}\n" for row in answers for one in row), encoding="utf-8")
    return answers


FEW = {
    "demonstrations": 24,
    "questions": 16,
    "validation_questions": 16,
    "answers": 3,
    "comparisons": 2,
    "bc_batch": 8,
    "bc_epochs": 1,
    "rm_batch": 8,
    "rm_epochs": 1,
    "test_questions": 4,
}
TWO_SHARES = (0.5, 1.0)  # each takes a training of seconds


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_all_four_go_on_where_they_stopped(pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fig06_demonstrations, "SHARES", TWO_SHARES)
    monkeypatch.setattr(fig07_comparisons, "SHARES", TWO_SHARES)
    monkeypatch.setattr(family, "sample_answers", scripted_answers)
    monkeypatch.setattr(samples, "sample_answers", scripted_answers)
    given: dict[str, Any] = {
        **FEW,
        "models": f"{pretrained / 'small'},{pretrained / 'large'}",
        "workdir": str(tmp_path / "studies"),
    }
    workdir = tmp_path / "studies"

    best = fig05_best_of_n.run(BestOfNFlags(**given, n=2))
    assert [(row.size, row.n) for row in best.rows] == [("small", 1), ("small", 2), ("large", 1), ("large", 2)]
    assert best.rows[0].measured == pytest.approx(0.5)
    assert best.rows[0].predicted == pytest.approx(0.5)
    assert all(0 <= row.measured <= 1 and row.measured_error >= 0 for row in best.rows)
    assert best.lines[0].startswith("small: best of 2 preferred to one in ")

    frontier = fig08_compute_frontier.run(FrontierFlags(**given, n=2))
    costs = {row.label: row.flops for row in frontier.rows}
    assert costs["small best-of-1"] < costs["small best-of-2"] < costs["large best-of-2"]
    assert costs["small best-of-2"] > 2 * costs["small best-of-1"]  # the reward model reads too

    # Ended at the third of the four points, it goes on with it.
    said_before: list[str] = []

    def say_until(text: str) -> None:
        said_before.append(text)
        if sum("of the demonstrations" in line for line in said_before) == 3:
            raise KeyboardInterrupt

    flags = DemonstrationsFlags(**given, samples=1)
    with pytest.raises(KeyboardInterrupt):
        fig06_demonstrations.run(flags, say=say_until)
    kept = (workdir / "fig06.csv").read_text()
    assert len(kept.splitlines()) == 1 + 2
    said_after: list[str] = []
    demonstrations = fig06_demonstrations.run(flags, say=said_after.append)
    assert sum("of the demonstrations" in line for line in said_after) == 2
    assert (workdir / "fig06.csv").read_text().startswith(kept)
    by_share = [row.demonstrations for row in demonstrations.rows if row.size == "small"]
    assert by_share == sorted(by_share)
    assert by_share[0] < by_share[-1] <= 24
    assert len(demonstrations.lines) == 4

    comparisons = fig07_comparisons.run(ComparisonsFlags(**given, samples=3))
    assert [row.parameters for row in comparisons.rows[:3]] == [1, 3, 5]
    people = [row.accuracy for row in comparisons.rows[:3]]
    assert people == sorted(people)  # more labelers foresee another one better
    assert {(row.size, row.share) for row in comparisons.rows[3:]} == {
        (size, share) for size in ("small", "large") for share in TWO_SHARES
    }

    # Run again, nothing is trained, and the same is said.
    def no_training(*_: Any) -> Any:
        raise AssertionError("a finished point was made again")

    for name in ("clone", "train_reward_model", "sample_answers"):
        monkeypatch.setattr(family, name, no_training)
    monkeypatch.setattr(samples, "sample_answers", no_training)
    for result, again in (
        (best, fig05_best_of_n.run(BestOfNFlags(**given, n=2))),
        (demonstrations, fig06_demonstrations.run(flags)),
        (comparisons, fig07_comparisons.run(ComparisonsFlags(**given, samples=3))),
        (frontier, fig08_compute_frontier.run(FrontierFlags(**given, n=2))),
    ):
        assert again == result
        assert result.png.read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in workdir.glob("fig*")} == {
        f"fig0{number}.{kind}" for number in (5, 6, 7, 8) for kind in ("csv", "png")
    }
    assert not list(workdir.glob("*/bc_shares/*/checkpoints"))
