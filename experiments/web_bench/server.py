"""How the live web stands up to a load: fetching and converting a thousand large pages, many at a time.

    python -m experiments.web_bench.server

Takes about two minutes on two cores. Holds when, of 1,000 article pages of 500 KB that a local server sends after
50 ms each, fetched 64 at a time and converted by two workers, none is lost, the memory of this process stays flat, and
the processors are what everything waits for: at most a tenth of the time that two cores could have given is left idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from webgpt_jax.env import WebError
from webgpt_jax.web.fetch import LiveFetcher
from webgpt_jax.web.workers import Converter, ConverterConfig

PAGES = 1_000
PAGE_BYTES = 500_000
LATENCY_SECONDS = 0.05
AT_A_TIME = 64
CORES = 2
LEAST_SHARE = 0.9  # of the processor time that was to be had
MOST_GROWTH = 1.1  # memory at the end over memory at a quarter, when every pool and cache has filled

_VARIANTS = 16  # different pages, told apart further by the number that each request asks for
_NUMBER = b"@@@@@@"

_TEXT = """
the of and to in a is that for it was on are as with his they at be this from have or by one had not but what all were
when we there can an your which their said if do will each about how up out them then she many some so these would
other into has more her two like him see time could no make than first been its who now people my made over did down
only way find use may water long little very after words called just where most know crow raven forest river mountain
government history language music science theory number system energy light century city market
"""
_WORDS = tuple(_TEXT.split())


# ---- the pages


class _Writer:
    """Makes article pages as sites have them: navigation, figures, tables, lists, references, scripts and styles."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _sentence(self) -> str:
        words = self._random.choices(_WORDS, k=self._random.randint(6, 24))
        return " ".join(words).capitalize() + "."

    def _link(self, text: str) -> str:
        host = self._random.choice(("", "https://en.example.org", "https://www.example.com", "//cdn.example.net"))
        return f'<a href="{host}/wiki/{self._random.randrange(10**6)}" title="{text}">{text}</a>'

    def _paragraph(self) -> str:
        sentences = [self._sentence() for _ in range(self._random.randint(3, 8))]
        at = self._random.randrange(len(sentences))
        sentences[at] += " " + self._link(" ".join(self._random.choices(_WORDS, k=2)))
        note = self._random.randrange(400)
        sentences[-1] += f'<sup class="reference"><a href="#note-{note}">[{note}]</a></sup>'
        return f"<p>{' '.join(sentences)}</p>\n"

    def _section(self) -> str:
        heading = " ".join(self._random.choices(_WORDS, k=3)).title()
        parts = [f'<h2 id="{heading.replace(" ", "_")}">{heading}</h2>\n']
        parts += [self._paragraph() for _ in range(self._random.randint(4, 9))]
        extra = self._random.randrange(4)
        if extra == 0:
            rows = ("".join(f"<td>{self._random.randrange(10**4)}</td>" for _ in range(5)) for _ in range(8))
            parts.append(f"<table class='wikitable'><tr>{'</tr><tr>'.join(rows)}</tr></table>\n")
        elif extra == 1:
            items = (f"<li>{self._sentence()}</li>" for _ in range(8))
            parts.append(f"<ul>{''.join(items)}</ul>\n")
        elif extra == 2:
            parts.append(
                f'<figure><img src="/i/{self._random.randrange(10**6)}.jpg" alt="{heading}" width="300" height="200">'
                f"<figcaption>{self._sentence()}</figcaption></figure>\n"
            )
        return "".join(parts)

    def page(self, size: int) -> bytes:
        """A page of so many bytes, with `_NUMBER` in its title and its first paragraph."""
        number = _NUMBER.decode()
        menu = "".join(f"<li>{self._link(word)}</li>" for word in _WORDS[:80])
        head = (
            f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Article {number}</title><style>"
            + "".join(f".c{rule}{{margin:{rule}px;color:#{rule:06x}}}" for rule in range(400))
            + "</style><script>var state = "
            + str([self._random.random() for _ in range(400)])
            + f";</script></head><body><nav class='menu'><ul>{menu}</ul></nav><main><article><h1>Article {number}</h1>"
            f"<p>This is the article with the number {number}. {self._sentence()}</p>\n"
        )
        notes = "".join(f"<li id='note-{note}'>{self._link(self._sentence())}</li>" for note in range(300))
        foot = (
            f"<h2>References</h2><ol class='references'>{notes}</ol></article></main>"
            f"<aside class='sidebar'><ul>{menu}</ul></aside><footer><p>Some rights reserved.</p></footer></body></html>"
        )
        sections = []
        left = size - len(head) - len(foot)
        while left > 0:
            sections.append(self._section())
            left -= len(sections[-1])
        return (head + "".join(sections) + foot).encode()


# ---- the server, in a process of its own


async def _serve(listener: socket.socket) -> None:
    pages = [_Writer(seed).page(PAGE_BYTES) for seed in range(_VARIANTS)]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
                await asyncio.sleep(LATENCY_SECONDS)
                number = path.removeprefix(b"/page/")
                if number.isdigit():
                    status, body = b"200 OK", pages[int(number) % _VARIANTS].replace(_NUMBER, number.zfill(6))
                else:
                    status, body = b"404 Not Found", b"no such page"
                head = b"HTTP/1.1 %b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n"
                writer.write(head % (status, len(body)) + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, sock=listener)
    print(time.process_time(), flush=True)  # what making the pages took is no part of the load
    await server.serve_forever()


@contextlib.contextmanager
def _server() -> Iterator[tuple[str, float]]:
    """The server's address while it runs, and the processor time that its start has taken."""
    with socket.create_server(("127.0.0.1", 0), backlog=AT_A_TIME) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "experiments.web_bench.server", str(listener.fileno())]
        process = subprocess.Popen(command, pass_fds=(listener.fileno(),), stdout=subprocess.PIPE)
    with process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{port}", float(process.stdout.readline())
        finally:
            process.kill()


# ---- what is measured


def _megabytes() -> float:
    """The memory that this process holds now."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True)
    return int(shown.stdout) * 1024 / 1e6


def _cpu_seconds() -> float:
    """Processor time of this process and of those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _idle_seconds() -> float | None:
    """Time that the cores we may use have idled since the machine started; None where nobody tells."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    rows = (line.split() for line in stat.read_text().splitlines())
    return sum(int(row[4]) + int(row[5]) for row in rows if row[0] in ours) / os.sysconf("SC_CLK_TCK")


@dataclass
class _Load:
    lost: int = 0
    done: int = 0


async def _run(address: str, load: _Load, memory: dict[str, float]) -> None:
    numbers = iter(range(PAGES))
    marks = {1: "start", PAGES // 4: "quarter", PAGES // 2: "middle", PAGES: "end"}

    async def work(fetcher: LiveFetcher, converter: Converter) -> None:
        for number in numbers:
            try:
                response = await fetcher.fetch(f"{address}/page/{number}")
                page = await converter.convert(response.body, response.url, response.content_type)
            except WebError as error:
                load.lost += 1
                print(f"  lost: {error.message}")
            else:
                whole = f"{number:06}" in page.title and f"the number {number:06}." in page.text
                load.lost += not (whole and len(page.text) > PAGE_BYTES // 2)
            load.done += 1
            if load.done in marks:
                memory[marks[load.done]] = _megabytes()

    fetcher = LiveFetcher(allow_private_hosts=True, host_concurrency=AT_A_TIME, host_requests_per_second=10_000.0)
    async with fetcher, Converter(ConverterConfig(workers=CORES)) as converter:
        await asyncio.gather(*(work(fetcher, converter) for _ in range(AT_A_TIME)))


def main() -> bool:
    """Measures and prints; returns whether the figures hold."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if allowed is not None:  # the figure is for two cores, whatever the machine has
        os.sched_setaffinity(0, sorted(allowed)[:CORES])
    load, memory = _Load(), dict[str, float]()
    try:
        used = -_cpu_seconds()
        with _server() as (address, before):
            idle, start = _idle_seconds(), time.perf_counter()
            asyncio.run(_run(address, load, memory))
            seconds, idle_after = time.perf_counter() - start, _idle_seconds()
        used += _cpu_seconds() - before
    finally:
        if allowed is not None:
            os.sched_setaffinity(0, allowed)
    # Other programs may be using the cores too: what counts is what was left idle.
    idled = CORES * seconds - used if idle is None or idle_after is None else idle_after - idle
    share = used / (used + idled)
    growth = memory["end"] / memory["quarter"]
    holds = load.lost == 0 and share >= LEAST_SHARE and growth <= MOST_GROWTH
    print(f"{PAGES:,} pages of {PAGE_BYTES // 1000} KB, {AT_A_TIME} at a time: {load.lost} lost; none may be")
    print(f"{PAGES / seconds:.1f} pages/s on {CORES} cores")
    print(
        f"processors: {used:.0f} s used in {seconds:.0f} s, {share:.0%} of what {CORES} cores had to give;"
        f" at least {LEAST_SHARE:.0%}"
    )
    print(
        "memory of this process: "
        + ", ".join(f"{megabytes:.0f} MB at the {when}" for when, megabytes in memory.items())
        + f"; at the end at most {MOST_GROWTH:g} times that at the quarter"
    )
    print("holds" if holds else "DOES NOT HOLD")
    return holds


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_serve(socket.socket(fileno=int(sys.argv[1]))))
    else:
        raise SystemExit(0 if main() else 1)
