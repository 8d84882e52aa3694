"""Best-of-n: the choice, the estimator against the average over all subsets, and episodes that end in any order."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from webgpt_jax.algorithms.best_of_n import BestOfN, best_of_n, predicted_curve, predicted_score, select_best


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.1, 0.7, 0.3], 1),
        ([0.7, 0.1, 0.7], 0),
        ([None, -5.0, None], 1),
        ([math.nan, -math.inf], 1),
        ([None, math.nan], 0),
        ([-0.0, 0.0], 0),
        (np.array([1, 3, 2]), 1),
        (np.array([np.nan, 1.0, 2.0], np.float32), 2),
    ],
)
def test_the_highest_score_wins_and_the_first_of_equals(scores: list[float | None], best: int) -> None:
    chosen = select_best(scores)
    assert chosen == best
    assert type(chosen) is int


def test_there_must_be_something_to_choose_from() -> None:
    with pytest.raises(ValueError, match="no scores"):
        select_best([])


def _of_all_subsets(train: list[float], val: list[float], n: int) -> float:
    """The mean over all subsets of n, and all orders of equals, of the validation score of the sample that ranks
    highest: by definition."""
    found = []
    for order in permutations(range(len(train))):
        rank = {sample: place for place, sample in enumerate(order)}
        for subset in combinations(range(len(train)), n):
            winner = max(subset, key=lambda sample: (train[sample], rank[sample]))
            found.append(val[winner])
    return math.fsum(found) / len(found)


@pytest.mark.parametrize(
    "train",
    [
        [0.3],
        [0.3, -1.0, 2.0, 0.5, 0.4, 1.0],
        [0.3, 0.3, 2.0, 0.3, 2.0, 1.0],
        [1.0] * 5,
        [-math.inf, 1.0, -math.inf, 0.0, 1.0],
    ],
)
def test_the_prediction_is_the_mean_over_all_subsets(train: list[float]) -> None:
    val = [1.5, -2.25, 7.0, 0.125, 3.0, -1.0][: len(train)]
    expected = [_of_all_subsets(train, val, n) for n in range(1, len(train) + 1)]
    np.testing.assert_allclose(predicted_score(train, val), expected, rtol=1e-12)


def test_samples_without_a_score_are_picked_last_even_after_minus_infinity() -> None:
    # Of two out of three: {a, b} -> a, {a, c} -> a, {b, c} -> b, where a beats b beats c.
    found = predicted_score([math.nan, 5.0, -math.inf], [100.0, 1.0, 10.0])
    np.testing.assert_allclose(found, [37.0, (1 + 1 + 10) / 3, 1.0])
    two = predicted_score([math.nan, math.nan], [1.0, 3.0])
    np.testing.assert_allclose(two, [2.0, 2.0])


def test_ten_thousand_samples_neither_overflow_nor_vanish() -> None:
    samples = 10_000
    train = np.random.default_rng(0).permutation(samples).astype(np.float64)
    found = predicted_score(train, np.ones(samples))
    np.testing.assert_allclose(found, 1, rtol=1e-9)
    # Where the scores are the ranks 1 … N, the best of n is n (N + 1) / (n + 1) on average.
    counts = np.arange(1, samples + 1)
    np.testing.assert_allclose(predicted_score(train, train + 1), counts * (samples + 1) / (counts + 1), rtol=1e-9)


def test_the_formula_of_the_paper_in_exact_numbers() -> None:
    samples, n = 40, 17
    val = [(7 * i) % 41 for i in range(samples)]
    terms = (Fraction(math.comb(i - 1, n - 1), math.comb(samples, n)) * val[i - 1] for i in range(n, samples + 1))
    assert predicted_score(np.arange(samples), val)[n - 1] == pytest.approx(float(sum(terms)), rel=1e-13)


def test_whole_numbers_do_not_make_the_prediction_whole() -> None:
    found = predicted_score(np.array([1, 2]), np.array([0, 1]))
    assert found.dtype == np.float64
    assert found.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("train", "val", "says"),
    [
        ([], [], "not empty"),
        ([1.0], [1.0, 2.0], "one shape"),
        ([[1.0]], [[1.0]], r"\[N\]"),
        ([1.0, 2.0], [1.0, math.nan], "not finite"),
    ],
)
def test_scores_that_cannot_be_used_are_refused(train: list[float], val: list[float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        predicted_score(train, val)


def test_the_curve_is_the_mean_over_questions_with_its_standard_error() -> None:
    random = np.random.default_rng(1)
    train, val = random.normal(size=(5, 4)), random.normal(size=(5, 4))
    rows = [predicted_score(*row) for row in zip(train, val, strict=True)]
    mean, error = predicted_curve(train, val)
    for n in range(4):
        column = [float(row[n]) for row in rows]
        middle = sum(column) / 5
        assert mean[n] == pytest.approx(middle)
        assert error[n] == pytest.approx(math.sqrt(sum((value - middle) ** 2 for value in column) / 4 / 5))


def test_one_question_has_no_standard_error() -> None:
    mean, error = predicted_curve([[1.0, 2.0]], [[1.0, 2.0]])
    assert mean.tolist() == [1.5, 2.0]
    assert np.isnan(error).all()


# ---- the episodes


class _Stage:
    """Attempts that end when they are told to."""

    def __init__(self, n: int) -> None:
        self.ends = [asyncio.Event() for _ in range(n)]
        self.begun: set[int] = set()
        self.cancelled: set[int] = set()

    async def play(self, attempt: int) -> str:
        self.begun.add(attempt)
        try:
            await self.ends[attempt].wait()
        except asyncio.CancelledError:
            self.cancelled.add(attempt)
            raise
        return f"episode {attempt}"


async def _until(done: Callable[[], bool]) -> None:
    """Waits until a condition holds, ten seconds at most."""
    for _ in range(10_000):
        if done():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to be")


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_who_wins_depends_on_no_order(order: tuple[int, ...]) -> None:
    scores: dict[str, float | None] = {"episode 0": None, "episode 1": 2.0, "episode 2": 2.0}

    async def run() -> tuple[BestOfN[str], list[int | None]]:
        stage = _Stage(3)
        told: list[int | None] = []
        running = asyncio.create_task(
            best_of_n(stage.play, scores.__getitem__, 3, on_better=lambda so_far: told.append(so_far.best))
        )
        await _until(lambda: len(stage.begun) == 3)  # all at once
        for attempt in order:
            stage.ends[attempt].set()
            await asyncio.sleep(0.01)
        return await running, told

    result, told = asyncio.run(run())
    assert result == BestOfN(["episode 0", "episode 1", "episode 2"], [None, 2.0, 2.0], 1)
    assert result.episode == "episode 1"
    assert told[0] is not None
    assert told[-1] == 1
    assert all(before != after for before, after in pairwise(told))


def test_a_run_that_is_cancelled_has_told_all_that_ended() -> None:
    scores = {"episode 0": 3.0, "episode 1": 1.0, "episode 2": 0.0, "episode 3": 9.0}

    async def run() -> tuple[list[BestOfN[str]], _Stage]:
        stage = _Stage(4)
        told: list[BestOfN[str]] = []
        running = asyncio.create_task(best_of_n(stage.play, scores.__getitem__, 4, on_better=told.append))
        for attempt in (0, 1):
            stage.ends[attempt].set()
            await _until(lambda attempt=attempt: bool(told) and told[0].episodes[attempt] is not None)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return told, stage

    told, stage = asyncio.run(run())
    (so_far,) = told  # the second attempt was not better, but is in the object that was told
    assert so_far.episodes == ["episode 0", "episode 1", None, None]
    assert so_far.scores == [3.0, 1.0, None, None]
    assert (so_far.best, so_far.episode, so_far.ended) == (0, "episode 0", [0, 1])
    assert stage.cancelled == {2, 3}


def test_one_score_is_taken_at_a_time_and_the_loop_goes_on_meanwhile() -> None:
    at_once, most = 0, 0
    beside = threading.Event()

    async def play(attempt: int) -> int:
        if attempt == 3:
            beside.set()
        await asyncio.sleep(0.01 * (attempt == 3))
        return attempt

    def score(episode: int) -> float:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        assert beside.wait(10)  # would never come if this held up the event loop
        at_once -= 1
        return float(episode)

    assert asyncio.run(best_of_n(play, score, 4)).best == 3
    assert most == 1


def test_what_an_attempt_raises_ends_the_others_and_is_passed_on() -> None:
    async def run() -> _Stage:
        stage = _Stage(3)

        async def play(attempt: int) -> str:
            if attempt == 1:
                await _until(lambda: len(stage.begun) == 2)
                raise RuntimeError("the web is gone")
            return await stage.play(attempt)

        with pytest.raises(RuntimeError, match="the web is gone"):
            await best_of_n(play, lambda _: 1.0, 3)
        return stage

    assert asyncio.run(run()).cancelled == {0, 2}


def test_there_is_at_least_one_attempt() -> None:
    async def play(_: int) -> str:
        return ""

    with pytest.raises(ValueError, match="at least 1"):
        asyncio.run(best_of_n(play, lambda _: 1.0, 0))
