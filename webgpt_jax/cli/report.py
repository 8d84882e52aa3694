"""What a person sees of an episode: progress while it runs, then the answer with its references."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from webgpt_jax.env import BrowserState, Episode, EpisodeEnd, Step, clean, clean_line

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

    def of(self, question: str) -> Callable[[Step, BrowserState], None] | None:
        """What `run_episode` calls after each step of one question."""
        stream = self._stream
        if stream is None:
            return None
        name = f"{clean_line(question)[:24]:24} " if self._questions > 1 else ""
        width = 110 - len(name)
        count = 0

        def show(step: Step, state: BrowserState) -> None:
            nonlocal count
            count += 1
            action = clean_line(step.action.text)
            outcome = f"{len(state.quotes)} quoted, {state.page.heading or 'no page'}"
            line = f"{count:3} {action[:60]:60} {outcome}"
            print(name + (line if len(line) <= width else line[: width - 1] + "…"), file=stream, flush=True)

        return show
