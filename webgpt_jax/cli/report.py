"""What a person sees of an episode: progress while it runs, then the answer with its references."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TextIO

from webgpt_jax.env import BrowserState, Episode, EpisodeEnd, Step, clean, clean_line
from webgpt_jax.feedback.citations import cited_numbers

LOG_COLUMNS = 120

WHY_NO_ANSWER = {
    EpisodeEnd.ANSWER: "the policy gave an empty answer",
    EpisodeEnd.NONSENSE: "the question was judged to make no sense",
    EpisodeEnd.CONTROVERSIAL: "the question was judged one that should not be answered",
    EpisodeEnd.ACTION_LIMIT: "the actions were used up before anything was quoted",
    EpisodeEnd.REFERENCE_LIMIT: "the policy gave an empty answer",
    EpisodeEnd.NO_REFERENCES: "nothing was found to quote",
    EpisodeEnd.DEADLINE: "the time was used up (--deadline)",
    EpisodeEnd.FAILURE: "it failed",
}


def answer_text(episode: Episode) -> str:
    """Question, answer and numbered references, as plain text that is safe to print on a terminal."""
    lines = [clean(episode.question), ""]
    answer = clean(episode.answer.text).strip() if episode.answer else ""
    if answer:
        lines += [answer, ""]
        if episode.quotes and not any(1 <= number <= len(episode.quotes) for number in cited_numbers(answer)):
            lines += ["(The answer cites none of what was quoted.)", ""]
    else:
        why = WHY_NO_ANSWER[episode.end]
        lines += [f"No answer: {why}." if episode.error is None else f"No answer: {clean_line(episode.error)}", ""]
    for number, quote in enumerate(episode.quotes, start=1):
        lines += [f"[{number}] {quote.heading}", f"    {clean_line(quote.url)}"]
        lines += [f"    > {line}".rstrip() for line in quote.text.split("\n")]
    return "\n".join(lines).rstrip("\n") + "\n"


class Progress:
    """A line a step on a terminal or in a log; nothing where there is no stream."""

    def __init__(self, questions: int, stream: TextIO | None) -> None:
        self._questions = questions
        self._stream = stream

    def of(self, number: int) -> Callable[[Step, BrowserState], None] | None:
        """What `run_episode` calls after each step of the question with that number, counted from 1."""
        stream = self._stream
        if stream is None:
            return None
        name = f"{number:>{len(str(self._questions))}}/{self._questions} " if self._questions > 1 else ""
        count = 0

        def show(step: Step, state: BrowserState) -> None:
            nonlocal count
            count += 1
            columns = shutil.get_terminal_size((LOG_COLUMNS, 0)).columns - 1 if stream.isatty() else LOG_COLUMNS
            action = clean_line(step.action.text)
            cut = max(10, (columns - len(name)) // 2)
            line = f"{name}{count:3} {action[:cut]:{cut}} {len(state.quotes)} quoted, {state.page.heading or 'no page'}"
            print(line if len(line) <= columns else line[: columns - 1] + "…", file=stream, flush=True)

        return show
