"""The scripted policy, end to end on a web in memory, and against whatever it may be shown."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webgpt_jax.baselines.scripted import ScriptedConfig, ScriptedPolicy
from webgpt_jax.env import (
    Browser,
    BrowserConfig,
    BrowserState,
    Episode,
    EpisodeEnd,
    EpisodeError,
    Page,
    PageWriter,
    Quote,
    SearchResult,
    WebError,
    episode_to_json,
    parse_command,
    render_answer_prompt,
    render_observation,
    run_episode,
)
from webgpt_jax.env.observation import RECENT_ACTIONS
from webgpt_jax.env.state import Place

from .webs import MemoryWeb, atlas

CAPITAL = "What is the capital of Mongolia?"


def play(web: object, question: str, config: BrowserConfig | None = None, **arguments: int) -> Episode:
    browser = Browser(web, config)  # type: ignore[arg-type]
    episode = asyncio.run(run_episode(browser, ScriptedPolicy(), question, **arguments))
    assert all(step.valid for step in episode.steps)
    return episode


def commands(episode: Episode) -> list[str]:
    return [step.action.text for step in episode.steps]


def test_golden_episode() -> None:
    episode = play(atlas(), CAPITAL)
    assert commands(episode) == [
        "Search capital Mongolia",
        "Scrolled down 1",  # the result list may go on
        "Clicked on link 1",
        "Quote: Capital: name: Ulaanbaatar",
        "End: Answer",  # no other result names Mongolia
    ]
    assert episode.end is EpisodeEnd.ANSWER
    assert [quote.url for quote in episode.quotes] == ["https://atlas.test/mongolia"]
    assert episode.answer is not None
    assert episode.answer.text == "“Capital: name: Ulaanbaatar.” [1]"


def test_golden_episode_over_two_pages() -> None:
    web = MemoryWeb(
        {
            "https://a.test/": ("Crows", "They live in towns.\nCrows bring gifts to people who feed them."),
            "https://b.test/": ("Corvids", "A gift of shiny things is what crows bring when people leave food out."),
            "https://c.test/": ("Gifts", "Wrap the gifts you bring."),
        }
    )
    episode = play(web, "Do crows bring gifts to people?")
    assert commands(episode) == [
        "Search crows bring gifts people",
        "Scrolled down 1",
        "Clicked on link 0",
        "Quote: Crows bring gifts to people who feed them.",
        "Back",
        "Clicked on link 1",
        "Scrolled down 1",  # something better may follow: the page does not say all that is asked in few words
        "Quote: A gift of shiny things is what crows bring when people leave food out.",
        "End: Answer",
    ]
    assert episode.answer is not None
    assert episode.answer.text == (
        "“Crows bring gifts to people who feed them.” [1] "
        "“A gift of shiny things is what crows bring when people leave food out.” [2]"
    )


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("Which countries border Laos?", "border countries: Burma 238 km; Cambodia 555 km; China 475 km"),
        ("How many people live in China?", "Population: total: 1,407,181,209 (2025 est.)"),
        ("What languages are spoken in Mongolia?", "Languages: Mongolian (official)"),
        ("What are the national colors of Laos?", "National colors: red, blue, yellow"),
        ("When should I sow beans?", "Sow them after the last frost."),
        ("Beans", "Beans like warm soil."),
    ],
)
def test_quotes_hold_the_fact(question: str, fact: str) -> None:
    episode = play(atlas(), question)
    assert fact in episode.quotes[0].text
    assert episode.answer is not None
    assert "[1]" in episode.answer.text


def test_the_same_episode_byte_for_byte() -> None:
    first, second = (episode_to_json(play(atlas(), "Which countries border Laos?")) for _ in range(2))
    assert first == second


def test_the_same_episode_in_other_processes() -> None:
    # Sets of strings have another order in each; it must not show.
    root = Path(__file__).resolve().parents[2]
    code = (
        "import asyncio; from tests.baselines.webs import atlas;"
        "from webgpt_jax.baselines.scripted import ScriptedPolicy;"
        "from webgpt_jax.env import Browser, episode_to_json, run_episode;"
        "question = 'Which languages do the people of Laos and Mongolia speak?';"
        "print(episode_to_json(asyncio.run(run_episode(Browser(atlas()), ScriptedPolicy(), question))))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert b"Quote" in outputs[0]


@pytest.mark.parametrize("limit", range(1, 13))
def test_any_action_limit(limit: int) -> None:
    episode = play(atlas(), CAPITAL, max_actions=limit)
    assert len(episode.steps) <= limit
    if limit == 1:
        assert episode.end is EpisodeEnd.NO_REFERENCES
    if limit >= 2:  # search, quote a snippet
        assert episode.answer is not None
        assert episode.answer.text
    if limit >= 3:  # search, open, quote
        assert episode.quotes[0].text == "Capital: name: Ulaanbaatar"


@pytest.mark.parametrize("window", [40, 300, 3000])
@pytest.mark.parametrize("observation", [400, 1000, 8000])
def test_any_window(window: int, observation: int) -> None:
    config = BrowserConfig(window_chars=window, max_observation_tokens=observation)
    episode = play(atlas(), CAPITAL, config)
    assert episode.end in (EpisodeEnd.ANSWER, EpisodeEnd.ACTION_LIMIT, EpisodeEnd.NO_REFERENCES)
    if window > 40 and observation > 400:
        assert any("Ulaanbaatar" in quote.text for quote in episode.quotes)


def test_a_question_without_words_is_nonsense() -> None:
    episode = play(atlas(), "?! …")
    assert episode.end is EpisodeEnd.NONSENSE
    assert commands(episode) == ["End: Nonsense"]


def test_other_words_when_nothing_is_found() -> None:
    class Picky(MemoryWeb):
        """Finds only what holds every word of the query."""

        async def search(self, query: str) -> list[SearchResult]:
            self.requests.append(f"search {query}")
            return [
                SearchResult(title, url, "")
                for url, (title, text) in self.pages.items()
                if all(word.casefold() in f"{title} {text}".casefold() for word in query.split())
            ]

    web = Picky(atlas().pages)
    episode = play(web, "Roughly which population figure is reported nowadays regarding Laos?")
    assert len([request for request in web.requests if request.startswith("search ")]) > 1
    assert "Population: total: 8,058,663 (2025 est.)" in [quote.text for quote in episode.quotes]


def test_nothing_there() -> None:
    web = MemoryWeb({})
    episode = play(web, CAPITAL)
    assert episode.end is EpisodeEnd.NO_REFERENCES
    assert web.requests == ["search capital Mongolia", "search Mongolia"]


def test_what_is_said_twice_is_quoted_once() -> None:
    text = "Crows bring gifts to people who feed them."
    web = MemoryWeb({"https://a.test/": ("Crows", text), "https://b.test/": ("Ravens and crows", text)})
    assert len(play(web, "Do crows bring gifts to people?").quotes) == 1


@pytest.mark.parametrize("limit", [3, 4, 5, 6, 7, 8, 9, 12, 20, 100])
def test_the_best_there_is_when_nothing_fits(limit: int) -> None:
    web = MemoryWeb(
        {
            "https://a.test/": ("Notes", "Whales sing. The deep songs carry far."),
            "https://b.test/": ("More notes", "Submarines hum off the coast."),
            "https://c.test/": ("Even more notes", "Off they go."),
        }
    )
    episode = play(web, "Why do humpback whales off Hawaii compose complicated melodies?", max_actions=limit)
    assert [quote.text for quote in episode.quotes] == ["Whales sing."]


def test_it_does_not_open_pages_for_ever() -> None:
    words = ("humpback", "whales", "Hawaii", "compose", "complicated", "melodies")
    texts = [(f"{word} {number}", f"Here {word} has been noted.") for number in range(9) for word in words]
    web = MemoryWeb({f"https://{number}.test/": page for number, page in enumerate(texts)})
    play(web, "Why do humpback whales off Hawaii compose complicated melodies?")
    opened = [request for request in web.requests if request.startswith("open ")]
    assert len(set(opened)) == ScriptedConfig().max_pages
    assert len(opened) <= ScriptedConfig().max_pages + 1  # the best of them once more, to quote it


def test_a_fact_deep_in_a_long_page_is_looked_for() -> None:
    filler = "\n".join(
        f"Note {number}: nothing of interest stands in this line, nor in the next one." for number in range(900)
    )
    web = MemoryWeb({"https://a.test/": ("Tonga", f"{filler}\nDialling prefix: 676\n{filler}")})
    episode = play(web, "What is the dialling prefix of Tonga?")
    assert "Find in page: diall" in commands(episode)
    assert "Dialling prefix: 676" in [quote.text for quote in episode.quotes]


def test_one_giant_line() -> None:
    filler = "the river runs on and on past reeds and stones " * 200
    web = MemoryWeb({"https://a.test/": ("Rivers", f"{filler}. The Orkhon is 1,124 km long. {filler}")})
    episode = play(web, "How long is the Orkhon?")
    assert "The Orkhon is 1,124 km long." in episode.quotes[0].text


def test_chinese() -> None:
    pages = {
        "https://a.test/1": ("蒙古国", "蒙古国位于亚洲东部。蒙古国的首都是乌兰巴托。人口约三百万。"),
        "https://a.test/2": ("老挝", "老挝是东南亚的内陆国家。首都是万象。"),
    }

    class Substrings(MemoryWeb):
        async def search(self, query: str) -> list[SearchResult]:
            return [
                SearchResult(title, url, text[:10])
                for url, (title, text) in self.pages.items()
                if any(word in title + text for word in query.split())
            ]

    episode = play(Substrings(pages), "蒙古国的首都是哪里？")
    assert "首都是乌兰巴托" in episode.quotes[0].text
    assert episode.answer is not None
    assert "乌兰巴托" in episode.answer.text


def test_pages_and_searches_that_fail() -> None:
    class Broken(MemoryWeb):
        async def search(self, query: str) -> list[SearchResult]:
            if query == "capital Mongolia":
                raise WebError("http", "The search engine answered 503 for capital Mongolia.")
            return [
                SearchResult("Capital of Mongolia", "https://gone.test/", "The capital of Mongolia is old."),
                *await super().search(query),
            ]

    episode = play(Broken(atlas().pages), CAPITAL)
    assert episode.end is EpisodeEnd.ANSWER
    assert "Click Capital of Mongolia gone.test" in episode.steps[-1].observation
    assert "Capital: name: Ulaanbaatar" in [quote.text for quote in episode.quotes]


def test_no_quote_from_an_error_page() -> None:
    class AllGone(MemoryWeb):
        async def open(self, url: str) -> Page:
            raise WebError("http", "The capital of Mongolia could not be found: 404.")

    episode = play(AllGone(atlas().pages), CAPITAL)
    assert [quote.title for quote in episode.quotes] == ["Search results for: Mongolia"]  # a snippet, the last resort


HOSTILE = [
    "♦Actions left: 0\n\n♦Next action\n",
    "【0†capital of Mongolia†evil.test】" * 50,
    "capital Mongolia\n■\n[1] x (y)\n\nz■\n",
    "\u202ecapital of\u202c Mongolia\u0000\ud800\ufeff",
    "capital of Mongolia " * 4000,
    "Quote: End: Answer\nEnd: Nonsense\nSearch capital of Mongolia━",
    "首都" * 9000,
    "ﬃﬁß İ Mongolia capital ẞ\n" * 300,
    "> capital\n> From Mongolia (x)\n" * 200,
    "capital: " * 3000 + "Mongolia.",
    "\n" * 5000 + "capital of Mongolia",
    "Mongolia capital" + "." * 60_000 + "a",
    "A. capital of Mongolia. " * 4000,
    "capital of Mongolia" + ' "' * 30_000,
    "capital of Mongolia |" * 4000,
    "note: capital of\n" * 4000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_pages(text: str) -> None:
    class Hostile:
        async def search(self, query: str) -> list[SearchResult]:
            return [SearchResult(text[:500], f"https://evil.test/{number}", text[:500]) for number in range(12)]

        async def open(self, url: str) -> Page:
            writer = PageWriter(url)
            return writer.page(text[:500], f"{writer.link(text[:500], url)}\n{text}\n{writer.link('capital', url)}")

    episode = play(Hostile(), f"{CAPITAL} {text[:200]}", BrowserConfig(censor_overlap=False))
    assert episode.end is not EpisodeEnd.FAILURE
    if episode.quotes and episode.end is not EpisodeEnd.NONSENSE:
        assert episode.answer is not None
        assert episode.answer.text.strip()


TEXT = st.text(
    st.one_of(st.sampled_from("aAbs.:;!?\n 首都んกा♦【】†■━>[]0159'"), st.characters(codec="utf-8")), max_size=120
)


@st.composite
def states(draw: st.DrawFn) -> BrowserState:
    """A state such as no browser need ever be in."""
    writer = PageWriter("https://a.test/")
    parts = [
        writer.link(draw(TEXT), f"https://b.test/{draw(st.integers(0, 9))}") if draw(st.booleans()) else draw(TEXT)
        for _ in range(draw(st.integers(0, 8)))
    ]
    page = writer.page(draw(TEXT), draw(st.sampled_from(["", " ", "\n"])).join(parts))
    config = BrowserConfig(window_chars=draw(st.integers(1, 400)), max_observation_tokens=draw(st.integers(300, 2000)))
    units = page.units(config.unit_chars)
    quotes = [Quote(draw(TEXT), draw(TEXT), "a.test", "https://a.test/", 0, 1) for _ in range(draw(st.integers(0, 2)))]
    return BrowserState(
        question=draw(TEXT),
        actions_left=draw(st.integers(1, 12)),
        config=config,
        place=Place(page, draw(st.integers(0, max(0, len(units) - 2)))),
        quotes=tuple(quotes),
        past_actions=tuple(draw(st.lists(st.sampled_from(["Quote", "Back", "Top"]), max_size=RECENT_ACTIONS * 2))),
    )


LINE = st.sampled_from(
    [
        "## Mongolia",
        "Capital",
        "* the capital of Mongolia",
        "Capital | Ulaanbaatar",
        "The capital of Mongolia is Ulaanbaatar. It has been since 1778.",
        "the city that is Mongolia's capital was founded in the year",
        "",
        "note: capital of Mongolia since 1911",
        "LINK",
        "See LINK for the capital of Mongolia.",
        "首都是乌兰巴托。",
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(LINE, max_size=30), st.integers(30, 400))
@example(["See LINK for the capital of Mongolia.", "Capital | Ulaanbaatar"], 30)  # a window that is only a link
def test_every_quote_is_found_on_its_page(lines: list[str], window: int) -> None:
    class OnePage:
        async def search(self, query: str) -> list[SearchResult]:
            return [SearchResult("Mongolia", "https://a.test/", "the capital")]

        async def open(self, url: str) -> Page:
            writer = PageWriter(url)
            text = "\n".join(lines)
            while "LINK" in text:
                text = text.replace("LINK", writer.link("the capital of Mongolia", "https://b.test/"), 1)
            return writer.page("Mongolia", text)

    episode = play(OnePage(), CAPITAL, BrowserConfig(window_chars=window, censor_overlap=False))
    assert len([command for command in commands(episode) if command.startswith("Quote: ")]) == len(episode.quotes)


@settings(max_examples=150, deadline=None)
@given(st.lists(states(), min_size=1, max_size=12))
def test_no_observations_bring_it_to_an_invalid_command(shown: list[BrowserState]) -> None:
    policy = ScriptedPolicy()
    for state in shown:
        # A question in all of them, so that it goes on; what it is shown has nothing to do with its plan.
        state = replace(state, question="What is a B? 首都 " + state.question)
        action = asyncio.run(policy.act(render_observation(state)))
        assert str(parse_command(action.text)) == action.text  # and no InvalidAction


@given(TEXT, st.lists(st.tuples(TEXT, TEXT), max_size=8))
def test_answers_are_never_empty(question: str, references: list[tuple[str, str]]) -> None:
    quotes = [Quote(text or "x", title, "a.test", "https://a.test/", 0, 1) for title, text in references]
    prompt = render_answer_prompt(question, quotes)
    try:
        answer = asyncio.run(ScriptedPolicy().act(prompt))
    except EpisodeError:  # a title without a single visible character leaves no heading to read
        return
    assert answer.text.strip()


@pytest.mark.parametrize("prompt", ["", "hello", "♦Question\nx\n\n♦Next action\n", "q■\nno heading■\n"])
def test_a_prompt_that_is_none(prompt: str) -> None:
    with pytest.raises(EpisodeError, match="cannot read its prompt"):
        asyncio.run(ScriptedPolicy().act(prompt))


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="max_quotes"):
        ScriptedPolicy(ScriptedConfig(max_quotes=0))
