"""What a run says of itself: metrics as JSON lines and for TensorBoard, and its progress with the time that is left.

    with MetricsWriter(folder, tensorboard=True) as writer, Progress(total=400) as progress:
        writer.write(10, {"loss": 1.2})
        progress.update(10, {"loss": 1.2})

`metrics.jsonl` has a line for each write: {"step": 10, "loss": 1.2}. Only process 0 writes; the others' writers do
nothing. TensorBoard's files are written by `clu`, whose import takes TensorFlow with it, and some seconds: only where
they are asked for.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self, TextIO

import jax

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
VALIDATION = "validation/"  # before the name of a metric: the same of held-out data, by the average of weights

# Every metric there is. A name that is not here is not written.
METRICS: Mapping[str, str] = MappingProxyType(
    {
        # Of the loop
        "loss": "what is minimised, the mean over the batch",
        "gradient_norm": "global norm of the gradients, before they are clipped",
        "epoch": "how often the training data were gone through",
        "steps_per_second": "updates a second since the run, or its resumption, began; evaluations and saves included",
        # Of behaviour cloning
        "accuracy": "BC: share of the completions' tokens that are the likeliest. RM: share of comparisons whose "
        "better side has the higher score, a tie against a difference counting half",
        "exact": "share of completions of which every token is the likeliest",
        "tokens": "tokens that count in the batch; of several (micro)batches the mean, weighted as the loss is",
        # Of pre-training on TinyWeb: the share of exactly right completions of a skill
        "exact_text": "plain pages, which cannot all be foreseen",
        "exact_copy": "a list of names, said again",
        "exact_repeat": "words of every kind, said again",
        "exact_look-up": "a row of a table",
        "exact_query": "the words to search for",
        "exact_link": "the number of the best search result",
        "exact_sentence": "the sentence that says what is asked, in full, or that there is none",
        "exact_missing": "which of the asked facts is not quoted yet",
        "exact_answer": "an answer from its quotes, with citations",
        # Of reward models
        "comparisons": "comparisons in the batch; of several (micro)batches the mean, weighted as the loss is",
        "margin": "mean distance between the scores of a comparison's two sides",
        "score": "mean score of all sides",
        "score_std": "standard deviation of the scores of all sides",
        # Of policies
        "rm_score": "mean score that the reward model gives the answers of sampled episodes",
        "answered": "share of sampled episodes that ended in an answer",
    }
)


class MetricsError(RuntimeError):
    """Metrics cannot be written; the message says why and what to do."""


class MetricsWriter:
    """The metrics of one run, in one folder.

    Args:
      folder: made where it is missing.
      tensorboard: whether TensorBoard's files are written too, in `tensorboard/`.
      after: the update that the run goes on from: lines of later ones, which it makes again, are taken out.

    Raises:
      MetricsError: the folder cannot be written, or TensorBoard is asked for and not installed.
    """

    def __init__(self, folder: str | Path, *, tensorboard: bool = False, after: int | None = None) -> None:
        self._path = Path(folder) / METRICS_FILE
        self._lines: TextIO | None = None
        self._tensorboard: Any = None
        if jax.process_index() != 0:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _keep_until(self._path, after)
            self._lines = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise MetricsError(f"{self._path} cannot be written: {error.strerror}") from error
        if tensorboard:
            self._tensorboard = _tensorboard_writer(Path(folder) / TENSORBOARD_FOLDER)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Writes the metrics of an update. What is not finite stands as null among the JSON lines.

        Raises:
          ValueError: a name is not in `METRICS`.
        """
        for name in metrics:
            if name.removeprefix(VALIDATION) not in METRICS:
                raise ValueError(f"the metric {name} is not documented: give it a line in METRICS")
        if self._lines is None:
            return
        values = {name: float(value) for name, value in metrics.items()}
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._lines.write(json.dumps({"step": step, **finite}) + "\n")
        self._lines.flush()
        if self._tensorboard is not None:
            self._tensorboard.write_scalars(step, values)

    def close(self) -> None:
        """Writes what is left. More than once is allowed."""
        if self._lines is not None:
            self._lines.close()
        if self._tensorboard is not None:
            self._tensorboard.close()
        self._lines = self._tensorboard = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Progress:
    """One line of how far a run is: rewritten on a terminal, repeated in a log.

    Args:
      total: updates of the run; None where the data's end is not known.
      stream: where it is said; by default the standard error stream, and nowhere but in process 0.
      every_seconds: between two lines of a log.
      clock: seconds.
    """

    def __init__(
        self,
        total: int | None,
        *,
        stream: TextIO | None = None,
        every_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._every = 0.1 if self._terminal else every_seconds
        self._silent = jax.process_index() != 0
        self._clock = clock
        self._first: tuple[int, float] | None = None  # the first update that was told of, which compiled the program
        self._shown = -math.inf  # when
        self._width = 0

    def update(self, step: int, metrics: Mapping[str, float]) -> None:
        """Tells of an update, where the last line is old enough."""
        now = self._clock()
        if self._first is None:
            self._first = step, now
        if now - self._shown < self._every and step != self._total:
            return
        self._shown = now
        self._show(_line(step, self._total, metrics, self.speed(step)))

    def speed(self, step: int) -> float:
        """Updates a second since the first; NaN before the second."""
        if self._first is None or step <= self._first[0]:
            return math.nan
        seconds = self._clock() - self._first[1]
        return (step - self._first[0]) / seconds if seconds > 0 else math.nan

    def say(self, text: str) -> None:
        """A line that stays: an evaluation, a save."""
        if self._silent:
            return
        self._stream.write(f"\r{' ' * self._width}\r{text}\n" if self._width else f"{text}\n")
        self._stream.flush()
        self._width = 0

    def close(self) -> None:
        """Leaves the last line as it is."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _show(self, line: str) -> None:
        if self._silent:
            return
        if self._terminal:
            self._stream.write("\r" + line.ljust(self._width))  # the rest of a longer line is written over
            self._width = len(line)
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl, in order; none where there is no such file. A half-written end is left out.

    Each has "step", and its metrics by name, None where one was not finite.
    """
    path = Path(folder) / METRICS_FILE
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = text.split("\n")[:-1]
    return [json.loads(line) for line in lines if line]


def duration(seconds: float) -> str:
    """Hours, minutes and seconds: "2:05:09"; "1 d 2:05:09" beyond a day."""
    whole = max(0, round(seconds))
    days, rest = divmod(whole, 86_400)
    text = f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {text}" if days else text


def _line(step: int, total: int | None, metrics: Mapping[str, float], speed: float) -> str:
    parts = [f"step {step}" if total is None else f"step {step}/{total} ({step / total:.0%})"]
    if "epoch" in metrics:
        parts.append(f"epoch {metrics['epoch']:.2f}")
    parts += [f"{name} {metrics[name]:.4g}" for name in ("loss", "accuracy") if name in metrics]
    if not math.isnan(speed):
        parts.append(f"{speed:.3g} steps/s")
        if total is not None:
            parts.append(f"{duration((total - step) / speed)} left")
    return ", ".join(parts)


def _keep_until(path: Path, after: int | None) -> None:
    """Takes out the lines of updates after this one, and a half-written line."""
    if not path.exists():
        return
    kept = [entry for entry in read_metrics(path.parent) if after is None or entry["step"] <= after]
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text("".join(json.dumps(entry) + "\n" for entry in kept), encoding="utf-8")
    unfinished.replace(path)


def _tensorboard_writer(folder: Path) -> Any:
    try:
        from clu import metric_writers
    except ImportError as error:
        raise MetricsError(
            f"TensorBoard's files need {error.name}: pip install -e '.[train,data]', or leave out --tensorboard"
        ) from None
    return metric_writers.SummaryWriter(str(folder))
