"""The browser's settings and its state: frozen values, so that an episode can branch, be compared and be replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from webgpt_jax.env.filters import BLOCKED_DOMAINS
from webgpt_jax.env.page import UNIT_CHARS, Page, Quote
from webgpt_jax.env.urls import host_of


class EpisodeEnd(Enum):
    """How an episode ended."""

    ANSWER = "answer"  # `End: Answer`, with at least one reference
    NONSENSE = "nonsense"  # `End: Nonsense`
    CONTROVERSIAL = "controversial"  # `End: Controversial`
    ACTION_LIMIT = "action_limit"  # the maximum number of actions was used up
    REFERENCE_LIMIT = "reference_limit"  # the references reached their maximum total length
    NO_REFERENCES = "no_references"  # `End: Answer` without a reference: there is nothing to answer from
    DEADLINE = "deadline"  # the episode's time was used up
    FAILURE = "failure"  # the web or the policy could not go on


# What the policy says of the question itself.
JUDGEMENTS = frozenset({EpisodeEnd.NONSENSE, EpisodeEnd.CONTROVERSIAL})

# After these the policy is asked to answer, if there is a reference (paper, section 5 of the specification).
ENDS_WITH_ANSWER = frozenset({EpisodeEnd.ANSWER, EpisodeEnd.ACTION_LIMIT, EpisodeEnd.REFERENCE_LIMIT})


@dataclass(frozen=True)
class BrowserConfig:
    """Settings of the text browser. Lengths are tokens where `count_tokens` is given, characters where it is not."""

    max_actions: int = 100  # the paper's limit at evaluation; RL draws one an episode, see Browser.reset
    count_tokens: Callable[[str], int] | None = None  # the length of a text in the policy's tokens
    max_observation_tokens: int | None = None  # no observation is longer; None: 1,792 tokens or 8,000 characters
    max_reference_tokens: int | None = None  # all quotes with their headings; None: 1,024 tokens or 4,000 characters
    window_chars: int = 3000  # characters of the page shown at once, and one step of scrolling
    blocked_domains: tuple[str, ...] = BLOCKED_DOMAINS  # results and links to these are removed; () is off
    censor_overlap: bool = True  # hide pages that share ten words in a row with the question or reference answer
    web_timeout_s: float = 60.0  # a search or page that takes longer becomes an error page

    def validate(self) -> None:
        """Raises ValueError, naming the field, for settings that cannot work."""
        for name in ("max_actions", "window_chars", "observation_limit", "reference_limit"):
            if getattr(self, name) < 1:
                raise ValueError(f"BrowserConfig.{name} must be at least 1, not {getattr(self, name)}")
        if not self.web_timeout_s > 0:
            raise ValueError(f"BrowserConfig.web_timeout_s must be more than 0, not {self.web_timeout_s}")
        for domain in self.blocked_domains:
            if not domain or host_of(f"http://{domain}/") != domain:  # in another spelling it would block nothing
                raise ValueError(f"BrowserConfig.blocked_domains: {domain!r} is not a bare lower-case domain")

    def length(self, text: str) -> int:
        """The length of a text in tokens, or in characters where there is no tokenizer."""
        return len(text) if self.count_tokens is None else self.count_tokens(text)

    @property
    def observation_limit(self) -> int:
        if self.max_observation_tokens is not None:
            return self.max_observation_tokens
        return 8000 if self.count_tokens is None else 1792  # leaves 256 of the paper's 2,048 tokens for the action

    @property
    def reference_limit(self) -> int:
        if self.max_reference_tokens is not None:
            return self.max_reference_tokens
        return 4000 if self.count_tokens is None else 1024  # leaves the other half for question and answer

    @property
    def unit_chars(self) -> int:
        """The longest unit of the scrollbar: several of them fit a window."""
        return max(1, min(UNIT_CHARS, self.window_chars // 2))


@dataclass(frozen=True)
class Place:
    """A page, the unit at the top of the window, and where the next find begins (a place in the page's plain text)."""

    page: Page
    unit: int = 0
    cursor: int = 0


EMPTY_PAGE = Page(title="", domain="", url="", text="")


@dataclass(frozen=True)
class BrowserState:
    """Everything the browser knows of an episode. The observation is rebuilt from it at every step."""

    question: str
    actions_left: int
    config: BrowserConfig = field(default_factory=BrowserConfig)
    reference_answer: str | None = None  # only ever used to censor pages that hold it
    place: Place = Place(EMPTY_PAGE)
    history: tuple[Place, ...] = ()  # what `Back` goes back to, the last one first to go
    quotes: tuple[Quote, ...] = ()
    past_actions: tuple[str, ...] = ()  # as the observation shows them
    end: EpisodeEnd | None = None  # None while browsing

    @property
    def page(self) -> Page:
        return self.place.page

    @property
    def may_answer(self) -> bool:
        """Whether browsing ended in a way that is followed by the answering phase."""
        return self.end in ENDS_WITH_ANSWER and bool(self.quotes)
