"""Means with error bars: preferences, agreement, slopes. The paper's error bars are one standard error over questions.

Legend: C comparisons, Q questions, P points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Questions = Sequence[str] | Sequence[int]

NORMAL_95 = 1.959963984540054  # standard deviations of a normal distribution on either side that hold 95% of it


@dataclass(frozen=True)
class Estimate:
    """A figure measured on samples.

    Attributes:
      mean: the figure.
      standard_error: its standard error; NaN where there are too few samples to tell.
      count: samples it is made of: questions, or points.
    """

    mean: float
    standard_error: float
    count: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of a normal distribution."""
        margin = NORMAL_95 * self.standard_error
        return self.mean - margin, self.mean + margin

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.standard_error:.3f} ({self.count})"


def mean_over_questions(values: npt.ArrayLike, questions: Questions | None = None) -> Estimate:
    """The mean over questions, with its standard error over them.

    Args:
      values: [C].
      questions: [C], which question each value is of; the values of one question are averaged first, as they are not
        independent. None: each is of another.

    Raises:
      ValueError: there are no values, one is not finite, or there are not as many questions.
    """
    means = _by_question(_finite("values", values), questions)
    error = means.std(ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.nan
    return Estimate(float(means.mean()), float(error), len(means))


def preference(labels: npt.ArrayLike, questions: Questions | None = None) -> Estimate:
    """How often the first of two answers is preferred, ties counted half, as in the paper's figures.

    Args:
      labels: [C], each 1 (the first is better), 0.5 (a tie) or 0.
      questions: [C], as of `mean_over_questions`.

    Raises:
      ValueError: there are no labels, one is none of the three, or there are not as many questions.
    """
    return mean_over_questions(_labels(labels), questions)


def agreement(a: npt.ArrayLike, b: npt.ArrayLike, questions: Questions | None = None) -> Estimate:
    """How often two labelers of the same comparisons agree; a tie against a non-tie counts half (the
    paper's appendix on comparisons).

    Args:
      a: [C], one labeler's labels, each 1, 0.5 (a tie) or 0.
      b: [C], the other's.
      questions: [C], as of `mean_over_questions`.

    Raises:
      ValueError: as of `preference`, or the two are not of one length.
    """
    first, second = _labels(a), _labels(b)
    if first.shape != second.shape:
        raise ValueError(
            f"the labelers gave {len(first)} and {len(second)} labels: they must label the same comparisons"
        )
    return mean_over_questions(1 - np.abs(first - second), questions)


def slope_per_doubling(x: npt.ArrayLike, y: npt.ArrayLike, errors: npt.ArrayLike | None = None) -> Estimate:
    """By how much y grows when x doubles: the slope of least squares on log2(x).

    Args:
      x: [P], above 0; at least two different ones.
      y: [P].
      errors: [P], standard errors of y, above 0: points are weighted by their inverse squares, and the slope's standard
        error follows from them. None: all points weigh alike, and it follows from their scatter about the line (NaN for
        two points).

    Raises:
      ValueError: the arrays are not of one length, hold what is not finite or not above 0, or x is all the same.
    """
    place, value = _finite("x", x), _finite("y", y)
    sigma = np.ones_like(place) if errors is None else _finite("errors", errors)
    if not place.shape == value.shape == sigma.shape:
        raise ValueError(f"x, y and errors must be of one length, not {place.shape}, {value.shape}, {sigma.shape}")
    if not (place > 0).all() or not (sigma > 0).all():
        raise ValueError("x and errors must be above 0")
    if len(np.unique(place)) < 2:
        raise ValueError("a slope needs at least two different x")
    weight = sigma**-2.0
    doublings = np.log2(place)
    doublings = doublings - np.average(doublings, weights=weight)
    spread = (weight * doublings**2).sum()
    slope = (weight * doublings * value).sum() / spread
    variance = 1.0
    if errors is None:
        freedom = len(place) - 2
        left = value - value.mean() - slope * doublings
        variance = (left**2).sum() / freedom if freedom else math.nan
    return Estimate(float(slope), float(math.sqrt(variance / spread)), len(place))


def _by_question(values: Array, questions: Questions | None) -> Array:
    if questions is None:
        return values
    if len(questions) != len(values):
        raise ValueError(f"{len(values)} values are of {len(questions)} questions: give one for each")
    places = np.unique(np.asarray(questions), return_inverse=True)[1].reshape(-1)
    means: Array = np.bincount(places, weights=values) / np.bincount(places)
    return means


def _finite(name: str, values: npt.ArrayLike) -> Array:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} must be numbers in one row and not empty, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} hold what is not finite")
    return array


def _labels(values: npt.ArrayLike) -> Array:
    labels = _finite("labels", values)
    wrong = labels[~np.isin(labels, (0.0, 0.5, 1.0))]
    if wrong.size:
        raise ValueError(f"a label is 1, 0.5 or 0, not {wrong[0]:g}")
    return labels
