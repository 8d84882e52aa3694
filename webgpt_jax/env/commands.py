"""The commands of the paper's Table 1, one frozen value each, and the way from text and back.

`str(parse_command(text)) == text` for every valid text: a command has one spelling, so that demonstrations, the model's
output and constrained decoding agree on it. Everything else is an invalid action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class InvalidAction(ValueError):
    """The text is none of the commands. It still counts as an action."""


@dataclass(frozen=True)
class Search:
    query: str

    def __str__(self) -> str:
        return f"Search {self.query}"


@dataclass(frozen=True)
class ClickLink:
    link_id: int

    def __str__(self) -> str:
        return f"Clicked on link {self.link_id}"


@dataclass(frozen=True)
class FindInPage:
    text: str

    def __str__(self) -> str:
        return f"Find in page: {self.text}"


@dataclass(frozen=True)
class QuoteText:
    """`text` may be `<start>━<end>`, which means all from the start to the end."""

    text: str

    def __str__(self) -> str:
        return f"Quote: {self.text}"


@dataclass(frozen=True)
class ScrollDown:
    steps: int

    def __str__(self) -> str:
        return f"Scrolled down {self.steps}"


@dataclass(frozen=True)
class ScrollUp:
    steps: int

    def __str__(self) -> str:
        return f"Scrolled up {self.steps}"


@dataclass(frozen=True)
class Top:
    def __str__(self) -> str:
        return "Top"


@dataclass(frozen=True)
class Back:
    def __str__(self) -> str:
        return "Back"


class EndKind(Enum):
    ANSWER = "Answer"
    NONSENSE = "Nonsense"
    CONTROVERSIAL = "Controversial"


@dataclass(frozen=True)
class End:
    kind: EndKind

    def __str__(self) -> str:
        return f"End: {self.kind.value}"


Command = Search | ClickLink | FindInPage | QuoteText | ScrollDown | ScrollUp | Top | Back | End

# A search is one line. What is found or quoted may run across lines, since a person's selection does.
_SEARCH = re.compile(r"Search (?=\s*+\S)([^\n]+)")
_CLICK = re.compile(r"Clicked on link (0|[1-9][0-9]{0,8})")
_FIND = re.compile(r"Find in page: (?=\s*+\S)(.+)", re.DOTALL)
_QUOTE = re.compile(r"Quote: (?=\s*+\S)(.+)", re.DOTALL)
_SCROLL = re.compile(r"Scrolled (down|up) ([123])")
_PLAIN: tuple[Command, ...] = (Top(), Back(), *(End(kind) for kind in EndKind))
_WORDS = {str(command): command for command in _PLAIN}

COMMAND_HELP = """\
Search <query>             send the query to the search engine
Clicked on link <link ID>  follow the link with that number
Find in page: <text>       go to the next occurrence of the text
Quote: <text>              add the text as a reference; <start>━<end> quotes all between
Scrolled down <1, 2, 3>    scroll down that many steps
Scrolled up <1, 2, 3>      scroll up that many steps
Top                        scroll to the top of the page
Back                       go to the previous page
End: Answer                end browsing and answer from the quotes
End: Nonsense              end browsing: the question makes no sense
End: Controversial         end browsing: the question should not be answered"""


def parse_command(text: str) -> Command:
    """The command that a text spells.

    Raises:
      InvalidAction: the text is none of Table 1's commands, to the letter.
    """
    if text in _WORDS:
        return _WORDS[text]
    if found := _SEARCH.fullmatch(text):
        return Search(found[1])
    if found := _CLICK.fullmatch(text):
        return ClickLink(int(found[1]))
    if found := _FIND.fullmatch(text):
        return FindInPage(found[1])
    if found := _QUOTE.fullmatch(text):
        return QuoteText(found[1])
    if found := _SCROLL.fullmatch(text):
        return (ScrollDown if found[1] == "down" else ScrollUp)(int(found[2]))
    raise InvalidAction(f"not a command: {text[:80]!r}")
