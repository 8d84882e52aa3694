"""The task in words, for models that know how to chat and were never trained on the commands.

A conversation is written in the model's own chat template, which is a program in Jinja's language that comes with the
weights: it runs in Jinja's sandbox. What stands in the messages is not given to it, only names for them, and their text
is put in afterwards as plain characters: no page can end a turn, nor speak in another's name.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from webgpt_jax.env import parse_answer_prompt, parse_observation
from webgpt_jax.env.observation import ParsedObservation
from webgpt_jax.env.page import strip_markers
from webgpt_jax.rollout.offer import RESULTS_TITLE

COMMANDS_TASK = "You answer questions with a text browser. Reply with one command and nothing else."


@dataclass(frozen=True)
class _Ask:
    """What is asked in a state of the browser, with an example of it: the model has no other training than this."""

    shown: str  # what stands before the question in the example
    asked: str
    command: str  # the example's


_QUESTION = "What color are emeralds?"
_NO_PAGE = _Ask("", "What do you search for?", "Search color of emeralds")
_RESULTS = _Ask(
    "【0†Emerald†gems.example】\nA green gem.\n【1†Ruby†gems.example】\nA red gem.",
    "The best link comes first. Which one leads to the answer?",
    "Clicked on link 0",
)
_PAGE = _Ask(
    "Emerald (gems.example)\n\nThe emerald is a gem.\nEmeralds are green.\nThey are hard.",
    "Which line of the page answers it?",
    "Quote: Emeralds are green.",
)
_QUOTED = _Ask(
    "Emerald (gems.example)\n\nThey are hard.\n\nQuotes:\n> Emeralds are green.",
    "Do the quotes answer it?",
    "End: Answer",
)

ANSWER_TASK = """\
Answer the question in one or two sentences, from the numbered sources alone. After each sentence write the number of \
its source in brackets."""
_ANSWER_EXAMPLES = (
    f"[1] Emeralds are green.\n\nQuestion: {_QUESTION}",
    "Emeralds are green [1].",
    "[1] The Rhine flows through Basel.\n[2] It ends in the North Sea.\n\n"
    "Question: Where does the Rhine flow, and where does it end?",
    "The Rhine flows through Basel [1]. It ends in the North Sea [2].",
)

TRANSCRIPT = "{% for message in messages %}{{ message.content }}\n\n{% endfor %}"

_MARGIN = 16  # tokens: texts that meet may be cut into more of them

_NAME = re.compile("\ue000([0-9]+)\ue001")


class TemplateFault(ValueError):
    """The model's chat template cannot be used. The message says why."""


class ChatTokenizer(Protocol):
    """What is asked of a tokenizer."""

    chat_template: str | None
    specials: dict[str, str]

    def encode(self, text: str, *, specials: bool = False) -> list[int]: ...


class ChatPrompts:
    """Prompts in a model's chat template; as a plain transcript for a model without one.

    Raises:
      TemplateFault: the template does not work.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        template = tokenizer.chat_template or TRANSCRIPT
        self._command = _render(template, tokenizer.specials, examples=1)
        self._answer = _render(template, tokenizer.specials, examples=2)

    def command(self, observation: str) -> list[int]:
        """The prompt that a command follows."""
        return self._tokens(self._command, [COMMANDS_TASK, *_turns(parse_observation(observation))])

    def answer(self, prompt: str) -> list[int]:
        """The prompt that an answer follows, made of the answering prompt."""
        asked = parse_answer_prompt(prompt)
        sources = "\n".join(f"[{number}] {text}" for number, (_, text) in enumerate(asked.references, start=1))
        return self._tokens(self._answer, [ANSWER_TASK, *_ANSWER_EXAMPLES, f"{sources}\n\nQuestion: {asked.question}"])

    @property
    def overhead(self) -> int:
        """How many tokens a prompt has beside an observation or an answering prompt, at most."""
        asks = [
            [COMMANDS_TASK, *_example(ask), _user_message([ask.asked], "", "")]
            for ask in (_NO_PAGE, _RESULTS, _PAGE, _QUOTED)
        ]
        prompts = [self._tokens(self._command, messages) for messages in asks]
        prompts.append(self._tokens(self._answer, [ANSWER_TASK, *_ANSWER_EXAMPLES, "\n\nQuestion: "]))
        return max(map(len, prompts)) + _MARGIN

    def _tokens(self, parts: Sequence[str | int], messages: Sequence[str]) -> list[int]:
        tokens: list[int] = []
        for part in parts:
            if isinstance(part, int):
                tokens += self._tokenizer.encode(messages[part])
            else:
                tokens += self._tokenizer.encode(part, specials=True)
        return tokens


def _turns(shown: ParsedObservation) -> list[str]:
    """An example, its command, and what is asked now: the observation's parts, the question last."""
    results = shown.title.startswith(RESULTS_TITLE)
    ask = _NO_PAGE if not shown.text else _RESULTS if results else _QUOTED if shown.quotes else _PAGE
    page = shown.text if results else f"{shown.title}\n\n{strip_markers(shown.text)}".strip()
    quotes = "".join(f"> {text}\n" for _, text in shown.quotes)
    parts = [page, f"Quotes:\n{quotes}".strip() if quotes else ""]
    return [*_example(ask), _user_message(parts, shown.question, ask.asked)]


def _example(ask: _Ask) -> tuple[str, str]:
    return _user_message([ask.shown], _QUESTION, ask.asked), ask.command


def _user_message(parts: Sequence[str], question: str, asked: str) -> str:
    return "\n\n".join([*filter(None, parts), f"Question: {question}", asked])


def _render(template: str, specials: Mapping[str, str], examples: int) -> list[str | int]:
    """A conversation in the template: its own text, and the numbers of the messages where they stand. Those are the
    system's, the user's and the assistant's of each example, and the user's."""
    roles = ["user", "assistant"] * examples + ["user"]
    system, *names = (f"\ue000{number}\ue001" for number in range(len(roles) + 1))
    said = [{"role": role, "content": name} for role, name in zip(roles, names, strict=True)]
    conversations = [
        [{"role": "system", "content": system}, *said],
        [{"role": "user", "content": f"{system}\n\n{names[0]}"}, *said[1:]],  # for templates that know no system
    ]
    fault = "it leaves out what it is given"
    for messages in conversations:
        try:
            text = (
                _environment()
                .from_string(template)
                .render(
                    messages=messages,
                    add_generation_prompt=True,
                    enable_thinking=False,
                    **{f"{name}_token": special for name, special in specials.items()},
                )
            )
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            fault = f"{type(error).__name__}: {error}"
            continue
        pieces = _NAME.split(text)
        if pieces[1::2] == [str(number) for number in range(len(roles) + 1)]:
            return [int(piece) if at % 2 else piece for at, piece in enumerate(pieces) if piece]
    raise TemplateFault(f"the model's chat template does not work: {fault}")


def _environment() -> ImmutableSandboxedEnvironment:
    """What templates expect, as the transformers library gives it to them."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = datetime.datetime.now().strftime
    return environment


def _raise(message: str) -> None:
    raise TemplateError(message)
