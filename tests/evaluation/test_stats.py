"""Error bars against sums written out, against NumPy's own fits, and against what they must cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

from webgpt_jax.evaluation.stats import (
    Estimate,
    agreement,
    mean_over_questions,
    preference,
    slope_per_doubling,
)


def test_ties_count_half() -> None:
    found = preference([1, 0.5, 0, 1])
    assert found.mean == 0.625
    assert found.count == 4
    # Deviations 3/8, -1/8, -5/8, 3/8: their squares add up to 44/64. The variance is a third, the mean's a 12th of it.
    assert found.standard_error == pytest.approx(math.sqrt(44 / 64 / 3 / 4))


def test_comparisons_of_one_question_are_one_sample() -> None:
    found = preference([1, 1, 1, 0], ["a", "a", "a", "b"])
    assert (found.mean, found.count) == (0.5, 2)
    assert found.standard_error == pytest.approx(math.sqrt(0.5 / 2))
    assert preference([0, 1, 1, 1], [9, 2, 2, 2]) == found


def test_one_question_has_no_standard_error() -> None:
    found = preference([1, 0], ["a", "a"])
    assert found.mean == 0.5
    assert math.isnan(found.standard_error)


@pytest.mark.parametrize(
    ("labels", "questions", "says"),
    [
        ([], None, "empty"),
        ([1, 0.7], None, r"1, 0\.5 or 0, not 0\.7"),
        ([1, -1], None, "not -1"),
        ([1, math.nan], None, "not finite"),
        ([1, 0], ["a"], "2 values are of 1 questions"),
        ([[1, 0]], None, "one row"),
    ],
)
def test_labels_that_are_none_are_refused(labels: list[float], questions: list[str] | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        preference(labels, questions)


@pytest.mark.parametrize(
    ("a", "b", "agree"),
    [(1, 1, 1), (0, 0, 1), (0.5, 0.5, 1), (1, 0, 0), (0, 1, 0), (0.5, 1, 0.5), (0, 0.5, 0.5)],
)
def test_a_tie_against_a_preference_is_half_an_agreement(a: float, b: float, agree: float) -> None:
    assert agreement([a], [b]).mean == agree


def test_agreement_has_its_interval() -> None:
    found = agreement([1, 0, 1, 0.5], [1, 1, 0.5, 0.5])  # 1, 0, 0.5, 1
    assert found.mean == 0.625
    low, high = found.interval
    assert (low + high) / 2 == pytest.approx(0.625)
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(44 / 64 / 3 / 4), rel=1e-4)
    with pytest.raises(ValueError, match="3 and 2 labels"):
        agreement([1, 1, 1], [1, 1])


def test_the_interval_covers_the_truth_in_95_of_100() -> None:
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        low, high = mean_over_questions(random.normal(3, 2, size=60)).interval
        covered += low < 3 < high
    assert 0.93 < covered / 2000 < 0.965


def test_an_estimate_reads_well() -> None:
    assert str(Estimate(0.6789, 0.0123, 40)) == "0.679 ± 0.012 (40)"


# ---- slopes


def test_a_line_in_doublings_has_its_slope() -> None:
    found = slope_per_doubling([1, 2, 4, 8], [0.5, 0.63, 0.76, 0.89])
    assert found.mean == pytest.approx(0.13)
    assert found.standard_error == pytest.approx(0, abs=1e-9)
    assert found.count == 4


def test_a_slope_by_scatter_is_numpys() -> None:
    random = np.random.default_rng(2)
    x = np.array([100, 200, 400, 800, 800, 1600, 100])
    y = random.normal(size=7)
    coefficients, covariance = np.polyfit(np.log2(x), y, 1, cov=True)
    found = slope_per_doubling(x, y)
    assert found.mean == pytest.approx(coefficients[0])
    assert found.standard_error == pytest.approx(math.sqrt(covariance[0, 0]))


def test_a_slope_by_known_errors_is_numpys() -> None:
    random = np.random.default_rng(3)
    x, y, errors = np.array([1, 2, 4, 8, 16]), random.normal(size=5), random.uniform(0.1, 2, size=5)
    coefficients, covariance = np.polyfit(np.log2(x), y, 1, w=1 / errors, cov="unscaled")
    found = slope_per_doubling(x, y, errors)
    assert found.mean == pytest.approx(coefficients[0])
    assert found.standard_error == pytest.approx(math.sqrt(covariance[0, 0]))


def test_two_points_give_a_slope_without_an_error() -> None:
    found = slope_per_doubling([1, 4], [0, 1])
    assert found.mean == 0.5
    assert math.isnan(found.standard_error)
    assert slope_per_doubling([1, 4], [0, 1], [3, 4]).standard_error == pytest.approx(
        5 / 2
    )  # (y1 - y0) / 2, of 3 and 4


@pytest.mark.parametrize(
    ("x", "y", "errors", "says"),
    [
        ([1, 1], [0, 1], None, "two different x"),
        ([0, 1], [0, 1], None, "above 0"),
        ([1, 2], [0, 1], [1, 0], "above 0"),
        ([1, 2, 3], [0, 1], None, "one length"),
        ([1, 2], [0, math.inf], None, "not finite"),
    ],
)
def test_points_that_have_no_slope_are_refused(
    x: list[float], y: list[float], errors: list[float] | None, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        slope_per_doubling(x, y, errors)
