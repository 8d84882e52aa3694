"""The Pareto frontier of cost and score: which model and which n is the best for each budget (the paper's figure 8)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One way of answering: what it costs, how well it scores, and what it is called."""

    flops: float  # operations a question
    score: float
    label: str


def pareto_frontier(points: Iterable[Point]) -> tuple[Point, ...]:
    """The points that no other beats: none is as cheap with a higher score, nor as good and cheaper.

    Returns:
      them from the cheapest to the dearest, costs and scores both rising strictly. Of points that are equal in both,
      the one whose label comes first in alphabetical order stands for all, in whatever order they are given.

    Raises:
      ValueError: a cost or score is not finite.
    """
    frontier: list[Point] = []
    for point in sorted(points, key=lambda point: (point.flops, -point.score, point.label)):
        if not (math.isfinite(point.flops) and math.isfinite(point.score)):
            raise ValueError(f"{point.label}: cost and score must be finite, not {point.flops}, {point.score}")
        if not frontier or point.score > frontier[-1].score:
            frontier.append(point)
    return tuple(frontier)
