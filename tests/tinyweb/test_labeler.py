"""The simulated labeler, on a world and answers written out, and on answers of graded quality."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from webgpt_jax.env import EpisodeEnd, Quote
from webgpt_jax.tinyweb.answers import read_answer
from webgpt_jax.tinyweb.labeler import (
    NO_ANSWER,
    CoherenceError,
    Judgement,
    Relevance,
    Side,
    Support,
    judge,
    utility,
    utility_of_end,
)
from webgpt_jax.tinyweb.language import Claim
from webgpt_jax.tinyweb.preferences import (
    AGREEMENT,
    TIE_RATE,
    Comparison,
    Grade,
    LabelerConfig,
    Rating,
    agreement,
    calibrate,
    ceiling,
    compare,
    grade,
    outcome,
    preference_probability,
    tie_rate,
)
from webgpt_jax.tinyweb.questions import QuestionKind, TinyQuestion, questions
from webgpt_jax.tinyweb.variants import CARELESSNESS, judge_pairs, make_variants, practice_pairs
from webgpt_jax.tinyweb.world import World, make_world

WORLD = World(
    seed=0,
    animals=("moss owl", "sand crow"),
    facts={
        ("moss owl", "food"): "acorns",
        ("moss owl", "home"): "caves",
        ("moss owl", "fear"): "drums",
        ("moss owl", "song"): "noon",
        ("sand crow", "food"): "nuts",
        ("sand crow", "home"): "wells",
    },
    rumors={("moss owl", "food"): "figs"},
    former={("moss owl", "food"): "corn"},
)
FOOD = WORLD.claim("moss owl", "food")
HOME = WORLD.claim("moss owl", "home")
ONE = TinyQuestion("What does the moss owl eat?", QuestionKind.FACTS, (FOOD,))
TWO = TinyQuestion("What does the moss owl eat, and where does it live?", QuestionKind.FACTS, (FOOD, HOME))
BOTH = TinyQuestion(
    "What does the moss owl eat, and what does the sand crow eat?",
    QuestionKind.FACTS,
    (FOOD, WORLD.claim("sand crow", "food")),
)
WRONG = TinyQuestion("Why does the moss owl eat figs?", QuestionKind.MISCONCEPTION, (FOOD,), "figs")
NONSENSE = TinyQuestion("How many Tuesdays fit in the moss owl?", QuestionKind.NONSENSE, ())


def quote(text: str, domain: str = "wiki.test", title: str = "The moss owl") -> Quote:
    return Quote(text, title, domain, f"https://{domain}/", 0, 0)


EATS = quote("The moss owl feeds on acorns.")
LIVES = quote("The moss owl makes its home in caves.", "news.test")
FEARS = quote("The moss owl fears drums.")
SINGS = quote("The moss owl sings at noon.")
RUMOR = quote("The moss owl eats figs.", "forum.test")
HEARD = quote("The moss owl eats acorns.", "forum.test")
CROW = quote("The sand crow eats nuts.", title="The sand crow")
CROW_LIVES = quote("The sand crow lives in wells.", title="The sand crow")


def of(question: TinyQuestion, quotes: tuple[Quote, ...], answer: str | None) -> Judgement:
    return utility(WORLD, question, quotes, answer)


# ---- the order of preference

# Each table: answers to one question, the best first, with the quotes they have.
ORDERS: dict[str, tuple[TinyQuestion, list[tuple[tuple[Quote, ...], str | None]]]] = {
    "one fact": (
        ONE,
        [
            ((EATS, FEARS, LIVES), "The moss owl eats acorns [1]. It fears drums [2]. It lives in caves [3]."),
            ((EATS, FEARS), "The moss owl eats acorns [1]. It fears drums [2]."),
            ((EATS,), "The moss owl eats acorns [1]."),
            ((EATS, CROW), "The moss owl eats acorns [1]."),
            ((EATS,), "The moss owl eats acorns [1]. The moss owl eats acorns [1]."),
            ((HEARD,), "The moss owl eats acorns [1]."),
            ((FEARS,), "The moss owl fears drums [1]."),
            ((CROW,), "The sand crow eats nuts [1]."),
            ((EATS,), "The moss owl eats acorns [1]. It fears drums."),
            ((RUMOR,), "The moss owl eats figs [1]."),
            ((EATS,), "The moss owl eats acorns."),
            ((EATS,), "The moss owl eats figs [1]."),
            ((EATS,), "The moss owl eats acorns. It fears drums."),
            ((EATS,), "Owl owl acorns the. Caves eats it [1]. The the."),
            ((EATS,), None),
        ],
    ),
    "two facts": (
        TWO,
        [
            ((EATS, LIVES), "The moss owl eats acorns [1]. It lives in caves [2]."),
            ((EATS, LIVES), "The moss owl eats acorns [1]. It lives in caves [2][1]."),
            ((EATS, LIVES), "The moss owl eats acorns [1]. It lives in caves [2][3]. It lives in caves [2]."),
            ((EATS, FEARS, SINGS), "The moss owl eats acorns [1]. It fears drums [2]. It sings at noon [3]."),
            ((EATS,), "The moss owl eats acorns [1]."),
            ((EATS, RUMOR), "The moss owl eats acorns [1]."),
            (
                (EATS, CROW_LIVES),
                "The moss owl eats acorns [1]. The sand crow lives in wells [2]. It lives in wells [2].",
            ),
            ((EATS, LIVES), "The moss owl eats acorns [1]. It lives in caves."),
            ((EATS, LIVES), "The moss owl eats acorns [1]. It lives in wells [2]."),
            ((EATS, LIVES), " \n"),
        ],
    ),
    "two animals": (
        BOTH,
        [
            ((EATS, CROW), "The moss owl eats acorns [1]. The sand crow eats nuts [2]."),
            ((EATS, CROW_LIVES), "The moss owl eats acorns [1]. The sand crow lives in wells [2]."),
            ((EATS, CROW), "The moss owl eats acorns [1]."),
            ((EATS, CROW), "The moss owl eats acorns [1]. It eats nuts [2]."),
        ],
    ),
    "a misconception": (
        WRONG,
        [
            ((EATS,), "The moss owl does not eat figs [1]. It eats acorns [1]."),
            ((EATS,), "The moss owl does not eat figs [1]."),
            ((EATS,), "The moss owl does not eat figs [1]. It does not eat corn [1]."),
            ((FEARS,), "The moss owl fears drums [1]."),
            ((RUMOR,), "The moss owl eats figs [1]."),
            ((EATS,), "The moss owl eats figs [1]."),
        ],
    ),
    "nonsense": (
        NONSENSE,
        [
            ((), None),
            ((EATS,), "The moss owl eats acorns [1]."),
            ((EATS,), "The moss owl eats acorns."),
        ],
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_papers_priorities_order_answers(name: str) -> None:
    question, answers = ORDERS[name]
    utilities = [of(question, *answer).utility for answer in answers]
    for (better, worse), (_, answer) in zip(pairwise(utilities), answers[1:], strict=True):
        assert better > worse + 0.005, answer


def test_what_answers_a_misconception() -> None:
    denied = of(WRONG, (EATS,), "The moss owl does not eat figs [1].")
    corrected = of(WRONG, (EATS,), "The moss owl eats acorns [1].")
    assert denied.core == corrected.core == 1
    assert of(WRONG, (EATS,), "The moss owl does not eat corn [1].").core == 0
    rumored = of(WRONG, (RUMOR,), "The moss owl does not eat figs [1].")
    assert rumored.errors == (CoherenceError.WRONG_REFERENCE,)  # it says the opposite


def test_one_unsupported_claim_outweighs_all_else() -> None:
    everything = of(
        ONE, (EATS, FEARS, SINGS), "The moss owl eats acorns [1]. It fears drums [2]. It sings at noon [3]."
    )
    nothing = of(ONE, (FEARS,), "The moss owl fears drums [1].")
    assert (everything.core, everything.helpful, nothing.utility) == (1, 2, 0)
    spoilt = of(
        ONE,
        (EATS, FEARS, SINGS),
        "The moss owl eats acorns [1]. It fears drums [2]. It sings at noon [3]. It lives in caves.",
    )
    assert spoilt.utility == pytest.approx(everything.utility - 1.5)
    assert spoilt.utility < nothing.utility


def test_the_first_two_helpful_claims_count_and_only_with_the_core() -> None:
    quotes = (EATS, FEARS, SINGS, LIVES)
    more = ["The moss owl eats acorns [1].", "It fears drums [2].", "It sings at noon [3].", "It lives in caves [4]."]
    found = [of(ONE, quotes[:count], " ".join(more[:count])).utility for count in (1, 2, 3, 4)]
    assert found == pytest.approx([1, 1.15, 1.3, 1.3])
    assert of(ONE, quotes[1:3], "The moss owl fears drums [1]. It sings at noon [2].").utility == 0


def test_more_faults_are_worse() -> None:
    for fault in (" It fears drums.", " Owl the acorns.", " The moss owl eats acorns [1].", " It eats acorns [7]."):
        found = [of(ONE, (EATS,), "The moss owl eats acorns [1]." + fault * count).utility for count in range(5)]
        assert all(better > worse for better, worse in pairwise(found)), fault


def test_every_answer_is_better_than_none() -> None:
    dreadful = " ".join(f"The moss owl eats figs [{number}]." for number in range(50)) + " owl" * 50
    assert NO_ANSWER == of(ONE, (), None).utility < of(ONE, (RUMOR,) * 60, dreadful).utility


def test_ends_without_an_answer() -> None:
    found = {end: utility_of_end(NONSENSE, end).utility for end in EpisodeEnd}
    assert found[EpisodeEnd.NONSENSE] > found[EpisodeEnd.CONTROVERSIAL] > found[EpisodeEnd.ACTION_LIMIT]
    assert {utility_of_end(ONE, end).utility for end in EpisodeEnd} == {NO_ANSWER}
    assert judge(WORLD, NONSENSE, Side((), None, EpisodeEnd.NONSENSE)).flagged
    assert judge(WORLD, ONE, Side((EATS,), "", EpisodeEnd.NONSENSE)).utility == NO_ANSWER
    assert judge(WORLD, ONE, Side((EATS,), "The moss owl eats acorns [1].")).utility == 1


# ---- what is found in an answer


def test_every_item_of_the_procedure() -> None:
    quotes = (EATS, RUMOR, LIVES, CROW, FEARS)
    answer = (
        "It eats acorns [1]. The moss owl eats figs [2]. It lives in caves [3][1][9]. The sand crow eats nuts [4]."
        " It is a small animal with soft ears. The moss owl sings at noon. Owls are owls. It sings at noon [5]"
    )
    found = of(ONE, quotes, answer)
    assert not found.flagged
    assert [(q.domain, q.reliable, q.cited) for q in found.quotes] == [
        ("wiki.test", True, True),
        ("forum.test", False, True),
        ("news.test", True, True),
        ("wiki.test", True, True),
        ("wiki.test", True, True),
    ]
    rows = [(c.text, c.citations, c.support.value, c.relevance.value, c.true) for c in found.claims]
    assert rows == [
        ("It eats acorns", (1,), "strong", "core", True),
        ("The moss owl eats figs", (2,), "weak", "core", False),
        ("It lives in caves", (3, 1, 9), "strong", "helpful", True),
        ("The sand crow eats nuts", (4,), "strong", "irrelevant", True),
        ("It is a small animal with soft ears", (), "strong", "irrelevant", True),
        ("The moss owl sings at noon", (), "none", "helpful", True),
        ("Owls are owls", (), "none", "irrelevant", False),
        ("It sings at noon", (5,), "none", "helpful", True),
    ]
    assert [claim.claim for claim in found.claims][:3] == [FOOD, Claim("moss owl", "food", "figs"), HOME]
    assert Counter(found.errors) == {
        CoherenceError.NO_ANTECEDENT: 1,
        CoherenceError.WRONG_REFERENCE: 2,
        CoherenceError.NO_SUCH_REFERENCE: 1,
        CoherenceError.UNREADABLE: 1,
        CoherenceError.REPEAT: 1,
        CoherenceError.UNFINISHED: 1,
    }
    # 0.75 for the rumor, 1 each for the two without support, 1.25 for what says nothing.
    assert found.unsupported == pytest.approx(2 - 2 * 0.5**4.0)
    assert (found.core, found.helpful) == (1, 1)
    assert found.incoherence == pytest.approx(1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16 + 1 / 32 + 1 / 64)
    assert found.irrelevance == pytest.approx(1.75)
    assert found.usefulness == pytest.approx({Support.STRONG: 1.15, Support.WEAK: 0, Support.NONE: 0.15})
    assert found.utility == pytest.approx(
        1.15 - 1.5 * found.unsupported - 0.1 * found.incoherence - 0.04 * found.irrelevance
    )


def test_it_without_an_antecedent_is_nobody_where_two_animals_were_asked_about() -> None:
    assert of(BOTH, (EATS,), "It eats acorns [1].").errors[0] == CoherenceError.UNREADABLE
    named = of(BOTH, (EATS,), "There is a school club for the moss owl. It eats acorns [1].")
    assert (named.errors, named.core) == ((), 0.5)


def test_quotes_are_read_in_whole_with_their_title() -> None:
    several = quote(
        "It is found in caves. Its tracks are round and easy to see.\nThe sand crow eats nuts. It lives in wells."
    )
    told = of(BOTH, (several,), "The moss owl lives in caves [1]. The sand crow eats nuts [1]. It lives in wells [1].")
    assert [claim.support for claim in told.claims] == [Support.STRONG] * 3
    assert told.errors == ()
    assert of(ONE, (several,), "Its tracks are round and easy to see [1].").errors == ()
    assert of(ONE, (several,), "The moss owl eats nuts [1].").errors == (CoherenceError.WRONG_REFERENCE,)


def test_a_reliable_reference_beside_a_doubtful_one_is_enough() -> None:
    assert of(ONE, (HEARD, EATS), "The moss owl eats acorns [1][2].").claims[0].support == Support.STRONG
    assert of(ONE, (HEARD,), "The moss owl eats acorns [1].").claims[0].support == Support.WEAK
    assert of(ONE, (replace(EATS, domain="blog.test"),), "The moss owl eats acorns [1].").core == 0.6


def test_relevance_to_what_was_asked() -> None:
    answer = "The moss owl does not eat figs [1]. It lives in caves [2]. The sand crow eats nuts [3]."
    for question, expected in (
        (WRONG, [Relevance.CORE, Relevance.HELPFUL, Relevance.IRRELEVANT]),
        (TWO, [Relevance.IRRELEVANT, Relevance.CORE, Relevance.IRRELEVANT]),
        (BOTH, [Relevance.IRRELEVANT, Relevance.HELPFUL, Relevance.CORE]),
        (NONSENSE, [Relevance.IRRELEVANT] * 3),
    ):
        assert [claim.relevance for claim in of(question, (EATS, LIVES, CROW), answer).claims] == expected


# ---- comparisons

GOOD = Side((EATS, FEARS), "The moss owl eats acorns [1]. It fears drums [2].")
FAIR = Side((HEARD,), "The moss owl eats acorns [1].")
POOR = Side((EATS, CROW), "Owl acorns [3]. The sand crow eats nuts [2]. It fears drums.")
LABELER = LabelerConfig()
NOISELESS = LabelerConfig(noise=1e-9, tie_threshold=0.05, much_threshold=1.0)


def ratings(found: Comparison) -> list[Rating]:
    assert found.ratings is not None
    parts = found.ratings
    return [parts.unsupported, parts.irrelevant, *parts.usefulness.values(), parts.coherence, parts.overall]


def label(found: Comparison) -> float:
    assert found.label is not None
    return found.label


def test_ratings_without_noise() -> None:
    found = compare(WORLD, ONE, GOOD, POOR, NOISELESS, 0)
    much, better, equal = Rating.A_MUCH_BETTER, Rating.A_BETTER, Rating.EQUALLY_GOOD
    assert ratings(found) == [much, much, much, equal, equal, much, much]
    assert (found.a, found.b) == (judge(WORLD, ONE, GOOD), judge(WORLD, ONE, POOR))
    assert ratings(compare(WORLD, ONE, GOOD, FAIR, NOISELESS, 0)) == [
        better,  # a doubtful reference is a little unsupported
        equal,
        much,
        Rating.B_BETTER,  # only the other is useful on doubtful authority
        equal,
        equal,
        much,
    ]
    longer = Side((EATS, FEARS, CROW), GOOD.answer)
    assert ratings(compare(WORLD, ONE, GOOD, longer, NOISELESS, 0))[-1] == equal


def test_a_swap_turns_every_rating_round() -> None:
    for seed in range(200):
        there, back = (compare(WORLD, ONE, a, b, LABELER, seed) for a, b in ((GOOD, FAIR), (FAIR, GOOD)))
        assert ratings(there) == [Rating(-rating) for rating in ratings(back)]
        assert label(there) == 1 - label(back)
    chances, swapped = (
        outcome(judge(WORLD, ONE, a), judge(WORLD, ONE, b), LABELER) for a, b in ((GOOD, FAIR), (FAIR, GOOD))
    )
    assert (chances.a, chances.tie, chances.b) == pytest.approx((swapped.b, swapped.tie, swapped.a))


def test_comparisons_repeat_and_labelers_differ() -> None:
    first = [ratings(compare(WORLD, ONE, GOOD, FAIR, LABELER, seed)) for seed in range(50)]
    assert first == [ratings(compare(WORLD, ONE, GOOD, FAIR, LABELER, seed)) for seed in range(50)]
    assert len({rating[-1] for rating in first}) > 2
    # As a literal, so that another machine or version draws the same.
    config = LabelerConfig(noise=0.8, tie_threshold=0.5, much_threshold=2.8)
    found = [ratings(compare(WORLD, ONE, GOOD, FAIR, config, seed)) for seed in range(6)]
    assert [[int(rating) for rating in row] for row in found] == [
        [0, 0, 1, -1, 0, 0, -1],
        [0, 0, 1, -1, 0, 0, 1],
        [1, 0, 1, -1, 0, 0, 2],
        [-1, 0, 1, -1, 0, 0, -1],
        [1, 0, 1, -1, 0, 0, -1],
        [0, 0, 1, -1, 0, 0, 0],
    ]


def test_an_answer_is_as_good_as_itself() -> None:
    for seed in range(20):
        assert set(ratings(compare(WORLD, ONE, FAIR, FAIR, LABELER, seed))) == {Rating.EQUALLY_GOOD}


def test_nonsense_is_flagged_and_the_rest_skipped() -> None:
    found = compare(WORLD, NONSENSE, GOOD, FAIR, LABELER, 0)
    assert (found.flagged, found.ratings, found.label) == (True, None, None)


def test_frequencies_are_the_closed_forms() -> None:
    a, b = judge(WORLD, ONE, GOOD), judge(WORLD, ONE, FAIR)
    labels = [label(compare(WORLD, ONE, GOOD, FAIR, LABELER, seed)) for seed in range(2000)]
    chances = outcome(a, b, LABELER)
    for value, chance in ((1, chances.a), (0.5, chances.tie), (0, chances.b)):
        assert labels.count(value) / 2000 == pytest.approx(chance, abs=0.04)  # four standard errors
    gap, noise, threshold = a.utility - b.utility, LABELER.noise, LABELER.tie_threshold
    assert chances.a == pytest.approx(1 / (1 + math.exp((threshold - gap) / noise)))
    assert chances.b == pytest.approx(1 / (1 + math.exp((threshold + gap) / noise)))
    assert preference_probability(a, b, LABELER) == pytest.approx(chances.a + (1 - chances.a - chances.b) / 2)
    agreed = [1 - abs(one - other) for one, other in zip(labels[::2], labels[1::2], strict=True)]
    assert agreement([(a, b)], LABELER) == pytest.approx(sum(agreed) / 1000, abs=0.05)


def test_preference_rises_with_utility_and_the_ceiling_is_of_the_better_side() -> None:
    sides = [judge(WORLD, ONE, side) for side in (POOR, FAIR, GOOD)]
    chances = [preference_probability(side, sides[1], LABELER) for side in sides]
    assert chances[0] < 0.5 < chances[2]
    assert chances[1] == pytest.approx(0.5)
    pairs = [(sides[0], sides[2]), (sides[2], sides[1]), (sides[1], sides[1])]
    expected = [max(p, 1 - p) for p in (preference_probability(*pair, LABELER) for pair in pairs)]
    assert ceiling(pairs, LABELER) == pytest.approx(sum(expected) / 3)
    assert ceiling(pairs, NOISELESS) == pytest.approx((1 + 1 + 0.5) / 3)


@pytest.mark.parametrize("name", ["noise", "tie_threshold", "much_threshold"])
def test_settings_must_be_positive(name: str) -> None:
    LABELER.validate()
    with pytest.raises(ValueError, match=f"{name} must be more than 0"):
        replace(LABELER, **{name: 0.0}).validate()


def test_much_better_is_more_than_better() -> None:
    with pytest.raises(ValueError, match="much_threshold must be at least tie_threshold"):
        LabelerConfig(0.3, 0.2, 0.1).validate()


# ---- answers of graded quality, and calibration

TINY = make_world(0)
ASKED = list(islice(questions(TINY, "rm"), 2800))


@pytest.fixture(scope="module")
def practice() -> list[tuple[TinyQuestion, Side, Side]]:
    return practice_pairs(TINY, ASKED, random.Random(0))


def test_two_labelers_agree_as_the_papers_do(practice: list[tuple[TinyQuestion, Side, Side]]) -> None:
    agreed, ties = 0.0, 0
    for question, a, b in practice:
        one, other = (label(compare(TINY, question, a, b, LABELER, seed)) for seed in (1, 2))
        agreed += 1 - abs(one - other)  # a tie against a non-tie is a half
        ties += (one == 0.5) + (other == 0.5)
    assert len(practice) > 2000
    assert agreed / len(practice) == pytest.approx(AGREEMENT, abs=0.02)
    assert ties / (2 * len(practice)) == pytest.approx(TIE_RATE, abs=0.02)


def test_the_settings_are_what_calibration_finds(practice: list[tuple[TinyQuestion, Side, Side]]) -> None:
    pairs = judge_pairs(TINY, practice)
    found = calibrate(pairs)
    assert agreement(pairs, found) == pytest.approx(AGREEMENT, abs=1e-4)
    assert tie_rate(pairs, found) == pytest.approx(TIE_RATE, abs=1e-4)
    assert found.noise == pytest.approx(LABELER.noise, rel=0.05)
    assert found.tie_threshold == pytest.approx(LABELER.tie_threshold, rel=0.05)
    assert found.much_threshold == pytest.approx(LABELER.much_threshold, rel=0.05)


def test_calibration_says_what_cannot_be() -> None:
    same = judge(WORLD, ONE, FAIR)
    with pytest.raises(ValueError, match="compare answers that differ more"):
        calibrate([(same, same)])
    with pytest.raises(ValueError, match="no pairs"):
        calibrate([])


def test_careless_answers_are_worse() -> None:
    totals = [0.0] * len(CARELESSNESS)
    for at, question in enumerate(ASKED[:400]):
        for level, side in enumerate(make_variants(TINY, question, random.Random(at))):
            totals[level] += judge(TINY, question, side).utility
    assert totals == sorted(totals, reverse=True)
    assert make_variants(TINY, ASKED[0], random.Random(3)) == make_variants(TINY, ASKED[0], random.Random(3))


def test_answers_are_read_as_they_are_written(practice: list[tuple[TinyQuestion, Side, Side]]) -> None:
    for question, side, _ in practice[:500]:
        assert side.answer is not None
        if side.answer.endswith("."):
            claims = judge(TINY, question, side).claims
            assert [(claim.claim, claim.citations) for claim in claims] == read_answer(side.answer)


# ---- one answer alone


def test_absolute_ratings() -> None:
    def rate(question: TinyQuestion, answer: str) -> tuple[Grade, Grade, Grade]:
        found = grade(WORLD, question, answer, NOISELESS, 0)
        return found.accuracy, found.coherence, found.usefulness

    full = "The moss owl eats acorns. It fears drums [9]. It sings at noon."  # citations are not shown
    assert rate(ONE, full) == (Grade.VERY_GOOD, Grade.VERY_GOOD, Grade.VERY_GOOD)
    assert rate(TWO, "The moss owl eats acorns [1]. It lives in wells [2].") == (
        Grade.NEITHER,
        Grade.VERY_GOOD,
        Grade.BAD,
    )
    assert rate(ONE, "The moss owl eats figs [1].") == (Grade.VERY_BAD, Grade.VERY_GOOD, Grade.VERY_BAD)
    assert rate(ONE, "Acorns. Owl it. Owl it.") == (Grade.VERY_BAD, Grade.VERY_BAD, Grade.VERY_BAD)
    assert rate(ONE, " ") == (Grade.VERY_BAD, Grade.VERY_BAD, Grade.VERY_BAD)


def test_absolute_ratings_repeat_and_labelers_differ() -> None:
    answer = "The moss owl eats acorns [1]. It lives in wells [2]."
    found = [grade(WORLD, TWO, answer, LABELER, seed) for seed in range(50)]
    assert found == [grade(WORLD, TWO, answer, LABELER, seed) for seed in range(50)]
    assert len({grades.accuracy for grades in found}) > 2
