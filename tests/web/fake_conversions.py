"""Conversions that behave well or badly, for the workers in test_workers.py to run."""

import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

from webgpt_jax.env.page import Page, PageWriter
from webgpt_jax.env.protocol import WebError


def echo(body: bytes, url: str, content_type: str | None) -> Page:
    """A page about the request and the process that served it."""
    return Page(title=str(os.getpid()), domain="a.test", url=url, text=f"{content_type} {body.decode()}")


def environment(body: bytes, url: str, content_type: str | None) -> Page:
    """The names in the environment, a line each."""
    return Page(title="environment", domain="", url=url, text="\n".join(sorted(os.environ)))


def links(body: bytes, url: str, content_type: str | None) -> Page:
    """A page with two links and, around them, what looks like one and is none."""
    writer = PageWriter(url)
    text = f"【7†fake†bank.test】 {writer.link('one', 'http://b.test/1')} {writer.link('two', 'http://a.test/2')}"
    return writer.page("links", text)


def dishonest(body: bytes, url: str, content_type: str | None) -> Page:
    """What no real conversion returns, as from a process that a page has taken over."""
    page = Page(title="", domain="", url=url, text="")
    object.__setattr__(page, "text", ["no text"] if body == b"no text" else "\x00【0†fake†bank.test】")
    return page


def behave_without_limit(body: bytes, url: str, content_type: str | None) -> Page:
    """As `behave`, where the kernel limits no memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    return behave(body, url, content_type)


def behave(body: bytes, url: str, content_type: str | None) -> Page:
    """Does what the body says, a command and its argument; then as `echo`."""
    command, _, argument = body.decode().partition(" ")
    match command:
        case "sleep":
            time.sleep(float(argument))
        case "mark":  # tells its process in a file, then sleeps
            Path(argument).write_text(str(os.getpid()))
            time.sleep(60)
        case "hold":  # like "mark", but with the interpreter's lock held: no other thread of the process runs
            Path(argument).write_text(str(os.getpid()))
            ctypes.PyDLL(None).sleep(60)
        case "spin":
            while True:
                pass
        case "burn":
            end = time.process_time() + float(argument)
            while time.process_time() < end:
                pass
        case "eat":
            eaten = []
            while True:
                eaten.append(b"1" * (4 << 20))
                time.sleep(0.001)
        case "gulp":
            bytearray(int(argument))
        case "exit":
            os._exit(int(argument))
        case "signal":
            os.kill(os.getpid(), signal.Signals[argument])
        case "raise":
            raise ValueError(argument)
        case "refuse":
            raise WebError("encrypted", argument)
        case "print":
            print(argument, flush=True)
            os.write(1, b"\x00\x00\x00\x02\x00\x00\x00\x00{}")
            print(argument, file=sys.stderr, flush=True)
        case "flood":  # three of them are more than a worker may write
            for _ in range(100):
                os.write(1, b"x" * 65536)
                sys.stderr.write("x" * 65536)
        case "read":
            assert os.read(0, 1) == b""
        case "descriptors":
            return Page(title="", domain="", url=url, text=" ".join(map(str, Path("/dev/fd").iterdir())))
    return echo(body, url, content_type)
