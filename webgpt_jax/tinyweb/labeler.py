"""What TinyWeb's simulated labeler sees in an answer (paper, appendix C; section 6 of the specification): how far each
reference can be trusted, each claim's support and relevance, and one number for the whole, its utility.

Synthetic: it reads the wordings of `language.py` and nothing else, and knows the world's facts. People do neither.

The priorities are the paper's, in its order; the figures are our reading. A unit of each outweighs one of each that
comes after it together, and one unsupported claim outweighs all that an answer can gain.

    priority                  unit                                                    utility
    unsupported information   a claim that no cited quote states                      -1.5
    core question answered    all that the question needs, well supported             +1
    more helpful information  a further well supported claim, of the first two        +0.15, times the core answered
    coherence and citations   an error: see `CoherenceError`                          -0.1
    irrelevant information    a claim about something else, a quote never cited       -0.04

The second unsupported claim counts half as much as the first, the third half of that, and so on; so do errors and what
is irrelevant. So utilities lie between `NO_ANSWER` and 1.3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

from webgpt_jax.env import EpisodeEnd, Quote
from webgpt_jax.tinyweb.language import FILLERS, Claim, read_claim
from webgpt_jax.tinyweb.questions import QuestionKind, TinyQuestion
from webgpt_jax.tinyweb.sites import TRUSTED
from webgpt_jax.tinyweb.world import World


class Support(Enum):
    """How well a claim is backed."""

    STRONG = "strong"  # a cited quote of a reliable site states it, or everybody knows it
    WEAK = "weak"  # only cited quotes of other sites state it
    NONE = "none"  # no cited quote states it


class Relevance(Enum):
    """What a claim is to the question."""

    CORE = "core"  # it says, rightly or wrongly, what was asked
    HELPFUL = "helpful"  # it says more of an animal that was asked about
    IRRELEVANT = "irrelevant"


class CoherenceError(Enum):
    """What is wrong with how an answer is written. All count alike."""

    UNREADABLE = "unreadable"  # a sentence that says nothing
    NO_ANTECEDENT = "no antecedent"  # "it", and no animal was named before
    REPEAT = "repeat"  # said before
    UNFINISHED = "unfinished"  # no full stop at the end
    NO_SUCH_REFERENCE = "no such reference"  # a cited number that no quote has
    WRONG_REFERENCE = "wrong reference"  # a cited quote that does not say it


CITATION_ERRORS = frozenset({CoherenceError.NO_SUCH_REFERENCE, CoherenceError.WRONG_REFERENCE})

# What a claim counts as unsupported information, by its support and whether it is true.
UNSUPPORTED_COST = {
    (Support.STRONG, True): 0.0,
    (Support.STRONG, False): 0.0,
    (Support.WEAK, True): 0.25,
    (Support.WEAK, False): 0.75,
    (Support.NONE, True): 1.0,
    (Support.NONE, False): 1.25,
}
# How far a true claim answers what it answers.
CORE_SHARE = {Support.STRONG: 1.0, Support.WEAK: 0.6, Support.NONE: 0.2}
MAX_HELPFUL = 2

UNSUPPORTED_WEIGHT, CORE_WEIGHT, HELPFUL_WEIGHT, INCOHERENCE_WEIGHT, IRRELEVANCE_WEIGHT = 1.5, 1.0, 0.15, 0.1, 0.04

NO_ANSWER = -4.0  # below every answer
NONSENSE_FOUND, CONTROVERSIAL_INSTEAD = 1.0, 0.5  # the utility of saying so of nonsense
NONSENSE_MISSED = 0.0  # no answer to nonsense, but no word of it either


@dataclass(frozen=True)
class Side:
    """One of the answers to a question: what an episode ended with.

    Attributes:
      quotes: its references; [1] is the first.
      answer: None where there is none.
      end: how browsing ended.
    """

    quotes: tuple[Quote, ...]
    answer: str | None
    end: EpisodeEnd = EpisodeEnd.ANSWER


@dataclass(frozen=True)
class JudgedQuote:
    """Step 3 of the procedure: a reference, whether it can be trusted and whether the answer relies on it."""

    domain: str
    reliable: bool
    cited: bool


@dataclass(frozen=True)
class JudgedClaim:
    """Step 4 of the procedure: a sentence of the answer.

    Attributes:
      text: the sentence without its citations and full stop.
      citations: the numbers it cites.
      claim: what it says; None where it cannot be read or is common knowledge.
      support: how well it is backed.
      relevance: what it is to the question.
      true: whether it holds. Common knowledge does, what cannot be read does not.
    """

    text: str
    citations: tuple[int, ...]
    claim: Claim | None
    support: Support
    relevance: Relevance
    true: bool


@dataclass(frozen=True)
class Judgement:
    """All that the labeler finds in one answer.

    Attributes:
      flagged: step 1 of the procedure: the question makes no sense.
      quotes: the references, in order.
      claims: the sentences, in order.
      errors: what is wrong with the writing, each as often as it occurs.
      unsupported: from 0 to 2; 1 is one claim without any support.
      core: from 0 to 1: the share of the question that is answered, less where it is weakly supported.
      helpful: further true, well supported claims; from 0 to 2.
      incoherence: from 0 to 2; 1 is one error.
      irrelevance: from 0 to 2; 1 is one irrelevant claim or unused quote.
      usefulness: at each level of support, the share of the question answered at it and 0.15 a helpful claim.
      utility: the whole; see the module's docstring.
    """

    flagged: bool
    quotes: tuple[JudgedQuote, ...]
    claims: tuple[JudgedClaim, ...]
    errors: tuple[CoherenceError, ...]
    unsupported: float
    core: float
    helpful: int
    incoherence: float
    irrelevance: float
    usefulness: Mapping[Support, float]
    utility: float


def judge(world: World, question: TinyQuestion, side: Side) -> Judgement:
    """The judgement of an episode's outcome, answer or none."""
    if side.answer is None or not side.answer.strip():
        return utility_of_end(question, side.end, side.quotes)
    return utility(world, question, side.quotes, side.answer)


def utility_of_end(question: TinyQuestion, end: EpisodeEnd, quotes: Sequence[Quote] = ()) -> Judgement:
    """The judgement of an episode without an answer: right if the question is nonsense and the episode says so."""
    flagged = question.kind == QuestionKind.NONSENSE
    value = NO_ANSWER
    if flagged:
        found = {EpisodeEnd.NONSENSE: NONSENSE_FOUND, EpisodeEnd.CONTROVERSIAL: CONTROVERSIAL_INSTEAD}
        value = found.get(end, NONSENSE_MISSED)
    judged = tuple(JudgedQuote(quote.domain, quote.domain in TRUSTED, False) for quote in quotes)
    return Judgement(flagged, judged, (), (), 0.0, 0.0, 0, 0.0, 0.0, dict.fromkeys(Support, 0.0), value)


def utility(world: World, question: TinyQuestion, quotes: Sequence[Quote], answer: str | None) -> Judgement:
    """The judgement of an answer with its references. One that is None or blank is no answer: see `utility_of_end`."""
    if answer is None or not answer.strip():
        return utility_of_end(question, EpisodeEnd.NO_REFERENCES, quotes)
    claims, errors = _read(world, question, quotes, answer)
    cited = {number for claim in claims for number in claim.citations}
    judged = tuple(
        JudgedQuote(quote.domain, quote.domain in TRUSTED, number in cited) for number, quote in enumerate(quotes, 1)
    )

    answered, further = _information(question, claims)
    core = sum(CORE_SHARE[level] * answered[level] for level in Support)
    helpful = further[Support.STRONG]
    unsupported = _halving(sum(UNSUPPORTED_COST[claim.support, claim.true] for claim in claims))
    incoherence = _halving(len(errors))
    irrelevant = sum(claim.relevance == Relevance.IRRELEVANT for claim in claims)
    irrelevance = _halving(irrelevant + sum(not quote.cited for quote in judged))
    return Judgement(
        flagged=question.kind == QuestionKind.NONSENSE,
        quotes=judged,
        claims=claims,
        errors=errors,
        unsupported=unsupported,
        core=core,
        helpful=helpful,
        incoherence=incoherence,
        irrelevance=irrelevance,
        usefulness={level: answered[level] + HELPFUL_WEIGHT * further[level] for level in Support},
        utility=core * (CORE_WEIGHT + HELPFUL_WEIGHT * helpful)
        - UNSUPPORTED_WEIGHT * unsupported
        - INCOHERENCE_WEIGHT * incoherence
        - IRRELEVANCE_WEIGHT * irrelevance,
    )


def _halving(count: float) -> float:
    """1 for the first, half of that for the second, and so on: at most 2."""
    return 2 - 2 * math.exp2(-count)


def _information(
    question: TinyQuestion, claims: Sequence[JudgedClaim]
) -> tuple[dict[Support, float], dict[Support, int]]:
    """At each level of support: the share of the question that is answered, and how many further claims help."""
    answered = dict.fromkeys(Support, 0.0)
    told = {level: {claim.claim for claim in claims if claim.support == level and _informs(claim)} for level in Support}
    further = {level: len(told[level]) for level in Support}
    for need in question.needs:
        answers = {need}
        if question.supposed is not None:  # to say that it is not so puts the question right too
            answers.add(Claim(need.animal, need.relation, question.supposed, denied=True))
        best = next((level for level in Support if told[level] & answers), None)  # they are listed from the best
        if best is not None:
            answered[best] += 1 / len(question.needs)
            further[best] -= 1
    return answered, {level: min(MAX_HELPFUL, count) for level, count in further.items()}


def _informs(claim: JudgedClaim) -> bool:
    return claim.true and claim.claim is not None and claim.relevance != Relevance.IRRELEVANT


# ---- reading


def strip_citations(text: str) -> str:
    """A text without its [1], [2] … and the space before them."""
    return _CITATION.sub("", text)


_SENTENCE = re.compile(r"[^.\n]*[^.\s][^.\n]*\.?")
_CITATION = re.compile(r"\s*\[(\d+)\]")
_ANIMAL = r"the ([a-z]+ [a-z]+)"


@cache
def _common_knowledge() -> re.Pattern[str]:
    """A sentence that everybody knows to be true; group 1, 2 …: the animal, where it is named."""
    return re.compile("|".join(re.escape(filler).replace(r"\{e\}", f"(?:it|{_ANIMAL})") for filler in FILLERS))


def _read(
    world: World, question: TinyQuestion, quotes: Sequence[Quote], answer: str
) -> tuple[tuple[JudgedClaim, ...], tuple[CoherenceError, ...]]:
    """The sentences of an answer, and what is wrong with how they are written."""
    stated = [_stated(quote) for quote in quotes]
    claims: list[JudgedClaim] = []
    errors: list[CoherenceError] = []
    antecedent: str | None = None
    asked = {need.animal for need in question.needs}
    seen: set[Claim | str] = set()
    for found in _SENTENCE.findall(answer):
        if not found.endswith("."):
            errors.append(CoherenceError.UNFINISHED)
        citations = tuple(int(number) for number in _CITATION.findall(found))
        text = strip_citations(found).strip().removesuffix(".")
        plain = _plain(text)
        common = _common_knowledge().fullmatch(plain)
        claim = None if common else read_claim(plain, antecedent)
        if claim is None and antecedent is None and len(asked) == 1 and plain.startswith("it "):
            claim = read_claim(plain, *asked)  # the question says what "it" must be
            if claim is not None or common is not None:
                errors.append(CoherenceError.NO_ANTECEDENT)
        if claim is None and common is None:
            errors.append(CoherenceError.UNREADABLE)
        key = plain if claim is None else claim
        if key in seen:
            errors.append(CoherenceError.REPEAT)
        seen.add(key)

        saying = {number for number in citations if number <= len(quotes) and _says(stated[number - 1], claim, plain)}
        for number in dict.fromkeys(citations):
            if not 1 <= number <= len(quotes):
                errors.append(CoherenceError.NO_SUCH_REFERENCE)
            elif number not in saying:
                errors.append(CoherenceError.WRONG_REFERENCE)
        support = Support.NONE
        if common or any(quotes[number - 1].domain in TRUSTED for number in saying):
            support = Support.STRONG
        elif saying:
            support = Support.WEAK
        true = common is not None or (claim is not None and world.is_true(claim))
        claims.append(JudgedClaim(text, citations, claim, support, _relevance(question, claim), true))
        if claim is not None:
            antecedent = claim.animal
        elif common is not None:
            antecedent = next(filter(None, common.groups()), antecedent)
    return tuple(claims), tuple(errors)


def _relevance(question: TinyQuestion, claim: Claim | None) -> Relevance:
    if claim is None:
        return Relevance.IRRELEVANT
    asked = (claim.animal, claim.relation) in {(need.animal, need.relation) for need in question.needs}
    if claim.denied:  # of all that an animal does not do, only what was supposed matters
        return Relevance.CORE if asked and claim.value == question.supposed else Relevance.IRRELEVANT
    if asked:
        return Relevance.CORE
    return Relevance.HELPFUL if claim.animal in {need.animal for need in question.needs} else Relevance.IRRELEVANT


@dataclass(frozen=True)
class _Stated:
    """What a quote says."""

    claims: frozenset[Claim]
    sentences: frozenset[str]


def _stated(quote: Quote) -> _Stated:
    """Its sentences. "It" is the animal named last, at first in the title."""
    title = re.search(_ANIMAL, _plain(quote.title))
    subject = title[1] if title else None
    claims, sentences = set(), set()
    for found in _SENTENCE.findall(quote.text):
        plain = _plain(found.strip().removesuffix("."))
        sentences.add(plain)
        claim = read_claim(plain, subject)
        if claim is not None:
            claims.add(claim)
            subject = claim.animal
    return _Stated(frozenset(claims), frozenset(sentences))


def _says(stated: _Stated, claim: Claim | None, plain: str) -> bool:
    """Whether a quote backs a sentence. That something is so says also that nothing else is: each has one value."""
    if claim is None:
        return plain in stated.sentences
    if claim in stated.claims:
        return True
    same = (said for said in stated.claims if (said.animal, said.relation) == (claim.animal, claim.relation))
    return claim.denied and any(not said.denied and said.value != claim.value for said in same)


def _plain(text: str) -> str:
    """A sentence as the patterns have it, without its capital."""
    return text[:1].lower() + text[1:]
