import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pdf_files import FAN_OUT, pdf

from webgpt_jax.env.page import Link, Page
from webgpt_jax.env.protocol import EpisodeError, WebError
from webgpt_jax.web.workers import Converter, ConverterConfig, WorkerStartError, to_page

MB = 1 << 20
URL = "http://a.test/page"
ONE = ConverterConfig(workers=1, wall_seconds=20)


def converter(function: str = "behave", config: ConverterConfig = ONE) -> Converter:
    return Converter(config, function=f"fake_conversions:{function}")


def convert(body: str, config: ConverterConfig = ONE, function: str = "behave") -> Page:
    async def main() -> Page:
        async with converter(function, config) as pages:
            return await pages.convert(body.encode(), URL, "text/html")

    return asyncio.run(main())


async def error_of(pages: Converter, body: str) -> str:
    """The kind of error that a conversion ends with; then checks that the next one works."""
    with pytest.raises(WebError) as caught:
        await pages.convert(body.encode(), URL, None)
    assert (await pages.convert(b"after", URL, None)).text == "None after"
    return caught.value.kind


def kind_of(body: str, config: ConverterConfig = ONE) -> str:
    async def main() -> str:
        async with converter(config=config) as pages:
            await pages.convert(b"before", URL, None)
            return await error_of(pages, body)

    return asyncio.run(main())


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def children() -> set[int]:
    """The processes that we have started and not yet waited for, dead or alive."""
    with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True) as ps:
        pairs = [tuple(map(int, line.split())) for line in ps.communicate()[0].splitlines()]
    return {pid for pid, parent in pairs if parent == os.getpid()} - {ps.pid}


@pytest.fixture
def no_child_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def is_gone(pid: int) -> bool:
    """Whether there is no such process, not even a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until_gone(pid: int) -> None:
    """Waits for a process that is not our child; where nobody reaps it, a zombie is as good as gone."""
    for _ in range(200):
        state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True).stdout
        if not state.strip() or state.startswith("Z"):
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} is still there")


def wait_for_pid(mark: Path) -> int:
    for _ in range(300):
        if mark.exists() and mark.read_text():
            return int(mark.read_text())
        time.sleep(0.05)
    pytest.fail("the worker never started its page")


# ---- what comes back


def test_a_page_comes_back_as_it_was_made() -> None:
    assert convert("", function="links") == Page(
        title="links",
        domain="a.test",
        url=URL,
        text="〖7‡fake‡bank.test〗 【0†one†b.test】 【1†two】",
        links=(Link(0, "one", "http://b.test/1", "b.test"), Link(1, "two", "http://a.test/2", "a.test")),
    )


def test_the_worker_gets_body_url_and_content_type() -> None:
    page = convert("漢 \U0001f600")
    assert (page.text, page.url) == ("text/html 漢 \U0001f600", URL)


def test_a_url_with_a_lone_surrogate_passes() -> None:
    async def main() -> Page:
        async with converter() as pages:
            return await pages.convert(b"", "http://a.test/\ud800", None)

    assert asyncio.run(main()).url == "http://a.test/\ud800"


def test_a_large_body_passes_both_ways() -> None:
    body = "long line\n" * 500_000
    assert convert(body).text == "text/html " + body


def test_a_refused_page_keeps_kind_and_message_and_its_worker() -> None:
    async def main() -> tuple[str, str, bool]:
        async with converter() as pages:
            before = await pages.convert(b"", URL, None)
            with pytest.raises(WebError) as caught:
                await pages.convert(b"refuse It needs a password.", URL, None)
            after = await pages.convert(b"", URL, None)
            return caught.value.kind, caught.value.message, before.title == after.title

    assert asyncio.run(main()) == ("encrypted", "It needs a password.", True)


@pytest.mark.parametrize("body", ["print hello", "flood", "read"])
def test_libraries_cannot_disturb_the_conversation(body: str) -> None:
    async def main() -> list[Page]:
        async with converter() as pages:
            return [await pages.convert(text.encode(), URL, None) for text in (body, body, body, "after")]

    pages = asyncio.run(main())
    assert [page.text for page in pages] == [f"None {body}"] * 3 + ["None after"]
    assert len({page.title for page in pages}) == 1  # one process


def test_nothing_that_a_worker_says_is_taken_on_trust() -> None:
    assert convert("", function="dishonest").text == "〖0‡fake‡bank.test〗"
    with pytest.raises(WebError) as caught:
        convert("no text", function="dishonest")
    assert caught.value.kind == "crashed"


# ---- limits and deaths


def test_too_slow_a_page_is_given_up() -> None:
    assert kind_of("sleep 60", replace(ONE, wall_seconds=0.5)) == "timeout"


def test_processor_time_is_limited_even_where_wall_time_is_not() -> None:
    assert kind_of("spin", replace(ONE, cpu_seconds=1)) == "timeout"


def test_processor_time_is_counted_for_each_page_anew() -> None:
    async def main() -> set[str]:
        async with converter(config=replace(ONE, cpu_seconds=1)) as pages:
            return {(await pages.convert(b"burn 0.7", URL, None)).title for _ in range(4)}

    assert len(asyncio.run(main())) == 1


@pytest.mark.parametrize("body", ["eat", f"gulp {300 * MB}"])
def test_too_much_memory_is_refused(body: str) -> None:
    assert kind_of(body, replace(ONE, memory_bytes=200 * MB)) == "memory"


def test_memory_is_watched_where_the_kernel_does_not_limit_it() -> None:
    async def main() -> str:
        async with converter("behave_without_limit", replace(ONE, memory_bytes=200 * MB)) as pages:
            return await error_of(pages, "eat")

    assert asyncio.run(main()) == "memory"


def test_a_body_larger_than_the_limit_is_not_even_sent() -> None:
    assert kind_of("x" * (101 * MB), replace(ONE, memory_bytes=100 * MB)) == "memory"


@pytest.mark.parametrize("body", ["exit 0", "exit 3", "signal SIGKILL", "signal SIGSEGV", "signal SIGTERM", "raise"])
def test_a_worker_that_dies_costs_its_page_only(body: str) -> None:
    assert kind_of(body) == "crashed"


def test_the_log_says_why_a_worker_died(caplog: pytest.LogCaptureFixture) -> None:
    assert kind_of("raise the reason") == "crashed"
    assert "ValueError: the reason" in caplog.text


def test_a_worker_that_dies_while_idle_costs_no_page() -> None:
    async def main() -> tuple[str, str]:
        async with converter() as pages:
            first = await pages.convert(b"", URL, None)
            os.kill(int(first.title), signal.SIGKILL)
            await asyncio.sleep(0.2)
            return first.title, (await pages.convert(b"", URL, None)).title

    first, second = asyncio.run(main())
    assert first != second


def test_a_worker_that_is_killed_as_it_starts_costs_one_page() -> None:
    async def main() -> None:
        async with Converter(ONE, function="fake_killed_start:convert") as pages:
            with pytest.raises(WebError) as caught:
                await pages.convert(b"", URL, None)
            assert caught.value.kind == "crashed"

    asyncio.run(main())


def test_a_worker_is_replaced_after_so_many_pages() -> None:
    async def main() -> list[str]:
        async with converter(config=replace(ONE, pages_per_worker=2)) as pages:
            return [(await pages.convert(b"", URL, None)).title for _ in range(5)]

    a, b, c, d, e = asyncio.run(main())
    assert a == b != c == d != e
    assert is_gone(int(a))
    assert is_gone(int(c))


def test_ctrl_c_in_the_terminal_is_not_the_workers_matter() -> None:
    assert convert("signal SIGINT").text == "text/html signal SIGINT"


@pytest.mark.usefixtures("no_child_left")
def test_deaths_leave_neither_zombies_nor_descriptors() -> None:
    async def main() -> None:
        async with converter(config=replace(ONE, workers=2)) as pages:
            await pages.convert(b"", URL, None)
            before = descriptors()
            bodies = [f"exit {number}".encode() for number in range(50)]
            errors = await asyncio.gather(*(pages.convert(body, URL, None) for body in bodies), return_exceptions=True)
            assert [getattr(error, "kind", error) for error in errors] == ["crashed"] * 50
            page = await pages.convert(b"", URL, None)
            assert descriptors() <= before
        assert is_gone(int(page.title))

    asyncio.run(main())


# ---- what a worker gets to see


def test_no_secret_is_in_a_workers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "secret")
    names = convert("", function="environment").text.split("\n")
    assert "BRAVE_API_KEY" not in names
    allowed = {"PATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR"}
    ours = {"PYTHONPATH", "PYTHONUTF8", "GOMAXPROCS", "GOGC"}
    assert set(names) <= allowed | ours | {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"}


def test_a_worker_has_no_descriptor_of_ours(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        # Its three standard ones, the connection, and the one that lists them.
        assert len(convert("descriptors").text.split()) == 5


# ---- many at a time


def test_workers_convert_in_parallel_and_start_when_needed() -> None:
    async def main() -> tuple[int, int]:
        async with converter(config=replace(ONE, workers=3)) as pages:
            one_by_one = {(await pages.convert(b"", URL, None)).title for _ in range(3)}
            together = await asyncio.gather(*(pages.convert(b"sleep 0.5", URL, None) for _ in range(6)))
            return len(one_by_one), len({page.title for page in together})

    assert asyncio.run(main()) == (1, 3)


def test_first_come_first_served() -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def one(pages: Converter, number: int) -> None:
            await pages.convert(b"sleep 0.01", URL, None)
            order.append(number)

        async with converter() as pages:
            await asyncio.gather(*(one(pages, number) for number in range(10)))
        return order

    assert asyncio.run(main()) == list(range(10))


def test_the_event_loop_runs_on_while_a_page_is_converted() -> None:
    async def main() -> int:
        async with converter() as pages:
            task = asyncio.create_task(pages.convert(b"sleep 0.5", URL, None))
            turns = 0
            while not task.done():
                await asyncio.sleep(0.01)
                turns += 1
            return turns

    assert asyncio.run(main()) > 5


def test_a_cancelled_conversion_leaves_no_worker_out_of_step(tmp_path: Path) -> None:
    async def main() -> None:
        async with converter() as pages:
            for number in range(3):
                mark = tmp_path / str(number)
                task = asyncio.create_task(pages.convert(f"mark {mark}".encode(), URL, None))
                pid = await asyncio.to_thread(wait_for_pid, mark)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                page = await pages.convert(f"after {number}".encode(), URL, None)
                assert page.text == f"None after {number}"
                assert is_gone(pid)

    asyncio.run(main())


@pytest.mark.usefixtures("no_child_left")
def test_cancelling_at_any_moment_mixes_no_pages_up() -> None:
    async def main() -> None:
        async with converter(config=replace(ONE, workers=2)) as pages:
            await pages.convert(b"", URL, None)
            for number in range(60):
                body = f"page {number}".encode()
                task = asyncio.create_task(pages.convert(body, URL, None))
                await asyncio.sleep(number * 2e-5)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                if number % 10 == 0:
                    assert (await pages.convert(b"next", URL, None)).text == "None next"
            assert (await pages.convert(b"last", URL, None)).text == "None last"

    asyncio.run(main())


def test_a_cancelled_waiting_conversion_is_never_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with converter() as pages:
            first = asyncio.create_task(pages.convert(b"sleep 0.5", URL, None))
            await asyncio.sleep(0)
            waiting = asyncio.create_task(pages.convert(f"mark {tmp_path / 'mark'}".encode(), URL, None))
            await asyncio.sleep(0.1)
            waiting.cancel()
            await first
            await pages.convert(b"", URL, None)

    asyncio.run(main())
    assert not (tmp_path / "mark").exists()


# ---- the end


def test_closing_gives_up_what_is_under_way(tmp_path: Path) -> None:
    async def main() -> int:
        pages = converter()
        mark = tmp_path / "mark"
        task = asyncio.create_task(pages.convert(f"mark {mark}".encode(), URL, None))
        pid = await asyncio.to_thread(wait_for_pid, mark)
        await pages.aclose()
        with pytest.raises(WebError) as caught:
            await task
        assert caught.value.kind == "closed"
        with pytest.raises(RuntimeError, match="closed"):
            await pages.convert(b"", URL, None)
        await pages.aclose()
        return pid

    assert is_gone(asyncio.run(main()))


def test_a_converter_that_is_merely_dropped_ends_its_workers() -> None:
    async def main() -> int:
        return int((await converter().convert(b"", URL, None)).title)

    pid = asyncio.run(main())
    for _ in range(100):
        if is_gone(pid):
            return
        time.sleep(0.05)
    pytest.fail("the worker is still there")


def run_program(tmp_path: Path, arguments: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A program that has no main guard, started from somewhere else than the repository."""
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root), str(Path(__file__).parent)])
    return subprocess.Popen(
        [sys.executable, "-", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
    )


LEFT_RUNNING = """
import asyncio, sys
from webgpt_jax.web.workers import Converter, ConverterConfig

async def main():
    global pages
    config = ConverterConfig(workers=1, wall_seconds=2 if "hold" in sys.argv else 60)
    pages = Converter(config, function="fake_conversions:behave")
    print((await pages.convert(b"", "http://a.test/", None)).title, flush=True)
    if len(sys.argv) > 1:
        await pages.convert(f"{sys.argv[1]} {sys.argv[2]}".encode(), "http://a.test/", None)

asyncio.run(main())
"""


def test_a_program_from_standard_input_that_closes_nothing_ends_cleanly(tmp_path: Path) -> None:
    output, errors = run_program(tmp_path).communicate(LEFT_RUNNING, timeout=60)
    assert errors == ""
    assert is_gone(int(output))


@pytest.mark.parametrize("command", ["mark", "hold"])
def test_a_worker_dies_with_its_parent_in_the_middle_of_a_page(tmp_path: Path, command: str) -> None:
    mark = tmp_path / "mark"
    with run_program(tmp_path, (command, str(mark))) as program:
        assert program.stdin is not None
        program.stdin.write(LEFT_RUNNING)
        program.stdin.close()
        pid = wait_for_pid(mark)
        program.kill()
        program.wait()
    wait_until_gone(pid)


# ---- installations that do not work


@pytest.mark.usefixtures("no_child_left")
def test_a_worker_that_cannot_start_is_a_clear_error_each_time() -> None:
    async def main() -> None:
        async with converter("no_such_function") as pages:
            for _ in range(2):
                with pytest.raises(WorkerStartError, match=r"could not be started.*no_such_function"):
                    await pages.convert(b"", URL, None)

    asyncio.run(main())
    assert issubclass(WorkerStartError, EpisodeError)


def test_an_interpreter_that_is_not_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerStartError, match=r"/nowhere/python.*No such file"):
        convert("")


def test_a_worker_that_is_too_slow_to_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkerStartError, match="could not be started"):
        convert("", replace(ONE, start_seconds=0.001))


def test_a_worker_started_by_hand_says_what_it_is() -> None:
    done = subprocess.run([sys.executable, "-m", "webgpt_jax.web.worker"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "started by webgpt_jax.web.workers" in done.stderr


@pytest.mark.parametrize("name", ["workers", "wall_seconds", "cpu_seconds", "memory_bytes", "pages_per_worker"])
def test_settings_without_sense_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"ConverterConfig.{name} must be a positive number, not 0"):
        Converter(replace(ONE, **{name: 0}))


# ---- to_page


def test_to_page_works_in_threads_and_inside_an_event_loop() -> None:
    async def main() -> list[Page]:
        here = to_page(b"text 0", "http://a.test/0.txt", "text/plain")
        calls = (
            asyncio.to_thread(to_page, f"text {number}".encode(), f"http://a.test/{number}.txt", "text/plain")
            for number in range(1, 8)
        )
        return [here, *await asyncio.gather(*calls)]

    assert [page.text for page in asyncio.run(main())] == [f"text {number}" for number in range(8)]


def test_to_page_drops_links_to_blocked_domains() -> None:
    body = b"""<article><p>See <a href='http://www.reddit.com/r/x'>that</a> and <a href='http://a.test/'>this</a>.</article>"""
    page = to_page(body, "http://b.test/", "text/html")
    assert [link.url for link in page.links] == ["http://a.test/"]
    assert "【0†this†a.test】" in page.text
    both = to_page(body, "http://b.test/", "text/html", blocked_domains=())
    assert [link.url for link in both.links] == ["http://www.reddit.com/r/x", "http://a.test/"]


def test_to_page_returns_an_error_page() -> None:
    page = to_page(b"%PDF-1.7 nothing", "http://a.test/x.pdf", None)
    assert (page.title, page.domain, page.url, page.error) == ("Error", "a.test", "http://a.test/x.pdf", "broken")
    assert page.text.startswith("This PDF cannot be read because it is damaged")


def test_ctrl_c_in_the_middle_of_a_page_mixes_no_pages_up() -> None:
    slow = pdf(b"/X0 Do", forms=FAN_OUT)

    def interrupted_after(seconds: float) -> bool:
        timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        try:
            to_page(slow, "http://a.test/slow.pdf", "application/pdf")
        except KeyboardInterrupt:
            return True
        finally:
            timer.cancel()
        return False

    assert any(interrupted_after(seconds) for seconds in (0.5, 0.2, 0.1))  # the page may be done before a signal comes
    assert to_page(b"next", "http://a.test/next.txt", "text/plain").text == "next"


USES_TO_PAGE = """
import os, sys
from webgpt_jax.web import to_page

def texts(name):
    pages = [to_page(f"{name} {n}".encode(), f"http://a.test/{name}", "text/plain") for n in range(50)]
    return [page.text for page in pages] == [f"{name} {n}" for n in range(50)]

assert texts("before")
child = os.fork()
assert texts("child" if child == 0 else "parent")
if child == 0:
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert texts("after")
"""


def test_to_page_in_a_program_without_a_main_guard_and_in_its_forks(tmp_path: Path) -> None:
    program = run_program(tmp_path)
    output, errors = program.communicate(USES_TO_PAGE, timeout=60)
    assert (output, errors, program.returncode) == ("", "", 0)
