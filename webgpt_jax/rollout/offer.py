"""Which commands a model may choose from in a state, read from the observation: those that would do something there.

Left out are commands that the browser would take and do nothing with: a link that is not in sight, `Back` from the
first page, `Top` at the top, all but a search on no page, a quote of an error message, `End: Answer` without a quote.
Also left out, as no source to cite: quotes of a results page. What the observation does not tell is offered.
"""

from __future__ import annotations

from dataclasses import replace

from webgpt_jax.env import clean, parse_observation
from webgpt_jax.env.commands import (
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
from webgpt_jax.env.observation import ParsedObservation
from webgpt_jax.env.page import ERROR_TITLE, LINK_MARKER, strip_markers
from webgpt_jax.sampling import Offer

STEPS = (1, 2, 3)
RESULTS_TITLE = "Search results for: "


def may_stand_in_query(text: str) -> bool:
    """Whether the browser would search for the text as it is: it can be seen, and holds none of our markers."""
    return text.isprintable() and clean(text) == text


def offer_of(observation: str) -> Offer:
    """What is on offer where this observation is shown.

    Raises:
      ValueError: the text is no observation.
    """
    shown = parse_observation(observation)
    readable = _is_readable(shown)
    return Offer(
        whole=[str(command) for command in _whole(shown)],
        before_line=[str(Search(""))],
        before_stretch=[str(FindInPage(""))] if readable else [],
        before_quote=[str(QuoteText(""))] if readable and not _is_results(shown) else [],
        page=strip_markers(shown.text) if readable else "",
    )


def short_offer_of(observation: str) -> Offer:
    """Less than `offer_of`, for a model that knows no more of the commands than what its prompt says.

    It does not judge the question, nor search twice in a row where there are results; of those it opens the first that
    it has not opened yet, since it chooses no better than by chance; it finds nothing in the page; it quotes what it
    has not quoted yet, from the start of a line and without the abbreviation.

    Raises:
      ValueError: the text is no observation.
    """
    shown = parse_observation(observation)
    offer = offer_of(observation)
    left_out = {str(End(kind)) for kind in (EndKind.NONSENSE, EndKind.CONTROVERSIAL)}
    if _is_results(shown):
        left_out |= {str(ClickLink(link)) for link in _links(shown) if link != _next_result(shown)}
    page = offer.page
    for _, quoted in shown.quotes:
        page = page.replace(quoted, "\n")
    searched = bool(shown.past_actions) and shown.past_actions[-1].startswith(str(Search("")))
    return replace(
        offer,
        whole=[command for command in offer.whole if command not in left_out],
        before_line=[] if searched and _links(shown) else offer.before_line,
        before_stretch=offer.before_quote,
        before_quote=[],
        page=page,
        by_lines=True,
    )


def _is_readable(shown: ParsedObservation) -> bool:
    """Whether there is a page that is no error message."""
    return bool(shown.text) and shown.title != ERROR_TITLE and not shown.title.startswith(f"{ERROR_TITLE} (")


def _is_results(shown: ParsedObservation) -> bool:
    return shown.title.startswith(RESULTS_TITLE)


def _links(shown: ParsedObservation) -> list[int]:
    """The links in sight, first to last."""
    return sorted({int(marker[1]) for marker in LINK_MARKER.finditer(shown.text)})


def _next_result(shown: ParsedObservation) -> int | None:
    """The first result that no past action opened, as far as those are shown."""
    markers = LINK_MARKER.finditer(shown.text)
    return next((int(link[1]) for link in markers if f"Click {link[2]} {link[3]}" not in shown.past_actions), None)


def _whole(shown: ParsedObservation) -> list[Command]:
    """The commands that take nothing from the page's text."""
    commands: list[Command] = [ClickLink(link) for link in _links(shown)]
    if shown.text:
        commands += [ScrollDown(steps) for steps in STEPS]
    if shown.scrollbar[0] > 0:
        commands += [*(ScrollUp(steps) for steps in STEPS), Top()]
    if _pages_behind(shown) > 0:
        commands.append(Back())
    kinds = [EndKind.NONSENSE, EndKind.CONTROVERSIAL]
    return [*commands, *(End(kind) for kind in ([EndKind.ANSWER, *kinds] if shown.quotes else kinds))]


def _pages_behind(shown: ParsedObservation) -> int:
    """How many pages `Back` can surely go back to; there may be more where past actions are not all shown."""
    visits = sum(action.startswith(("Search ", "Click ")) for action in shown.past_actions)
    return visits - 1 - shown.past_actions.count(str(Back()))
