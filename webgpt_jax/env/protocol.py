"""The two things a browser and an episode are given: a Web and a Policy. Everything else in the project is one of them
or is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from webgpt_jax.env.page import Page


@dataclass(frozen=True)
class SearchResult:
    """One hit of a search engine, as the engine gave it; the browser cleans it before it is shown."""

    title: str
    url: str
    snippet: str


class WebError(Exception):
    """A search or a page that cannot be had. The browser shows it as a page and goes on.

    Args:
      kind: one word a program can test, such as "timeout", "http", "refused", "too_large", "encrypted", "key".
      message: one or two sentences for the reader of the page, naming the cause and, where there is one, the cure.
        Never holds a secret.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class EpisodeError(Exception):
    """Raised by a Web or a Policy when an episode cannot go on: it ends with `EpisodeEnd.FAILURE`, its steps kept."""


class Web(Protocol):
    """Where pages come from: the live web, a folder, an offline wiki, a recording, a generated web."""

    async def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, best first. May raise `WebError`."""
        ...

    async def open(self, url: str) -> Page:
        """The page at a URL. May raise `WebError`."""
        ...


@dataclass(frozen=True)
class Action:
    """What a policy emitted. `tokens` and `logprobs` are there where a model spoke: one entry each a token."""

    text: str
    tokens: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.logprobs is not None and (self.tokens is None or len(self.tokens) != len(self.logprobs)):
            raise ValueError("an Action with logprobs needs as many tokens")


class Policy(Protocol):
    """What acts: a person, a script, a model."""

    async def act(self, prompt: str) -> Action:
        """The next command for an observation, or the answer for an answering prompt. May raise `EpisodeError`."""
        ...
