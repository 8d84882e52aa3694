"""Table 1 to the letter: what is a command, what is nearly one, and the way from text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.env import InvalidAction, parse_command
from webgpt_jax.env.commands import (
    COMMAND_HELP,
    Back,
    ClickLink,
    Command,
    End,
    EndKind,
    FindInPage,
    QuoteText,
    ScrollDown,
    ScrollUp,
    Search,
    Top,
)

TABLE_1: list[tuple[str, Command]] = [
    ("Search how to train crows", Search("how to train crows")),
    ("Clicked on link 0", ClickLink(0)),
    ("Clicked on link 7", ClickLink(7)),
    ("Clicked on link 120", ClickLink(120)),
    ("Find in page: crow", FindInPage("crow")),
    ("Quote: Many animals give gifts", QuoteText("Many animals give gifts")),
    ("Quote: Many animals━to humans.", QuoteText("Many animals━to humans.")),
    ("Scrolled down 1", ScrollDown(1)),
    ("Scrolled down 2", ScrollDown(2)),
    ("Scrolled down 3", ScrollDown(3)),
    ("Scrolled up 1", ScrollUp(1)),
    ("Scrolled up 2", ScrollUp(2)),
    ("Scrolled up 3", ScrollUp(3)),
    ("Top", Top()),
    ("Back", Back()),
    ("End: Answer", End(EndKind.ANSWER)),
    ("End: Nonsense", End(EndKind.NONSENSE)),
    ("End: Controversial", End(EndKind.CONTROVERSIAL)),
]


@pytest.mark.parametrize(("text", "command"), TABLE_1)
def test_every_command_of_table_1(text: str, command: Command) -> None:
    assert parse_command(text) == command
    assert str(command) == text


@pytest.mark.parametrize(
    "text",
    [
        # A query, find or quote keeps every character it was given.
        "Search  two blanks",
        "Search trailing blank ",
        "Search Search",
        "Search End: Answer",
        "Search ♦Question",
        "Find in page: Find in page: x",
        "Find in page:  x ",
        "Find in page: over\ntwo lines",
        "Quote: over\ntwo lines",
        "Quote: ━",
        "Quote: a━b━c",
        "Quote: x\n",
        "Clicked on link 999999999",
    ],
)
def test_odd_but_valid(text: str) -> None:
    assert str(parse_command(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        "Search",
        "Search ",
        "Search    ",
        "Search\tcrows",
        "Search\u00a0crows",
        "Search: crows",
        "search crows",
        "SEARCH crows",
        " Search crows",
        "Search two\nlines",
        "Search crows\n",
        "Search \u3000",
        "Searched crows",
        "Click on link 3",
        "Clicked on link",
        "Clicked on link ",
        "Clicked on link  3",
        "Clicked on link 3 ",
        "Clicked on link 3\n",
        "Clicked on link 03",
        "Clicked on link 00",
        "Clicked on link -1",
        "Clicked on link +1",
        "Clicked on link 1.0",
        "Clicked on link 1_000",
        "Clicked on link <3>",
        "Clicked on link three",
        "Clicked on link ٣",
        "Clicked on link ３",
        "Clicked on link ³",
        "Clicked on link 1000000000",
        "Clicked on link " + "9" * 5000,
        "clicked on link 3",
        "Clicked on Link 3",
        "Find in page:",
        "Find in page: ",
        "Find in page:\n",
        "Find in page:x",
        "Find in page x",
        "Find in Page: x",
        "find in page: x",
        "Find: x",
        "Quote:",
        "Quote: ",
        "Quote: \n\t ",
        "Quote:x",
        "Quote x",
        "quote: x",
        " Quote: x",
        "Quote : x",
        "Scrolled down",
        "Scrolled down ",
        "Scrolled down 0",
        "Scrolled down 4",
        "Scrolled down 11",
        "Scrolled down 01",
        "Scrolled down -1",
        "Scrolled down 1.0",
        "Scrolled down 1 ",
        "Scrolled down 1\n",
        "Scrolled down <1>",
        "Scrolled down 1, 2, 3",
        "Scrolled down ١",
        "Scrolled down ２",
        "Scrolled down one",
        "Scrolled  down 1",
        "Scroll down 1",
        "scrolled down 1",
        "Scrolled Down 1",
        "Scrolled left 1",
        "Scrolled up",
        "Scrolled up 0",
        "Scrolled up 4",
        "Scrolled up 1\r",
        "Top ",
        " Top",
        "Top\n",
        "top",
        "TOP",
        "Top 1",
        "Back ",
        "Back\n",
        "back",
        "Back 2",
        "Back\u200b",
        "End",
        "End:",
        "End: ",
        "End:Answer",
        "End: answer",
        "End: ANSWER",
        "End: Answer.",
        "End: Answer ",
        "End: Answer\n",
        "End: Answer: x",
        "End: <Nonsense>",
        "End: Nonsense, Controversial",
        "End: Nonsense\n",
        "End: controversial",
        "End: Action limit",
        "End : Answer",
        "Ｅnd: Answer",
        "Thought: I should search",
        "Click 3",
        "\ufeffTop",
        "\x00Top",
    ],
)
def test_near_misses_are_invalid(text: str) -> None:
    with pytest.raises(InvalidAction):
        parse_command(text)


def test_the_refusal_is_short_and_shows_what_was_read() -> None:
    with pytest.raises(InvalidAction, match="not a command: 'serach x'"):
        parse_command("serach x")
    with pytest.raises(InvalidAction) as refused:
        parse_command("x" * 1_000_000)
    assert len(str(refused.value)) < 200


_NONBLANK = st.text().filter(lambda text: bool(text.strip()))
VALID = st.one_of(
    _NONBLANK.filter(lambda text: "\n" not in text).map("Search {}".format),
    st.integers(0, 10**9 - 1).map("Clicked on link {}".format),
    _NONBLANK.map("Find in page: {}".format),
    _NONBLANK.map("Quote: {}".format),
    st.tuples(st.sampled_from(["down", "up"]), st.integers(1, 3)).map(lambda found: f"Scrolled {found[0]} {found[1]}"),
    st.sampled_from(["Top", "Back", "End: Answer", "End: Nonsense", "End: Controversial"]),
)


@given(VALID)
def test_text_of_a_parsed_command_is_the_text(text: str) -> None:
    assert str(parse_command(text)) == text


@given(
    st.one_of(st.text(), VALID.flatmap(lambda text: st.sampled_from([text + " ", " " + text, text.upper(), text[1:]])))
)
def test_whatever_parses_is_spelt_back_and_the_rest_is_refused(text: str) -> None:
    try:
        command = parse_command(text)
    except InvalidAction:
        return
    assert str(command) == text
    assert parse_command(str(command)) == command


def test_the_help_names_every_command_of_table_1() -> None:
    spelt = [line.split("  ")[0] for line in COMMAND_HELP.splitlines()]
    assert spelt == [
        "Search <query>",
        "Clicked on link <link ID>",
        "Find in page: <text>",
        "Quote: <text>",
        "Scrolled down <1, 2, 3>",
        "Scrolled up <1, 2, 3>",
        "Top",
        "Back",
        "End: Answer",
        "End: Nonsense",
        "End: Controversial",
    ]
