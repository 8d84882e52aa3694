"""Best-of-n, the paper's rejection sampling (section 3.2): n whole episodes, of which the reward model picks one; and
what a validation reward model makes of that pick, estimated for every n from the same samples (figure 5).

NumPy and asyncio alone: no JAX.

Legend: Q questions, N samples of each.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
E = TypeVar("E")


def select_best(scores: Sequence[float | None] | npt.NDArray[np.floating]) -> int:
    """The place of the highest score, the first of those that share it.

    None and NaN say that there is no score, as of an episode without an answer: they come after every number, -inf
    included. Where there is nothing else, the first place is the best.

    Raises:
      ValueError: there are no scores.
    """
    if len(scores) == 0:
        raise ValueError("there is nothing to choose from: no scores")
    ranks = [(False, 0.0) if score is None or math.isnan(score) else (True, float(score)) for score in scores]
    return max(range(len(ranks)), key=ranks.__getitem__)  # `max` keeps the first


# ---- the estimator


def predicted_score(train_scores: npt.ArrayLike, val_scores: npt.ArrayLike) -> Array:
    """What the validation reward model gives the best of n samples, on average over all choices of n of the N at hand.

    With the samples in the order of their training scores, S_1 … S_N, the paper has
    R_pred(n) = Σ_{i=n..N} C(i−1, n−1) / C(N, n) · R_val(S_i). Samples of equal training score are taken in every order
    alike (our reading: the paper says nothing of ties).

    Args:
      train_scores: [N], of the reward model that picks; NaN for a sample without a score, which is picked last.
      val_scores: [N], of the validation reward model.

    Returns:
      [N] float64; entry n − 1 is R_pred(n).

    Raises:
      ValueError: the arrays are no two of one length, empty, or a validation score is not finite.
    """
    train, val = np.asarray(train_scores, np.float64), np.asarray(val_scores, np.float64)
    if train.ndim != 1:
        raise ValueError(f"train_scores must be [N], not of shape {train.shape}")
    curve: Array = _predicted(train[None], val[None])[0]
    return curve


def predicted_curve(train_scores: npt.ArrayLike, val_scores: npt.ArrayLike) -> tuple[Array, Array]:
    """`predicted_score` averaged over questions, with its standard error over them.

    Args:
      train_scores: [Q, N], as of `predicted_score`.
      val_scores: [Q, N].

    Returns:
      [N] float64, the mean, and [N] float64, its standard error: NaN for a single question.

    Raises:
      ValueError: as of `predicted_score`.
    """
    curves = _predicted(np.asarray(train_scores, np.float64), np.asarray(val_scores, np.float64))
    questions = len(curves)
    if questions == 1:
        return curves[0], np.full(curves.shape[1], np.nan)
    return curves.mean(axis=0), curves.std(axis=0, ddof=1) / math.sqrt(questions)


def _predicted(train: Array, val: Array) -> Array:
    """R_pred [Q, N]."""
    if train.ndim != 2 or train.shape != val.shape or not train.size:
        raise ValueError(
            f"training and validation scores must be of one shape and not empty, not {train.shape}, {val.shape}"
        )
    if not np.isfinite(val).all():
        raise ValueError("a validation score is not finite: give every sample a number, those without an answer too")
    ordered = np.stack([_in_order(*row) for row in zip(train, val, strict=True)])
    samples = train.shape[1]
    places = np.arange(1, samples + 1, dtype=np.float64)
    # The chance that place i holds the best of n, C(i−1, n−1) / C(N, n), from that of n − 1: no factorial overflows. As
    # n grows each chance first rises and then falls, so that what underflows stays negligible.
    chances = np.full(samples, 1 / samples)
    predicted = np.empty_like(val)
    predicted[:, 0] = ordered @ chances
    for n in range(2, samples + 1):
        chances = chances[1:] * ((places[n - 1 :] - (n - 1)) * (n / ((n - 1) * (samples - (n - 1)))))
        predicted[:, n - 1] = ordered[:, n - 1 :] @ chances
    return predicted


def _in_order(train: Array, val: Array) -> Array:
    """The validation scores [N] in the order of the training scores. Equal ones each get their mean, which is what
    stands in any of their places on average over the orders."""
    ranks = np.unique(-train, return_inverse=True)[1].reshape(-1)  # 0 is the best; NaN sorts as one, behind all numbers
    counts = np.bincount(ranks)
    means = np.bincount(ranks, weights=val) / counts
    ordered: Array = np.repeat(means, counts)[::-1]
    return ordered


# ---- the episodes


@dataclass
class BestOfN(Generic[E]):
    """Attempts at one question as far as they have come. It grows while they run.

    Attributes:
      episodes: [n], by attempt; None where it has not ended.
      scores: [n]; None where the attempt has not ended, or has no score because it has no answer.
      best: the attempt that wins among those that have ended, by `select_best`; None before the first.
    """

    episodes: list[E | None]
    scores: list[float | None]
    best: int | None = field(default=None)

    @property
    def episode(self) -> E | None:
        """The best attempt's episode."""
        return None if self.best is None else self.episodes[self.best]

    @property
    def ended(self) -> list[int]:
        """The attempts that have ended, in order."""
        return [attempt for attempt, episode in enumerate(self.episodes) if episode is not None]

    def _add(self, attempt: int, episode: E, score: float | None) -> bool:
        """Takes an attempt in; returns whether another one is the best now."""
        self.episodes[attempt], self.scores[attempt] = episode, score
        ended = self.ended
        before, self.best = self.best, ended[select_best([self.scores[number] for number in ended])]
        return self.best != before


async def best_of_n(
    play: Callable[[int], Awaitable[E]],
    score: Callable[[E], float | None],
    n: int,
    *,
    on_better: Callable[[BestOfN[E]], None] | None = None,
) -> BestOfN[E]:
    """Plays n independent episodes at once and scores each as it ends.

    When it is cancelled it returns nothing, but the object that `on_better` was given holds all that has ended: a
    caller that keeps it commits early to the best so far. Which attempt wins depends on no order in which they end.

    Args:
      play: plays the attempt of that number, 0 … n − 1; it limits by itself how many run at once.
      score: the reward model's score of an episode, None without an answer. Called in a thread beside the event loop,
        one episode at a time.
      n: attempts.
      on_better: called when another attempt has become the best, the first time with the first that ends; always with
        the same object.

    Raises:
      ValueError: n is less than 1.
      Exception: what `play`, `score` or `on_better` raises ends the other attempts and is passed on.
    """
    if n < 1:
        raise ValueError(f"best of n needs an n of at least 1, not {n}")
    result: BestOfN[E] = BestOfN([None] * n, [None] * n)
    turn = asyncio.Lock()

    async def attempt(number: int) -> None:
        episode = await play(number)
        async with turn:
            value = await asyncio.to_thread(score, episode)
        better = result._add(number, episode, value)
        if better and on_better is not None:
            on_better(result)

    tasks = [asyncio.create_task(attempt(number)) for number in range(n)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return result
