"""The Pareto frontier against its definition, and its order among equals."""

from __future__ import annotations

import math
import random
from itertools import permutations

import pytest

from webgpt_jax.evaluation.frontier import Point, pareto_frontier

SMALL = Point(1, 0.1, "small, n=1")
SMALL_4 = Point(4, 0.5, "small, n=4")
LARGE = Point(5, 0.4, "large, n=1")
LARGE_4 = Point(20, 0.9, "large, n=4")
LARGE_16 = Point(80, 0.9, "large, n=16")


def test_what_is_dearer_and_no_better_is_off_the_frontier() -> None:
    points = [LARGE_16, LARGE, SMALL, LARGE_4, SMALL_4]
    for order in permutations(points):
        assert pareto_frontier(order) == (SMALL, SMALL_4, LARGE_4)


def test_equals_are_told_apart_by_their_label() -> None:
    points = [Point(1, 0.5, "b"), Point(1, 0.5, "a"), Point(1, 0.4, "0"), Point(2, 0.5, "A")]
    for order in permutations(points):
        assert pareto_frontier(order) == (Point(1, 0.5, "a"),)


def test_the_frontier_is_what_no_other_dominates() -> None:
    draw = random.Random(0)
    for _ in range(200):
        points = [Point(draw.randint(1, 6), draw.randint(1, 6), f"{i:02}") for i in range(draw.randint(0, 12))]
        kept = {
            (p.flops, p.score)
            for p in points
            if not any(
                q.flops <= p.flops and q.score >= p.score and (q.flops, q.score) != (p.flops, p.score) for q in points
            )
        }
        frontier = pareto_frontier(points)
        assert {(p.flops, p.score) for p in frontier} == kept
        assert len(frontier) == len(kept)


@pytest.mark.parametrize("point", [Point(math.nan, 0, "x"), Point(1, math.nan, "x"), Point(math.inf, 0, "x")])
def test_a_point_that_is_nowhere_is_refused(point: Point) -> None:
    with pytest.raises(ValueError, match="x: cost and score must be finite"):
        pareto_frontier([SMALL, point])
