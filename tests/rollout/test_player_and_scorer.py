"""Many episodes of one model at once, and the reward model's scores of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import jax
import numpy as np
import pytest
from flax import nnx

from tests.models.shapes import ROTARY
from tests.rollout.models import tiny_model, tiny_tokenizer
from webgpt_jax.env import Action, Episode, EpisodeEnd, Page, Quote, SearchResult, render_answer_prompt
from webgpt_jax.models import FolderSettings, ScalarTransformer
from webgpt_jax.rollout import Scorer, Task, open_player

TOKENIZER = tiny_tokenizer()
SETTINGS = FolderSettings(
    "policy",
    window_chars=300,
    context_tokens=1000,
    max_command_tokens=16,
    max_answer_tokens=24,
    max_actions=3,
)


class EmptyWeb:
    async def search(self, query: str) -> list[SearchResult]:
        return []

    async def open(self, url: str) -> Page:
        return Page("Crows", "crows.example", url, "Crows bring gifts.")


def test_episodes_come_in_order_and_are_the_same_whatever_is_played_beside_them() -> None:
    tasks = [Task(f"Why {number}?", jax.random.key(number)) for number in range(5)]
    ended: list[int] = []
    with open_player(tiny_model(), TOKENIZER, SETTINGS, slots=3, temperature=2.0, name="tiny") as player:
        assert player.browser.max_observation_tokens == 1000 - 16
        assert player.browser.max_reference_tokens == (1000 - 24) // 2
        together = asyncio.run(
            player.play_all(EmptyWeb(), tasks, concurrency=4, on_end=lambda number, _: ended.append(number))
        )
        alone = [asyncio.run(player.play(EmptyWeb(), task)) for task in tasks]
    assert together == alone
    assert sorted(ended) == list(range(5))
    assert [episode.question for episode in together] == [task.question for task in tasks]
    assert all(len(episode.steps) == 3 for episode in together)
    assert together[0].info["model"] == "tiny"


def answered(question: str, answer: str) -> Episode:
    quotes = (Quote("Crows bring gifts.", "Crows", "crows.example", "http://crows.example/", 0, 18),)
    prompt = render_answer_prompt(question, quotes)
    return Episode(question, (), quotes, EpisodeEnd.ANSWER, prompt, Action(answer))


@pytest.fixture(scope="module")
def reward_model() -> ScalarTransformer:
    return ScalarTransformer(replace(ROTARY, vocab_size=320, max_length=256), rngs=nnx.Rngs(3))


def test_a_score_is_read_at_the_end_token_of_prompt_and_answer(reward_model: ScalarTransformer) -> None:
    episode = answered("Why?", "Because [1].")
    (score,) = Scorer(reward_model, TOKENIZER).score([episode])
    assert TOKENIZER.eos_id is not None
    text = "Why?■\n[1] Crows (crows.example)\n\nCrows bring gifts.■\nBecause [1]."
    tokens = np.array([[*TOKENIZER.encode(text), TOKENIZER.eos_id]], np.int32)
    assert score == pytest.approx(float(reward_model(tokens)[0, -1]), abs=1e-5)


def test_a_score_does_not_depend_on_what_is_scored_beside_it(reward_model: ScalarTransformer) -> None:
    scorer = Scorer(reward_model, TOKENIZER)
    episodes = [answered("Why?", "Because " * (1 + number % 7)) for number in range(70)]
    together = scorer.score(episodes)
    for number in (0, 6, 69):
        assert scorer.score([episodes[number]])[0] == pytest.approx(together[number], abs=1e-5)


def test_without_an_answer_there_is_no_score(reward_model: ScalarTransformer) -> None:
    silent = replace(answered("Why?", " "), answer=None, answer_prompt=None, end=EpisodeEnd.NONSENSE)
    scores = Scorer(reward_model, TOKENIZER).score([silent, answered("Why?", " "), answered("Why?", "So.")])
    assert scores[:2] == [None, None]
    assert scores[2] is not None


def test_too_long_an_input_loses_its_front(reward_model: ScalarTransformer) -> None:
    long, longer = answered("Why? " * 300, "So."), answered("How? " * 400, "So.")
    scorer = Scorer(reward_model, TOKENIZER, length=48)
    assert scorer.score([long])[0] == pytest.approx(scorer.score([longer])[0], abs=1e-6)
