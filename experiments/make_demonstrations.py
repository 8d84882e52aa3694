"""Demonstrations on TinyWeb by scripted people of graded skill: what behaviour cloning is trained on. Synthetic.

    python -m experiments.make_demonstrations --split=bc --count=2000 --output=demos.jsonl      # about a minute

One episode a line. Interrupted, the same command goes on where it stopped, and the file becomes the same to the byte.
At last it says what the file holds; of 2,000 questions of the set bc, seed 0:

    answered, of what can be answered   0.998   with at least one reference
    complete and true                   0.80    all that was asked is answered and supported, and no claim is wrong
    actions                             5.9     of 30 at most
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import get_args

from webgpt_jax.cli import CommandError
from webgpt_jax.cli.episodes import EpisodeFile
from webgpt_jax.env import Browser, BrowserConfig, Episode, EpisodeError, WebError, read_episodes
from webgpt_jax.flags import UsageError, describe, option, parse
from webgpt_jax.tinyweb.demonstrations import demonstrate
from webgpt_jax.tinyweb.labeler import Side, judge
from webgpt_jax.tinyweb.questions import QuestionKind, Split, TinyQuestion, questions
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, TinyWeb, open_tinyweb
from webgpt_jax.tinyweb.world import World

EVERY_S = 10.0  # between two lines of progress, where standard error is no terminal


@dataclass(frozen=True)
class DemonstrationFlags:
    """What is made."""

    output: str | None = option(None, "the file of episodes; what it holds is not made again")
    count: int = option(2000, "how many episodes the file is to hold")
    split: str = option("bc", f"whose questions: {', '.join(get_args(Split))}")
    seed: int = option(0, "of the questions' order and of the people")
    world: int = option(0, "the seed of the TinyWeb")
    tokenizer: str | None = option(None, "folder with the tokenizer.json that lengths are counted by; else by words")

    def check(self) -> None:
        """Raises UsageError, naming the flag."""
        if self.output is None:
            raise UsageError("give --output=FILE")
        if self.count < 1:
            raise UsageError(f"--count={self.count} must be at least 1")
        if self.split not in get_args(Split):
            raise UsageError(f"--split={self.split} is none of {', '.join(get_args(Split))}")


@dataclass(frozen=True)
class Summary:
    """What a file of demonstrations holds.

    Attributes:
      episodes: how many.
      answered: of the questions that can be answered, the share that is, with at least one reference.
      complete: the share that is answered wholly, with no claim that is wrong.
      actions: the mean of an episode.
      commands: how often each is given.
      people: how many episodes each has played.
    """

    episodes: int
    answered: float
    complete: float
    actions: float
    commands: Counter[str]
    people: Counter[str]

    def __str__(self) -> str:
        commands = ", ".join(f"{name} {count:,}" for name, count in self.commands.most_common())
        people = ", ".join(f"{name} {count:,}" for name, count in self.people.most_common())
        return (
            f"{self.episodes:,} episodes ({people}): answered {self.answered:.3f}, complete and true"
            f" {self.complete:.3f}, {self.actions:.2f} actions\n{commands}"
        )


def summarize(world: World, asked: Sequence[TinyQuestion], episodes: Sequence[Episode]) -> Summary:
    """What the episodes of these questions hold. Raises ValueError where there are none."""
    if not episodes:
        raise ValueError("no episodes to sum up")
    commands: Counter[str] = Counter()
    answerable = answered = complete = 0
    for question, episode in zip(asked, episodes, strict=True):
        commands.update(type(step.command).__name__ for step in episode.steps)
        if question.kind is QuestionKind.NONSENSE:
            continue
        answer = None if episode.answer is None else episode.answer.text
        found = judge(world, question, Side(episode.quotes, answer, episode.end))
        answerable += 1
        answered += answer is not None
        complete += found.core > 0.999 and all(claim.true for claim in found.claims)
    return Summary(
        episodes=len(episodes),
        answered=answered / max(1, answerable),
        complete=complete / max(1, answerable),
        actions=commands.total() / len(episodes),
        commands=commands,
        people=Counter(episode.info["policy"].partition(":")[2] for episode in episodes),
    )


async def make_demonstrations(flags: DemonstrationFlags, web: TinyWeb, browser: BrowserConfig) -> Summary:
    """Fills the file up to so many episodes, and sums it up.

    Raises:
      CommandError: the file cannot be written or holds something else, or there are not so many questions.
    """
    (split,) = (name for name in get_args(Split) if name == flags.split)
    world = web.library.world
    asked = list(islice(questions(world, split, flags.seed), flags.count))
    if len(asked) < flags.count:
        raise CommandError(f"the set {split} has {len(asked):,} questions: give --count={len(asked)} at most")
    with EpisodeFile.open(flags.output) as episodes:
        done = len(episodes.answered)
        if episodes.answered != {question.text for question in asked[:done]}:
            raise CommandError(
                f"{episodes.path} holds other episodes than the first {done:,} of these: give another --output, or the"
                " --count, --split, --seed and --world that it was made with"
            )
        progress = _Progress(done, flags.count)
        missing = demonstrate(
            Browser(web, browser), world, split, seed=flags.seed, first=done, count=flags.count - done
        )
        async for episode in missing:
            episodes.write(episode)
            done += 1
            progress.update(done)
        progress.close()
        return summarize(world, asked, list(read_episodes(episodes.path)))


class _Progress:
    """How far it is, on standard error: one line that is rewritten, or lines now and then."""

    def __init__(self, first: int, total: int) -> None:
        self._first, self._total = first, total
        self._begin = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = self._begin if not self._terminal else 0.0

    def update(self, done: int) -> None:
        now = time.monotonic()
        if now - self._shown < (0.1 if self._terminal else EVERY_S):
            return
        self._shown = now
        left = (now - self._begin) / (done - self._first) * (self._total - done)
        text = f"{done:,} of {self._total:,} episodes, {left:.0f} s left"
        print(f"\r\x1b[K{text}" if self._terminal else text, end="" if self._terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    def close(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def browser_settings(tokenizer: str | None) -> BrowserConfig:
    """TinyWeb's, with lengths in that tokenizer's tokens.

    Raises:
      CommandError: the folder holds no tokenizer.
    """
    if tokenizer is None:
        return TINYWEB_BROWSER
    from webgpt_jax.models.tokenizer import tokenizer_from_folder

    found = tokenizer_from_folder(Path(tokenizer))
    if found is None:
        raise CommandError(f"{tokenizer} holds no tokenizer.json")
    return replace(TINYWEB_BROWSER, count_tokens=found.count)


async def _run(flags: DemonstrationFlags) -> None:
    browser = browser_settings(flags.tokenizer)
    async with open_tinyweb(flags.world) as web:
        print(await make_demonstrations(flags, web, browser))


def main() -> int:
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(f"{__doc__}\n{describe(DemonstrationFlags)}")
        return 0
    try:
        flags, rest = parse(DemonstrationFlags, arguments)
        if rest:
            raise UsageError(f"no argument {rest[0]!r} is known")
        flags.check()
        asyncio.run(_run(flags))
    except UsageError as error:
        print(f"make_demonstrations: {error} (--help)", file=sys.stderr)
        return 2
    except (CommandError, EpisodeError, WebError) as error:
        print(f"make_demonstrations: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("make_demonstrations: interrupted; the same command goes on from here", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
