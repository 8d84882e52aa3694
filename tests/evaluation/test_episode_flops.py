"""Operations of episodes by hand, token by token, and against the counts of whole passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.models.shapes import LEARNED, OPTIONS
from webgpt_jax.evaluation.flops import (
    CompletionLengths,
    EpisodeLengths,
    best_of_n_flops,
    completion_flops,
    episode_flops,
    score_flops,
)
from webgpt_jax.models import TransformerConfig
from webgpt_jax.models.flops import attention_flops, decode_flops, forward_flops, unembedding_flops

# One layer, D = 2, one head of H = 3, F = 5, V = 7: query, key, value 2×9, out 3×2, MLP 2×(2×5) make 44 products, so
# 88 operations a token; 4×3 = 12 a pair of tokens; the unembedding 2×2×7 = 28, the score 4.
TINY = TransformerConfig(
    vocab_size=7, num_layers=1, embed_dim=2, num_heads=1, head_dim=3, mlp_dim=5, max_length=64, vocab_multiple=1
)


def test_a_completion_by_hand() -> None:
    # Four tokens read, which see 1 + 2 + 3 + 4 = 10; the first of three sampled needs no pass; the others see 5 and 6.
    assert completion_flops(TINY, CompletionLengths(4, 3)) == 6 * 88 + 12 * 21 + 3 * 28


def test_a_score_by_hand() -> None:
    assert score_flops(TINY, 3) == 3 * 88 + 12 * 6 + 4
    assert score_flops(TINY, 0) == 0


@pytest.mark.parametrize("name", [name for name in OPTIONS if OPTIONS[name].sliding_window is None])
@pytest.mark.parametrize("lengths", [CompletionLengths(1, 1), CompletionLengths(9, 1), CompletionLengths(6, 5)])
def test_a_completion_is_its_prompt_and_a_decoded_token_for_each_further_one(
    name: str, lengths: CompletionLengths
) -> None:
    config = OPTIONS[name]
    # The pass over the prompt takes the logits of its last token alone.
    prompt = forward_flops(config, lengths.prompt, causal=True) - (lengths.prompt - 1) * unembedding_flops(config)
    decoded = sum(decode_flops(config, lengths.prompt + fed) for fed in range(lengths.completion - 1))
    assert completion_flops(config, lengths) == prompt + decoded


def test_a_sliding_window_is_all_that_is_looked_at() -> None:
    narrow = replace(LEARNED, sliding_window=3)
    lengths = CompletionLengths(6, 5)
    saved = sum(max(0, seen - 3) for seen in range(1, 11))
    assert completion_flops(LEARNED, lengths) - completion_flops(narrow, lengths) == attention_flops(LEARNED, saved)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_score_is_a_pass_with_one_head_at_the_end(name: str) -> None:
    config = OPTIONS[name]
    heads = 11 * unembedding_flops(config, "scalar")
    whole = forward_flops(config, 12, "scalar", causal=True)
    assert score_flops(config, 12) == whole - heads


EPISODE = EpisodeLengths((CompletionLengths(4, 3), CompletionLengths(5, 1)), scored=3)
UNANSWERED = EpisodeLengths((CompletionLengths(1, 1),))
FIRST, SECOND, SCORE = 6 * 88 + 12 * 21 + 3 * 28, 5 * 88 + 12 * 15 + 28, 3 * 88 + 12 * 6 + 4
SHORT = 88 + 12 + 28


def test_an_episode_is_all_its_completions() -> None:
    assert episode_flops(TINY, EPISODE) == FIRST + SECOND
    assert episode_flops(TINY, EpisodeLengths(())) == 0


def test_best_of_n_is_n_episodes_and_their_scores() -> None:
    assert best_of_n_flops(TINY, TINY, [EPISODE], 4) == 4 * (FIRST + SECOND + SCORE)
    assert best_of_n_flops(TINY, TINY, [EPISODE, UNANSWERED], 4) == 2 * (FIRST + SECOND + SCORE + SHORT)


def test_the_reward_model_counts_by_its_own_size_and_not_at_all_for_one_attempt() -> None:
    deeper = replace(TINY, num_layers=2)
    assert best_of_n_flops(TINY, deeper, [EPISODE], 2) == 2 * (FIRST + SECOND + 2 * SCORE - 4)
    assert best_of_n_flops(TINY, deeper, [EPISODE], 1) == FIRST + SECOND


@pytest.mark.parametrize("lengths", [CompletionLengths(0, 1), CompletionLengths(1, 0)])
def test_an_empty_completion_is_refused(lengths: CompletionLengths) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        completion_flops(TINY, lengths)


@pytest.mark.parametrize(("episodes", "n"), [([], 4), ([EPISODE], 0)])
def test_best_of_nothing_is_refused(episodes: list[EpisodeLengths], n: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        best_of_n_flops(TINY, TINY, episodes, n)
