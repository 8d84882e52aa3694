"""Recording what a web answers, and replaying it: the same replay gives the same episode, byte for byte.

A recording holds one answer a request, the first it got, and the recording web itself gives that answer when the
request comes again. What an episode sees is then a function of its requests alone, so that a recording run and its
replays agree whatever else runs beside them and in whatever order answers came (our reading: the paper says nothing of
repetition). Failures and timeouts of the web are answers like any other. What is no answer of the web is not recorded:
a request that its caller gave up, and a failure that its operator has to mend (`OPERATOR_KINDS`), so that the request
is asked anew when that is done. To ask the live web anew for what was answered, record into a new file.

    recording = Recording(Path("run.webrec"))
    web = RecordingWeb(LiveWeb(RecordingFetcher(fetcher, recording), ...), recording)
    web = ReplayWeb(Recording(Path("run.webrec"), write=False))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from webgpt_jax.env.page import Page
from webgpt_jax.env.protocol import SearchResult, Web, WebError
from webgpt_jax.web.recording_answer import Answer, Failure, Results
from webgpt_jax.web.recording_file import HttpResponse, Recording, RecordingError, Request

__all__ = [
    "OPERATOR_KINDS",
    "Fetcher",
    "Recording",
    "RecordingError",
    "RecordingFetcher",
    "RecordingWeb",
    "ReplayMissError",
    "ReplayWeb",
]

# Kinds of `WebError` that are not recorded: they tell of the set-up on this side and not of the web, and go away when
# the operator mends it. An episode that saw one cannot be replayed: its request has no answer.
OPERATOR_KINDS = frozenset(
    {
        "key",  # of the search engine: missing or refused
        "quota",  # what the key may ask is used up
        "setup",  # the search engine is at another address, or not set up for programs
        "connection",  # the search engine cannot be reached: the network is down, or its address is wrong
        "closed",  # the web was closed while it was being asked
        "folder",  # a folder of pages, an index or an offline wiki cannot be read, or a file in one
        "index",
        "wiki",
        "io",
    }
)

R = TypeVar("R", bound=HttpResponse)
R_co = TypeVar("R_co", bound=HttpResponse, covariant=True)


class ReplayMissError(RecordingError):
    """A request that the recording has no answer to."""

    def __init__(self, request: Request, recording: Recording) -> None:
        super().__init__(
            f"the recording {recording.path} holds no answer to {request.shown}: "
            "replay with what it was recorded with, or record more of the web into it"
        )
        self.request = request


class RecordingWeb:
    """A web that asks another one and records what it answers; what is recorded already is not asked again.

    Failures are recorded too, but for those of `OPERATOR_KINDS`.

    Any number of tasks of one event loop may use it at once: equal requests under way are asked once. When the last
    task that waits for a request is cancelled, so is the request.

    Args:
      web: the web to ask. It is asked for the canonical form of a request, so that equal requests get equal answers.
      recording: the file, open for writing. Others may record into it at the same time, from other processes too.
      timeout_s: seconds after which the other web's answer is recorded as a timeout. It should be less than what the
        browser waits (`BrowserConfig.web_timeout_s`): a wait that the browser ends leaves nothing to replay.
    """

    def __init__(self, web: Web, recording: Recording, timeout_s: float | None = None) -> None:
        if not recording.writable:
            raise ValueError("a RecordingWeb needs a Recording that is open for writing")
        self._web = web
        self._recording = recording
        self._timeout_s = timeout_s
        self._flights = _SingleFlight()

    async def search(self, query: str) -> list[SearchResult]:
        """The recorded hits of the query, or the other web's, once. Raises `WebError` as the other web did."""
        return _hits(await self._answer(Request.search(query)))

    async def open(self, url: str) -> Page:
        """The recorded page, or the other web's, once. Raises `WebError` as the other web did."""
        return _page(await self._answer(Request.open(url)))

    async def _answer(self, request: Request) -> Answer:
        return await self._flights.join(request, lambda: self._recorded(request))

    async def _recorded(self, request: Request) -> Answer:
        recording = self._recording
        known = await recording.in_thread(recording.find, request)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                answer = await _ask(self._web, request)
        except TimeoutError:
            if not limit.expired():  # the other web's own: a fault of the program, no answer
                raise
            answer = Failure("timeout", f"There was no answer within {self._timeout_s:g} seconds.")
        if isinstance(answer, Failure) and answer.kind in OPERATOR_KINDS:
            return answer
        return await recording.in_thread(recording.keep, request, answer)


class ReplayWeb:
    """A web that answers from a recording. Needs no network.

    Args:
      recording: the file.
      fall_through: the web to ask for what the recording lacks; without one, `ReplayMissError` is raised, which ends an
        episode with its steps kept.
      record: whether what `fall_through` answers is added to the recording, which must be open for writing. If not, a
        request that comes twice is asked twice, and the answers may differ.
    """

    def __init__(self, recording: Recording, fall_through: Web | None = None, record: bool = False) -> None:
        if record and fall_through is None:
            raise ValueError("there is nothing to record without a web to fall through to")
        self._recording = recording
        self._fall_through = RecordingWeb(fall_through, recording) if record and fall_through else fall_through

    async def search(self, query: str) -> list[SearchResult]:
        """The recorded hits of the query. Raises the recorded `WebError`, or `ReplayMissError`."""
        return _hits(await self._answer(Request.search(query)))

    async def open(self, url: str) -> Page:
        """The recorded page. Raises the recorded `WebError`, or `ReplayMissError`."""
        return _page(await self._answer(Request.open(url)))

    async def _answer(self, request: Request) -> Answer:
        known = await self._recording.in_thread(self._recording.find, request)
        if known is not None:
            return known
        if self._fall_through is None:
            raise ReplayMissError(request, self._recording)
        return await _ask(self._fall_through, request)


class Fetcher(Protocol[R_co]):
    """What fetches the bytes of a page, such as `webgpt_jax.web.LiveFetcher`."""

    async def fetch(self, url: str) -> R_co: ...


class RecordingFetcher(Generic[R]):
    """A fetcher that keeps the raw responses of another one in a recording, for export as a web archive.

    Put it below the web that `RecordingWeb` wraps, with the same recording: that web then decides what is fetched, and
    each page's response is kept once. Status, content type and body are kept, headers are not.
    """

    def __init__(self, fetcher: Fetcher[R], recording: Recording) -> None:
        if not recording.writable:
            raise ValueError("a RecordingFetcher needs a Recording that is open for writing")
        self._fetcher = fetcher
        self._recording = recording

    async def fetch(self, url: str) -> R:
        """The other fetcher's response. Raises what it raises."""
        response = await self._fetcher.fetch(url)
        await self._recording.in_thread(self._recording.keep_response, Request.open(url), response)
        return response


async def _ask(web: Web, request: Request) -> Answer:
    try:
        if request.kind == "search":
            return Results(tuple(await web.search(request.text)))
        return await web.open(request.text)
    except WebError as error:
        return Failure(error.kind, error.message)


def _hits(answer: Answer) -> list[SearchResult]:
    match answer:
        case Results(hits):
            return list(hits)
        case Failure(kind, message):
            raise WebError(kind, message)
    raise TypeError("a search is answered by results")  # a recording with another answer is refused before


def _page(answer: Answer) -> Page:
    match answer:
        case Page():
            return answer
        case Failure(kind, message):
            raise WebError(kind, message)
    raise TypeError("opening a page is answered by a page")


@dataclass
class _Flight:
    task: asyncio.Task[Answer]
    waiting: int = 0


class _SingleFlight:
    """Lets equal requests that are under way at the same time share one piece of work."""

    def __init__(self) -> None:
        self._flights: dict[Request, _Flight] = {}

    async def join(self, request: Request, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        flight = self._flights.get(request)
        if flight is None:
            flight = self._flights[request] = _Flight(asyncio.create_task(work()))
        flight.waiting += 1
        try:
            # The shield: a caller that gives up must not take the answer from the others.
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.waiting == 0 or flight.task.done():
                if self._flights.get(request) is flight:  # whoever comes from now on starts anew
                    del self._flights[request]
                await _end(flight.task)


async def _end(task: asyncio.Task[Answer]) -> None:
    """Cancels a task that nobody waits for and sees it out, so that nothing of it goes on behind its caller's back."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # looked at, so that it is not reported as forgotten
