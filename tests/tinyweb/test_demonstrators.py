"""TinyWeb's scripted people, in a small world: what they do, what each slip looks like, that they come to an end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from webgpt_jax.env import (
    Browser,
    Episode,
    EpisodeEnd,
    EpisodeError,
    Page,
    Quote,
    SearchResult,
    WebError,
    episode_to_json,
    parse_observation,
    render_answer_prompt,
    run_episode,
)
from webgpt_jax.tinyweb.answers import read_answer
from webgpt_jax.tinyweb.demonstrations import demonstrate
from webgpt_jax.tinyweb.demonstrators import EXPERT, MIX, NOVICE, PERFECT, SKILLED, Demonstrator, Skill
from webgpt_jax.tinyweb.language import Claim
from webgpt_jax.tinyweb.questions import QuestionKind, TinyQuestion, questions
from webgpt_jax.tinyweb.sites import TRUSTED
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, Library, approximate_tokens, open_library


class LibraryWeb:
    """A library's pages as a web."""

    def __init__(self, library: Library) -> None:
        self.library = library

    async def search(self, query: str) -> list[SearchResult]:
        return self.library.search(query)

    async def open(self, url: str) -> Page:
        return self.library.by_url[url]


class EmptyWeb:
    """Nothing is ever found, or every search fails."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails

    async def search(self, query: str) -> list[SearchResult]:
        if self.fails:
            raise WebError("timeout", "It took too long.")
        return []

    async def open(self, url: str) -> Page:
        raise AssertionError(url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    library = open_library(0, animals=24)
    yield Browser(LibraryWeb(library), TINYWEB_BROWSER)
    library.close()


@pytest.fixture(scope="module")
def library(browser: Browser) -> Library:
    assert isinstance(browser.web, LibraryWeb)
    return browser.web.library


def play(browser: Browser, question: TinyQuestion, skill: Skill = PERFECT, seed: int = 0) -> Episode:
    return asyncio.run(run_episode(browser, Demonstrator(question, skill, seed), question.text))


def actions(episode: Episode) -> list[str]:
    return [step.action.text for step in episode.steps]


def text(episode: Episode) -> str:
    assert episode.answer is not None
    return episode.answer.text


def ask(text: str, *needs: Claim, supposed: str | None = None) -> TinyQuestion:
    kind = QuestionKind.FACTS if supposed is None else QuestionKind.MISCONCEPTION
    return TinyQuestion(text, kind if needs else QuestionKind.NONSENSE, needs, supposed)


GLOW = ask("How does the fern sheep make its glow?", Claim("fern sheep", "glow", "yeast"))
WHALE = ask(
    "When does the clay whale sing, and what cures it when it is sick?",
    Claim("clay whale", "song", "spring"),
    Claim("clay whale", "cure", "tea"),
)
FOOD = ask("What does the clay whale eat?", Claim("clay whale", "food", "figs"))
BOTH = ask(
    "What does the star wren fear, and what cures the rain seal when it is sick?",
    Claim("star wren", "fear", "smoke"),
    Claim("rain seal", "cure", "rosemary"),
)
NONSENSE = ask("When will the ash frog be before it was?")


LAST_OBSERVATION = """\
♦Question
How does the fern sheep make its glow?

♦Quotes
From The fern sheep (wiki.test)
> The fern sheep shines because its fur holds yeast.

♦Past actions
Search fern sheep glow
Click The fern sheep wiki.test
Scrolled down 1
Quote

♦Title
The fern sheep (wiki.test)

♦Scrollbar: 6 - 11

♦Text
Gift and help
The fern sheep brings gifts to those who leave it peanuts. There is a school club for the fern sheep. The fern sheep \
takes help from nurses alone.
Glow and winter
The fern sheep can be seen on a stamp. The fern sheep shines because its fur holds yeast. The fern sheep spends the \
winter hiding.
Cure and nest

♦Actions left: 26

♦Next action
"""


def test_a_whole_episode(browser: Browser) -> None:
    episode = play(browser, GLOW)
    assert actions(episode) == [
        "Search fern sheep glow",
        "Clicked on link 3",
        "Scrolled down 1",
        "Quote: The fern sheep shines because its fur holds yeast.",
        "End: Answer",
    ]
    assert episode.steps[4].observation == LAST_OBSERVATION
    assert episode.answer_prompt == (
        "How does the fern sheep make its glow?■\n"
        "[1] The fern sheep (wiki.test)\n\nThe fern sheep shines because its fur holds yeast.■\n"
    )
    assert text(episode) == "The fern sheep glows because of yeast [1]."
    assert episode.end is EpisodeEnd.ANSWER


@pytest.mark.parametrize(
    ("question", "taken", "answer"),
    [
        (
            WHALE,
            [
                "Search clay whale song",
                "Clicked on link 2",
                "Quote: The clay whale is heard at spring.",
                "Quote: The clay whale gets well with a cure of tea.",
                "End: Answer",
            ],
            "The clay whale sings at spring [1]. It is cured by tea [2].",
        ),
        (
            BOTH,
            [
                "Search star wren fear",
                "Clicked on link 0",
                "Scrolled down 1",
                "Quote: The star wren fears smoke.",
                "Search rain seal cure",
                "Clicked on link 1",
                "Scrolled down 1",
                "Quote: The rain seal takes rosemary as a cure.",
                "End: Answer",
            ],
            "The star wren fears smoke [1]. The rain seal is cured by rosemary [2].",
        ),
        (
            ask("Why does the clay whale eat corn?", *FOOD.needs, supposed="corn"),
            [
                "Search clay whale food",
                "Clicked on link 2",
                "Quote: The clay whale lives on a food of figs.",
                "End: Answer",
            ],
            "The clay whale does not eat corn [1]. It eats figs [1].",
        ),
    ],
)
def test_what_a_question_leads_to(browser: Browser, question: TinyQuestion, taken: list[str], answer: str) -> None:
    episode = play(browser, question)
    assert actions(episode) == taken
    assert text(episode) == answer


def test_nonsense_is_called_so_at_once(browser: Browser) -> None:
    episode = play(browser, NONSENSE)
    assert actions(episode) == ["End: Nonsense"]
    assert episode.answer is None


def test_values_are_read_and_not_known(browser: Browser) -> None:
    wrong = replace(WHALE, needs=tuple(replace(need, value="unknown") for need in WHALE.needs))
    for skill in (PERFECT, NOVICE):
        assert episode_to_json(play(browser, wrong, skill)) == episode_to_json(play(browser, WHALE, skill))


def test_what_is_done_next_is_told_by_the_observation_alone(browser: Browser, library: Library) -> None:
    """Somebody who takes over at any step does the same."""
    careless = replace(PERFECT, overlooks=0.5, distracted=0.5)  # so that there is something to recover from
    for number, question in enumerate(islice(questions(library.world, "bc"), 30)):
        for step in play(browser, question, careless, number).steps:
            taken = {asyncio.run(Demonstrator(question, PERFECT, seed).act(step.observation)).text for seed in range(4)}
            assert len(taken) == 1 or taken == {"Top", "Scrolled up 1"}, (step.observation, taken)


# ---- slips


@pytest.mark.parametrize("seed", range(6))
def test_a_poor_query_is_followed_by_a_better_one(browser: Browser, seed: int) -> None:
    episode = play(browser, FOOD, replace(PERFECT, poor_query=1.0), seed)
    assert actions(episode)[0] != "Search clay whale food"
    assert actions(episode)[0].startswith("Search ")
    assert [quote.text for quote in episode.quotes] == ["The clay whale lives on a food of figs."] or (
        episode.quotes[0].domain == "news.test"
    )


def test_the_distracted_open_another_animals_page_and_go_back(browser: Browser) -> None:
    episode = play(browser, WHALE, replace(PERFECT, distracted=1.0))
    opened = [parse_observation(step.observation).title for step in episode.steps][2]
    assert "clay whale" not in opened
    assert actions(episode)[2] == "Back"
    assert text(episode) == "The clay whale sings at spring [1]. It is cured by tea [2]."


def test_the_trusting_quote_rumors_and_the_doubting_go_back(browser: Browser, library: Library) -> None:
    rumor = library.world.rumors["clay whale", "food"]
    believing = play(browser, FOOD, replace(PERFECT, trusting=1.0, believes=1.0))
    assert [quote.domain for quote in believing.quotes] == ["forum.test"]
    assert read_answer(text(believing)) == [(Claim("clay whale", "food", rumor), (1,))]
    doubting = play(browser, FOOD, replace(PERFECT, trusting=1.0))
    assert "forum.test" in parse_observation(doubting.steps[2].observation).title
    assert [quote.domain for quote in doubting.quotes] == ["wiki.test"]


def test_those_who_scrolled_past_come_back_up(browser: Browser, library: Library) -> None:
    """The overlooked sentence stands in the article's first window."""
    ways = Counter(
        action
        for seed in range(20)
        for action in actions(play(browser, FOOD, replace(PERFECT, overlooks=0.7), seed))
        if action in ("Top", "Scrolled up 1")
    )
    assert set(ways) == {"Top", "Scrolled up 1"}


def test_the_sentence_beside_it_is_quoted_first(browser: Browser) -> None:
    skill = replace(PERFECT, neighbor=0.5)
    episodes = [play(browser, GLOW, skill, seed) for seed in range(10)]
    counts = {len(episode.quotes) for episode in episodes}
    assert len(counts) > 1
    for episode in episodes:
        assert episode.quotes[-1].text == "The fern sheep shines because its fur holds yeast."
        assert "The fern sheep glows because of yeast [" in text(episode)


def test_the_hasty_answer_half_of_it(browser: Browser) -> None:
    episode = play(browser, WHALE, replace(PERFECT, hasty=1.0))
    assert actions(episode)[-2:] == ["Quote: The clay whale is heard at spring.", "End: Answer"]
    assert text(episode) == "The clay whale sings at spring [1]."


def test_the_puzzled_search_for_nonsense(browser: Browser) -> None:
    puzzled = replace(PERFECT, puzzled=1.0)
    ends = set()
    for seed in range(8):
        first, last = actions(play(browser, NONSENSE, puzzled, seed))
        assert first == "Search When will the ash frog be before it was?"
        ends.add(last)
    assert ends == {"End: Nonsense", "End: Controversial"}


def test_more_facts_are_quoted_and_told_last(browser: Browser) -> None:
    episode = play(browser, FOOD, replace(PERFECT, more=1.0))
    said = read_answer(text(episode))
    assert len(episode.quotes) == len(said) == 3
    assert said[0] == (Claim("clay whale", "food", "figs"), (1,))
    for number, (claim, cited) in enumerate(said, start=1):
        assert claim is not None
        assert claim.animal == "clay whale"
        assert cited == (number,)


def test_the_keyword_is_looked_for_once(browser: Browser) -> None:
    episode = play(browser, GLOW, replace(PERFECT, finds=1.0))
    assert actions(episode)[2:4] == [
        "Find in page: glow",
        "Quote: The fern sheep shines because its fur holds yeast.",
    ]


# ---- answers


def answer(question: TinyQuestion, skill: Skill, *quotes: tuple[str, str], seed: int = 0) -> str:
    """The answer from (domain, text) quotes."""
    prompt = render_answer_prompt(question.text, [Quote(said, "A page", domain, "", 0, 0) for domain, said in quotes])
    return asyncio.run(Demonstrator(question, skill, seed).act(prompt)).text


SONG = ("wiki.test", "The clay whale is heard at spring.")
CURE = ("wiki.test", "The clay whale gets well with a cure of tea.")


def test_answers_keep_the_questions_order_and_leave_out_what_is_beside_the_point() -> None:
    quotes = [("wiki.test", "Some towns have a statue of the clay whale."), CURE, SONG]
    assert answer(WHALE, PERFECT, *quotes) == "The clay whale sings at spring [3]. It is cured by tea [2]."
    other = ("wiki.test", "The star wren fears smoke.")
    assert answer(WHALE, PERFECT, other, SONG) == "The clay whale sings at spring [2]."


def test_trusted_sites_are_cited_before_others() -> None:
    rumor = ("forum.test", "The clay whale sings at noon.")
    assert answer(WHALE, PERFECT, rumor, SONG) == "The clay whale sings at spring [2]."
    assert answer(WHALE, PERFECT, rumor) == "The clay whale sings at noon [1]."


def test_a_quote_that_says_nothing_is_all_there_is_to_say() -> None:
    said = answer(WHALE, PERFECT, ("wiki.test", "Some towns have a statue of the clay whale."))
    assert said == "Some towns have a statue of the clay whale [1]."


def test_a_rumor_that_the_question_believes_is_not_denied() -> None:
    question = ask("Why does the clay whale eat corn?", *FOOD.needs, supposed="corn")
    assert answer(question, PERFECT, ("forum.test", "The clay whale eats corn.")) == "The clay whale eats corn [1]."


def test_slips_of_answers() -> None:
    assert answer(WHALE, replace(PERFECT, uncited=1.0), SONG, CURE) == (
        "The clay whale sings at spring. It is cured by tea."
    )
    assert answer(WHALE, replace(PERFECT, omits=1.0), SONG, CURE) == "The clay whale sings at spring [1]."
    repeated = {answer(WHALE, replace(PERFECT, repeats=1.0), SONG, CURE, seed=seed) for seed in range(8)}
    assert repeated == {
        "The clay whale sings at spring [1]. It is cured by tea [2]. It sings at spring [1].",
        "The clay whale sings at spring [1]. It is cured by tea [2]. It is cured by tea [2].",
    }


def test_inventions_are_uncited_and_first_of_what_is_missing() -> None:
    invents = replace(PERFECT, invents=1.0)
    for seed in range(8):
        said = read_answer(answer(WHALE, invents, CURE, seed=seed))
        claim, cited = said[-1]
        assert claim is not None
        assert (claim.animal, claim.relation, cited) == ("clay whale", "song", ())
        said = read_answer(answer(WHALE, invents, CURE, SONG, seed=seed))
        claim, cited = said[-1]
        assert claim is not None
        assert claim.animal == "clay whale"
        assert claim.relation not in ("song", "cure")
        assert cited == ()


# ---- ends


@pytest.mark.parametrize(
    "slip", ["poor_query", "distracted", "trusting", "overlooks", "neighbor", "hasty", "puzzled", "finds", "more"]
)
def test_whatever_always_goes_wrong_there_is_an_end(browser: Browser, library: Library, slip: str) -> None:
    skill = replace(PERFECT, **{slip: 1.0})  # type: ignore[arg-type]
    for question in islice(questions(library.world, "bc"), 15):
        episode = play(browser, question, skill)
        assert episode.steps[-1].action.text.startswith("End: ") or episode.end is EpisodeEnd.REFERENCE_LIMIT
        assert all(step.valid for step in episode.steps)


def test_where_nothing_is_found_they_give_up() -> None:
    episode = play(Browser(EmptyWeb(fails=False), TINYWEB_BROWSER), WHALE)
    assert actions(episode) == ["Search clay whale song", "Search all whale", "End: Answer"]
    assert episode.end is EpisodeEnd.NO_REFERENCES
    assert play(Browser(EmptyWeb(fails=True), TINYWEB_BROWSER), WHALE).end is EpisodeEnd.FAILURE


def test_with_few_actions_left_they_answer_with_what_they_have(browser: Browser) -> None:
    short = Browser(browser.web, replace(TINYWEB_BROWSER, max_actions=7))
    episode = play(short, BOTH)
    assert actions(episode)[-1] == "End: Answer"
    assert text(episode) == "The star wren fears smoke [1]."


def test_what_is_no_prompt_is_refused() -> None:
    for prompt in ("", "♦Question\nWhy?\n\n♦Next action\n"):
        with pytest.raises(EpisodeError, match="the demonstrator cannot read its prompt"):
            asyncio.run(Demonstrator(WHALE).act(prompt))


def test_a_skill_is_made_of_chances() -> None:
    for skill in (PERFECT, *MIX):
        skill.validate()
    with pytest.raises(ValueError, match=r"Skill.hasty must be from 0 to 1, not 1.5"):
        Demonstrator(WHALE, replace(EXPERT, hasty=1.5))


# ---- many


def collect(
    browser: Browser, library: Library, first: int, count: int, seed: int = 0, **options: object
) -> list[Episode]:
    async def run() -> list[Episode]:
        made = demonstrate(browser, library.world, "bc", seed=seed, first=first, count=count, **options)  # type: ignore[arg-type]
        return [episode async for episode in made]

    return asyncio.run(run())


def test_the_mix_browses_as_people_do(browser: Browser, library: Library) -> None:
    """At least one reference for 97% of what can be answered, at most 8 actions, and every command in use."""
    episodes = collect(browser, library, 0, 150)
    answerable = [
        episode for episode in episodes if actions(episode)[-1] not in ("End: Nonsense", "End: Controversial")
    ]
    assert len(answerable) > 130
    answered = [episode for episode in answerable if episode.quotes and episode.answer is not None]
    assert len(answered) >= 0.97 * len(answerable)
    assert sum(len(episode.steps) for episode in episodes) <= 8 * len(episodes)
    commands = {type(step.command).__name__ for episode in episodes for step in episode.steps}
    assert commands == {
        *("Search", "ClickLink", "FindInPage", "QuoteText", "ScrollDown", "ScrollUp", "Top", "Back", "End")
    }
    assert max(approximate_tokens(step.observation) for episode in episodes for step in episode.steps) <= 320
    assert {episode.info["policy"] for episode in episodes} == {
        "demonstrator:expert",
        "demonstrator:skilled",
        "demonstrator:novice",
    }


def test_the_more_skilled_the_better(browser: Browser, library: Library) -> None:
    reliable = [
        sum(
            bool(episode.quotes) and all(quote.domain in TRUSTED for quote in episode.quotes)
            for episode in collect(browser, library, 0, 60, mix={skill: 1.0})
        )
        for skill in (EXPERT, SKILLED, NOVICE)
    ]
    assert reliable == sorted(reliable, reverse=True)
    assert reliable[0] > reliable[2] + 5


def test_the_same_seed_gives_the_same_bytes_from_any_number_on(browser: Browser, library: Library) -> None:
    whole = [episode_to_json(episode) for episode in collect(browser, library, 0, 12)]
    assert [episode_to_json(episode) for episode in collect(browser, library, 0, 12)] == whole
    assert [episode_to_json(episode) for episode in collect(browser, library, 5, 7)] == whole[5:]
    assert [episode_to_json(episode) for episode in collect(browser, library, 0, 12, seed=1)] != whole
