"""Whether the pages and PDFs that broke other converters stay within their limits here.

    python -m experiments.web_bench.cases ../shared/cases

Takes half a minute. Holds when each file of `web/` and `pdf/` gives a page or an error page within 5 s and 512 MB,
counting the whole of `to_page` with the start of its worker, and the peak of resident memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from webgpt_jax.web import to_page

MOST_SECONDS = 5.0
MOST_MEGABYTES = 512.0

_CONTENT_TYPES = {".html": "text/html", ".pdf": "application/pdf"}
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss


@dataclass(frozen=True)
class Outcome:
    """What came of a file: in words, and the seconds that it took."""

    shown: str
    seconds: float


def convert(path: Path) -> Outcome:
    """Converts one file in the worker of this process."""
    start = time.perf_counter()
    page = to_page(path.read_bytes(), f"http://fakehost/{path.name}", _CONTENT_TYPES.get(path.suffix))
    seconds = time.perf_counter() - start
    shown = f"error page, {page.error}" if page.error else f"{len(page.text):,} characters, {page.title!r}"
    return Outcome(shown, seconds)


def convert_apart(path: Path) -> tuple[Outcome, float]:
    """Converts one file in a process of its own; also the peak in MB of that process and its worker."""
    command = [sys.executable, "-m", "experiments.web_bench.cases", "--one", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        # Unlike Popen.wait, this tells what the process and the children that it has waited for have used.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"converting {path} ended with status {process.returncode}")
    return Outcome(**json.loads(output)), usage.ru_maxrss * _MAXRSS_BYTES / 2**20


def main(cases: Path) -> bool:
    """Converts every file of `cases`/web and `cases`/pdf and prints a line for each; whether all kept the limits."""
    holds = True
    for path in sorted([*cases.glob("web/*"), *cases.glob("pdf/*")]):
        outcome, megabytes = convert_apart(path)
        kept = outcome.seconds <= MOST_SECONDS and megabytes <= MOST_MEGABYTES
        mark = "" if kept else "  NOT within the limits"
        print(f"  {path.name:28} {outcome.seconds:5.2f} s {megabytes:4.0f} MB  {outcome.shown[:70]}{mark}", flush=True)
        holds = holds and kept
    return holds


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asdict(convert(Path(sys.argv[2])))))
    else:
        sys.exit(not main(Path(sys.argv[1])))
