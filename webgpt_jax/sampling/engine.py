"""The sampling engine: prompts in, completions out, from any number of tasks, threads and event loops.

    engine = Engine(model, EngineConfig(slots=32, max_length=2048))
    completion = await engine.generate(prompt, jax.random.key(0), max_tokens=64, stop_tokens=[0])

The tokens of a completion depend on the prompt, the weights, the key and the sampling settings alone, and not on when
it came, what it was batched with, which slot it had, or whether its rows were prefilled, copied or kept: token i of a
sequence is drawn with fold_in(key, i), by programs whose shapes do not depend on what else is served. The sizes in
`EngineConfig` are part of the programs: with others, numbers differ by rounding.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import operator
import threading
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import TracebackType

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from webgpt_jax.models import Params, Transformer, TransformerConfig, parameters
from webgpt_jax.sampling.inbox import Inbox
from webgpt_jax.sampling.programs import Programs, ShardingOf, buckets_of
from webgpt_jax.sampling.requests import Completion, EngineError, LogitsMask, Request, nobody
from webgpt_jax.sampling.sampler import LOWEST_TEMPERATURE
from webgpt_jax.sampling.scheduler import Scheduler
from webgpt_jax.sampling.slots import Slots
from webgpt_jax.sampling.statistics import Statistics


@dataclass(frozen=True)
class EngineConfig:
    """The engine's size. Every decode step reads all of slots × max_length, so neither should be larger than needed."""

    slots: int = 8  # sequences in the cache, and so completions sampled at once
    max_length: int = 2048  # tokens of a prompt and its completions together
    prefill_chunk: int = 256  # most prompt tokens prefilled between two decode steps
    smallest_bucket: int = 16  # a prompt's last chunk is padded to a doubling length from this to prefill_chunk
    queue_limit: int = 1024  # requests waiting for a slot; `generate` waits while there are as many
    max_held: int | None = None  # slots that may be kept for resumptions, below `slots`; None: half of them
    warm_up: bool = False  # compile all programs before the engine is there, and not each when it is first needed

    @property
    def most_held(self) -> int:
        """Slots that may be kept for resumptions."""
        return self.slots // 2 if self.max_held is None else self.max_held

    def validate(self) -> None:
        """Raises `ValueError` for sizes that mean nothing."""
        for name in ("slots", "max_length", "prefill_chunk", "smallest_bucket", "queue_limit"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.most_held < max(self.slots, 1):
            raise ValueError(f"max_held must be at least 0 and below slots {self.slots}, not {self.max_held}")


class Engine:
    """Samples from a model in a thread of its own, until it is closed.

    Args:
      model: the model, or its config and parameters. The arrays are used where they lie; stacked blocks are copied
        apart, so a caller short of memory gives `unstack`ed ones and keeps no others.
      config: the engine's size.
      sharding_of: for a mesh: where an array with the given logical axes lies (the cache's are "batch", "kv_heads" and
        "head_dim"). The parameters must lie on that mesh already.

    Raises:
      ValueError: the config is wrong, or longer than the model's learned positions.
    """

    def __init__(
        self,
        model: Transformer | tuple[TransformerConfig, Params],
        config: EngineConfig | None = None,
        *,
        sharding_of: ShardingOf | None = None,
    ) -> None:
        self.config = EngineConfig() if config is None else config
        self.config.validate()
        model_config, params = model if isinstance(model, tuple) else (model.config, parameters(model))
        self._vocab_size = model_config.vocab_size
        size = self.config
        buckets = buckets_of(min(size.smallest_bucket, size.max_length), min(size.prefill_chunk, size.max_length))
        programs = Programs(model_config, params, size.slots, size.max_length, buckets, sharding_of)
        if size.warm_up:
            programs.warm_up()
        self._key_shape = jax.random.key_data(jax.random.key(0)).shape
        self._inbox = Inbox(size.queue_limit)
        slots = Slots(size.slots, size.most_held)
        self._scheduler = Scheduler(programs, self._inbox, slots, size.max_length, self._vocab_size)
        self._thread = threading.Thread(target=self._scheduler.run, name="sampling-engine", daemon=True)
        # The thread knows the scheduler and not the engine: one that nobody has any more is closed, as is one at exit.
        self._close = weakref.finalize(self, _close, self._inbox, self._thread)
        self._thread.start()

    async def generate(
        self,
        prompt_tokens: Sequence[int],
        key: jax.Array | NDArray[np.uint32],
        max_tokens: int,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        stop_tokens: Collection[int] = (),
        logits_mask: LogitsMask | None = None,
        hold: bool = False,
    ) -> Completion:
        """Samples what follows a prompt. A task that is cancelled frees its slot.

        Args:
          prompt_tokens: at least one; with `max_tokens` they must fit into the engine's `max_length`.
          key: a JAX key of the default kind, or its data.
          max_tokens: the completion ends after so many, stop token or not.
          temperature: logits are divided by it; 0 is greedy, otherwise at least 0.001.
          top_p: the smallest set of most likely tokens with this probability together is sampled from; in (0, 1].
          stop_tokens: the completion ends with the first of these.
          logits_mask: says which tokens may come next (`LogitsMask`).
          hold: keeps the slot for `resume` where `max_tokens` ended the completion, until that is dropped or released.
            At most the engine's `max_held` are kept, the longest kept give way.

        Raises:
          EngineError: the prompt is too long, the engine is closed or has failed, or `logits_mask` has.
          ValueError: an argument is out of its range.
        """
        request = Request(
            prompt=self._checked_tokens(prompt_tokens),
            key=self._key_data(key),
            max_tokens=operator.index(max_tokens),
            temperature=float(temperature),
            top_p=float(top_p),
            stop_tokens=frozenset(operator.index(token) for token in stop_tokens),
            logits_mask=logits_mask,
            hold=hold,
            given=(),
            claim=None,
            answer=nobody,
        )
        if not (request.temperature == 0 or LOWEST_TEMPERATURE <= request.temperature < math.inf):
            raise ValueError(f"temperature must be 0 (greedy) or at least {LOWEST_TEMPERATURE}, not {temperature}")
        if not 0 < request.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")
        return await self._answer(request)

    async def resume(self, completion: Completion, max_tokens: int, *, hold: bool = False) -> Completion:
        """Goes on where `max_tokens` ended a completion of this engine, with its key and settings: the tokens are those
        that a larger `max_tokens` would have given. Only the new ones are returned.

        A completion whose slot is still held goes on before all that wait. One whose slot has been given away is
        prefilled and its tokens are decoded again, unseen. It may be resumed more than once.

        Raises:
          EngineError: as `generate`; also where the completion had finished.
        """
        if completion.finished:
            raise EngineError("the completion ended with a stop token: there is nothing to resume")
        before = completion.request
        return await self._answer(
            Request(
                prompt=before.prompt,
                key=before.key,
                max_tokens=operator.index(max_tokens),
                temperature=before.temperature,
                top_p=before.top_p,
                stop_tokens=before.stop_tokens,
                logits_mask=before.logits_mask,
                hold=hold,
                given=(*before.given, *completion.tokens),
                claim=completion.hold,
                answer=nobody,
            )
        )

    def statistics(self) -> Statistics:
        """How busy the engine is."""
        return self._scheduler.statistics()

    def close(self) -> None:
        """Ends the engine after its current step. Requests without an answer get an `EngineError`."""
        self._close()

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _checked_tokens(self, tokens: Sequence[int]) -> tuple[int, ...]:
        checked = tuple(operator.index(token) for token in tokens)
        if not checked:
            raise ValueError("a prompt needs at least one token")
        wrong = next((token for token in checked if not 0 <= token < self._vocab_size), None)
        if wrong is not None:
            raise ValueError(f"the prompt's token {wrong} is not in the vocabulary of {self._vocab_size}")
        return checked

    def _key_data(self, key: jax.Array | NDArray[np.uint32]) -> NDArray[np.uint32]:
        typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        data = np.asarray(jax.random.key_data(key) if typed else key)
        if data.shape != self._key_shape or data.dtype != np.uint32:
            raise ValueError(f"a key's data is uint32 of shape {self._key_shape}, not {data.dtype} of {data.shape}")
        return data

    async def _answer(self, request: Request) -> Completion:
        """Hands a request over and waits for its answer."""
        if request.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {request.max_tokens}")
        tokens = len(request.prompt) + len(request.given)
        if tokens + request.max_tokens > self.config.max_length:
            raise EngineError(
                f"a prompt of {tokens} tokens and max_tokens {request.max_tokens} do not fit into the engine's "
                f"max_length of {self.config.max_length}: shorten the prompt or set a larger max_length"
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Completion] = loop.create_future()

        def answer(outcome: Completion | EngineError) -> None:
            with contextlib.suppress(RuntimeError):  # its event loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, outcome)

        request.answer = answer
        try:
            await self._inbox.put(request)
            return await future
        except asyncio.CancelledError:
            self._inbox.withdraw(request)
            raise


def _settle(future: asyncio.Future[Completion], outcome: Completion | EngineError) -> None:
    if future.done():
        return
    if isinstance(outcome, Completion):
        future.set_result(outcome)
        return
    error = EngineError(str(outcome))  # its own exception for each: a shared one would collect all their tracebacks
    error.__cause__ = outcome.__cause__
    future.set_exception(error)


def _close(inbox: Inbox, thread: threading.Thread) -> None:
    inbox.close()
    if thread is not threading.current_thread():
        thread.join()
