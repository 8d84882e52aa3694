"""Waits that servers ask for, and turns at hosts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from webgpt_jax.web.limits import HostLimiter, backoff, parse_retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("007", 7.0),
        ("0" * 500 + "7", 7.0),
        ("9" * 5_000, 1e9),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
        ("Sunday, 01-Mar-26 12:01:00 GMT", 60.0),
        ("Sun Mar  1 12:00:05 2026", 5.0),
        ("Sun, 01 Mar 2026 14:00:00 +0200", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("-5", None),
        ("1.5", None),
        ("1e9", None),
        ("inf", None),
        ("٣", None),
        ("soon", None),
        ("", None),
        ("Mon, 99 Foo 2020", None),
        ("Sun, 01 Mar 99999 12:00:00 GMT", None),
        ("Sun, 01 Mar 2026 12:00:00 +9999999999", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_backoff_doubles_with_jitter() -> None:
    for attempt in range(5):
        waits = [backoff(attempt, 0.5) for _ in range(200)]
        assert 0.25 * 2**attempt <= min(waits) < max(waits) <= 0.75 * 2**attempt


def test_turns_are_limited_for_each_host_by_itself() -> None:
    async def main() -> None:
        limiter = HostLimiter(concurrency=2, per_second=1e6)
        held: dict[str, int] = {"a": 0, "b": 0}
        most = {"a": 0, "b": 0}

        async def visit(host: str) -> None:
            async with limiter.turn(host):
                held[host] += 1
                most[host] = max(most[host], held[host])
                await asyncio.sleep(0.001)
                held[host] -= 1

        await asyncio.gather(*(visit(host) for host in "ab" * 20))
        assert most == {"a": 2, "b": 2}

    asyncio.run(main())


def test_cancelled_waits_give_their_turns_back() -> None:
    async def main() -> None:
        limiter = HostLimiter(concurrency=1, per_second=1e6)

        async def hold() -> None:
            async with limiter.turn("a"):
                await asyncio.sleep(60)

        tasks = [asyncio.create_task(hold()) for _ in range(5)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(5), limiter.turn("a"):
            pass

    asyncio.run(main())


def test_hosts_that_are_done_with_are_forgotten() -> None:
    async def main() -> None:
        limiter = HostLimiter(concurrency=1, per_second=1e9)
        async with limiter.turn("held"):
            for number in range(5_000):
                async with limiter.turn(f"host{number}"):
                    pass
            assert len(limiter._lanes) <= 1_001
            assert "held" in limiter._lanes

    asyncio.run(main())
