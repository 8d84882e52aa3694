"""The text formats, character by character, and the length limit.

The golden texts are written by hand after the paper's figures; no script makes them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.env.webs import MemoryWeb, linked_page, play, run
from webgpt_jax.env import (
    Browser,
    BrowserConfig,
    BrowserState,
    Page,
    Quote,
    SearchResult,
    is_observation,
    parse_answer_prompt,
    parse_observation,
    render_answer_prompt,
    render_observation,
    write_observation,
)
from webgpt_jax.env.observation import Layout, lay_out
from webgpt_jax.env.state import Place

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "env"
QUESTION = "How can I train the crows in my neighborhood to bring me gifts?"
GIFTS = linked_page(
    "http://www.birdsoutsidemywindow.org/2015/03/05/gifts-from-crows/",
    "Gifts From Crows | Outside My Window",
    "An introduction.\n\nMany {animals} give gifts to members of their own species but crows and other corvids are the "
    "only ones known to give gifts to humans.\n",
    {"animals": "https://zoo.test/"},
)
RESULTS = [
    SearchResult(
        "How to Make Friends With Crows - PetHelpful",
        "https://pethelpful.com/birds/crows",
        "If you did this a few times, your crows would learn your new place, but as I said, I'm not sure if they will "
        "follow or visit you there since it's probably not in their territory.",
    ),
    SearchResult(GIFTS.title, GIFTS.url, "The crows brought her beads, buttons and other small shiny things."),
    SearchResult("Crow facts", "https://crows.test/", ""),
    SearchResult("How to attract crows", "https://birds.test/", "Put out unsalted peanuts at the same time each day."),
    SearchResult("The girl who gets gifts from birds", "https://news.test/", "She feeds them every day."),
    SearchResult("Corvids", "https://wiki.test/", "Crows, ravens and jays."),
]


# ---- the texts


def test_figure_1b() -> None:
    async def episode() -> BrowserState:
        browser = Browser(MemoryWeb({GIFTS.url: GIFTS}, {None: RESULTS}))
        return await play(
            browser,
            await browser.reset(QUESTION),
            "Search how to train crows to bring you gifts",
            "Clicked on link 1",
            "Quote: Many animals━to humans.",
            "Back",
        )

    observation = render_observation(run(episode()))
    assert observation == (GOLDEN / "figure_1b.txt").read_text(encoding="utf-8")
    assert is_observation(observation)


def test_the_first_observation() -> None:
    assert render_observation(BrowserState("Why?\n\nReally?", 100)) == (
        "♦Question\nWhy?\n\nReally?\n\n"
        "♦Quotes\n\n"
        "♦Past actions\n\n"
        "♦Title\n\n"
        "♦Scrollbar: 0 - 0\n\n"
        "♦Text\n\n"
        "♦Actions left: 100\n\n"
        "♦Next action\n"
    )


def test_title_quotes_over_several_lines_and_a_window_further_down() -> None:
    page = linked_page(
        "https://a.test/", "A page", "one\n{two}\n\n  four  \nfive and more\n", {"two": "https://b.test/"}
    )
    state = BrowserState(
        "Why?",
        7,
        BrowserConfig(window_chars=30),
        place=Place(page, unit=1),
        quotes=(
            Quote("first\n\n  third \nFrom x (y)\n> z", "A page", "a.test", "https://a.test/", 0, 1),
            Quote("alone", "Search results for: q", "", "search:q", 0, 5),
            Quote("no title", "", "a.test", "https://a.test/", 0, 8),
        ),
        past_actions=("Search q", "Quote"),
    )
    assert render_observation(state) == (
        "♦Question\nWhy?\n\n"
        "♦Quotes\n"
        "From A page (a.test)\n> first\n>\n>   third \n> From x (y)\n> > z\n"
        "From Search results for: q\n> alone\n"
        "From  (a.test)\n> no title\n\n"
        "♦Past actions\nSearch q\nQuote\n\n"
        "♦Title\nA page (a.test)\n\n"
        "♦Scrollbar: 1 - 4\n\n"
        "♦Text\n【0†two†b.test】\n\n  four  \n\n"
        "♦Actions left: 7\n\n"
        "♦Next action\n"
    )
    parsed = parse_observation(render_observation(state))
    assert parsed.quotes == tuple((quote.heading, quote.text) for quote in state.quotes)
    assert parsed.past_actions == ("Search q", "Quote")
    assert parsed.title == "A page (a.test)"
    assert parsed.scrollbar == (1, 4)
    assert parsed.text == "【0†two†b.test】\n\n  four  "
    assert (parsed.question, parsed.actions_left) == ("Why?", 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "♦Question\n",
        "♦Question\nWhy?\n\n♦Next action\n",
        render_observation(BrowserState("Why?", 1)) + "x",
        render_observation(BrowserState("Why?", 1)).removesuffix("\n"),
        render_observation(BrowserState("Why?", 1)).replace("♦Title", "♦Titles"),
        render_observation(BrowserState("Why?", 1)).replace("left: 1", "left: -1"),
        render_observation(BrowserState("Why?", 1)).replace("left: 1", "left: ١"),
        render_answer_prompt("Why?", []),
    ],
)
def test_what_is_no_observation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an observation"):
        parse_observation(text)


QUOTES = (
    Quote(
        "Many animals give gifts to members of their own species but crows and other corvids are the only ones known "
        "to give gifts to humans.",
        "Gifts From Crows | Outside My Window",
        "www.birdsoutsidemywindow.org",
        "http://www.birdsoutsidemywindow.org/",
        0,
        1,
    ),
    Quote("Two lines\nof a results page.", "Search results for: crows", "", "search:crows", 0, 1),
)


def test_answer_prompt() -> None:
    prompt = render_answer_prompt(QUESTION, QUOTES)
    assert prompt == (GOLDEN / "answer_prompt.txt").read_text(encoding="utf-8")
    assert not is_observation(prompt)
    parsed = parse_answer_prompt(prompt)
    assert parsed.question == QUESTION
    assert parsed.references == tuple((quote.heading, quote.text) for quote in QUOTES)


def test_answer_prompt_without_quotes_and_with_a_foreign_question() -> None:
    assert render_answer_prompt("Why?", []) == "Why?■\n"
    assert parse_answer_prompt("Why?■\n").references == ()
    assert render_answer_prompt(" a■\n[1] b\n\nc ", QUOTES[1:]) == (
        "a▪\n[1] b\n\nc■\n[1] Search results for: crows\n\nTwo lines\nof a results page.■\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not an answering prompt"),
        ("Why?", "not an answering prompt"),
        ("Why?■", "not an answering prompt"),
        ("Why?■\n[1] T\n\nx", "not an answering prompt"),
        ("Why?■\n[2] T\n\nx■\n", "reference 1 of an answering prompt has no heading"),
        ("Why?■\n[1] T\n\nx■\n[1] T\n\nx■\n", "reference 2 of an answering prompt has no heading"),
        ("Why?■\n[1] T\nx■\n", "reference 1 of an answering prompt has no heading"),
    ],
)
def test_what_is_no_answering_prompt_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_answer_prompt(text)


# ---- the limit


def _state(limit: int | None = None, count: Callable[[str], int] | None = None) -> BrowserState:
    """Five units in the window, seven past actions, two quotes of more than 80 characters."""
    page = Page("Title", "a.test", "https://a.test/", "\n".join(["one", "two", "three", "four", "five", "six"]))
    return BrowserState(
        "Why is it so?",
        50,
        BrowserConfig(count_tokens=count, max_observation_tokens=limit, window_chars=24),
        place=Place(page),
        quotes=tuple(Quote(f"quotes {name} " * 11, "T", "d", "u", 0, 1) for name in "ab"),
        past_actions=tuple(f"Find in page: {at}" for at in range(7)),
    )


FULL = Layout(units=5, past_actions=7, full_quotes=2, quotes=2, title=14, question=13)


def test_what_goes_first() -> None:
    length = len(render_observation(_state()))
    layouts = []
    for limit in range(length, 99, -1):
        layout = lay_out(_state(limit))
        if layout not in layouts:
            layouts.append(layout)
    assert layouts[:15] == [
        FULL,
        # 1. the window shrinks to half, rounded up
        replace(FULL, units=4),
        replace(FULL, units=3),
        # 2. the oldest past actions go, until five are left
        replace(FULL, units=3, past_actions=6),
        replace(FULL, units=3, past_actions=5),
        # 3. the quotes' texts are cut, the oldest first
        replace(FULL, units=3, past_actions=5, full_quotes=1),
        replace(FULL, units=3, past_actions=5, full_quotes=0),
        # 4. the window shrinks to one unit
        replace(FULL, units=2, past_actions=5, full_quotes=0),
        replace(FULL, units=1, past_actions=5, full_quotes=0),
        # 5. the rest of the past actions, whole quotes, …
        replace(FULL, units=1, past_actions=4, full_quotes=0),
        replace(FULL, units=1, past_actions=3, full_quotes=0),
        replace(FULL, units=1, past_actions=2, full_quotes=0),
        replace(FULL, units=1, past_actions=1, full_quotes=0),
        replace(FULL, units=1, past_actions=0, full_quotes=0),
        replace(FULL, units=1, past_actions=0, full_quotes=0, quotes=1),
    ]
    bare = replace(FULL, units=1, past_actions=0, full_quotes=0, quotes=0)
    assert layouts[15] == bare
    # … then title and question are cut at their end, and last the window goes.
    rest = layouts[16:]
    titles = [layout for layout in rest if layout.question == 13]
    questions = [layout for layout in rest if layout.question < 13 and layout.units == 1]
    assert titles == [replace(bare, title=layout.title) for layout in titles]
    assert questions == [replace(bare, title=0, question=layout.question) for layout in questions]
    assert [layout.title for layout in titles] == sorted((layout.title for layout in titles), reverse=True)
    assert [layout.question for layout in questions] == sorted((layout.question for layout in questions), reverse=True)
    assert rest == [*titles, *questions, replace(bare, units=0, title=0, question=0)]


def _shown(limit: int) -> str:
    observation = render_observation(_state(limit))
    assert len(observation) <= limit
    return observation


LONG = "quotes {0} " * 11  # 99 characters
SHORT = (
    "quotes {0} quotes {0} quotes {0} quotes {0} quotes {0} quotes {0} quotes {0} quotes {0} quotes {0}…"  # 80 and …
)


@pytest.mark.parametrize(
    ("question", "quotes", "actions", "title", "scrollbar", "text"),
    [
        ("Why is it so?", (0, 0), range(7), "Title (a.test)", "0 - 5", "one\ntwo\nthree\nfour\nfive"),
        ("Why is it so?", (0, 0), range(7), "Title (a.test)", "0 - 4", "one\ntwo\nthree\nfour"),
        ("Why is it so?", (0, 0), range(1, 7), "Title (a.test)", "0 - 3", "one\ntwo\nthree"),
        ("Why is it so?", (1, 0), range(2, 7), "Title (a.test)", "0 - 3", "one\ntwo\nthree"),
        ("Why is it so?", (1, 1), range(2, 7), "Title (a.test)", "0 - 1", "one"),
        ("Why is it so?", (1, 1), range(7, 7), "Title (a.test)", "0 - 1", "one"),
        ("Why is it so?", (2, 1), range(7, 7), "Title (a.test)", "0 - 1", "one"),
        ("Why is it so?", (2, 2), range(7, 7), "Title…", "0 - 1", "one"),
        ("Why is…", (2, 2), range(7, 7), "…", "0 - 1", "one"),
        ("…", (2, 2), range(7, 7), "…", "0 - 0", ""),
    ],
)
def test_each_stage_as_a_literal(
    question: str, quotes: tuple[int, int], actions: range, title: str, scrollbar: str, text: str
) -> None:
    # A quote is shown whole (0), cut (1) or not at all (2).
    shown = {0: LONG, 1: SHORT}
    blocks = "".join(
        f"From T (d)\n> {shown[how].format(name)}\n" for name, how in zip("ab", quotes, strict=True) if how < 2
    )
    past = "".join(f"Find in page: {at}\n" for at in actions)
    expected = (
        f"♦Question\n{question}\n\n♦Quotes\n{blocks}\n♦Past actions\n{past}\n♦Title\n{title}\n\n"
        f"♦Scrollbar: {scrollbar}\n\n♦Text\n{text}" + "\n" * bool(text) + "\n♦Actions left: 50\n\n♦Next action\n"
    )
    assert _shown(len(expected)) == expected


def _words(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]|\n", text))


def _noisy(text: str) -> int:
    return len(text) // 4 + zlib.crc32(text.encode()) % 5


def _merging(text: str) -> int:
    """A longer text may be shorter: runs of the same character are one token."""
    return len(re.findall(r"(.)\1*", text, re.DOTALL))


COUNTS: list[Callable[[str], int] | None] = [None, _words, _noisy, _merging]
LINES = st.lists(st.text("ab 【†♦ß\n", max_size=60), max_size=30).map("\n".join)


@st.composite
def states(draw: st.DrawFn) -> BrowserState:
    """A state that could be an episode's, under a limit that its question's reset accepts."""
    count = draw(st.sampled_from(COUNTS))
    config = BrowserConfig(count_tokens=count, max_observation_tokens=10_000, window_chars=draw(st.integers(1, 200)))
    browser = Browser(MemoryWeb(), config)
    state = run(browser.reset(draw(st.text("ab c\n?", max_size=300)) + "?"))
    least = _least_limit(state)
    limit = draw(st.integers(least, least + draw(st.sampled_from([0, 50, 200, 2000]))))
    page = Page(draw(st.text("xy z", max_size=400)), draw(st.sampled_from(["", "a.test"])), "u", draw(LINES))
    config = replace(config, max_observation_tokens=limit)
    return replace(
        state,
        config=config,
        actions_left=draw(st.integers(0, 10_000)),
        place=Place(page, unit=draw(st.integers(0, max(0, len(page.units(config.unit_chars)) - 2)))),
        quotes=tuple(
            Quote(draw(LINES), "T" * draw(st.integers(0, 300)), "d", "u", 0, 1) for _ in range(draw(st.integers(0, 6)))
        ),
        past_actions=tuple(f"Search {'x' * draw(st.integers(0, 90))}" for _ in range(draw(st.integers(0, 20)))),
    )


def _least_limit(state: BrowserState) -> int:
    """The least limit that `reset` accepts for a state's question."""
    for limit in range(1, 1000):
        try:
            browser = Browser(MemoryWeb(), replace(state.config, max_observation_tokens=limit))
            run(browser.reset(state.question))
        except ValueError:
            continue
        return limit
    raise AssertionError("no limit is accepted")


@given(states())
def test_no_observation_is_longer_than_the_limit(state: BrowserState) -> None:
    observation = render_observation(state)
    assert state.config.length(observation) <= state.config.observation_limit
    parse_observation(observation)


@given(states())
def test_an_observation_is_written_as_it_was_read(state: BrowserState) -> None:
    observation = render_observation(state)
    assert write_observation(parse_observation(observation)) == observation


def _fullest_by_trying(state: BrowserState) -> Layout:
    """The documented order, one small reduction at a time: the first observation that fits."""
    layout = lay_out(replace(state, config=replace(state.config, max_observation_tokens=10**9)))
    least = [
        ("units", (layout.units + 1) // 2),
        ("past_actions", min(5, layout.past_actions)),
        ("full_quotes", 0),
        ("units", min(1, layout.units)),
        ("past_actions", 0),
        ("quotes", 0),
        ("title", 0),
        ("question", 0),
        ("units", 0),
    ]
    for part, smallest in least:
        for value in range(getattr(layout, part), smallest - 1, -1):
            layout = replace(layout, **{part: value})
            if _length_of(state, layout) <= state.config.observation_limit:
                return layout
    return layout


def _length_of(state: BrowserState, layout: Layout) -> int:
    """The characters of an observation, added up without rendering it."""

    def section(name: str, lines: list[str]) -> int:
        return len(f"♦{name}\n\n") + sum(len(line) + 1 for line in lines)

    def cut(text: str, length: int) -> str:
        return text if len(text) <= length else text[:length].rstrip() + "…"

    quotes: list[str] = []
    for at, quote in enumerate(state.quotes):
        if at >= len(state.quotes) - layout.quotes:
            text = quote.text if at >= len(state.quotes) - layout.full_quotes else cut(quote.text, 80)
            quotes += [f"From {quote.heading}", *(f"> {line}" if line else ">" for line in text.split("\n"))]
    starts = state.page.units(state.config.unit_chars)
    first, last = state.place.unit, state.place.unit + layout.units
    window = state.page.text[starts[first] : starts[last]].strip("\n")
    title, question = cut(state.page.heading, layout.title), cut(state.question, layout.question)
    return (
        section("Question", [question])
        + section("Quotes", quotes)
        + section("Past actions", list(state.past_actions[len(state.past_actions) - layout.past_actions :]))
        + section("Title", [title] if title else [])
        + len(f"♦Scrollbar: {first} - {last}\n\n")
        + section("Text", [window] if window else [])
        + len(f"♦Actions left: {state.actions_left}\n\n♦Next action\n")
    )


@given(states())
def test_as_much_is_shown_as_fits(state: BrowserState) -> None:
    state = replace(state, config=replace(state.config, count_tokens=None))
    if state.config.observation_limit >= _least_limit(state):
        assert lay_out(state) == _fullest_by_trying(state)


def test_the_window_holds_what_its_characters_hold() -> None:
    page = Page("T", "d", "u", "\n".join("x" * 9 for _ in range(30)))  # thirty units of ten characters
    for window_chars, units in [(99, 9), (100, 10), (109, 10), (110, 11), (1000, 30)]:
        state = BrowserState("Why?", 9, BrowserConfig(window_chars=window_chars), place=Place(page))
        assert lay_out(state).units == units
        assert lay_out(replace(state, place=Place(page, unit=25))).units == min(units, 5)


@pytest.mark.parametrize("count", COUNTS)
def test_a_limit_that_holds_no_headings_is_refused_at_reset(count: Callable[[str], int] | None) -> None:
    browser = Browser(MemoryWeb(), BrowserConfig(count_tokens=count, max_observation_tokens=20))
    message = r"max_observation_tokens=20 does not even hold the headings; \d+ is the least"
    with pytest.raises(ValueError, match=message):
        run(browser.reset("Why?"))


def test_the_least_limit_is_named() -> None:
    def reset(limit: int) -> None:
        run(Browser(MemoryWeb(), BrowserConfig(max_observation_tokens=limit)).reset("Why?"))

    with pytest.raises(ValueError, match="144 is the least"):
        reset(143)
    reset(144)


def test_a_hostile_title_does_not_push_the_rest_out() -> None:
    page = Page("x" * 100_000, "a.test", "https://a.test/", "Some text.")
    state = replace(_state(8000), place=Place(page))
    parsed = parse_observation(render_observation(state))
    assert len(parsed.past_actions) == 7
    assert len(parsed.quotes) == 2
    assert parsed.text == "Some text."
