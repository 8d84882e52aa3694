"""A recording leaves as a web archive that other tools read, always the same one."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from webgpt_jax.env import Page, PageWriter, SearchResult
from webgpt_jax.web import warc
from webgpt_jax.web.recording_answer import Failure, Results
from webgpt_jax.web.recording_file import RawResponse, Recording, RecordingError, Request
from webgpt_jax.web.warc import export_warc

ROOT = Path(__file__).resolve().parents[2]
PDF = b"%PDF-1.7\n\x00\xff\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\n\r\n"


def linked_page(url: str) -> Page:
    writer = PageWriter(url)
    return writer.page("Crows", f"Crows are {writer.link('birds', 'http://birds.test/')} – naïve ones.")


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    recording = Recording(tmp_path / "a.webrec")
    recording.keep(Request.search("crows & ravens?"), Results((SearchResult("Crows", "http://a.test/\ud800", "…"),)))
    recording.keep(Request.search("too much"), Failure("http", "status 429"))
    recording.keep_response(
        Request.open("http://a.test:8080/p d?q=é"),
        RawResponse("http://b.test/end", 404, "application/pdf\r\nX-Evil: 1", PDF, ""),
    )
    recording.keep(Request.open("http://a.test:8080/p d?q=é"), linked_page("http://b.test/end"))
    recording.keep(Request.open("http://c.test"), linked_page("http://c.test/"))
    recording.keep(
        Request.open("http://d.test/\r\nWARC-Type: x"), Failure("timeout", "It took longer than 30 seconds.")
    )
    recording.keep_response(Request.open("http://e.test"), RawResponse("http://e.test", 299, None, b"", ""))
    recording.keep(Request.open("http://e.test"), Failure("empty", "The page is empty."))
    return recording


def read(path: Path) -> list[tuple[str, str | None, dict[str, str], bytes]]:
    with path.open("rb") as file:
        return [
            (
                record.rec_type,
                record.rec_headers.get_header("WARC-Target-URI"),
                dict(record.rec_headers.headers),
                record.content_stream().read(),
            )
            for record in ArchiveIterator(file, check_digests="raise")
        ]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_records_stand_in_the_order_of_the_recording(recording: Recording, tmp_path: Path, name: str) -> None:
    assert export_warc(recording, tmp_path / name) == 11
    records = read(tmp_path / name)
    assert [(kind, uri) for kind, uri, _, _ in records] == [
        ("warcinfo", None),
        ("resource", "urn:webgpt:search:crows%20%26%20ravens%3F"),
        ("metadata", "urn:webgpt:search:too%20much"),
        ("request", "http://a.test:8080/p%20d?q=%C3%A9"),
        ("response", "http://a.test:8080/p%20d?q=%C3%A9"),
        ("conversion", "http://a.test:8080/p%20d?q=%C3%A9"),
        ("resource", "http://c.test"),
        ("metadata", "http://d.test/%0D%0AWARC-Type:%20x"),
        ("request", "http://e.test"),
        ("response", "http://e.test"),
        ("metadata", "http://e.test"),
    ]
    bodies = [body for _, _, _, body in records]
    results = [{"title": "Crows", "url": "http://a.test/\ud800", "snippet": "…"}]
    assert json.loads(bodies[1]) == {"query": "crows & ravens?", "results": results}
    assert json.loads(bodies[2]) == {"error": "http", "message": "status 429"}
    assert bodies[4] == PDF
    assert bodies[5].decode() == "Crows are 【0†birds†birds.test】 – naïve ones."
    assert bodies[6] == bodies[5]
    assert json.loads(bodies[7])["error"] == "timeout"
    response, conversion = records[4][2], records[5][2]
    assert conversion["WARC-Refers-To"] == response["WARC-Record-ID"] == records[3][2]["WARC-Concurrent-To"]
    ids = [headers["WARC-Record-ID"] for _, _, headers, _ in records]
    assert len(set(ids)) == len(ids)


def test_http_headers_are_made_of_what_was_kept(recording: Recording, tmp_path: Path) -> None:
    export_warc(recording, tmp_path / "a.warc")
    with (tmp_path / "a.warc").open("rb") as file:
        http = [record.http_headers for record in ArchiveIterator(file) if record.http_headers]
    assert [str(headers).rstrip("\r\n").replace("\r\n", "\n") for headers in http] == [
        "GET /p%20d?q=%C3%A9 HTTP/1.1\nHost: a.test:8080",
        f"HTTP/1.1 404 Not Found\nContent-Type: application/pdf??X-Evil: 1\nContent-Length: {len(PDF)}",
        "GET / HTTP/1.1\nHost: e.test",
        "HTTP/1.1 299\nContent-Length: 0",
    ]


def test_the_same_recording_gives_the_same_file(recording: Recording, tmp_path: Path) -> None:
    export_warc(recording, tmp_path / "a.warc.gz")
    first = (tmp_path / "a.warc.gz").read_bytes()
    recording.close()
    with Recording(tmp_path / "a.webrec", write=False) as reopened:
        export_warc(reopened, tmp_path / "a.warc.gz")
    assert (tmp_path / "a.warc.gz").read_bytes() == first


def test_an_empty_recording_is_an_archive_too(tmp_path: Path) -> None:
    with Recording(tmp_path / "a.webrec") as recording:
        assert export_warc(recording, tmp_path / "a.warc") == 1
    assert [kind for kind, _, _, _ in read(tmp_path / "a.warc")] == ["warcinfo"]


def test_what_cannot_be_written_is_said_and_leaves_nothing(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RecordingError, match=r"a\.warc cannot be written"):
        export_warc(recording, tmp_path / "no" / "a.warc")
    (tmp_path / "a.warc").write_text("an older one")
    monkeypatch.setattr(warc, "_json", lambda content: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_warc(recording, tmp_path / "a.warc")
    assert (tmp_path / "a.warc").read_text() == "an older one"
    assert list(tmp_path.glob("*.partial")) == []


def test_a_device_or_a_pipe_is_not_replaced(recording: Recording, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for destination in (pipe, link, tmp_path):
        with pytest.raises(RecordingError, match="name a file"):
            export_warc(recording, destination)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()


def test_a_symbolic_link_stays_and_its_file_is_written(recording: Recording, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "old"
    target.write_text("an older one")
    target.chmod(0o600)
    link = tmp_path / "a.warc"
    link.symlink_to(target)
    assert export_warc(recording, link) == 11
    assert link.readlink() == target
    assert len(read(target)) == 11
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["old"]
    missing = tmp_path / "b.warc"
    missing.symlink_to(tmp_path / "elsewhere" / "new")
    assert export_warc(recording, missing) == 11
    assert len(read(tmp_path / "elsewhere" / "new")) == 11
    loop = tmp_path / "c.warc"
    loop.symlink_to(loop)
    with pytest.raises(RecordingError, match="cannot be written"):
        export_warc(recording, loop)


def test_what_is_in_use_is_not_replaced(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / "a.webrec"
    link = tmp_path / "to-it"
    link.symlink_to(path)
    for name in ("a.webrec", "a.webrec-wal", "a.webrec-shm", "to-it"):
        with pytest.raises(RecordingError, match="would replace the recording itself"):
            export_warc(recording, tmp_path / name)
    assert len(list(recording.rows())) == 6


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_standard_output_is_no_destination(recording: Recording, tmp_path: Path, kind: str) -> None:
    recording.close()
    code = (
        "import sys; from pathlib import Path; from webgpt_jax.web.warc import export_warc\n"
        "from webgpt_jax.web.recording_file import Recording, RecordingError\n"
        "try: export_warc(Recording(sys.argv[1], write=False), Path('/dev/stdout'))\n"
        "except RecordingError as error: print(error)\n"
    )
    out = tmp_path / "out"
    with out.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "a.webrec")],
            cwd=ROOT,
            stdout=file if kind == "file" else subprocess.PIPE,
            check=True,
        )
    said = (done.stdout or out.read_bytes()).decode()
    assert said.startswith("the web archive /dev/stdout cannot be written: ")
    assert ("name another file" if kind == "file" else "name a file") in said


def test_a_file_in_the_place_of_a_folder_is_said(recording: Recording, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RecordingError, match="cannot be written"):
        export_warc(recording, tmp_path / "file" / "a.warc")


def test_nothing_beside_the_destination_is_touched(recording: Recording, tmp_path: Path) -> None:
    (tmp_path / "a.warc.partial").write_text("mine")
    export_warc(recording, tmp_path / "a.warc")
    assert (tmp_path / "a.warc.partial").read_text() == "mine"
    assert len(list(tmp_path.glob("*.partial"))) == 1
