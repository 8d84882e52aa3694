"""A recording gives back what a web answered, to anyone, in any order, and survives what may happen to it."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.env import (
    Action,
    Browser,
    BrowserConfig,
    EpisodeEnd,
    Page,
    PageWriter,
    SearchResult,
    WebError,
    episode_to_json,
    run_episode,
)
from webgpt_jax.web.recording import (
    Recording,
    RecordingError,
    RecordingFetcher,
    RecordingWeb,
    ReplayMissError,
    ReplayWeb,
)
from webgpt_jax.web.recording_answer import Failure, Results
from webgpt_jax.web.recording_file import Request

ROOT = Path(__file__).resolve().parents[2]


class FickleWeb:
    """Never gives the same answer twice, and gives it after a while that nobody can foresee."""

    def __init__(self, seed: int = 0) -> None:
        self.asked: list[str] = []
        self._random = random.Random(seed)

    async def search(self, query: str) -> list[SearchResult]:
        self.asked.append(query)
        number = len(self.asked)
        await asyncio.sleep(self._random.random() / 200)
        if "fails" in query:
            raise WebError("http", f"status 503, try {number}")
        return [SearchResult(f"Hit {at} of try {number}", f"http://site.test/{at}", query) for at in range(3)]

    async def open(self, url: str) -> Page:
        self.asked.append(url)
        number = len(self.asked)
        await asyncio.sleep(self._random.random() / 200)
        if "slow" in url:
            raise WebError("timeout", f"too slow, try {number}")
        writer = PageWriter(url)
        link = writer.link("next", f"{url}x")
        return writer.page(f"Page, try {number}", f"It says {number}. Go to {link} or stay.\n" * 3)


class StuckWeb:
    """Answers when `go` is set; counts what it was asked and what was cancelled."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.arrivals: asyncio.Queue[str] = asyncio.Queue()
        self.asked = 0
        self.cancelled = 0

    async def search(self, query: str) -> list[SearchResult]:
        self.asked += 1
        self.arrivals.put_nowait(query)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [SearchResult(query, "http://a.test/", "")]

    async def open(self, url: str) -> Page:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://a.test/", "http://a.test/"),
        ("HTTP://A.Test/Path?Q=A b#part", "http://a.test/Path?Q=A b"),
        ("http://a.test:80/", "http://a.test/"),
        ("http://a.test:/", "http://a.test/"),
        ("https://a.test:443/x", "https://a.test/x"),
        ("https://a.test:80/x", "https://a.test:80/x"),
        ("http://a.test:8080", "http://a.test:8080"),
        ("http://a.test", "http://a.test"),
        ("http://a.test/?", "http://a.test/?"),
        ("http://a.test?q=http://B.test:80/#x#y", "http://a.test?q=http://B.test:80/"),
        ("http://[2001:DB8::80]:80/", "http://[2001:db8::80]/"),
        ("http://[2001:DB8::80]/", "http://[2001:db8::80]/"),
        ("http://a.test/%7Ex/../y", "http://a.test/%7Ex/../y"),
        ("mailto:A@b.test#x", "mailto:A@b.test"),
        ("", ""),
    ],
)
def test_a_url_has_one_spelling(url: str, canonical: str) -> None:
    assert Request.open(url) == Request("open", canonical)
    assert Request.open(canonical).text == canonical


def test_a_query_has_one_spelling() -> None:
    assert Request.search("  How do\tCrows\n\nfly? ").text == "How do Crows fly?"


def test_replay_gives_what_was_recorded(tmp_path: Path) -> None:
    async def record() -> tuple[list[SearchResult], Page]:
        with Recording(tmp_path / "a.webrec") as recording:
            web = RecordingWeb(FickleWeb(), recording)
            return await web.search("two  words"), await web.open("http://a.test/p#part")

    async def replay() -> None:
        with Recording(tmp_path / "a.webrec", write=False) as recording:
            web = ReplayWeb(recording)
            assert await web.search("two words") == hits
            assert await web.open("http://A.test:80/p") == page

    hits, page = asyncio.run(record())
    assert [hit.title for hit in hits] == ["Hit 0 of try 1", "Hit 1 of try 1", "Hit 2 of try 1"]
    assert page.url == "http://a.test/p"  # the web is asked for the canonical URL
    assert page.links[0].url == "http://a.test/px"
    asyncio.run(replay())


def test_failures_and_timeouts_are_replayed(tmp_path: Path) -> None:
    async def outcomes(web: RecordingWeb | ReplayWeb) -> list[tuple[str, str]]:
        seen = []
        for call in (web.search("this fails"), web.open("http://slow.test/"), web.search("this fails")):
            with pytest.raises(WebError) as caught:
                await call
            seen.append((caught.value.kind, caught.value.message))
        return seen

    async def main() -> None:
        expected = [("http", "status 503, try 1"), ("timeout", "too slow, try 2"), ("http", "status 503, try 1")]
        with Recording(tmp_path / "a.webrec") as recording:
            assert await outcomes(RecordingWeb(FickleWeb(), recording)) == expected
            assert await outcomes(ReplayWeb(recording)) == expected

    asyncio.run(main())


foreign = st.text(st.characters(exclude_categories=())) | st.text("ab 【】†♦■━\n\r\0\ud800\u202e0")


@given(title=foreign, text=foreign, url=foreign, link=foreign, error=st.none() | foreign)
def test_any_page_comes_back_as_it_was(title: str, text: str, url: str, link: str, error: str | None) -> None:
    writer = PageWriter("http://a.test/")
    whole = f"{text}{writer.link(link, 'http://b.test/' + url)}{text}{writer.link(text, 'http://a.test/')}"
    linked = writer.page(title, whole)
    page = Page(linked.title, linked.domain, f"http://a.test/{url}", linked.text, linked.links, error)
    answers = [page, Results((SearchResult(title, url, text),)), Failure(title, text)]
    with Recording(":memory:") as recording:
        for kind, answer in zip(("open", "search", "search"), answers, strict=True):
            request = Request(kind, url + answer.__class__.__name__)
            assert recording.keep(request, answer) == answer
            assert recording.find(request) == answer
        assert [row.answer for row in recording.rows()] == answers


@dataclass
class Wanderer:
    """A policy whose every action depends on every character it was shown."""

    searches: int = 12

    async def act(self, prompt: str) -> Action:
        choice = random.Random(prompt)
        if not prompt.startswith("♦Question"):
            return Action(f"The answer is {choice.random()} [1].")
        commands = [f"Search topic {choice.randrange(self.searches)}", "Quote: it says", "Scrolled down 1", "Back"]
        commands += [f"Clicked on link {choice.randrange(3)}", "Clicked on link 0", "Search this fails"]
        return Action(choice.choice(commands))


def test_many_episodes_at_once_replay_byte_for_byte(tmp_path: Path) -> None:
    questions = [f"What is thing {number}?" for number in range(24)]

    async def play(web: RecordingWeb | ReplayWeb, order: list[str]) -> dict[str, str]:
        browser = Browser(web, BrowserConfig(max_actions=12))
        episodes = await asyncio.gather(*(run_episode(browser, Wanderer(), question) for question in order))
        assert all(len(episode.steps) == 12 for episode in episodes)
        return {episode.question: episode_to_json(episode) for episode in episodes}

    async def main() -> None:
        inner = FickleWeb(seed=1)
        with Recording(tmp_path / "a.webrec") as recording:
            recorded = await play(RecordingWeb(inner, recording), questions)
        assert len(inner.asked) == len(set(inner.asked)) > 10  # every request was asked once
        with Recording(tmp_path / "a.webrec", write=False) as recording:
            assert await play(ReplayWeb(recording), questions) == recorded
            assert await play(ReplayWeb(recording), questions[::-1]) == recorded
        assert any("Quote" in episode for episode in recorded.values())

    asyncio.run(main())


def test_a_miss_names_the_request_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.webrec"
    Recording(path).close()

    async def main() -> None:
        with Recording(path, write=False) as recording:
            web = ReplayWeb(recording)
            with pytest.raises(ReplayMissError, match="the search 'unknown thing'") as caught:
                await web.search("unknown\n thing")
            assert str(path) in str(caught.value)
            with pytest.raises(ReplayMissError, match=r"the page 'http://a\.test/x'"):
                await web.open("http://a.test/x#y")
            episode = await run_episode(Browser(web), Wanderer(), "Why?", max_actions=30)
            assert episode.end is EpisodeEnd.FAILURE
            assert "holds no answer" in str(episode.error)

    asyncio.run(main())


def test_falling_through_records_if_asked(tmp_path: Path) -> None:
    async def main() -> None:
        inner = FickleWeb()
        with Recording(tmp_path / "a.webrec") as recording:
            await RecordingWeb(inner, recording).search("known")
            open_ended = ReplayWeb(recording, fall_through=inner)
            assert (await open_ended.search("known"))[0].title == "Hit 0 of try 1"
            assert (await open_ended.search("new"))[0].title == "Hit 0 of try 2"
            assert (await open_ended.search("new"))[0].title == "Hit 0 of try 3"
            with pytest.raises(ReplayMissError):
                await ReplayWeb(recording).search("new")
            adding = ReplayWeb(recording, fall_through=inner, record=True)
            assert (await adding.search("new"))[0].title == "Hit 0 of try 4"
            assert (await ReplayWeb(recording).search("new"))[0].title == "Hit 0 of try 4"

    asyncio.run(main())


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    Recording(tmp_path / "a.webrec").close()
    with Recording(tmp_path / "a.webrec", write=False) as recording:
        with pytest.raises(ValueError, match="open for writing"):
            RecordingWeb(FickleWeb(), recording)
        with pytest.raises(ValueError, match="open for writing"):
            ReplayWeb(recording, fall_through=FickleWeb(), record=True)
        with pytest.raises(ValueError, match="nothing to record"):
            ReplayWeb(recording, record=True)


def test_equal_requests_at_once_are_asked_once(tmp_path: Path) -> None:
    async def main() -> None:
        inner = FickleWeb()
        with Recording(tmp_path / "a.webrec") as recording:
            web = RecordingWeb(inner, recording)
            answers = await asyncio.gather(*(web.search(f"topic  {number % 4}") for number in range(200)))
        assert sorted(inner.asked) == ["topic 0", "topic 1", "topic 2", "topic 3"]
        assert all(answer == answers[at % 4] for at, answer in enumerate(answers))

    asyncio.run(main())


def test_one_caller_giving_up_does_not_take_the_answer_from_others(tmp_path: Path) -> None:
    async def main() -> None:
        inner = StuckWeb()
        with Recording(tmp_path / "a.webrec") as recording:
            web = RecordingWeb(inner, recording)
            first, second = (asyncio.create_task(web.search("q")) for _ in range(2))
            await inner.arrivals.get()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            inner.go.set()
            assert (await second)[0].title == "q"
            assert (inner.asked, inner.cancelled) == (1, 0)

    asyncio.run(main())


def test_a_request_that_all_gave_up_is_cancelled_and_not_recorded(tmp_path: Path) -> None:
    async def main() -> None:
        inner = StuckWeb()
        with Recording(tmp_path / "a.webrec") as recording:
            web = RecordingWeb(inner, recording)
            for attempt in range(1, 4):
                tasks = [asyncio.create_task(web.search("q")) for _ in range(3)]
                await inner.arrivals.get()
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                assert (inner.asked, inner.cancelled) == (attempt, attempt)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await web.search("q")
            assert list(recording.rows()) == []
            inner.go.set()
            assert (await web.search("q"))[0].title == "q"

    asyncio.run(main())


class MendedWeb:
    """Refuses until its operator has mended it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.mended = False

    async def search(self, query: str) -> list[SearchResult]:
        if self.mended:
            return [SearchResult("Crows", "http://a.test/", "")]
        raise WebError(self.kind, "It is refused.")

    async def open(self, url: str) -> Page:
        if self.mended:
            return Page("T", "a.test", url, "x")
        raise WebError(self.kind, "It is refused.")


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        *((kind, False) for kind in ("key", "quota", "setup", "connection", "closed", "folder", "index", "wiki", "io")),
        *((kind, True) for kind in ("http", "timeout", "refused", "dns", "connect", "tls", "robots", "rate_limit")),
        *((kind, True) for kind in ("offline", "not_found", "encrypted", "too_large", "bad_answer", "of our own")),
    ],
)
def test_what_the_operator_has_to_mend_is_not_recorded(tmp_path: Path, kind: str, kept: bool) -> None:
    async def main() -> None:
        inner = MendedWeb(kind)
        with Recording(tmp_path / "a.webrec") as recording:
            web = RecordingWeb(inner, recording)
            for call in (web.search("q"), web.open("http://a.test/")):
                with pytest.raises(WebError, match="It is refused") as caught:
                    await call
                assert caught.value.kind == kind
            assert len(list(recording.rows())) == (2 if kept else 0)
            inner.mended = True
            if kept:
                with pytest.raises(WebError, match="It is refused"):
                    await web.search("q")
            else:
                assert (await web.search("q"))[0].title == "Crows"
                assert (await ReplayWeb(recording).search("q"))[0].title == "Crows"
                assert (await web.open("http://a.test/")).title == "T"

    asyncio.run(main())


def test_the_recordings_own_time_limit_is_an_answer(tmp_path: Path) -> None:
    async def main() -> None:
        inner = StuckWeb()
        with Recording(tmp_path / "a.webrec") as recording:
            for web in (RecordingWeb(inner, recording, timeout_s=0.05), ReplayWeb(recording)):
                with pytest.raises(WebError, match=r"no answer within 0\.05 seconds") as caught:
                    await web.search("q")
                assert caught.value.kind == "timeout"
        assert (inner.asked, inner.cancelled) == (1, 1)

    asyncio.run(main())


def test_a_fault_of_the_program_is_no_answer(tmp_path: Path) -> None:
    async def main() -> None:
        with Recording(tmp_path / "a.webrec") as recording:
            web = RecordingWeb(StuckWeb(), recording)
            for _ in range(2):
                with pytest.raises(NotImplementedError):
                    await web.open("http://a.test/")
            assert list(recording.rows()) == []

    asyncio.run(main())


def test_a_closed_recording_says_so(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.webrec")
    recording.close()
    recording.close()
    with pytest.raises(RecordingError, match="closed"):
        asyncio.run(ReplayWeb(recording).search("q"))


# ---- the file

RECORDER = """
import asyncio, sys
from webgpt_jax.env import SearchResult
from webgpt_jax.web.recording import Recording, RecordingWeb

class Named:
    async def search(self, query):
        await asyncio.sleep(0)
        return [SearchResult(f"{query} by {sys.argv[2]}", "http://a.test/", "x" * 500)]

async def main():
    web = RecordingWeb(Named(), Recording(sys.argv[1]))
    print("open", flush=True)
    sys.stdin.readline()
    async def ask(number):
        print(number, (await web.search(f"query {number}"))[0].title, sep="|", flush=True)
    for start in range(0, int(sys.argv[3]), 8):
        await asyncio.gather(*(ask(number) for number in range(start, start + 8)))

asyncio.run(main())
"""


def start_recorder(path: Path, name: str, requests: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RECORDER, str(path), name, str(requests)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def read_titles(path: Path) -> dict[str, str]:
    with Recording(path, write=False) as recording:
        rows = list(recording.rows())
    return {row.request.text: row.answer.hits[0].title for row in rows if isinstance(row.answer, Results)}


def test_a_killed_process_loses_nothing_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "a.webrec"
    process = start_recorder(path, "first", 100_000)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    lines = [process.stdout.readline() for _ in range(400)][1:]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.communicate()
    told = dict(line.strip().split("|") for line in lines if line.endswith("\n"))
    kept = read_titles(path)
    assert len(told) >= 399
    assert {number: kept[f"query {number}"] for number in told} == told
    assert len(kept) <= len(told) + 8  # what was in flight may have arrived
    with Recording(path) as recording:  # it opens again, and goes on
        assert (asyncio.run(RecordingWeb(FickleWeb(), recording).search("query 0")))[0].title == "query 0 by first"


def test_several_processes_record_into_one_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a.webrec"
    processes = [start_recorder(path, name, 80) for name in ("first", "second", "third")]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    told = [dict(line.split("|") for line in output.splitlines()) for output in outputs]
    assert told[0] == told[1] == told[2]  # whoever was first, all were given the same answers
    kept = read_titles(path)
    assert {f"query {number}": title for number, title in told[0].items()} == kept
    assert len(kept) == 80
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def foreign_database(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE answers (id INTEGER)")
    database.commit()
    database.close()


@pytest.mark.parametrize("write", [True, False])
def test_what_is_no_recording_is_refused_and_left_alone(tmp_path: Path, write: bool) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("These are my notes. " * 100)
    database = tmp_path / "mine.db"
    foreign_database(database)
    for path, why in ((text, "no SQLite file"), (database, "not a recording of the web")):
        before = path.read_bytes()
        with pytest.raises(RecordingError, match=why) as caught:
            Recording(path, write=write)
        assert str(path) in str(caught.value)
        assert path.read_bytes() == before
    with pytest.raises(RecordingError, match="is a folder"):
        Recording(tmp_path, write=write)
    with pytest.raises(RecordingError, match=r"there is no (folder|recording)"):
        Recording(tmp_path / "no" / "a.webrec", write=write)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.db", "notes.txt"]


def test_reading_needs_a_file_that_holds_something(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="there is no recording"):
        Recording(tmp_path / "a.webrec", write=False)
    (tmp_path / "empty").touch()
    with pytest.raises(RecordingError, match="not a recording"):
        Recording(tmp_path / "empty", write=False)
    with Recording(tmp_path / "empty") as recording:  # a process killed while it made the file leaves such a one
        assert list(recording.rows()) == []


@pytest.mark.parametrize("write", [True, False])
def test_another_version_is_named(tmp_path: Path, write: bool) -> None:
    path = tmp_path / "a.webrec"
    Recording(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 7")
    database.close()
    with pytest.raises(RecordingError, match="has format 7 and this program reads format 1"):
        Recording(path, write=write)


def test_a_recording_in_a_folder_that_cannot_be_written_replays(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    with Recording(tmp_path / "a.webrec") as recording:
        recording.keep(Request.search("q"), Failure("http", "x"))
    (tmp_path / "a.webrec").chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with Recording(tmp_path / "a.webrec", write=False) as recording:
            assert recording.find(Request.search("q")) == Failure("http", "x")
        with pytest.raises(RecordingError, match=r"cannot be (opened|written)"), Recording(tmp_path / "a.webrec") as r:
            r.keep(Request.search("r"), Failure("http", "x"))
    finally:
        tmp_path.chmod(0o700)


# ---- raw responses


@dataclass
class FakeResponse:
    url: str
    status: int
    content_type: str | None
    body: bytes
    headers: dict[str, str]


class FakeFetcher:
    token = "Bearer of-a-secret"

    def __init__(self) -> None:
        self.count = 0

    async def fetch(self, url: str) -> FakeResponse:
        self.count += 1
        if "slow" in url:
            raise WebError("timeout", "too slow")
        return FakeResponse(f"{url}final", 203, "text/html", b"\x00<p>%d" % self.count, {"Set-Cookie": self.token})


def test_raw_responses_are_kept_without_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.webrec"

    async def main() -> None:
        with Recording(path) as recording:
            fetcher = RecordingFetcher(FakeFetcher(), recording)
            response = await fetcher.fetch("HTTP://a.test/#x")
            assert response.headers == {"Set-Cookie": "Bearer of-a-secret"}
            with pytest.raises(WebError, match="too slow"):
                await fetcher.fetch("http://slow.test/")
            kept = recording.response(Request.open("http://a.test/"))
            assert kept is not None
            assert (kept.url, kept.status, kept.content_type) == ("HTTP://a.test/#xfinal", 203, "text/html")
            assert kept.body == b"\x00<p>1"
            # Until the page has its answer the latest response counts, afterwards the one it was made of.
            await fetcher.fetch("http://a.test/")
            recording.keep(Request.open("http://a.test/"), Page("t", "a.test", "http://a.test/", "2"))
            await fetcher.fetch("http://a.test/")
            kept = recording.response(Request.open("http://a.test/"))
            assert kept is not None
            assert kept.body == b"\x00<p>3"  # the third fetch: the slow one counted too
            assert recording.response(Request.open("http://slow.test/")) is None

    asyncio.run(main())
    assert b"of-a-secret" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
