"""How faithfully, and how fast, pages of Mozilla's Readability suite become `Page`s.

    python -m experiments.web_bench.pages ../shared/cases [NODE_MODULES]

Takes a minute. Holds when, over the pages of `readability/`, the mean F1 of our words against those of Mozilla's own
output is at least 0.985, at least 0.97 of its links are kept, and a core converts at least 40 pages/s. With the folder
of an `npm install @mozilla/readability linkedom html-to-text turndown`, also when that is at least 1.5 times what a
Node worker doing the same job converts beside it, whichever of the last two makes its text.

The workers are processes that stay and share one core, so that none's garbage collector has a core for itself. They
take turns by rounds over all pages, so that what one leaves behind, such as garbage to collect, hardly slows another.
Times are those of the conversion alone: bytes in memory to text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lxml import etree

from webgpt_jax.web.convert import convert

URL = "http://fakehost/test/page.html"  # where the suite's pages are, by its own convention
ROUNDS = 7
TEXT_MAKERS = ("html-to-text", "turndown")  # of the Node workers
WARM_UP = 2  # rounds that are not counted: Node compiles what it runs often

MIN_F1 = 0.985
MIN_LINKS = 0.97
MIN_PAGES_PER_SECOND = 40.0
MIN_RATIO = 1.5

_WORD = re.compile(r"\w+")


def word_f1(text: str, expected: str) -> float:
    """The F1 score of a text's words against the expected ones, as multisets; 1 where both are empty."""
    words, wanted = Counter(_WORD.findall(text)), Counter(_WORD.findall(expected))
    total = words.total() + wanted.total()
    return 2 * (words & wanted).total() / total if total else 1.0


def expected_of(folder: Path) -> tuple[str, list[str]]:
    """The text and the absolute links of what Mozilla keeps of a page."""
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True)
    root = etree.fromstring((folder / "expected.html").read_bytes(), parser)
    links = [str(link.get("href", "")) for link in root.iter("a")]
    return "".join(root.itertext()), [link for link in links if link.startswith(("http://", "https://"))]


class Worker:
    """A process that converts the pages it is told of, one JSON line each."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def __call__(self, path: Path) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"path": str(path), "url": URL}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended while it converted {path}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def work() -> None:
    """The Python worker: reads lines from standard input until it ends."""
    for line in sys.stdin:
        task = json.loads(line)
        body = Path(task["path"]).read_bytes()
        start = time.perf_counter()
        page = convert(body, task["url"], "text/html; charset=utf-8")
        milliseconds = 1000 * (time.perf_counter() - start)
        answer = {"milliseconds": milliseconds, "text": page.plain, "links": [link.url for link in page.links]}
        print(json.dumps(answer), flush=True)


@contextmanager
def _one_core() -> Iterator[None]:
    """Processes started here run on one core, where the system can arrange it."""
    if sys.platform != "linux":
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _fidelity(worker: Worker, folders: list[Path]) -> tuple[float, float]:
    """Prints F1 and links of each page; their mean, and the share of all links."""
    scores, kept, wanted = [], 0, 0
    for folder in folders:
        answer = worker(folder / "source.html")
        text, links = expected_of(folder)
        found = sum(link in set(answer["links"]) for link in links)
        scores.append(word_f1(answer["text"], text))
        kept += found
        wanted += len(links)
        print(f"  {folder.name:32} F1 {scores[-1]:.4f}  links {found}/{len(links)}")
    return statistics.mean(scores), kept / wanted if wanted else 1.0


def _milliseconds(workers: list[Worker], folders: list[Path]) -> list[list[float]]:
    """For each worker, the median milliseconds of each page; the workers take turns."""
    times: list[list[list[float]]] = [[[] for _ in folders] for _ in workers]
    for round_number in range(WARM_UP + ROUNDS):
        for worker, of_worker in zip(workers, times, strict=True):
            for page, folder in enumerate(folders):
                milliseconds = worker(folder / "source.html")["milliseconds"]
                if round_number >= WARM_UP:
                    of_worker[page].append(milliseconds)
    return [[statistics.median(of_page) for of_page in of_worker] for of_worker in times]


def main(cases: Path, node_modules: Path | None) -> bool:
    """Prints what was measured beside what is wanted; whether all of it holds.

    Args:
      cases: the folder that holds `readability/<name>/{source,expected}.html`.
      node_modules: the folder of the Node worker's packages; None leaves the comparison out.
    """
    folders = sorted(path.parent for path in cases.glob("readability/*/source.html"))
    if not folders:
        raise FileNotFoundError(f"no readability/*/source.html in {cases}")
    with ExitStack() as stack:
        with _one_core():
            workers = [stack.enter_context(Worker([sys.executable, "-m", "experiments.web_bench.pages", "--work"]))]
            node = shutil.which("node")
            if node_modules is not None and node is not None:
                script = str(Path(__file__).with_name("node_worker.mjs"))
                for maker in TEXT_MAKERS:
                    workers.append(stack.enter_context(Worker([node, script, str(node_modules), maker])))
        f1, links = _fidelity(workers[0], folders)
        medians = _milliseconds(workers, folders)
    print(f"  mean F1                {f1:8.4f}  (wanted ≥ {MIN_F1})")
    print(f"  links kept             {links:8.4f}  (wanted ≥ {MIN_LINKS})")
    rates = [1000 / statistics.mean(of_worker) for of_worker in medians]
    print(f"  pages/s, ours          {rates[0]:8.1f}  (wanted ≥ {MIN_PAGES_PER_SECOND:.0f})")
    holds = f1 >= MIN_F1 and links >= MIN_LINKS and rates[0] >= MIN_PAGES_PER_SECOND
    if len(rates) == 1:
        print("  not compared with Node: it needs `node` and the folder of its packages")
        return holds
    for maker, rate in zip(TEXT_MAKERS, rates[1:], strict=True):
        print(f"  pages/s, {maker:13} {rate:8.1f}")
        print(f"  ratio                  {rates[0] / rate:8.2f}  (wanted ≥ {MIN_RATIO})")
    return holds and rates[0] / max(rates[1:]) >= MIN_RATIO


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work()
    else:
        sys.exit(not main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
