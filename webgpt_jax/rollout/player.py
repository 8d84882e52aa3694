"""A model that browses: engine, prompts and browser as its folder says, and many episodes played at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import jax

from webgpt_jax.env import Browser, BrowserConfig, Episode, Web, run_episode
from webgpt_jax.models import FolderSettings, Tokenizer, Transformer
from webgpt_jax.rollout.model_policy import ModelPolicy, PlainPrompts, SamplingConfig
from webgpt_jax.sampling import Engine, EngineConfig


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
      browser: what the model is to be shown.
      info: what episodes say of it.
    """

    browser: BrowserConfig
    info: Mapping[str, str]
    _engine: Engine
    _tokenizer: Tokenizer
    _sampling: SamplingConfig

    def policy(self, key: jax.Array) -> ModelPolicy:
        """A policy for one episode."""
        prompts = PlainPrompts(self._tokenizer)
        return ModelPolicy(self._engine, self._tokenizer, prompts, key, config=self._sampling)

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
) -> Iterator[Player]:
    """A player of a model that was trained to browse, until the engine is closed.

    Args:
      settings: of the model's folder: how it browses.
      slots: completions sampled at once.
      temperature: the paper's by default; 0 is greedy.
      name: of the model, in the episodes' info.
    """
    context = min(model.config.max_length, settings.context_tokens)
    browser = BrowserConfig(
        max_actions=settings.max_actions,
        count_tokens=tokenizer.count,
        max_observation_tokens=context - settings.max_command_tokens,
        max_reference_tokens=(context - settings.max_answer_tokens) // 2,  # the question has the other half
        window_chars=settings.window_chars,
    )
    sampling = SamplingConfig(temperature, settings.max_command_tokens, settings.max_answer_tokens)
    with Engine(model, EngineConfig(slots=slots, max_length=context)) as engine:
        info = {"policy": "model", "model": name, "temperature": f"{temperature:g}"}
        yield Player(browser, info, engine, tokenizer, sampling)
