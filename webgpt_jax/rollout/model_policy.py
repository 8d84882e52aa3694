"""A language model as a policy: each prompt goes to the sampling engine, what comes back is the action.

An action's text is what its tokens say, never the other way round: tokens and log-probabilities travel with it, as
sampled. Action number t of an episode is drawn with fold_in(key, t).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import jax

from webgpt_jax.env import Action, EpisodeError, is_observation
from webgpt_jax.rollout.offer import offer_of
from webgpt_jax.sampling import CommandRules, Engine, EngineError, Offer


@dataclass(frozen=True)
class SamplingConfig:
    """How a model is asked."""

    temperature: float = 0.8  # the paper's, everywhere; 0 is greedy
    max_tokens: int = 64  # of a command (paper, Table 5: tokens per action)
    max_answer_tokens: int = 256


class PolicyTokenizer(Protocol):
    """What is asked of a tokenizer."""

    stop_ids: frozenset[int]

    def encode(self, text: str, *, specials: bool = False) -> list[int]: ...

    def decode(self, tokens: Sequence[int], *, specials: bool = False) -> str: ...


class Prompts(Protocol):
    """How a model is told what to do."""

    @property
    def overhead(self) -> int:
        """How many tokens a prompt has beside an observation or an answering prompt, at most."""
        ...

    def command(self, observation: str) -> list[int]:
        """The tokens that a command follows."""
        ...

    def answer(self, prompt: str) -> list[int]:
        """The tokens that an answer follows."""
        ...


class PlainPrompts:
    """The observation and the answering prompt as they are: what our own models are trained on."""

    overhead = 0

    def __init__(self, tokenizer: PolicyTokenizer) -> None:
        self._tokenizer = tokenizer

    def command(self, observation: str) -> list[int]:
        return self._tokenizer.encode(observation)

    def answer(self, prompt: str) -> list[int]:
        return self._tokenizer.encode(prompt)


class ModelPolicy:
    """Plays one episode. Any number of them share an engine.

    Args:
      engine: what samples.
      tokenizer: the model's.
      prompts: how it is told what to do.
      key: of this episode.
      rules: where given, the model can write nothing but the commands that are on offer.
      offer: which those are, for an observation.
      config: how it is asked.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: PolicyTokenizer,
        prompts: Prompts,
        key: jax.Array,
        *,
        rules: CommandRules | None = None,
        offer: Callable[[str], Offer] = offer_of,
        config: SamplingConfig | None = None,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._key = key
        self._rules = rules
        self._offer = offer
        self._config = SamplingConfig() if config is None else config
        self._timestep = 0

    async def act(self, prompt: str) -> Action:
        """A command for an observation, an answer for an answering prompt.

        Raises:
          EpisodeError: the engine cannot answer; the message says why.
        """
        browsing = is_observation(prompt)
        tokens = self._prompts.command(prompt) if browsing else self._prompts.answer(prompt)
        most = self._config.max_tokens if browsing else self._config.max_answer_tokens
        mask = self._rules.mask(self._offer(prompt), most) if browsing and self._rules is not None else None
        key = jax.random.fold_in(self._key, self._timestep)
        self._timestep += 1
        try:
            completion = await self._engine.generate(
                tokens,
                key,
                most,
                temperature=self._config.temperature,
                stop_tokens=self._tokenizer.stop_ids,
                logits_mask=mask,
            )
        except EngineError as error:
            raise EpisodeError(f"The model cannot answer: {error}") from error
        said = completion.tokens[:-1] if completion.finished else completion.tokens
        return Action(self._tokenizer.decode(said).strip(), completion.tokens, completion.logprobs)
