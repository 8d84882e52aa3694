"""`webgpt preflight`: what it prints, what it refuses, and the way without a compiler."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HAS_TRAIN
from webgpt_jax.cli.main import main

pytestmark = pytest.mark.skipif(not HAS_TRAIN, reason="needs the extra train: pip install -e '.[train]'")

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs libtpu: pip install -e '.[tpu]'"
)

# Says at its end how much memory it took; what `wait4` says of a child counts the parent's from before the exec.
MAIN = """\
import sys
from webgpt_jax.cli.main import main
status = main(sys.argv[1:])
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
sys.exit(status)
"""

SMALL = ["preflight", "--model=tiny", "--topology=v5e:2x2", "--batch=8", "--length=128"]


def test_a_fitting_run_is_reckoned_without_a_compiler(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--model=175b", "--topology=v5p:8x8x8", "--nocompile"]) == 0
    shown = capsys.readouterr().out
    assert "175 billion parameters" in shown
    assert "512 sequences × 2048 tokens" in shown
    assert shown.splitlines()[-1].startswith("fits: ")
    assert shown.splitlines()[-1].endswith("(reckoned, not compiled)")


def test_json_has_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--nocompile", "--json", "--fsdp=2", "--tensor=2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["mesh"] == {"data": 1, "fsdp": 2, "tensor": 2}
    assert report["fits"] is True
    assert report["compiled_gib"] is None
    assert report["seconds"]["least"] <= report["seconds"]["most"]
    assert report["tokens_per_day"]["most"] == pytest.approx(8 * 128 * 86_400 / report["seconds"]["least"])


def test_a_run_that_does_not_fit_names_what_would(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["preflight", "--model=175b", "--topology=v5p:8x8x8", "--remat=none", "--nocompile"]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "does not fit" in shown
    assert "fits with remat full" in shown
    assert main(["preflight", "--model=13b", "--topology=v5e:4x4", "--nocompile"]) == 1
    shown = capsys.readouterr().out
    assert "fits with batch " in shown
    assert "fits with topology v5e:" in shown


@needs_libtpu
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process as Linux counts it")
def test_175b_on_512_chips_fits_and_takes_two_gigabytes_to_say_so() -> None:
    arguments = ["preflight", "--model=175b", "--topology=v5p:8x8x8", "--fsdp=64", "--tensor=8", "--json"]
    shown = subprocess.run([sys.executable, "-c", MAIN, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    report, kibibytes = shown.stdout.splitlines()
    figures = json.loads(report)
    assert figures["fits"] is True
    assert figures["compiled_gib"]["peak"] <= 12.5
    assert int(kibibytes) * 1024 <= 2e9


@needs_libtpu
@pytest.mark.slow
def test_what_the_compiler_refuses_comes_with_a_slice_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["preflight", "--model=tiny", "--topology=v5e:1x1", "--batch=1024", "--length=128", "--json"]
    assert main(arguments) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["fits"] is False
    assert "by the compiler" in report["refusal"]
    first = report["alternatives"][0]
    assert first["compiled_gib"] <= report["chip_gib"]


def test_ppo_counts_the_models_that_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--model=760m", "--topology=v5p:2x2x1", "--task=ppo", "--batch=32", "--nocompile"]) == 0
    assert "models that rest" in capsys.readouterr().out


def test_without_libtpu_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(SMALL) == 0
    shown = capsys.readouterr()
    assert "(reckoned, not compiled)" in shown.out
    assert ".[tpu]" in shown.err


def test_a_cluster_of_gpus_is_reckoned_and_marked_experimental(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--model=13b", "--topology=h100:8x8", "--nocompile"]) == 0
    shown = capsys.readouterr().out
    assert "h100:8x8: 64 GPUs of 72.8 GiB as " in shown
    assert "attention cudnn" in shown
    assert "experimental: " in shown
    assert shown.splitlines()[-1].endswith(" GiB a GPU (reckoned, not compiled)")
    assert main(["preflight", "--model=13b", "--topology=h100:8", "--nocompile", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["experimental"] is True
    assert [entry["change"].partition(" ")[0] for entry in report["alternatives"]][-1] == "topology"


def test_without_the_cuda_plugin_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["preflight", "--model=tiny", "--topology=h200:2x8", "--batch=16", "--dtype=float32"]) == 0
    shown = capsys.readouterr()
    assert "attention plain" in shown.out
    assert "(reckoned, not compiled)" in shown.out
    assert ".[train,gpu]" in shown.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--topology=v5p:7x7x7"], "v5p:4x8x8"),
        (["--topology=a100:8"], "v4, v5e, v5p, v6e, h100, h200"),
        (["--task=dpo"], "bc, rm, ppo"),
        (["--model=gpt5"], "175b"),
        (["--batch=0"], "--batch"),
        (["--batch=3", "--fsdp=4"], "make it 4"),
        (["--fsdp=3"], "a mesh of"),
        (["--fsdp=8", "--tensor=8"], "fsdp"),
        (["--data=2", "--fsdp=2", "--tensor=2"], "4 devices"),
        (["--length=4096"], "2048"),
        (["--remat=some"], "none, dots, full"),
        (["--attention=flash"], "splash"),
        (["--attention=cudnn"], "splash"),
        (["--attention=splash", "--topology=h100:8"], "cudnn"),
        (["--attention=cudnn", "--topology=h100:8", "--tensor=4"], "--attention=plain"),
        (["--param_dtype=int4"], "bfloat16"),
        (["now"], "'now'"),
    ],
)
def test_wrong_usage_is_one_line_with_the_choices(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL[:4], "--nocompile", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert named in shown.err


def test_a_model_in_a_folder_is_read_by_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "model_type": "llama",
        "vocab_size": 1000,
        "hidden_size": 64,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["preflight", f"--model={tmp_path}", "--topology=v5e:2x2", "--nocompile", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["length"] == 512
    # Embedding and unembedding of 1024 rows; two layers of q, k, v, out, gate, up, down and norms; the last norm.
    layer = 64 * (64 + 32 + 32 + 64) + 3 * 64 * 256 + 2 * 64
    assert report["parameters"] == 2 * 1024 * 64 + 2 * layer + 64
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "mamba"}))
    assert main(["preflight", f"--model={tmp_path}", "--nocompile"]) == 1
    assert "'mamba'" in capsys.readouterr().err
