"""What is asked of the engine and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# Which tokens may come next: given all tokens generated for the prompt so far (not the prompt's), a [V] bool mask, or
# None where all may. Called on the engine's thread before each of the request's tokens, so it should take well under a
# millisecond; while a request has one, the engine cannot work a step ahead.
LogitsMask: TypeAlias = Callable[[tuple[int, ...]], NDArray[np.bool_] | None]


class EngineError(RuntimeError):
    """A request that cannot be answered: too long, or the engine is closed or has failed. The message says which."""


class Hold:
    """A claim on the slot that a completion ended in, until it is released, gives way to a newer one, or nobody has the
    completion any more."""

    def __init__(self) -> None:
        self.released = False


@dataclass(eq=False)
class Request:
    """One completion in the making. After it is handed over, only the engine's thread changes it."""

    prompt: tuple[int, ...]
    key: NDArray[np.uint32]  # key data
    max_tokens: int
    temperature: float
    top_p: float
    stop_tokens: frozenset[int]
    logits_mask: LogitsMask | None
    hold: bool  # keep the slot for a resumption
    given: tuple[int, ...]  # generated earlier, by the completion that this one resumes
    claim: Hold | None  # the slot kept for it
    answer: Callable[[Completion | EngineError], None]  # callable from any thread; the first answer counts
    cancelled: bool = False
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def complete(self, finished: bool, hold: Hold | None) -> None:
        """Answers with what has been sampled."""
        answer, self.answer = self.answer, nobody  # the completion knows its request: no circle should keep its slot
        answer(Completion(tuple(self.tokens), tuple(self.logprobs), finished, self, hold))


@dataclass(frozen=True, eq=False)
class Completion:
    """The tokens that followed a prompt."""

    tokens: tuple[int, ...]  # as sampled, the stop token included
    logprobs: tuple[float, ...]  # one a token, of the distribution it was sampled from (greedy: at temperature 1)
    finished: bool  # a stop token was sampled; otherwise max_tokens ended it, and `Engine.resume` goes on
    request: Request = field(repr=False)  # for the engine, to resume
    hold: Hold | None = field(default=None, repr=False)  # for the engine, to resume

    def release(self) -> None:
        """Gives back the slot that `hold=True` kept. Resuming remains possible, at the cost of a prefill."""
        if self.hold is not None:
            self.hold.released = True


def nobody(outcome: Completion | EngineError) -> None:
    """Takes the answer of a request that is not handed over yet, or not any more."""


class FailureOf:
    """A `with` block whose exceptions become the answer of one request, and of no other."""

    def __init__(self, request: Request, doing: str) -> None:
        self._request = request
        self._doing = doing
        self.failed = False

    def __enter__(self) -> FailureOf:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed = True
        failure = EngineError(f"{self._doing} failed: {type(error).__name__}: {error}")
        failure.__cause__ = error
        self._request.answer(failure)
        return True
