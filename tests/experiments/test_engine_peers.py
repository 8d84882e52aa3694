"""The other engines of `bench_engine`, played by small programs: what they are asked, how their answers are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

from experiments.engine_bench.peers import PeerError, llama_peer, vllm_peer
from webgpt_jax.models import preset

PROMPTS = [[1, 2, 3, 4]] * 3

BATCHED_BENCH = """#!/bin/sh
echo "$@" > "$(dirname "$0")/arguments"
echo "warming up"
echo '{"pp": 4, "tg": 5, "pl": 3, "t_pp": 0.5, "speed_pp": 24.0, "t_tg": 1.5, "speed_tg": 10.0, "speed": 13.5}'
echo
"""

VLLM = """
import json, pathlib, time

clock = 0.0
time.perf_counter = lambda: clock

class SamplingParams:
    def __init__(self, **settings):
        self.settings = settings

class LLM:
    def __init__(self, folder, **options):
        assert (options["dtype"], options["max_num_seqs"], options["max_model_len"]) == ("float32", 3, 9)
        shape = json.loads(pathlib.Path(folder, "config.json").read_text())
        assert (shape["architectures"], shape["num_hidden_layers"]) == (["LlamaForCausalLM"], 30)
        print("loading")

    def generate(self, prompts, settings, use_tqdm):
        assert prompts == [{"prompt_token_ids": [1, 2, 3, 4]}] * 3
        global clock
        clock += 0.5 + 0.1 * settings.settings["max_tokens"]
"""


def _program(folder: Path, text: str) -> Path:
    path = folder / "llama-batched-bench"
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_llama_is_asked_for_its_cache_and_room_for_all_sequences(tmp_path: Path) -> None:
    program = _program(tmp_path, BATCHED_BENCH)
    assert llama_peer(program, Path("f32.gguf"), "f32")(PROMPTS, 5) == (24.0, 10.0)
    arguments = (tmp_path / "arguments").read_text()
    for wanted in ("-m f32.gguf", "-c 27 ", "-npl 3 ", "-npp 4 ", "-ntg 5 ", "-ctk f32 ", "-ctv f32 ", "-fa off "):
        assert wanted in arguments


@pytest.mark.parametrize("text", ["#!/bin/sh\necho no such file >&2\nexit 1\n", "#!/bin/sh\necho no such file >&2\n"])
def test_a_llama_that_measures_nothing_is_an_error_with_its_words(tmp_path: Path, text: str) -> None:
    program = _program(tmp_path, text)
    with pytest.raises(PeerError, match=r"measured nothing.*no such file"):
        llama_peer(program, Path("f32.gguf"), "f32")(PROMPTS, 5)


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="llama-batched-bench"):
        llama_peer(tmp_path / "llama-batched-bench", Path("f32.gguf"), "f32")(PROMPTS, 5)
    worker = vllm_peer(tmp_path / "python", preset("smollm2-135m"), 3, 9)
    with pytest.raises(PeerError, match="python"), worker:
        pass


def test_vllm_is_started_once_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vllm.py").write_text(VLLM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with vllm_peer(Path(sys.executable), preset("smollm2-135m"), 3, 9) as peer:
        for _ in range(2):
            # 12 tokens in 0.6 s, then 12 in 0.4 s
            assert list(peer(PROMPTS, 5)) == pytest.approx([20, 30])


def test_without_vllm_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vllm.py").write_text("raise ModuleNotFoundError('No module named vllm')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = vllm_peer(Path(sys.executable), preset("smollm2-135m"), 3, 9)
    with pytest.raises(PeerError, match="No module named vllm"), worker:
        pass
