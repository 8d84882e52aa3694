"""Demonstrations: episodes as JSON lines, and what behaviour cloning learns from them (paper, sections 3.1 and 3.2).

One example a step: the observation is the prompt, the action's text the completion; and one for the answering phase.
Not taught are episodes that failed or ran out of time, and actions that are no command.

People scroll one step at a time. Runs of `Scrolled down 1` or `Scrolled up 1` are merged into 3s and what is left, as a
model may emit them (specification, section 2), and the rest of the episode is rewritten as if it had been played so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from webgpt_jax.datasets.records import Report, check_text, read_records
from webgpt_jax.datasets.splits import Split, is_in_split
from webgpt_jax.env import (
    Action,
    Episode,
    EpisodeEnd,
    InvalidAction,
    Step,
    episode_from_json,
    is_observation,
    parse_command,
    parse_observation,
    write_observation,
)
from webgpt_jax.env.commands import ScrollDown, ScrollUp

MOST_STEPS = 3  # of one scroll
NOT_TAUGHT = frozenset({EpisodeEnd.FAILURE, EpisodeEnd.DEADLINE})

Scroll = ScrollDown | ScrollUp


@dataclass(frozen=True)
class Example:
    """A prompt and the completion that is learned from it."""

    prompt: str
    completion: str


@dataclass(frozen=True)
class Demonstration:
    """An episode as examples, in its order; the answer, where there is one, is the last. And what was left out."""

    question: str
    examples: tuple[Example, ...]
    invalid_actions: int = 0
    merged_scrolls: int = 0
    failed: bool = False


def demonstration(episode: Episode) -> Demonstration:
    """What there is to learn from an episode.

    Raises:
      ValueError: a prompt is no observation, or does not show the actions before it; the message names the field.
    """
    if episode.end in NOT_TAUGHT:
        return Demonstration(episode.question, (), failed=True)
    merged = merge_scrolls(episode)
    taught = [step for step in merged.steps if step.valid]
    examples = [Example(step.observation, step.action.text) for step in taught]
    invalid = len(merged.steps) - len(taught)
    if merged.answer is not None and merged.answer_prompt is not None:
        if merged.answer.text.strip():
            examples.append(Example(merged.answer_prompt, merged.answer.text))
        else:
            invalid += 1
    return Demonstration(episode.question, tuple(examples), invalid, len(episode.steps) - len(merged.steps))


def merge_scrolls(episode: Episode) -> Episode:
    """The episode with runs of single scrolls merged: a run of five down is `Scrolled down 3`, `Scrolled down 2`.

    A merged step keeps the first observation. Later observations show the merged past actions and as many actions left
    as there would have been. Where an observation shows the last of its past actions only, a merged one is shown if its
    last scroll was.

    Raises:
      ValueError: an observation does not show the scrolls before it; the message names the field.
    """
    steps: list[Step] = []
    scrolls: list[tuple[str, str | None]] = []  # as past actions show them, before merging and after
    for first, count in _runs(episode.steps):
        step = episode.steps[first]
        if not is_observation(step.observation):
            raise ValueError(f'field "steps[{first}].observation": not an observation')
        if first > len(steps):
            try:
                observation = _rewritten(step.observation, scrolls, first - len(steps))
            except ValueError as error:
                raise ValueError(f'field "steps[{first}].observation": {error}') from None
            step = replace(step, observation=observation)
        scroll = _scroll(step.action.text)
        if scroll is not None:
            merged = str(type(scroll)(count)) if count > 1 else step.action.text
            scrolls += [(step.action.text, None)] * (count - 1) + [(step.action.text, merged)]
            step = replace(step, action=Action(merged)) if count > 1 else step
        steps.append(step)
    return replace(episode, steps=tuple(steps))


def _runs(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """First step and length of what becomes one step: runs of equal single scrolls, three at most; else one step."""
    first = 0
    while first < len(steps):
        text, count = steps[first].action.text, 1
        scroll = _scroll(text)
        if scroll is not None and scroll.steps == 1:
            while count < MOST_STEPS and first + count < len(steps) and steps[first + count].action.text == text:
                count += 1
        yield first, count
        first += count


def _rewritten(observation: str, scrolls: Sequence[tuple[str, str | None]], merged: int) -> str:
    """An observation with the scrolls among its past actions as they are after merging, and more actions left.

    Every scroll is among the past actions, as it was written, unless it was too long ago: counted from the last one
    back, those shown are those made.
    """
    shown = parse_observation(observation)
    made = list(scrolls)
    past_actions: list[str] = []
    for text in reversed(shown.past_actions):
        kept: str | None = text
        if _scroll(text) is not None:
            before, kept = made.pop() if made else ("", None)
            if before != text:
                raise ValueError(f'the past action "{text}" is not among the actions of the steps before')
        if kept is not None:
            past_actions.append(kept)
    return write_observation(
        replace(shown, past_actions=tuple(reversed(past_actions)), actions_left=shown.actions_left + merged)
    )


def _scroll(text: str) -> Scroll | None:
    try:
        command = parse_command(text)
    except InvalidAction:
        return None
    return command if isinstance(command, ScrollDown | ScrollUp) else None


def read_demonstrations(
    paths: Sequence[Path],
    *,
    split: Split,
    held_out: float = 0.04,
    share: float = 1.0,
    skip_bad_records: bool = False,
    report: Report | None = None,
) -> Iterator[Demonstration]:
    """The demonstrations of files of episodes (`webgpt_jax.env.episode_to_json`, one a line) that are in a split.

    Args:
      paths: the files, read in this order.
      split: "train" or "validation", by the episode's question; see `is_in_split`.
      held_out: the share of questions in "validation" (paper: about 4%).
      share: of the questions of "train", how many are taken; see `is_in_split`.
      skip_bad_records: whether lines that are no episode are counted and passed over.
      report: where all is counted.

    Raises:
      DataError: a file cannot be read, or a line is no episode; the message names file, line and field.
    """
    report = Report() if report is None else report
    questions = set()
    for path in paths:
        for found in read_records(path, _decode, report=report, skip_bad_records=skip_bad_records):
            if not is_in_split(found.question, split, held_out, share):
                continue
            questions.add(found.question)
            report.questions = len(questions)
            report.examples += len(found.examples)
            report.failed_episodes += found.failed
            report.invalid_actions += found.invalid_actions
            report.merged_scrolls += found.merged_scrolls
            yield found


def _decode(line: str) -> Demonstration:
    found = demonstration(episode_from_json(line))
    for number, example in enumerate(found.examples):
        check_text(example.prompt + example.completion, f"(example {number})")
    return found
