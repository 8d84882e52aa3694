"""robots.txt, as RFC 9309 has it: what a site asks programs not to read, remembered for each origin.

Answers and what they mean (section 2.3.1): 2xx, its rules hold; 4xx, there are none and everything may be read; 5xx,
nothing may be read for now; more redirects than we follow, as 4xx. A host that cannot be reached at all gives the
error that the page itself would have given. Crawl-delay is no part of the RFC and not obeyed: we read single pages
that somebody asked for, at the pace of `limits.HostLimiter`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from protego import Protego

from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.target import Target

MAX_ROBOTS_BYTES = 500 * 1024  # the least the RFC asks for; rules beyond are not read
_MAX_CACHED_BYTES = 4 * 1024 * 1024  # of robots.txt text behind the parsed rules in the cache
_ENTRY_BYTES = 1024  # what an entry counts for besides its text
_FAILURE_SECONDS = 60.0  # how long a 5xx answer is remembered

_USER_AGENT_LINE = re.compile(r"\s*user[- ]?agent(?![a-z-])\s*:?\s*([^#]*)", re.IGNORECASE)

Download = Callable[[Target], Awaitable[tuple[int, bytes]]]  # robots.txt -> final status and the body's beginning


@dataclass(frozen=True)
class _Rules:
    parsed: Protego | None  # None: nothing may be read
    size: int
    expires: float  # time.monotonic()


class RobotsRules:
    """Whether pages may be read. For one event loop at a time.

    Args:
      agent: the product token that groups of rules are matched against.
      seconds: how long rules are remembered; the RFC allows a day.
    """

    def __init__(self, agent: str, seconds: float) -> None:
        self._agent = agent.lower()
        self._seconds = seconds
        self._rules: OrderedDict[str, _Rules] = OrderedDict()
        self._size = 0
        self._downloads: dict[str, asyncio.Task[_Rules]] = {}
        self._waiting: dict[str, int] = {}

    async def check(self, target: Target, download: Download) -> None:
        """Raises `WebError("robots", ...)` where the site asks us not to read the target.

        Many pages of one origin wait for one download. It is cancelled with the last of those that wait.
        """
        rules = self._rules.get(target.origin)
        if rules is None or rules.expires <= time.monotonic():
            rules = await self._shared_download(target, download)
        if rules.parsed is None:
            raise WebError(
                "robots",
                f"{target.shown} was not fetched because its site's robots.txt fails with a server error, which counts "
                "as a refusal for now; try again later.",
            )
        if not rules.parsed.can_fetch(target.url, self._agent):
            raise WebError(
                "robots",
                f"{target.shown} was not fetched because its site's robots.txt asks programs not to read it; "
                "respect_robots=False lifts this where you have the site's leave.",
            )

    async def _shared_download(self, target: Target, download: Download) -> _Rules:
        origin = target.origin
        task = self._downloads.get(origin)
        if task is None:
            task = self._downloads[origin] = asyncio.create_task(self._download(target, download))
        self._waiting[origin] = self._waiting.get(origin, 0) + 1
        try:
            return await asyncio.shield(task)
        except WebError as error:
            raise WebError(error.kind, error.message) from None  # each of those that wait gets one of its own
        finally:
            self._waiting[origin] -= 1
            if not self._waiting[origin]:
                del self._waiting[origin]
                del self._downloads[origin]
                task.cancel()

    async def _download(self, target: Target, download: Download) -> _Rules:
        try:
            status, body = await download(target.robots())
        except WebError as error:
            if error.kind != "redirects":
                raise
            status, body = 404, b""
        seconds = min(self._seconds, _FAILURE_SECONDS) if status >= 500 else self._seconds
        text = body.decode("utf-8", "replace") if 200 <= status < 300 else ""
        parsed = None if status >= 500 else Protego.parse(_for_agent(text, self._agent))
        rules = _Rules(parsed, len(text) + _ENTRY_BYTES, time.monotonic() + seconds)
        self._remember(target.origin, rules)
        return rules

    def _remember(self, origin: str, rules: _Rules) -> None:
        old = self._rules.pop(origin, None)
        self._size += rules.size - (old.size if old else 0)
        self._rules[origin] = rules
        while self._size > _MAX_CACHED_BYTES and len(self._rules) > 1:
            _, dropped = self._rules.popitem(last=False)
            self._size -= dropped.size


def _for_agent(text: str, agent: str) -> str:
    """The text with every group that is neither ours nor everybody's made one stranger's.

    A file may name ten thousand programs above ten thousand rules: a parser that gives each its own copy of each rule
    would never come back.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    for at, line in enumerate(lines):
        found = _USER_AGENT_LINE.match(line)
        if found:
            name = found[1].strip().lower()
            lines[at] = f"User-agent: {name if name in ('*', agent) else '-'}"
    return "\n".join(lines)
