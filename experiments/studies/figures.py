"""How the figures look: black on white, told apart by marker, line and shade, so that they can be printed in grey."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.training_flags import RunError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Dark, middle and light in grey too.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#000000", "marker": "o", "linestyle": "-"},
    {"color": "#0072b2", "marker": "s", "linestyle": "--"},
    {"color": "#e69f00", "marker": "^", "linestyle": "-."},
    {"color": "#999999", "marker": "D", "linestyle": ":"},
)
CAPTION_COLUMNS = 108


@dataclass(frozen=True)
class Line:
    """A series of points with their error bars; a point without an error has none."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    errors: Sequence[float] | None = None


def check_matplotlib() -> None:
    """Raises RunError where there is no matplotlib: before hours of work, not after."""
    if importlib.util.find_spec("matplotlib") is None:
        raise RunError("figures need matplotlib: pip install -e '.[studies]'")


def style(number: int) -> dict[str, Any]:
    """Of the line of that number."""
    return STYLES[number % len(STYLES)]


def new_figure(title: str, x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """A figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def draw(axes: Axes, lines: Sequence[Line]) -> None:
    """Lines with their error bars, each in a style of its own."""
    for number, line in enumerate(lines):
        axes.errorbar(
            line.x, line.y, yerr=line.errors, label=line.label, capsize=3, markersize=6, linewidth=1.4, **style(number)
        )


def powers_of_two(axes: Axes, ticks: Sequence[float], labels: Sequence[str]) -> None:
    """An x-axis of doublings, with these places named."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, labels)
    axes.minorticks_off()


def save(figure: Figure, path: Path, caption: str) -> None:
    """Writes a PNG file with the caption below. The same figure gives the same bytes."""
    figure.supxlabel(textwrap.fill(caption, CAPTION_COLUMNS, break_on_hyphens=False), fontsize=7)
    partial = path.with_suffix(".partial")
    figure.savefig(partial, format="png", dpi=160, metadata={"Software": None})
    partial.replace(path)
