"""`webgpt ask`: questions in, cited answers out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from webgpt_jax.cli import CommandError, at_terminal, emit
from webgpt_jax.cli.best_of import Attempts, attempts_text, attempts_to_json, chosen_episode, load_scorer
from webgpt_jax.cli.episodes import TO_ASK_AGAIN, EpisodeFile
from webgpt_jax.cli.pages import contents_of, page_path, save_page, shown_attempts, shown_episode
from webgpt_jax.cli.policies import POLICY_HELP, Policies, PolicyFlags, open_policies
from webgpt_jax.cli.report import Progress, answer_text
from webgpt_jax.cli.webs import WEB_HELP, WebFlags, open_web, web_browser, web_name
from webgpt_jax.env import (
    Browser,
    Episode,
    clean,
    episode_to_json,
    run_episode,
)
from webgpt_jax.feedback import Shown
from webgpt_jax.flags import UsageError, describe, option, parse

QUESTIONS_AT_ONCE, ATTEMPTS_AT_ONCE = 4, 16
INTERRUPTED = 130  # the exit status of what Ctrl-C ended, by the shells' convention


@dataclass(frozen=True)
class AskFlags(WebFlags, PolicyFlags):
    """The flags of `webgpt ask`."""

    file: str | None = option(None, "read questions from this file, one a line; - is standard input")
    json: bool = option(False, "print each episode as a line of JSON instead of its answer")
    output: str | None = option(
        None, "append episodes to this file; questions it already holds are skipped (default: a new file for each run)"
    )
    html: str | None = option(None, "write the answers of this run, with how they were found, as a page to this file")
    best_of: int = option(1, "attempts at each question, of which --reward_model picks the best answer")
    reward_model: str | None = option(None, "with --best_of: the folder of the reward model")
    concurrency: int | None = option(
        None,
        f"episodes at once (default: {QUESTIONS_AT_ONCE} questions; "
        f"with --best_of the attempts at one question, up to {ATTEMPTS_AT_ONCE})",
    )
    deadline: float = option(300.0, "seconds an episode may take")
    quiet: bool = option(False, "show no progress")

    def check(self) -> None:
        """Raises `UsageError` for flags that cannot work."""
        super().check()
        if self.concurrency is not None and self.concurrency < 1:
            raise UsageError("--concurrency must be more than 0")
        if not self.deadline > 0:
            raise UsageError("--deadline must be more than 0")
        if self.best_of < 1:
            raise UsageError("--best_of must be at least 1")
        if self.best_of == 1:
            if self.reward_model is not None:
                raise UsageError("--reward_model picks among attempts: it needs --best_of=N, more than 1")
        elif self.policy != "model":
            raise UsageError("--best_of needs --policy=model: without a model every attempt is the same")
        elif self.reward_model is None:
            raise UsageError("--best_of needs --reward_model=FOLDER: what scores its answers")
        elif self.temperature == 0:
            raise UsageError("--best_of needs a --temperature above 0: at 0 every attempt is the same")

    @property
    def at_once(self) -> int:
        """Episodes at once."""
        return self.concurrency or (QUESTIONS_AT_ONCE if self.best_of == 1 else min(self.best_of, ATTEMPTS_AT_ONCE))


def usage() -> str:
    return "\n".join(
        [
            'usage: webgpt ask "question" …',
            "       webgpt ask --file=questions.txt --output=episodes.jsonl",
            '       webgpt ask --policy=model --model=FOLDER --best_of=16 --reward_model=FOLDER "question" …',
            "",
            "Answers each question from pages it finds, with numbered quotes as references.",
            "With --best_of, Ctrl-C ends with the best answer so far.",
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
    page = page_path(flags.html)
    questions = _questions(flags, rest)
    shown: list[Shown] = []
    with EpisodeFile.open(flags.output) as episodes:
        asked = list(dict.fromkeys(questions))
        left = [question for question in asked if question not in episodes.answered]
        if len(asked) < len(questions):
            print(f"{len(questions) - len(asked)} repeated questions are asked once", file=sys.stderr)
        if len(left) < len(asked):
            answered = f"{len(asked) - len(left)} of {len(asked)} questions"
            print(f"{answered} are answered in {episodes.path} already and skipped", file=sys.stderr)
        try:
            status = asyncio.run((_answer_all if flags.best_of == 1 else _choose_all)(flags, left, episodes, shown))
        finally:
            if episodes.written:
                print(f"{episodes.written} of {len(left)} episodes saved in {episodes.path}", file=sys.stderr)
            if page is not None:
                _save_page(page, flags, shown)
    return status


def _save_page(page: Path, flags: AskFlags, shown: Sequence[Shown]) -> None:
    if not shown:
        print(f"no answers in this run, so no {page}; webgpt view shows those of a file", file=sys.stderr)
        return
    save_page(page, contents_of({flags.policy: shown}, "Questions and answers"))
    print(f"the page is {page}", file=sys.stderr)


async def _answer_all(flags: AskFlags, questions: Sequence[str], episodes: EpisodeFile, shown: list[Shown]) -> int:
    """Answers questions, several at once, printing them in order, each added to `shown`; returns the exit status: 1 if
    an episode failed."""
    failures = 0
    async with open_policies(flags, flags.at_once, web_browser(flags)) as policies, open_web(flags) as web:
        browser = Browser(web, policies.browser)
        slots = asyncio.Semaphore(flags.at_once)
        progress = Progress(len(questions), None if flags.quiet else sys.stderr)

        async def answer(number: int, question: str) -> Episode:
            async with slots:
                episode = await run_episode(
                    browser,
                    policies.make(question, 0),
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
                shown.append(shown_episode(episode, flags.policy))
                failures += episode.end in TO_ASK_AGAIN
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return 1 if failures else 0


async def _choose_all(flags: AskFlags, questions: Sequence[str], episodes: EpisodeFile, shown: list[Shown]) -> int:
    """Answers questions one after the other with the best of several attempts, all added to `shown`; returns the exit
    status.

    A cancellation, which is Ctrl-C, ends the attempts, and the best of those that have ended is the answer.
    """
    failures = 0
    reward_model = Path(str(flags.reward_model))
    async with AsyncExitStack() as stack:
        opened = open_policies(flags, flags.at_once, web_browser(flags), several=True)
        policies = await stack.enter_async_context(opened)
        score = load_scorer(reward_model)
        browser = Browser(await stack.enter_async_context(open_web(flags)), policies.browser)
        for number, question in enumerate(questions, start=1):
            attempts, interrupted = await _attempt(flags, policies, browser, score, question)
            chosen = None if attempts is None else chosen_episode(attempts, reward_model.name)
            if attempts is None or chosen is None:
                print("interrupted before an attempt had ended: there is no answer yet", file=sys.stderr)
                return INTERRUPTED
            episodes.write(chosen)
            emit(attempts_to_json(question, attempts) if flags.json else attempts_text(attempts, chosen))
            shown += shown_attempts(attempts.episodes, attempts.scores, attempts.best, flags.policy)
            failures += chosen.end in TO_ASK_AGAIN
            if interrupted:
                left = len(questions) - number
                rest = f"; questions not asked: {left}" if left else ""
                ended = f"{len(attempts.ended)} of {flags.best_of} attempts that had ended"
                print(f"interrupted: the answer is the best of the {ended}{rest}", file=sys.stderr)
                break
    return 1 if failures else 0


async def _attempt(
    flags: AskFlags,
    policies: Policies,
    browser: Browser,
    score: Callable[[Episode], float | None],
    question: str,
) -> tuple[Attempts | None, bool]:
    """The attempts at a question, None where none has ended, and whether they were interrupted."""
    from webgpt_jax.algorithms.best_of_n import best_of_n  # needs NumPy

    progress = Progress(flags.best_of, None if flags.quiet else sys.stderr)
    slots = asyncio.Semaphore(flags.at_once)
    held: Attempts | None = None

    async def play(attempt: int) -> Episode:
        async with slots:
            return await run_episode(
                browser,
                policies.make(question, attempt),
                question,
                deadline_s=flags.deadline,
                info={**policies.info, "web": web_name(flags)},
                on_step=progress.of(attempt + 1),
            )

    def hold(attempts: Attempts) -> None:
        nonlocal held
        held = attempts

    try:
        return await best_of_n(play, score, flags.best_of, on_better=hold), False
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()  # what was asked for by it has been done: the program goes on to its end
        return held, True
