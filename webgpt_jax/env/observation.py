"""The text formats of the paper: the observation (Figure 1b) and the answering prompt, written and read back.

No other module writes or reads these formats.

An observation is never longer than the configured limit. What is dropped, in this order (our reading; the paper says
only that the window fits the model's context):

1. the window shrinks, to no less than half of its units;
2. the oldest past actions go, until five are left;
3. the texts of the quotes are cut to 80 characters, the oldest quote first;
4. the window shrinks to one unit;
5. the rest of the past actions goes, then whole quotes, the oldest first; then the page's title and the question are
   cut at their end, and last the window goes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from webgpt_jax.env.page import Quote
from webgpt_jax.env.state import BrowserState
from webgpt_jax.env.text import clean

RECENT_ACTIONS = 5
SHORT_QUOTE = 80
FRAME_MARGIN = 40  # for larger numbers in the scrollbar than those of an empty page, and cut titles

_NEXT_ACTION = "♦Next action\n"
_OBSERVATION = re.compile(
    r"♦Question\n(?P<question>[^♦]*?)\n?\n"
    r"♦Quotes\n(?P<quotes>[^♦]*?)\n?\n"
    r"♦Past actions\n(?P<past_actions>[^♦]*?)\n?\n"
    r"♦Title\n(?P<title>[^♦\n]*?)\n?\n"
    r"♦Scrollbar: (?P<first>[0-9]+) - (?P<last>[0-9]+)\n\n"
    r"♦Text\n(?P<text>[^♦]*?)\n?\n"
    r"♦Actions left: (?P<actions_left>[0-9]+)\n\n" + _NEXT_ACTION
)


@dataclass(frozen=True)
class Layout:
    """How much of each part of a state an observation shows."""

    units: int  # of the page, from the top of the window
    past_actions: int  # the most recent ones
    full_quotes: int  # the most recent ones; those before are shortened
    quotes: int  # the most recent ones, shortened or not
    title: int  # characters
    question: int  # characters


def lay_out(state: BrowserState) -> Layout:
    """The fullest layout whose observation keeps to the limit; see the module's docstring for what goes first.
    `check_limit`, asked once at the start of an episode, makes sure that there is one.
    """
    full = _window_units(state)
    half, one = (full + 1) // 2, min(full, 1)
    actions, quotes = len(state.past_actions), len(state.quotes)
    title, question = len(state.page.heading), len(state.question)
    layout = Layout(full, actions, quotes, quotes, title, question)
    stages = (
        ("units", half),
        ("past_actions", min(actions, RECENT_ACTIONS)),
        ("full_quotes", 0),
        ("units", one),
        ("past_actions", 0),
        ("quotes", 0),
        ("title", 0),
        ("question", 0),
        ("units", 0),
    )
    limit = state.config.observation_limit

    def fits(candidate: Layout) -> bool:
        return state.config.length(_render(state, candidate)) <= limit

    if fits(layout):
        return layout
    for part, least in stages:
        most = getattr(layout, part)
        reduced = replace(layout, **{part: least})
        if fits(reduced):
            # The largest value that fits; `least` does, so the search always ends on one that was tried.
            values = range(least, most)
            misses = bisect_left(values, True, key=lambda value: not fits(replace(layout, **{part: value})))
            best = replace(layout, **{part: values[max(misses - 1, 0)]}) if misses else reduced
            return best if fits(best) else reduced
        layout = reduced
    return layout


def _window_units(state: BrowserState) -> int:
    """How many units a full window shows: as many as `window_chars` holds, at least one where there is one."""
    starts, first = state.page.units(state.config.unit_chars), state.place.unit
    last = bisect_right(starts, starts[first] + state.config.window_chars) - 1
    return max(last - first, min(1, len(starts) - 1 - first))


def unit_below(state: BrowserState) -> int:
    """The unit just below the window, or the window's own first unit where the page's end is already in sight."""
    below = state.place.unit + max(1, lay_out(state).units)
    return below if below < len(state.page.units(state.config.unit_chars)) - 1 else state.place.unit


def unit_above(state: BrowserState) -> int:
    """The unit from which a window reaches down to the present window's first unit."""
    first = state.place.unit
    starts = state.page.units(state.config.unit_chars)
    # No window reaches further than its characters do.
    highest = min(bisect_left(starts, starts[first] - state.config.window_chars), max(0, first - 1))

    def reaches(unit: int) -> bool:
        return unit + lay_out(replace(state, place=replace(state.place, unit=unit))).units >= first

    return highest + bisect_left(range(highest, first - 1), True, key=reaches)


def check_limit(state: BrowserState) -> None:
    """Raises ValueError where `max_observation_tokens` cannot hold an observation of whatever page."""
    limit = state.config.observation_limit
    frame = state.config.length(_render(state, Layout(0, 0, 0, 0, 0, 0))) + FRAME_MARGIN
    if frame > limit:
        raise ValueError(f"max_observation_tokens={limit} does not even hold the headings; {frame} is the least")


def window_text(state: BrowserState, units: int) -> str:
    """The page's text in a window of that many units."""
    starts, first = state.page.units(state.config.unit_chars), state.place.unit
    return state.page.text[starts[first] : starts[first + units]].strip("\n")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length].rstrip() + "…"


def _section(name: str, content: str) -> str:
    return f"♦{name}\n{content}\n\n" if content else f"♦{name}\n\n"


def _quote_block(heading: str, text: str) -> str:
    # Every line is marked, so that no line of a quote can pass for the next quote's heading.
    return "\n".join([f"From {heading}", *(f"> {line}" if line else ">" for line in text.split("\n"))])


@dataclass(frozen=True)
class ParsedObservation:
    """The parts of an observation, as shown. Quotes are (heading, text) pairs."""

    question: str
    quotes: tuple[tuple[str, str], ...]
    past_actions: tuple[str, ...]
    title: str
    scrollbar: tuple[int, int]
    text: str
    actions_left: int


def write_observation(parts: ParsedObservation) -> str:
    """The observation with those parts: what `parse_observation` reads back."""
    return (
        _section("Question", parts.question)
        + _section("Quotes", "\n".join(_quote_block(heading, text) for heading, text in parts.quotes))
        + _section("Past actions", "\n".join(parts.past_actions))
        + _section("Title", parts.title)
        + "♦Scrollbar: {} - {}\n\n".format(*parts.scrollbar)
        + _section("Text", parts.text)
        + f"♦Actions left: {parts.actions_left}\n\n"
        + _NEXT_ACTION
    )


def _render(state: BrowserState, layout: Layout) -> str:
    shortened = len(state.quotes) - layout.full_quotes
    quotes = [
        (quote.heading, _cut(quote.text, SHORT_QUOTE) if at < shortened else quote.text)
        for at, quote in enumerate(state.quotes)
    ]
    first = state.place.unit
    return write_observation(
        ParsedObservation(
            question=_cut(state.question, layout.question),
            quotes=tuple(quotes[len(quotes) - layout.quotes :]),
            past_actions=tuple(state.past_actions[len(state.past_actions) - layout.past_actions :]),
            title=_cut(state.page.heading, layout.title),
            scrollbar=(first, first + layout.units),
            text=window_text(state, layout.units),
            actions_left=state.actions_left,
        )
    )


def render_observation(state: BrowserState) -> str:
    """What the model is shown: the paper's Figure 1b, rebuilt from the state. Never longer than the limit."""
    return _render(state, lay_out(state))


def parse_observation(text: str) -> ParsedObservation:
    """Reads an observation back into its parts.

    Raises:
      ValueError: the text is no observation.
    """
    found = _OBSERVATION.fullmatch(text)
    if found is None:
        raise ValueError("not an observation")
    quotes: list[tuple[str, list[str]]] = []
    for line in found["quotes"].split("\n") if found["quotes"] else ():
        if line.startswith(">") and quotes:
            quotes[-1][1].append(line[1:].removeprefix(" "))
        else:
            quotes.append((line.removeprefix("From "), []))
    return ParsedObservation(
        question=found["question"],
        quotes=tuple((heading, "\n".join(lines)) for heading, lines in quotes),
        past_actions=tuple(found["past_actions"].split("\n")) if found["past_actions"] else (),
        title=found["title"],
        scrollbar=(int(found["first"]), int(found["last"])),
        text=found["text"],
        actions_left=int(found["actions_left"]),
    )


def is_observation(prompt: str) -> bool:
    """Whether a policy is asked for a command; otherwise it is asked for an answer."""
    return prompt.startswith("♦Question\n") and prompt.endswith(_NEXT_ACTION)


def render_answer_prompt(question: str, quotes: Sequence[Quote]) -> str:
    """The prompt of the answering phase: question and numbered quotes, each ended by ■. What follows it is the answer.

    The reward model's input is this prompt and the answer.
    """
    blocks = [clean(question).strip()]
    blocks += [f"[{number}] {quote.heading}\n\n{quote.text}" for number, quote in enumerate(quotes, start=1)]
    return "".join(f"{block}■\n" for block in blocks)


@dataclass(frozen=True)
class ParsedAnswerPrompt:
    """An answering prompt read back. References are (heading, extract) pairs, number 1 first."""

    question: str
    references: tuple[tuple[str, str], ...]


def parse_answer_prompt(text: str) -> ParsedAnswerPrompt:
    """Reads an answering prompt back into its parts.

    Raises:
      ValueError: the text is no answering prompt.
    """
    question, *blocks = text.split("■\n")
    if not blocks or blocks.pop():
        raise ValueError("not an answering prompt")
    references = []
    for number, block in enumerate(blocks, start=1):
        heading, blank, extract = block.partition("\n\n")
        if not blank or not heading.startswith(f"[{number}] "):
            raise ValueError(f"reference {number} of an answering prompt has no heading")
        references.append((heading.removeprefix(f"[{number}] "), extract))
    return ParsedAnswerPrompt(question, tuple(references))
