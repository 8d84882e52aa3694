"""Politeness: how many requests one host gets at a time and how soon after one another, and when to ask again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MANY_LANES = 1_000
_MAX_DIGITS = 9  # of a Retry-After in seconds: thirty years


class _Lane:
    def __init__(self, concurrency: int) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        self.users = 0  # requests that hold a slot or wait for one
        self.next_start = 0.0  # the event loop's time before which no request may start


class HostLimiter:
    """Turns for requests to hosts. Bound to the event loop in which it is first used.

    Args:
      concurrency: requests to one host that may be under way together.
      per_second: requests to one host that may start within a second, evenly spaced.
    """

    def __init__(self, concurrency: int, per_second: float) -> None:
        self._concurrency = concurrency
        self._interval = 1 / per_second
        self._lanes: dict[str, _Lane] = {}

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """Waits for the host's next turn and holds it while the block runs. Cancelling gives the turn back."""
        time = asyncio.get_running_loop().time
        lane = self._lanes.get(host)
        if lane is None:
            self._drop_idle(time())
            lane = self._lanes[host] = _Lane(self._concurrency)
        lane.users += 1
        try:
            async with lane.slots:
                now = time()
                start = max(now, lane.next_start)
                lane.next_start = start + self._interval
                if start > now:
                    await asyncio.sleep(start - now)
                yield
        finally:
            lane.users -= 1

    def _drop_idle(self, now: float) -> None:
        if len(self._lanes) >= _MANY_LANES:
            self._lanes = {host: lane for host, lane in self._lanes.items() if lane.users or lane.next_start > now}


def parse_retry_after(value: str, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for, never negative; None where it makes no sense.

    Args:
      value: a number of seconds or an HTTP date (RFC 9110, section 10.2.3).
      now: the present time, with its zone.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[-_MAX_DIGITS:]) if len(value.lstrip("0")) <= _MAX_DIGITS else float(10**_MAX_DIGITS)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def backoff(attempt: int, base_seconds: float) -> float:
    """How long to wait after a failed attempt (0, 1, ...): doubling, with jitter of half either way."""
    return base_seconds * 2.0**attempt * random.uniform(0.5, 1.5)
