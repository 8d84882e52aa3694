"""What TinyWeb's simulated labelers say of answers: comparisons of two (paper, appendix C; section 6 of the
specification), and ratings of one by the minimal procedure.

A labeler's overall rating is an ordered logit (our reading): the difference of the utilities and logistic noise, cut
into five by two thresholds. So the preference between two answers, and what the best judge of it can reach, have closed
forms. Everybody shares utility, noise and thresholds; labelers differ in what the noise draws for them.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from webgpt_jax.env import render_answer_prompt
from webgpt_jax.tinyweb.labeler import (
    HELPFUL_WEIGHT,
    MAX_HELPFUL,
    Judgement,
    Side,
    Support,
    judge,
    strip_citations,
    utility,
)
from webgpt_jax.tinyweb.questions import TinyQuestion
from webgpt_jax.tinyweb.world import World

AGREEMENT = 0.73  # between two labelers, a tie against a non-tie counting half (paper, section 6 of the specification)
TIE_RATE = 0.18  # of overall ratings; our reading
MUCH_RATE = 0.3  # of overall ratings that are no ties, how many say "much"; our reading
PART_NOISE = 0.25  # of the noise, in ratings of one aspect, which is easier to see than the whole; our reading

Pair = tuple[Judgement, Judgement]


class Rating(IntEnum):
    """Which of two answers is better. Training uses the sign alone."""

    A_MUCH_BETTER = 2
    A_BETTER = 1
    EQUALLY_GOOD = 0
    B_BETTER = -1
    B_MUCH_BETTER = -2


class Grade(IntEnum):
    """How good one answer is."""

    VERY_BAD = 1
    BAD = 2
    NEITHER = 3
    GOOD = 4
    VERY_GOOD = 5


@dataclass(frozen=True)
class LabelerConfig:
    """How labelers turn a difference of utilities into a rating. All are in units of utility, and above 0.

    The defaults are what `calibrate` found on 9,400 pairs of `practice_pairs`, over 10,000 questions of the set "rm" of
    world 0: two labelers agree in 73.0%, 18.0% of the labels are ties, and the best predictor's accuracy is 76.3%.
    """

    noise: float = 0.80  # the scale of the logistic noise
    tie_threshold: float = 0.52  # what seems to differ by less is equally good
    much_threshold: float = 2.77  # what seems to differ by more is much better

    def validate(self) -> None:
        """Raises ValueError, naming the field, for settings that cannot work."""
        for name in ("noise", "tie_threshold", "much_threshold"):
            if not getattr(self, name) > 0:
                raise ValueError(f"LabelerConfig.{name} must be more than 0, not {getattr(self, name)}")
        if self.much_threshold < self.tie_threshold:
            raise ValueError("LabelerConfig.much_threshold must be at least tie_threshold")


@dataclass(frozen=True)
class Ratings:
    """Steps 6 and 7 of the procedure. Each says which answer is better in that respect."""

    unsupported: Rating  # which has less unsupported information
    irrelevant: Rating  # which has less irrelevant information
    usefulness: Mapping[Support, Rating]  # of the information at each level of support
    coherence: Rating
    overall: Rating


@dataclass(frozen=True)
class Comparison:
    """A labeler's whole form. Flagging the question (step 1) ends it: then there are no ratings."""

    flagged: bool
    a: Judgement
    b: Judgement
    ratings: Ratings | None

    @property
    def label(self) -> float | None:
        """1: A is better; 0.5: equally good; 0: B is better; None: the question was flagged."""
        if self.ratings is None:
            return None
        return (1 + (self.ratings.overall > 0) - (self.ratings.overall < 0)) / 2


@dataclass(frozen=True)
class Outcome:
    """How likely each label of a comparison is. They sum to 1."""

    a: float  # A is better
    tie: float
    b: float

    @property
    def agreement(self) -> float:
        """How often two labelers agree, a tie against a non-tie counting half."""
        return self.a**2 + self.tie**2 + self.b**2 + self.tie * (self.a + self.b)


@dataclass(frozen=True)
class Grades:
    """Absolute ratings of one answer."""

    accuracy: Grade
    coherence: Grade
    usefulness: Grade


def compare(world: World, question: TinyQuestion, a: Side, b: Side, labeler: LabelerConfig, seed: int) -> Comparison:
    """One labeler's comparison of two answers.

    Args:
      seed: who the labeler is. The same one says the same of the same pair, whichever side is called A; two of them
        draw independently.
    """
    judged_a, judged_b = judge(world, question, a), judge(world, question, b)
    if judged_a.flagged:
        return Comparison(True, judged_a, judged_b, None)
    texts = [f"{render_answer_prompt(question.text, side.quotes)}\n{side.answer}\n{side.end.value}" for side in (a, b)]
    # Drawn for the pair whatever its order: to swap the sides turns every rating round.
    draw = random.Random("\n".join(["tinyweb comparison", str(seed), *sorted(texts)]))
    sign = (texts[0] > texts[1]) - (texts[0] < texts[1])  # 0: nobody prefers an answer to itself

    def rate(score_a: float, score_b: float, noise: float) -> Rating:
        return _rating(score_a - score_b + sign * noise * _logistic(draw), labeler)

    def rate_part(score_a: float, score_b: float) -> Rating:
        rating = rate(score_a, score_b, PART_NOISE * labeler.noise)
        return Rating.EQUALLY_GOOD if score_a == score_b == 0 else rating  # neither has anything of it

    return Comparison(
        flagged=False,
        a=judged_a,
        b=judged_b,
        ratings=Ratings(
            overall=rate(judged_a.utility, judged_b.utility, labeler.noise),
            unsupported=rate_part(-judged_a.unsupported, -judged_b.unsupported),
            irrelevant=rate_part(-judged_a.irrelevance, -judged_b.irrelevance),
            usefulness={level: rate_part(judged_a.usefulness[level], judged_b.usefulness[level]) for level in Support},
            coherence=rate_part(-judged_a.incoherence, -judged_b.incoherence),
        ),
    )


def _logistic(draw: random.Random) -> float:
    """A number of the standard logistic distribution."""
    uniform = draw.random() or 0.5  # 0 has no logit
    return math.log(uniform / (1 - uniform))


def _rating(difference: float, labeler: LabelerConfig) -> Rating:
    size = (abs(difference) > labeler.tie_threshold) + (abs(difference) > labeler.much_threshold)
    return Rating(size if difference > 0 else -size)


# ---- the same in closed form


def outcome(a: Judgement, b: Judgement, labeler: LabelerConfig) -> Outcome:
    """How likely each overall rating of two answers is, "much better" being "better"."""
    return _outcome(a.utility - b.utility, labeler)


def preference_probability(a: Judgement, b: Judgement, labeler: LabelerConfig) -> float:
    """The chance that A is preferred, a tie counting half: the expected label."""
    chances = outcome(a, b, labeler)
    return chances.a + chances.tie / 2


def agreement(pairs: Sequence[Pair], labeler: LabelerConfig) -> float:
    """How often two labelers are expected to agree on the pairs, a tie against a non-tie counting half."""
    return _mean(lambda chances: chances.agreement, _gaps(pairs), labeler)


def tie_rate(pairs: Sequence[Pair], labeler: LabelerConfig) -> float:
    """The expected share of ties among the labels of the pairs."""
    return _mean(lambda chances: chances.tie, _gaps(pairs), labeler)


def ceiling(pairs: Sequence[Pair], labeler: LabelerConfig) -> float:
    """The accuracy of the best predictor, which knows the utilities, against a labeler; ties count half."""
    return _mean(lambda chances: max(chances.a, chances.b) + chances.tie / 2, _gaps(pairs), labeler)


def calibrate(
    pairs: Sequence[Pair], agree: float = AGREEMENT, ties: float = TIE_RATE, much: float = MUCH_RATE
) -> LabelerConfig:
    """The labelers who agree as often as they should on the pairs that arise in practice.

    Args:
      pairs: judgements of two different answers to a question.
      agree: how often two labelers should agree, a tie against a non-tie counting half.
      ties: the share of ties among overall ratings.
      much: the share of "much better" among overall ratings that are no ties.

    Raises:
      ValueError: there are no pairs; or they are so alike, or so seldom alike, that no labelers with this share of
        ties agree so often.
    """
    gaps = _gaps(pairs, places=3)  # fewer, so that it takes seconds

    def with_noise(noise: float) -> LabelerConfig:
        threshold = _solve(lambda at: _mean(lambda chances: chances.tie, gaps, LabelerConfig(noise, at, at)) - ties)
        return LabelerConfig(noise, threshold, threshold)

    def agreement_at(noise: float) -> float:
        return _mean(lambda chances: chances.agreement, gaps, with_noise(noise))

    least, most = agreement_at(_HIGH), agreement_at(_LOW)
    if not least < agree < most:
        raise ValueError(
            f"labelers with {ties:.0%} ties agree on these pairs in {least:.1%} to {most:.1%}, not {agree:.1%}: "
            "compare answers that differ more, or less, or ask for another share of ties"
        )
    labeler = with_noise(_solve(lambda noise: agree - agreement_at(noise)))
    non_ties = 1 - _mean(lambda chances: chances.tie, gaps, labeler)

    def much_missing(at: float) -> float:
        weaker = _mean(lambda chances: chances.tie, gaps, LabelerConfig(labeler.noise, at, at))
        return weaker - (1 - much * non_ties)

    return LabelerConfig(labeler.noise, labeler.tie_threshold, _solve(much_missing))


_LOW, _HIGH = 1e-3, 1e3  # noise and thresholds are sought between them
_HALVINGS = 20  # to a hundred-thousandth of the answer


def _solve(rising: Callable[[float], float]) -> float:
    """Where a rising function is 0, sought by halving on a logarithmic scale."""
    low, high = math.log(_LOW), math.log(_HIGH)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(math.exp(middle)) < 0 else (low, middle)
    return math.exp((low + high) / 2)


def _gaps(pairs: Sequence[Pair], places: int = 9) -> Counter[float]:
    """How often each difference of utilities occurs, rounded: only its size matters."""
    if not pairs:
        raise ValueError("no pairs of answers to measure labelers on")
    return Counter(round(abs(a.utility - b.utility), places) for a, b in pairs)


def _mean(value: Callable[[Outcome], float], gaps: Counter[float], labeler: LabelerConfig) -> float:
    return sum(count * value(_outcome(gap, labeler)) for gap, count in gaps.items()) / gaps.total()


def _outcome(difference: float, labeler: LabelerConfig) -> Outcome:
    a = _sigmoid((difference - labeler.tie_threshold) / labeler.noise)
    b = _sigmoid((-difference - labeler.tie_threshold) / labeler.noise)
    return Outcome(a, 1 - a - b, b)


def _sigmoid(logit: float) -> float:
    return (1 + math.tanh(logit / 2)) / 2


# ---- one answer alone


def grade(world: World, question: TinyQuestion, answer: str, labeler: LabelerConfig, seed: int) -> Grades:
    """One labeler's absolute ratings of an answer by the minimal procedure, which shows no citations.

    The labeler knows what is true. Accuracy is the share of true sentences, coherence what is left by errors of
    writing, usefulness the share of the question that is truly answered and a little for more; each with noise.
    """
    text = strip_citations(answer)
    if not text.strip():
        return Grades(Grade.VERY_BAD, Grade.VERY_BAD, Grade.VERY_BAD)
    judged = utility(world, question, (), text)
    useful = sum(judged.usefulness.values()) / (1 + HELPFUL_WEIGHT * MAX_HELPFUL)
    draw = random.Random(f"tinyweb grades\n{seed}\n{question.text}\n{text}")

    def rate(score: float) -> Grade:
        noisy = score + PART_NOISE * labeler.noise * _logistic(draw)
        return Grade(1 + min(4, max(0, math.floor(5 * noisy))))

    return Grades(
        accuracy=rate(sum(claim.true for claim in judged.claims) / len(judged.claims)),
        coherence=rate(1 - judged.incoherence / 2),
        usefulness=rate(useful),
    )
