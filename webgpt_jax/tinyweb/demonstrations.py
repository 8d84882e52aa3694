"""Demonstrations on a TinyWeb: its scripted people's episodes, in the order of a set's questions."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from itertools import islice

from webgpt_jax.env import Browser, Episode, run_episode
from webgpt_jax.tinyweb.demonstrators import MIX, Demonstrator, Skill
from webgpt_jax.tinyweb.questions import Split, questions
from webgpt_jax.tinyweb.world import World


async def demonstrate(
    browser: Browser,
    world: World,
    split: Split,
    *,
    seed: int = 0,
    first: int = 0,
    count: int | None = None,
    mix: Mapping[Skill, float] = MIX,
) -> AsyncIterator[Episode]:
    """The episodes of a set's questions, one by one. Each depends on its question, the seed and its number alone, so
    that going on at `first` gives what would have come.

    Args:
      browser: on the web of this world.
      split: the set of questions.
      seed: of the questions' order and of the people.
      first: how many questions are passed over.
      count: how many are asked at most; None: all of the set, which are many thousands.
      mix: who demonstrates, how often; the episode's `info` says who did.
    """
    end = None if count is None else first + count
    for number, question in enumerate(islice(questions(world, split, seed), first, end), start=first):
        place = f"{world.seed} {split} {seed} {number}"
        (skill,) = random.Random(f"tinyweb people {place}").choices(list(mix), list(mix.values()))
        info = {"web": f"tinyweb:{world.seed}", "policy": f"demonstrator:{skill.name}"}
        yield await run_episode(browser, Demonstrator(question, skill, place), question.text, info=info)
