"""One coroutine plays one episode: question → browsing → quotes → answer. And episodes as JSON lines.

`run_episode` is what everything else plugs into: it does not know whether the policy is a person, a script or a model,
nor whether the web is live or recorded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from webgpt_jax.env.browser import Browser
from webgpt_jax.env.codec import decode, encode
from webgpt_jax.env.commands import Command, InvalidAction, Search, parse_command
from webgpt_jax.env.observation import render_answer_prompt, render_observation
from webgpt_jax.env.page import Quote
from webgpt_jax.env.protocol import Action, EpisodeError, Policy
from webgpt_jax.env.state import JUDGEMENTS, BrowserState, EpisodeEnd

FORMAT = "webgpt-episode-1"


@dataclass(frozen=True)
class Step:
    """One observation and the action it was answered with."""

    observation: str
    action: Action

    @property
    def command(self) -> Command | None:
        """What the action means; None where it is none of Table 1's commands."""
        try:
            return parse_command(self.action.text)
        except InvalidAction:
            return None

    @property
    def valid(self) -> bool:
        """Whether the action is one of Table 1's commands."""
        return self.command is not None


@dataclass(frozen=True)
class Episode:
    """A finished episode, whole. It holds no time and no host, so that the same replay gives the same bytes."""

    question: str
    steps: tuple[Step, ...]
    quotes: tuple[Quote, ...]
    end: EpisodeEnd
    answer_prompt: str | None = None  # None where there was no answering phase
    answer: Action | None = None
    error: str | None = None  # what went wrong, where `end` is FAILURE
    reference_answer: str | None = None
    info: Mapping[str, str] = field(default_factory=dict)  # how it was made: web, policy, seed …


async def run_episode(
    browser: Browser,
    policy: Policy,
    question: str,
    reference_answer: str | None = None,
    *,
    max_actions: int | None = None,
    deadline_s: float | None = None,
    info: Mapping[str, str] | None = None,
    on_step: Callable[[Step, BrowserState], None] | None = None,
) -> Episode:
    """Plays one episode to its end, and asks for the answer where browsing ended with references.

    An episode in which every search failed and nothing was quoted is a FAILURE of the web, whatever ended it, unless
    the policy judged the question itself.

    Args:
      browser: the environment; it may serve other episodes at the same time.
      policy: what acts. It is given each observation, and last the answering prompt.
      question: the question.
      reference_answer: an answer that the web must not show, where there is one.
      max_actions: this episode's action limit, where it is not the browser's.
      deadline_s: seconds until the episode is ended with DEADLINE, wherever it is. None: no deadline.
      info: notes kept with the episode.
      on_step: called after each step with it and the state it led to.

    Raises:
      ValueError: the question or the settings cannot work; see `Browser.reset`.
    """
    state = await browser.reset(question, reference_answer, max_actions=max_actions)
    steps: list[Step] = []
    searches: list[str | None] = []  # what went wrong with each; None where nothing did
    prompt: str | None = None
    answer: Action | None = None
    error: str | None = None
    try:
        async with asyncio.timeout(deadline_s) as deadline:
            while state.end is None:
                observation = render_observation(state)
                action = await policy.act(observation)
                steps.append(Step(observation, action))
                state = await browser.step(state, action.text)
                if isinstance(steps[-1].command, Search):
                    searches.append(state.page.text if state.page.error is not None else None)
                if on_step is not None:
                    on_step(steps[-1], state)
                await asyncio.sleep(0)  # a policy and a web that never wait must not hold up the deadline, nor others
            if not state.quotes and state.end not in JUDGEMENTS and searches and all(searches):
                raise EpisodeError(searches[-1])  # the web gave nothing to work with: no fault of the policy's
            if state.may_answer:
                prompt = render_answer_prompt(state.question, state.quotes)
                answer = await policy.act(prompt)
    except TimeoutError:
        if not deadline.expired():  # the policy's own, not ours
            raise
        state = replace(state, end=EpisodeEnd.DEADLINE)
    except EpisodeError as failure:
        state = replace(state, end=EpisodeEnd.FAILURE)
        error = str(failure)
    assert state.end is not None
    return Episode(
        question=state.question,
        steps=tuple(steps),
        quotes=state.quotes,
        end=state.end,
        answer_prompt=prompt,
        answer=answer,
        error=error,
        reference_answer=reference_answer,
        info=dict(info or {}),
    )


def episode_to_json(episode: Episode) -> str:
    """One line of JSON. The same episode always gives the same line."""
    return json.dumps({"format": FORMAT} | encode(episode), separators=(",", ":"))


def episode_from_json(line: str) -> Episode:
    """The episode that `episode_to_json` wrote.

    Raises:
      ValueError: the line is no episode; the message names the field.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON that can be read: {error}") from None
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        raise ValueError(f'field "format": expected "{FORMAT}"')
    return decode(Episode, record)


def parse_episodes(lines: Iterable[bytes], name: str) -> Iterator[Episode]:
    """The episodes of JSON lines, one by one; blank lines are passed over.

    Raises:
      ValueError: a line is no episode; the message names `name`, line and field.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield episode_from_json(line.decode("utf-8"))
            except ValueError as error:
                raise ValueError(f"{name}, line {number}: {error}") from None


def read_episodes(path: Path) -> Iterator[Episode]:
    """`parse_episodes` of a file."""
    with path.open("rb") as lines:
        yield from parse_episodes(lines, str(path))
