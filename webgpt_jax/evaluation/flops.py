"""Floating-point operations of answering a question, counted from the lengths of what was read and written: the x-axis
of the paper's figure 8.

Counted is what the models must do: each token of a prompt read once and each sampled token but the last fed back once,
each looking at itself and what it may see before it. What an engine wastes on padding is not counted, and what it saves
by reading equal prompts once is not deducted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webgpt_jax.models.config import TransformerConfig
from webgpt_jax.models.flops import attention_flops, block_flops, seen_pairs, unembedding_flops


@dataclass(frozen=True)
class CompletionLengths:
    """One completion, a command or an answer, in tokens."""

    prompt: int  # read before it
    completion: int  # sampled, its end token included


@dataclass(frozen=True)
class EpisodeLengths:
    """One episode, in tokens.

    Attributes:
      completions: every action, and the answer where there was one.
      scored: what a reward model reads of it, answering prompt, answer and end token; 0 where there is no answer.
    """

    completions: tuple[CompletionLengths, ...]
    scored: int = 0


def completion_flops(config: TransformerConfig, lengths: CompletionLengths) -> int:
    """Operations for one completion: its prompt is read, the logits of the last place give the first token, and each
    further one takes a pass of one token against all before it.

    Raises:
      ValueError: prompt or completion is empty.
    """
    if lengths.prompt < 1 or lengths.completion < 1:
        raise ValueError(f"a completion has at least one token before it and one of its own, not {lengths}")
    read = lengths.prompt + lengths.completion - 1
    work = read * block_flops(config) + attention_flops(config, seen_pairs(config, read))
    return work + lengths.completion * unembedding_flops(config)


def score_flops(config: TransformerConfig, length: int) -> int:
    """Operations for a reward model to read so many tokens and score the last; none for none."""
    if not length:
        return 0
    work = length * block_flops(config) + attention_flops(config, seen_pairs(config, length))
    return work + unembedding_flops(config, "scalar")


def episode_flops(config: TransformerConfig, lengths: EpisodeLengths) -> int:
    """Operations of a policy for one episode."""
    return sum(completion_flops(config, completion) for completion in lengths.completions)


def best_of_n_flops(
    policy: TransformerConfig, reward_model: TransformerConfig, episodes: Sequence[EpisodeLengths], n: int
) -> float:
    """Operations a question of best-of-n: n times the mean of an episode and of its scoring.

    With n = 1 there is nothing to choose from, and no reward model is run (our reading).

    Args:
      policy: the model that browses and answers.
      reward_model: the model that picks.
      episodes: any number of episodes that stand for all.
      n: attempts at a question.

    Raises:
      ValueError: there are no episodes, or n is less than 1.
    """
    if not episodes or n < 1:
        raise ValueError(f"operations of best-of-n need episodes and an n of at least 1, not {len(episodes)} and {n}")
    total = sum(episode_flops(policy, lengths) for lengths in episodes)
    if n > 1:
        total += sum(score_flops(reward_model, lengths.scored) for lengths in episodes)
    return n * total / len(episodes)
