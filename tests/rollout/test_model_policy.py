"""Whole episodes of a tiny random model: every command valid, every action as it was sampled, the same again by key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import pytest

from tests.rollout.models import tiny_model, tiny_tokenizer
from webgpt_jax.env import (
    Browser,
    BrowserConfig,
    Episode,
    EpisodeEnd,
    Link,
    Page,
    SearchResult,
    episode_from_json,
    episode_to_json,
    run_episode,
)
from webgpt_jax.rollout import (
    ChatPrompts,
    ModelPolicy,
    PlainPrompts,
    SamplingConfig,
    may_stand_in_query,
    offer_of,
    short_offer_of,
)
from webgpt_jax.sampling import CommandRules, Engine, EngineConfig, Offer, vocabulary_of

TOKENIZER = tiny_tokenizer()
RULES = CommandRules(
    vocabulary_of(TOKENIZER, 320), sorted(TOKENIZER.stop_ids), allowed=may_stand_in_query, line_bytes=30
)
SAMPLING = SamplingConfig(temperature=4.0, max_answer_tokens=24)
CONFIG = BrowserConfig(
    max_actions=12,
    count_tokens=TOKENIZER.count,
    max_observation_tokens=1200,
    max_reference_tokens=300,
    window_chars=400,
)


class SmallWeb:
    async def search(self, query: str) -> list[SearchResult]:
        return [SearchResult("Crows – a page", "http://crows.example/", "Crows bring gifts.")]

    async def open(self, url: str) -> Page:
        text = "Crows “bring” gifts.\nSee 【0†the nest†nest.example】 字.\n" + "They like people.\n" * 40
        return Page("Crows", "crows.example", url, text, [Link(0, "the nest", "http://nest.example/", "nest.example")])


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(tiny_model(), EngineConfig(slots=4, max_length=3072)) as engine:
        yield engine


def play(
    engine: Engine,
    seeds: range,
    rules: CommandRules | None = RULES,
    offer: Callable[[str], Offer] = offer_of,
    sampling: SamplingConfig = SAMPLING,
) -> list[Episode]:
    async def one(seed: int) -> Episode:
        policy = ModelPolicy(
            engine, TOKENIZER, ChatPrompts(TOKENIZER), jax.random.key(seed), rules=rules, offer=offer, config=sampling
        )
        return await run_episode(Browser(SmallWeb(), CONFIG), policy, "Why do crows bring gifts?")

    async def main() -> list[Episode]:
        return list(await asyncio.gather(*(one(seed) for seed in seeds)))

    return asyncio.run(main())


def check_actions(episode: Episode) -> None:
    """Text, tokens and log-probabilities agree."""
    actions = [step.action for step in episode.steps] + ([episode.answer] if episode.answer else [])
    for action in actions:
        assert action.tokens
        assert action.logprobs is not None
        assert len(action.logprobs) == len(action.tokens)
        assert max(action.logprobs) <= 1e-6
        assert TOKENIZER.decode(action.tokens).strip() == action.text


@pytest.mark.parametrize("offer", [offer_of, short_offer_of])
def test_commands_only_gives_valid_commands_only(engine: Engine, offer: Callable[[str], Offer]) -> None:
    episodes = play(engine, range(8), offer=offer)
    for episode in episodes:
        assert episode.end is not EpisodeEnd.FAILURE
        assert all(step.valid for step in episode.steps), [step.action.text for step in episode.steps]
        check_actions(episode)
        assert episode_from_json(episode_to_json(episode)) == episode
    assert len({step.action.text for episode in episodes for step in episode.steps}) > 8


def test_a_short_offer_ends_in_quotes_and_an_answer(engine: Engine) -> None:
    episodes = play(engine, range(8), offer=short_offer_of)
    answered = [episode for episode in episodes if episode.answer is not None]
    assert answered
    for episode in answered:
        assert episode.quotes
        assert all("\n" not in quote.text for quote in episode.quotes)


def test_an_episode_depends_on_its_key_alone(engine: Engine) -> None:
    together = play(engine, range(4), offer=short_offer_of)
    assert play(engine, range(2, 3), offer=short_offer_of) == together[2:3]
    assert len({episode_to_json(episode) for episode in together}) == 4


def test_without_rules_anything_may_be_said(engine: Engine) -> None:
    (episode,) = play(engine, range(1), rules=None)
    assert episode.end is EpisodeEnd.ACTION_LIMIT
    assert not any(step.valid for step in episode.steps)
    assert all(len(step.action.tokens or ()) <= 64 for step in episode.steps)
    check_actions(episode)


def test_a_prompt_that_does_not_fit_is_a_failure_that_says_so(engine: Engine) -> None:
    (episode,) = play(engine, range(1), sampling=replace(SAMPLING, max_tokens=3000))
    assert episode.end is EpisodeEnd.FAILURE
    assert episode.error is not None
    assert "max_length of 3072" in episode.error


def test_plain_prompts_are_what_they_are_given() -> None:
    prompts = PlainPrompts(TOKENIZER)
    assert TOKENIZER.decode(prompts.command("♦Question\n<|im_end|>")) == "♦Question\n<|im_end|>"
    assert prompts.answer("why?■\n") == TOKENIZER.encode("why?■\n")
    assert prompts.overhead == 0
