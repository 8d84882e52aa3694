"""The child process that makes pages of hostile bytes; `webgpt_jax.web.worker_process` is its parent's side.

Parsers loop, eat memory and crash on the pages of the open web, so they run where they can be killed. The child is a
plain `python -m webgpt_jax.web.worker SETTINGS`, not a `multiprocessing` one, whose start imports the caller's main
program again. It talks over a socket that it finds as its standard input: one message asks for a page, one answers. A
message is two lengths, a JSON header and a body of raw bytes.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from webgpt_jax.env.page import Link, Page
from webgpt_jax.env.protocol import WebError

OUT_OF_MEMORY = 77  # the exit status of a worker that met its memory limit

_LENGTHS = struct.Struct(">II")
_MAX_OUTPUT_BYTES = 16 << 20  # what libraries may write to a file, or to standard error during one page
_WATCH_SECONDS = 0.05

Convert = Callable[[bytes, str, "str | None"], Page]


@dataclass(frozen=True)
class Settings:
    """What a worker is started with.

    Args:
      function: what converts, as "module:name"; it is called with the body, its URL and its content type.
      memory_bytes: what the process may allocate, and hold in memory.
      cpu_seconds: processor time a page may take; then comes SIGXCPU.
      wall_seconds: time a page may take; then comes SIGALRM. The parent should be faster.
      parent: the process to live and die with.
    """

    function: str
    memory_bytes: int
    cpu_seconds: int
    wall_seconds: float
    parent: int

    def __str__(self) -> str:
        return json.dumps(asdict(self))


# ---- messages


def send(connection: socket.socket, header: dict[str, Any], body: bytes = b"") -> None:
    """Sends one message. Raises `OSError` where nobody listens, `TimeoutError` past the socket's timeout."""
    # A URL may hold lone surrogates, which plain UTF-8 refuses.
    encoded = json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass")
    connection.sendall(_LENGTHS.pack(len(encoded), len(body)) + encoded)
    connection.sendall(body)


def receive(connection: socket.socket, deadline: float = math.inf) -> tuple[dict[str, Any], bytes]:
    """The next message: header and body.

    Args:
      connection: a socket in blocking mode.
      deadline: when to stop waiting, in the seconds of `time.monotonic`.

    Raises `EOFError` where the other side has gone, `TimeoutError` at the deadline.
    """
    header_bytes, body_bytes = _LENGTHS.unpack(_read(connection, _LENGTHS.size, deadline))
    header = json.loads(_read(connection, header_bytes, deadline).decode("utf-8", "surrogatepass"))
    return header, bytes(_read(connection, body_bytes, deadline))


def _read(connection: socket.socket, size: int, deadline: float) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        if deadline < math.inf:
            connection.settimeout(max(deadline - time.monotonic(), 1e-6))  # 0 would mean "do not block"
        count = connection.recv_into(view[done:])
        if count == 0:
            raise EOFError("the other side has closed the connection")
        done += count
    return data


def page_to_json(page: Page) -> dict[str, Any]:
    """A page as what JSON can hold."""
    links = [[link.id, link.text, link.url, link.domain] for link in page.links]
    return {
        "title": page.title,
        "domain": page.domain,
        "url": page.url,
        "text": page.text,
        "links": links,
        "error": page.error,
    }


def page_from_json(fields: dict[str, Any]) -> Page:
    """The page that `page_to_json` was given. It is cleaned again: nothing a worker says is taken on trust."""
    return Page(**fields | {"links": tuple(Link(*link) for link in fields["links"])})


# ---- the process


def main() -> None:
    """Serves conversions until the parent closes the connection or dies."""
    if len(sys.argv) != 2:
        sys.exit("webgpt_jax.web.worker is started by webgpt_jax.web.workers; it is of no use by itself.")
    settings = Settings(**json.loads(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is the parent's matter
    connection = _take_connection()
    module, _, name = settings.function.partition(":")
    convert: Convert = getattr(import_module(module), name)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, _MAX_OUTPUT_BYTES)
    _lower(resource.RLIMIT_DATA, settings.memory_bytes)  # not RLIMIT_AS: Go reserves far more than it uses
    threading.Thread(target=_watch, args=(settings,), daemon=True).start()
    send(connection, {"ready": True})
    try:
        _serve(connection, convert, settings)
    except EOFError:
        return
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # no tidying up: that would take memory


def _serve(connection: socket.socket, convert: Convert, settings: Settings) -> None:
    while True:
        request, body = receive(connection)
        # Both signals end the process, even if it is in C code that never lets a thread of ours run.
        signal.setitimer(signal.ITIMER_REAL, settings.wall_seconds)
        _lower(resource.RLIMIT_CPU, math.ceil(time.process_time()) + settings.cpu_seconds)
        try:
            page = convert(body, request["url"], request["content_type"])
        except WebError as error:
            answer: dict[str, Any] = {"error": {"kind": error.kind, "message": error.message}}
        else:
            answer = {"page": page_to_json(page)}
        signal.setitimer(signal.ITIMER_REAL, 0)
        send(connection, answer)


def _take_connection() -> socket.socket:
    """Moves the connection away from standard input, where a library could read from it."""
    connection = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    return connection


def _lower(limit: int, value: int) -> None:
    """Sets a soft resource limit; one that an administrator has set lower stays."""
    _, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _watch(settings: Settings) -> None:
    """Ends the process when its parent has died or its memory is used up.

    A dead parent shows as the end of the connection too, but not in the middle of a conversion, nor where another
    child of the parent has inherited its end. Memory is RLIMIT_DATA's matter where that works: macOS ignores it.
    """
    while True:
        time.sleep(_WATCH_SECONDS)
        if os.getppid() != settings.parent:
            os._exit(0)
        if _resident_bytes() > settings.memory_bytes:
            os._exit(OUT_OF_MEMORY)


def _resident_bytes() -> int:
    if sys.platform == "linux":  # where ru_maxrss starts at what the parent held when it forked
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
