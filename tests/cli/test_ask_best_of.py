"""`webgpt ask --best_of` with tiny random models: what it prints, what it keeps, and what Ctrl-C leaves."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from webgpt_jax.cli.main import main
from webgpt_jax.env import Action, Episode, EpisodeEnd, Quote, read_episodes, render_answer_prompt

if importlib.util.find_spec("jax") is None or importlib.util.find_spec("jinja2") is None:
    pytest.skip("needs the extra train: pip install -e '.[train]'", allow_module_level=True)

import jax.numpy as jnp
import numpy as np
from flax import nnx

from tests.rollout.models import CONFIG, tiny_model, tiny_tokenizer
from webgpt_jax.algorithms.best_of_n import BestOfN
from webgpt_jax.cli.best_of import attempts_to_json, chosen_episode, load_scorer, scores_line
from webgpt_jax.models import FolderSettings, ScalarTransformer, save_pretrained, write_settings
from webgpt_jax.models.parameters import parameters

PAGE = "<title>Mongolia</title><h1>Mongolia</h1><p>The capital of Mongolia is Ulaanbaatar.</p><p>It is cold.</p>"
QUESTION = "What is Mongolia?"

Play = Callable[..., Awaitable[Episode]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy of ours, a reward model, and a model of others."""
    folder = tmp_path_factory.mktemp("models")
    reward_model = ScalarTransformer(replace(CONFIG, max_length=256), rngs=nnx.Rngs(3))
    save_pretrained(tiny_model(), folder / "policy", tiny_tokenizer())
    settings = FolderSettings(
        "policy", window_chars=300, context_tokens=1000, max_command_tokens=8, max_answer_tokens=12, max_actions=3
    )
    write_settings(folder / "policy", settings)
    save_pretrained(reward_model, folder / "rm", tiny_tokenizer())
    write_settings(folder / "rm", FolderSettings("reward_model", context_tokens=257))
    save_pretrained(tiny_model(), folder / "foreign", tiny_tokenizer())
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "mongolia.html").write_text(PAGE, encoding="utf-8")
    return tmp_path


def ask(home: Path, models: Path, *arguments: str, policy: str = "policy", best_of: int = 3) -> int:
    chosen = [f"--model={models / policy}", f"--best_of={best_of}", f"--reward_model={models / 'rm'}"]
    return main(["ask", f"--web=folder:{home / 'pages'}", "--policy=model", "--quiet", *chosen, *arguments])


QUOTES = (Quote("It is cold.", "Mongolia", "m.example", "http://m.example/", 0, 11),)


def answered(answer: str) -> Episode:
    return Episode("Why?", (), QUOTES, EpisodeEnd.ANSWER, render_answer_prompt("Why?", QUOTES), Action(answer))


def answers_by(texts: list[str | None], interrupt: Callable[[], Awaitable[None]] | None = None) -> Play:
    """Episodes that answer, in the place of those of a random model, which hardly ever does. Those that there are no
    texts for do not end; the first of them calls `interrupt`."""
    numbers = count()

    async def play(
        _browser: object, _policy: object, question: str, *, info: Mapping[str, str], **_: object
    ) -> Episode:
        number = next(numbers)
        if number >= len(texts):
            if interrupt is not None and number == len(texts):
                await interrupt()
            await asyncio.sleep(60)
        text = texts[number]
        if text is None:
            return Episode(question, (), (), EpisodeEnd.NONSENSE, info=info)
        return replace(answered(text), question=question, info=info)

    return play


TEXTS = ["Because [1].", None, "It is cold there [1].", "So."]


@pytest.fixture
def scores(models: Path) -> list[float | None]:
    score = load_scorer(models / "rm")
    return [None if text is None else score(answered(text)) for text in TEXTS]


def test_the_best_answer_is_given_with_all_scores(
    home: Path,
    models: Path,
    scores: list[float | None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("webgpt_jax.cli.ask.run_episode", answers_by(TEXTS))
    assert ask(home, models, QUESTION, best_of=4, policy="foreign") == 0
    shown = capsys.readouterr()
    numbers = sorted((0, 2, 3), key=lambda number: -(scores[number] or 0))
    listed = [f"{scores[number]:.3f} (attempt {number + 1}" for number in numbers]
    line = f"Scores of 4 attempts: {listed[0]}, given above), {listed[1]}), {listed[2]}); no answer: attempt 2"
    assert shown.out.rstrip("\n").split("\n")[-1] == line
    assert TEXTS[numbers[0]] in shown.out.split("\n")
    (saved,) = (home / "data" / "webgpt_jax" / "episodes").glob("*.jsonl")
    (episode,) = read_episodes(saved)
    assert episode.answer == Action(str(TEXTS[numbers[0]]))
    note = {"best_of": "4", "attempt": str(numbers[0] + 1), "reward_model": "rm", "temperature": "0.8"}
    assert episode.info.items() >= note.items()
    assert float(episode.info["score"]) == pytest.approx(scores[numbers[0]], rel=1e-5)


def test_json_holds_all_attempts(
    home: Path,
    models: Path,
    scores: list[float | None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("webgpt_jax.cli.ask.run_episode", answers_by(TEXTS))
    assert ask(home, models, "--json", QUESTION, best_of=4) == 0
    record = json.loads(capsys.readouterr().out)
    assert record.keys() == {"format", "question", "best", "scores", "episodes"}
    assert (record["format"], record["question"]) == ("webgpt-best-of-1", QUESTION)
    assert record["scores"] == scores
    assert record["best"] == max((0, 2, 3), key=lambda number: scores[number] or 0)
    assert [episode["end"] for episode in record["episodes"]] == ["answer", "nonsense", "answer", "answer"]


def test_ctrl_c_commits_to_the_best_so_far(
    home: Path, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scored: list[Episode] = []

    def score(episode: Episode) -> float | None:
        scored.append(episode)
        return None if episode.answer is None else float(len(episode.answer.text))

    async def interrupt() -> None:
        for _ in range(3000):
            if len(scored) == 3:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the last score is on its way back from its thread
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("webgpt_jax.cli.ask.run_episode", answers_by(TEXTS[:3], interrupt))
    monkeypatch.setattr("webgpt_jax.cli.ask.load_scorer", lambda _: score)
    assert ask(home, models, QUESTION, "Is it cold?", best_of=5) == 0
    shown = capsys.readouterr()
    assert "It is cold there [1]." in shown.out.split("\n")
    assert shown.out.rstrip("\n").split("\n")[-1] == (
        "Scores of 5 attempts: 21.000 (attempt 3, given above), 12.000 (attempt 1); "
        "no answer: attempt 2; not ended: attempt 4, attempt 5"
    )
    noted = "the best of the 3 of 5 attempts that had ended; questions not asked: 1"
    assert f"interrupted: the answer is {noted}" in shown.err
    assert "1 of 2 episodes saved" in shown.err


def test_ctrl_c_before_any_has_ended_is_130(
    home: Path, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("webgpt_jax.cli.ask.run_episode", answers_by([], interrupt))
    assert ask(home, models, QUESTION) == 130
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("interrupted before an attempt had ended: there is no answer yet\n")


@pytest.mark.slow
def test_attempts_differ_and_repeat_by_seed(home: Path, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(home, models, "--json", "--temperature=4", QUESTION) == 0
    first = json.loads(capsys.readouterr().out)
    actions = [[step["action"]["tokens"] for step in episode["steps"]] for episode in first["episodes"]]
    assert len({json.dumps(tokens) for tokens in actions}) == 3
    assert all(len(tokens) == 3 for tokens in actions)  # max_actions of webgpt.json
    assert max(len(tokens) for episode in actions for tokens in episode) <= 8  # and max_command_tokens
    assert first["scores"] == [None, None, None]
    assert first["best"] == 0
    # Asked once, the answer is that of the first attempt.
    alone = ["--policy=model", f"--model={models / 'policy'}", "--temperature=4", "--json", "--concurrency=3", QUESTION]
    assert main(["ask", f"--web=folder:{home / 'pages'}", "--quiet", *alone]) == 0
    assert json.loads(capsys.readouterr().out) == first["episodes"][0]


def test_the_score_is_read_at_the_end_token_of_prompt_and_answer(models: Path) -> None:
    model, tokenizer = ScalarTransformer(replace(CONFIG, max_length=256), rngs=nnx.Rngs(3)), tiny_tokenizer()
    text = "Why?■\n[1] Mongolia (m.example)\n\nIt is cold.■\nBecause [1]."
    tokens = np.array([[*tokenizer.encode(text), tokenizer.eos_id]], np.int32)
    score = load_scorer(models / "rm")
    assert score(answered("Because [1].")) == pytest.approx(float(model(jnp.asarray(tokens))[0, -1]), abs=1e-5)
    assert score(replace(answered(""), answer=None)) is None
    assert score(answered(" \n")) is None
    ends = [score(answered(f"{start}{'It is cold. ' * 30}")) for start in ("Why so? ", "As ever: ")]
    assert ends[0] == pytest.approx(ends[1])  # what is too long loses its front


def test_a_reward_model_that_gives_no_number_is_an_error(
    home: Path,
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = ScalarTransformer(CONFIG, rngs=nnx.Rngs(0))
    head = parameters(broken)["scalar_head"]
    params = {**parameters(broken), "scalar_head": {**head, "bias": head["bias"] + jnp.nan}}
    save_pretrained(ScalarTransformer(CONFIG, params=params), tmp_path / "broken", tiny_tokenizer())
    monkeypatch.setattr("webgpt_jax.cli.ask.run_episode", answers_by(TEXTS))
    assert ask(home, models, f"--reward_model={tmp_path / 'broken'}", QUESTION) == 1
    assert "its weights are broken" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "status", "named"),
    [
        (["--policy=model", "--best_of=4"], 2, "--best_of needs --reward_model=FOLDER"),
        (["--policy=model", "--reward_model=x"], 2, "it needs --best_of=N"),
        (["--best_of=4", "--reward_model=x"], 2, "--best_of needs --policy=model"),
        (["--policy=model", "--best_of=4", "--reward_model=x", "--temperature=0"], 2, "--temperature above 0"),
        (["--best_of=0"], 2, "--best_of must be at least 1"),
        (["--concurrency=0"], 2, "--concurrency must be more than 0"),
        (["--policy=model", "--model={models}/rm"], 1, "holds a reward model, which writes nothing"),
        (
            ["--policy=model", "--model={models}/policy", "--best_of=2", "--reward_model={models}/policy"],
            1,
            "--reward_model: {models}/policy holds no reward model",
        ),
        (
            ["--policy=model", "--model={models}/policy", "--best_of=2", "--reward_model=/no/such"],
            1,
            "--reward_model: /no/such is no folder",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    home: Path, models: Path, flags: list[str], status: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [flag.format(models=models) for flag in flags]
    assert main(["ask", f"--web=folder:{home / 'pages'}", "--quiet", *given, QUESTION]) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert named.format(models=models) in shown.err


def test_scores_are_listed_from_the_best_and_equals_by_attempt() -> None:
    episode = answered("So.")
    attempts = BestOfN([episode, episode, None, episode, episode], [0.5, 1.25, None, 1.25, None], 1)
    assert scores_line(attempts) == (
        "Scores of 5 attempts: 1.250 (attempt 2, given above), 1.250 (attempt 4), 0.500 (attempt 1); "
        "no answer: attempt 5; not ended: attempt 3"
    )
    assert scores_line(BestOfN([episode], [None], 0)) == "Scores of 1 attempts: none; no answer: attempt 1"
    assert json.loads(attempts_to_json("Why?", attempts))["episodes"][2] is None
    chosen = chosen_episode(attempts, "rm")
    assert chosen == replace(episode, info={"best_of": "4", "attempt": "2", "reward_model": "rm", "score": "1.25"})
    assert chosen_episode(BestOfN([None], [None]), "rm") is None
