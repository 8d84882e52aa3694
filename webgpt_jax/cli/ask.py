"""`webgpt ask`: questions in, cited answers out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from webgpt_jax.cli import CommandError, at_terminal, emit
from webgpt_jax.cli.episodes import TO_ASK_AGAIN, EpisodeFile
from webgpt_jax.cli.policies import POLICY_HELP, PolicyFlags, open_policies
from webgpt_jax.cli.report import Progress, answer_text
from webgpt_jax.cli.webs import WEB_HELP, WebFlags, open_web, web_name
from webgpt_jax.env import (
    Browser,
    Episode,
    clean,
    episode_to_json,
    run_episode,
)
from webgpt_jax.flags import UsageError, describe, option, parse


@dataclass(frozen=True)
class AskFlags(WebFlags, PolicyFlags):
    """The flags of `webgpt ask`."""

    file: str | None = option(None, "read questions from this file, one a line; - is standard input")
    json: bool = option(False, "print each episode as a line of JSON instead of its answer")
    output: str | None = option(
        None, "append episodes to this file; questions it already holds are skipped (default: a new file for each run)"
    )
    concurrency: int = option(4, "questions worked on at once")
    deadline: float = option(300.0, "seconds an episode may take")
    quiet: bool = option(False, "show no progress")


def usage() -> str:
    return "\n".join(
        [
            'usage: webgpt ask "question" …',
            "       webgpt ask --file=questions.txt --output=episodes.jsonl",
            "",
            "Answers each question from pages it finds, with numbered quotes as references.",
            "",
            WEB_HELP,
            "",
            POLICY_HELP,
            "",
            describe(AskFlags),
        ]
    )


def _lines(source: TextIO, name: str) -> list[str]:
    try:
        return list(source)
    except UnicodeDecodeError:
        raise CommandError(f"{name} is not UTF-8 text; convert it first") from None


def _questions(flags: AskFlags, arguments: Sequence[str]) -> list[str]:
    """The questions of the command line, of a file, or of standard input where it is no terminal."""
    if flags.file is not None and arguments:
        raise UsageError("give questions or --file, not both")
    if flags.file not in (None, "-"):
        path = Path(str(flags.file))
        try:
            with path.open(encoding="utf-8-sig") as source:
                questions = _lines(source, str(path))
        except OSError as error:
            raise CommandError(f"cannot read {path}: {error.strerror}") from None
    elif flags.file == "-" or not (arguments or at_terminal()):
        questions = _lines(sys.stdin, "standard input") if sys.stdin else []
    else:
        questions = list(arguments)
    questions = [question for question in (clean(text).strip() for text in questions) if question]
    if not questions:
        raise UsageError("no question given")
    return questions


def run(arguments: Sequence[str]) -> int:
    flags, rest = parse(AskFlags, arguments)
    flags.check()
    for name in ("concurrency", "deadline"):
        if not getattr(flags, name) > 0:
            raise UsageError(f"--{name} must be more than 0")
    questions = _questions(flags, rest)
    with EpisodeFile.open(flags.output) as episodes:
        asked = list(dict.fromkeys(questions))
        left = [question for question in asked if question not in episodes.answered]
        if len(asked) < len(questions):
            print(f"{len(questions) - len(asked)} repeated questions are asked once", file=sys.stderr)
        if len(left) < len(asked):
            answered = f"{len(asked) - len(left)} of {len(asked)} questions"
            print(f"{answered} are answered in {episodes.path} already and skipped", file=sys.stderr)
        try:
            failures = asyncio.run(_answer_all(flags, left, episodes))
        finally:
            if episodes.written:
                print(f"{episodes.written} of {len(left)} episodes saved in {episodes.path}", file=sys.stderr)
    return 1 if failures else 0


async def _answer_all(flags: AskFlags, questions: Sequence[str], episodes: EpisodeFile) -> int:
    """Answers questions, several at once, printing them in order; returns how many episodes failed."""
    failures = 0
    async with open_policies(flags, flags.concurrency) as policies, open_web(flags) as web:
        browser = Browser(web, policies.browser)
        slots = asyncio.Semaphore(flags.concurrency)
        progress = Progress(len(questions), None if flags.quiet else sys.stderr)

        async def answer(number: int, question: str) -> Episode:
            async with slots:
                episode = await run_episode(
                    browser,
                    policies.make(question),
                    question,
                    deadline_s=flags.deadline,
                    info={**policies.info, "web": web_name(flags)},
                    on_step=progress.of(number),
                )
            episodes.write(episode)
            return episode

        tasks = [asyncio.create_task(answer(number, question)) for number, question in enumerate(questions, start=1)]
        try:
            for task in tasks:
                episode = await task
                emit(episode_to_json(episode) if flags.json else answer_text(episode))
                failures += episode.end in TO_ASK_AGAIN
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return failures
