"""`webgpt browse`: a person in the terminal drives the very browser the model drives."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from webgpt_jax.cli import at_terminal, emit
from webgpt_jax.cli.episodes import EpisodeFile
from webgpt_jax.cli.report import answer_text
from webgpt_jax.cli.webs import WEB_HELP, WebFlags, open_web, web_browser, web_name
from webgpt_jax.env import (
    Action,
    Browser,
    BrowserState,
    EpisodeEnd,
    EpisodeError,
    InvalidAction,
    Step,
    is_observation,
    parse_command,
    run_episode,
)
from webgpt_jax.env.commands import COMMAND_HELP, Back, ClickLink, FindInPage, QuoteText, Search
from webgpt_jax.flags import UsageError, describe, option, parse

END_OF_ANSWER = "."
TYPED_MARK = "[...]"  # for ━, which no keyboard has


HOW_TO_LEAVE = f"Type {TYPED_MARK} for ━. Ctrl-D or Ctrl-C ends the episode; it is saved as far as it went."
WHY_NOTHING = {
    ClickLink: "the page has no link of that number",
    FindInPage: "the page does not hold that text",
    QuoteText: "the page does not hold that text, or it is quoted already",
    Back: "there is no page before this one",
    Search: "there is nothing to search for in that",
}


@dataclass(frozen=True)
class BrowseFlags(WebFlags):
    """The flags of `webgpt browse`."""

    output: str | None = option(None, "append the episode to this file (default: a new file in the data folder)")
    max_actions: int | None = option(None, "actions the episode may take (default: 100; 30 on tinyweb)")


def usage() -> str:
    return "\n".join(
        [
            'usage: webgpt browse "question"',
            "",
            "Shows what the model would see and takes the commands it would write:",
            "",
            COMMAND_HELP,
            HOW_TO_LEAVE,
            "",
            WEB_HELP,
            "",
            describe(BrowseFlags),
        ]
    )


class TerminalPolicy:
    """Asks a person. A text that is no command is answered with help and does not count as an action."""

    def __init__(self) -> None:
        self._last: BrowserState | None = None

    def note(self, step: Step, state: BrowserState) -> None:
        """Says so where an action changed nothing but the count."""
        last, self._last = self._last, state
        if last is not None and _with_count_of(last, state) == state:
            why = WHY_NOTHING.get(type(step.command), "there is no more to see")
            print(f"Nothing changed: {why}.", file=sys.stderr)

    async def act(self, prompt: str) -> Action:
        emit(prompt.removesuffix("\n"))
        return Action(self._command() if is_observation(prompt) else self._answer())

    def _command(self) -> str:
        while True:
            text = _read_line("> ").strip().replace(TYPED_MARK, "━")
            try:
                parse_command(text)
            except InvalidAction:
                print(f"That is no command. The commands, to the letter:\n{COMMAND_HELP}", file=sys.stderr)
            else:
                return text

    def _answer(self) -> str:
        print(f"Write the answer; cite quotes as [1]. A line with only {END_OF_ANSWER!r} ends it.", file=sys.stderr)
        lines: list[str] = []
        while True:
            try:
                line = _read_line("  ")
            except EpisodeError:
                if not lines:
                    raise
                break  # what was written is the answer
            if line == END_OF_ANSWER:
                break
            lines.append(line)
        return "\n".join(lines).strip()


def _with_count_of(last: BrowserState, state: BrowserState) -> BrowserState:
    """The earlier state as if its action had done nothing."""
    return replace(last, actions_left=state.actions_left, past_actions=state.past_actions)


def _read_line(prompt: str) -> str:
    # Nothing else runs while a person thinks, so the loop may wait here; but its own handling of Ctrl-C would be
    # noticed only after the next line.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt if at_terminal() else "")
    except (EOFError, RuntimeError):  # the latter where standard input is closed
        raise EpisodeError("the input ended before the episode did") from None
    except KeyboardInterrupt:
        raise EpisodeError("interrupted before the episode ended") from None
    except UnicodeDecodeError:
        raise EpisodeError("the input is not UTF-8 text") from None
    finally:
        signal.signal(signal.SIGINT, handler)


def run(arguments: Sequence[str]) -> int:
    flags, rest = parse(BrowseFlags, arguments)
    if len(rest) != 1 or not rest[0].strip():
        raise UsageError("give one question")
    if flags.max_actions is not None and flags.max_actions < 1:
        raise UsageError("--max_actions must be at least 1")
    if at_terminal():
        import readline  # noqa: F401  (line editing and history for input())

        print(f"Commands:\n{COMMAND_HELP}\n{HOW_TO_LEAVE}\n", file=sys.stderr)
    with EpisodeFile.open(flags.output) as episodes:
        ended = asyncio.run(_browse(flags, rest[0], episodes))
        print(f"the episode is saved in {episodes.path}", file=sys.stderr)
    return 1 if ended is EpisodeEnd.FAILURE else 0


async def _browse(flags: BrowseFlags, question: str, episodes: EpisodeFile) -> EpisodeEnd:
    async with open_web(flags) as web:
        config = web_browser(flags)
        browser = Browser(web, replace(config, max_actions=flags.max_actions or config.max_actions))
        person = TerminalPolicy()
        info = {"policy": "person", "web": web_name(flags)}
        episode = await run_episode(browser, person, question, info=info, on_step=person.note)
    episodes.write(episode)
    emit(answer_text(episode))
    return episode.end
