"""Metrics and progress: files and lines as literals, and a table that knows every name."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from webgpt_jax.training.metrics import METRICS, MetricsError, MetricsWriter, Progress, duration, read_metrics

ROOT = Path(__file__).resolve().parents[2]


def test_the_lines_as_they_are_written(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path / "run") as writer:
        writer.write(10, {"loss": 1.5, "epoch": 0.25})
        writer.write(20, {"validation/loss": 2, "accuracy": math.nan, "gradient_norm": math.inf})
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == (
        '{"step": 10, "loss": 1.5, "epoch": 0.25}\n'
        '{"step": 20, "validation/loss": 2.0, "accuracy": null, "gradient_norm": null}\n'
    )
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("name", ["speed", "validation/speed", "validation/", "train/loss"])
def test_a_name_that_is_not_documented_is_refused(tmp_path: Path, name: str) -> None:
    with MetricsWriter(tmp_path) as writer, pytest.raises(ValueError, match=f"the metric {name} is not documented"):
        writer.write(1, {"loss": 1.0, name: 1.0})
    assert read_metrics(tmp_path) == []


def test_every_metric_has_a_meaning() -> None:
    assert all(len(meaning) > 10 for meaning in METRICS.values())
    assert not any("/" in name for name in METRICS)


def test_a_resumed_run_writes_over_what_it_makes_again(tmp_path: Path) -> None:
    lines = '{"step": 1, "loss": 3.0}\n{"step": 2, "loss": 2.0}\n{"step": 3, "loss": 1.0}\n{"step": 4, "lo'
    (tmp_path / "metrics.jsonl").write_text(lines)
    with MetricsWriter(tmp_path, after=2) as writer:
        writer.write(3, {"loss": 1.0})
    assert [entry["step"] for entry in read_metrics(tmp_path)] == [1, 2, 3]


def test_lines_cut_short_by_a_kill_are_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "lo')
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 3.0}]
    with MetricsWriter(tmp_path) as writer:
        writer.write(2, {"loss": 2.0})
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0}]


def test_other_processes_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    stream = io.StringIO()
    with MetricsWriter(tmp_path / "run", tensorboard=True) as writer, Progress(2, stream=stream) as progress:
        writer.write(1, {"loss": 1.0})
        progress.update(2, {"loss": 1.0})
        progress.say("evaluated")
    assert not (tmp_path / "run").exists()
    assert stream.getvalue() == ""


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(MetricsError, match=r"run/metrics.jsonl cannot be written"):
        MetricsWriter(tmp_path / "run")


def test_importing_takes_no_tensorflow_along() -> None:
    program = "import sys, webgpt_jax.training.metrics; print({'tensorflow', 'clu', 'tensorboard'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_tensorboard_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clu", None)
    with pytest.raises(MetricsError, match=r"TensorBoard's files need clu: pip install -e '.\[train,data\]', or leave"):
        MetricsWriter(tmp_path, tensorboard=True)


@pytest.mark.slow
def test_tensorboards_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    with MetricsWriter(tmp_path, tensorboard=True) as writer:
        writer.write(10, {"loss": 1.5})
        writer.write(20, {"loss": 0.5, "validation/accuracy": 0.75})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = {
        (name, event.step): float(make_ndarray(event.tensor_proto))
        for name in events.Tags()["tensors"]
        for event in events.Tensors(name)
    }
    assert found == {("loss", 10): 1.5, ("loss", 20): 0.5, ("validation/accuracy", 20): 0.75}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_in_a_log() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress(100, stream=stream, every_seconds=30, clock=clock) as progress:
        for step in (1, 2, 3, 4, 100):
            progress.update(step, {"loss": 2.5, "epoch": step / 50, "gradient_norm": 1.0})
            clock.now += 20  # seconds
        progress.say("evaluated")
    assert stream.getvalue().splitlines() == [
        "step 1/100 (1%), epoch 0.02, loss 2.5",
        "step 3/100 (3%), epoch 0.06, loss 2.5, 0.05 steps/s, 0:32:20 left",
        "step 100/100 (100%), epoch 2.00, loss 2.5, 1.24 steps/s, 0:00:00 left",
        "evaluated",
    ]


def test_progress_on_a_terminal_is_one_line() -> None:
    clock, stream = Clock(), Terminal()
    with Progress(None, stream=stream, clock=clock) as progress:
        progress.update(1, {"loss": 0.12345, "accuracy": 0.5})
        clock.now += 0.05  # too soon
        progress.update(2, {"loss": 0.2})
        clock.now += 0.95
        progress.update(3, {})
        progress.say("saved")
        clock.now += 1
        progress.update(4, {})
    assert stream.getvalue() == (
        "\rstep 1, loss 0.1235, accuracy 0.5"
        f"\rstep 3, 2 steps/s{' ' * 16}"  # over the rest of the longer line
        f"\r{' ' * 17}\rsaved\n"
        "\rstep 4, 1.5 steps/s\n"
    )


def test_speed_and_time_left() -> None:
    clock = Clock()
    progress = Progress(10, stream=io.StringIO(), clock=clock)
    assert math.isnan(progress.speed(1))
    progress.update(5, {})
    assert math.isnan(progress.speed(5))
    clock.now += 4
    assert progress.speed(7) == 0.5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (59.6, "0:01:00"), (7509, "2:05:09"), (93_909, "1 d 2:05:09"), (-1, "0:00:00")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
