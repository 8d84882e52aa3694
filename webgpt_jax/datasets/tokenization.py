"""Examples as tokens: a prompt, and a completion with the end token behind it.

Prompt and completion are cut apart, since that is how a model meets them: it is given the prompt's tokens and writes
the completion's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from webgpt_jax.datasets.comparisons import Comparison, Side
from webgpt_jax.datasets.demonstrations import Example
from webgpt_jax.datasets.records import DataError

# Texts by which GPT-2's vocabulary is told from others: the end-of-text marker of the paper's prompts, and a plain one.
GPT2_PROBES = {"■": [29316], "Hello world": [15496, 995]}


class Tokenizer(Protocol):
    """What is asked of a tokenizer. `webgpt_jax.models.Tokenizer` is one."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_id(self) -> int | None:
        """The token that ends a completion."""
        ...

    def encode(self, text: str) -> list[int]: ...


@dataclass(frozen=True)
class TokenizedExample:
    """A prompt's tokens and a completion's, whose last is the end token."""

    prompt: list[int]
    completion: list[int]


def tokenize_example(example: Example, tokenizer: Tokenizer) -> TokenizedExample:
    """A step of a demonstration in tokens."""
    return TokenizedExample(
        tokenizer.encode(example.prompt), [*tokenizer.encode(example.completion), end_token(tokenizer)]
    )


def tokenize_side(
    comparison: Comparison, side: Side, tokenizer: Tokenizer, *, released_tokens: bool = False
) -> TokenizedExample:
    """A side of a comparison in tokens: the answering prompt and the answer.

    Args:
      comparison: the comparison.
      side: its `a` or `b`.
      tokenizer: the reward model's.
      released_tokens: whether the tokens released with the side are taken, where there are such, in the text's place;
        `check_gpt2` says whether they may be.
    """
    end = end_token(tokenizer)
    if released_tokens and side.tokens is not None:
        completion = list(side.tokens.completion)
        return TokenizedExample(
            list(side.tokens.prefix), completion if completion[-1:] == [end] else [*completion, end]
        )
    return TokenizedExample(tokenizer.encode(comparison.prompt(side)), [*tokenizer.encode(side.answer), end])


def end_token(tokenizer: Tokenizer) -> int:
    """The token that ends a completion.

    Raises:
      DataError: the tokenizer has none.
    """
    if tokenizer.eos_id is None:
        raise DataError("the tokenizer has no end token (eos), which every completion is to end with")
    return tokenizer.eos_id


def check_gpt2(tokenizer: Tokenizer) -> None:
    """Raises DataError where the vocabulary is not GPT-2's, in which the comparisons' tokens were released."""
    if any(tokenizer.encode(text) != tokens for text, tokens in GPT2_PROBES.items()):
        raise DataError("the released tokens are GPT-2's, and this tokenizer is another: train on the text instead")
