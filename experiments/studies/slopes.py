"""Slopes per doubling along one axis of a study, the other held fast."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from webgpt_jax.evaluation.stats import Estimate, slope_per_doubling


def mean_slope(points: Iterable[tuple[float, float, float]]) -> Estimate | None:
    """By how much y grows when x doubles: the mean of the slopes of all groups.

    Args:
      points: (group, x, y); a group is what is held fast, as a size where x is the amount of data. Points of several
        seeds stand side by side: the errors follow from the scatter about the lines, which then has the seeds' in it.

    Returns:
      None where no group has two different x. The error is that of a mean of independent slopes, NaN where a group has
      two points alone; `count` is the points.
    """
    groups = defaultdict(list)
    for group, x, y in points:
        groups[group].append((x, y))
    slopes = [
        slope_per_doubling([x for x, _ in own], [y for _, y in own])
        for own in groups.values()
        if len({x for x, _ in own}) > 1
    ]
    if not slopes:
        return None
    error = math.sqrt(sum(slope.standard_error**2 for slope in slopes)) / len(slopes)
    return Estimate(sum(slope.mean for slope in slopes) / len(slopes), error, sum(slope.count for slope in slopes))


def said(what: str, slope: Estimate | None, unit: str = "") -> str:
    """A line about a slope."""
    if slope is None:
        return f"{what}: no slope, there is one value alone"
    return f"{what}: {slope.mean:+.3f} ± {slope.standard_error:.3f}{unit} ({slope.count} points)"
