"""A model that browses: engine, prompts and browser as its folder says, and many episodes played at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import jax

from webgpt_jax.env import Browser, BrowserConfig, Episode, Web, run_episode
from webgpt_jax.models import FolderSettings, Tokenizer, Transformer
from webgpt_jax.rollout.model_policy import ModelPolicy, PlainPrompts, Prompts, SamplingConfig
from webgpt_jax.rollout.offer import offer_of, short_offer_of
from webgpt_jax.sampling import CommandRules, Engine, EngineConfig


@dataclass(frozen=True)
class Task:
    """An episode to be played."""

    question: str
    key: jax.Array  # of all that is sampled in it
    reference_answer: str | None = None


@dataclass(frozen=True)
class Player:
    """Policies of one model, all of which share its engine. Made by `open_player`.

    Attributes:
      policy: makes the policy of one episode from its key.
      browser: what the model is to be shown.
      info: what episodes say of it.
    """

    policy: Callable[[jax.Array], ModelPolicy]
    browser: BrowserConfig
    info: Mapping[str, str]

    async def play(self, web: Web, task: Task, *, deadline_s: float | None = None) -> Episode:
        """One episode on a web."""
        return await run_episode(
            Browser(web, self.browser),
            self.policy(task.key),
            task.question,
            task.reference_answer,
            deadline_s=deadline_s,
            info=self.info,
        )

    async def play_all(
        self,
        web: Web,
        tasks: Sequence[Task],
        *,
        concurrency: int = 64,
        on_end: Callable[[int, Episode], None] | None = None,
    ) -> list[Episode]:
        """Many episodes, some at once, in the order of their tasks. Each is the same whatever is played beside it.

        Args:
          concurrency: episodes at once; some more than the engine has slots keep it busy.
          on_end: called with a task's number and its episode as it ends.
        """
        turn = asyncio.Semaphore(concurrency)

        async def play(number: int, task: Task) -> Episode:
            async with turn:
                episode = await self.play(web, task)
            if on_end is not None:
                on_end(number, episode)
            return episode

        async with asyncio.TaskGroup() as group:
            playing = [group.create_task(play(number, task)) for number, task in enumerate(tasks)]
        return [task.result() for task in playing]


@contextmanager
def open_player(
    model: Transformer,
    tokenizer: Tokenizer,
    settings: FolderSettings,
    *,
    slots: int = 16,
    temperature: float = 0.8,
    name: str = "model",
    prompts: Prompts | None = None,
    rules: CommandRules | None = None,
) -> Iterator[Player]:
    """A player of a model, until the engine is closed.

    Args:
      settings: of the model's folder: how it browses.
      slots: completions sampled at once.
      temperature: the paper's by default; 0 is greedy.
      name: of the model, in the episodes' info.
      prompts: how it is told what to do; by default as in training, by the observation alone.
      rules: where given, it can write nothing but the commands that are on offer.
    """
    prompts = PlainPrompts(tokenizer) if prompts is None else prompts
    offer = offer_of if isinstance(prompts, PlainPrompts) else short_offer_of
    context = min(model.config.max_length, settings.context_tokens)
    room = context - prompts.overhead
    browser = BrowserConfig(
        max_actions=settings.max_actions,
        count_tokens=tokenizer.count,
        max_observation_tokens=room - settings.max_command_tokens,
        max_reference_tokens=(room - settings.max_answer_tokens) // 2,  # the question has the other half
        window_chars=settings.window_chars,
    )
    sampling = SamplingConfig(temperature, settings.max_command_tokens, settings.max_answer_tokens)
    with Engine(model, EngineConfig(slots=slots, max_length=context)) as engine:

        def policy(key: jax.Array) -> ModelPolicy:
            return ModelPolicy(engine, tokenizer, prompts, key, rules=rules, offer=offer, config=sampling)

        yield Player(policy, browser, {"policy": "model", "model": name, "temperature": f"{temperature:g}"})
