"""A recording is a file of ours with rows of ours; anything else is refused and nothing else is written to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from damage import change, recorded

from webgpt_jax.web.recording_answer import Failure
from webgpt_jax.web.recording_file import RawResponse, Recording, RecordingError, Request


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("UPDATE answers SET kind = ?", "shell"),
        ("UPDATE answers SET kind = ?", b"\xff"),
        ("UPDATE answers SET request = ?", b"q"),
        ("UPDATE answers SET recorded_at = ?", b"2026"),
        ("UPDATE answers SET recorded_at = ?", "2026-01-01T00:00:00Z\r\nWARC-Type: evil"),
        ("UPDATE answers SET request = CAST(? AS TEXT)", b"\xff\xfe" * 10_000),
        ("UPDATE answers SET answer = CAST(? AS TEXT)", b"\xff\xfe" * 10_000),
    ],
)
def test_a_damaged_row_is_refused(tmp_path: Path, statement: str, value: object) -> None:
    path = tmp_path / "a.webrec"
    recorded(path, Request.search("q"), Failure("http", "x"))
    change(path, statement, value)
    with Recording(path, write=False) as recording:
        with pytest.raises(RecordingError, match="is damaged") as caught:
            list(recording.rows())
        assert str(path) in str(caught.value)
        assert len(str(caught.value)) < 500
        if "answer =" in statement:
            with pytest.raises(RecordingError, match="is damaged"):
                recording.find(Request.search("q"))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("url", b"http://a.test/"), ("content_type", b"text/html"), ("body", "text"), ("body", 3)),
        *(("status", "OK"), ("status", 1.5), ("status", -1), ("status", 10**12), ("status", b"200")),
        ("recorded_at", "2026-01-01T00:00:00Z\r\nWARC-Type: evil"),
    ],
)
def test_a_damaged_raw_response_is_refused(tmp_path: Path, column: str, value: object) -> None:
    path = tmp_path / "a.webrec"
    with Recording(path) as recording:
        recording.keep_response(Request.open("http://a.test/"), RawResponse("http://a.test/", 200, None, b"x", ""))
    change(path, f"UPDATE responses SET {column} = ?", value)
    with (
        Recording(path, write=False) as recording,
        pytest.raises(RecordingError, match=r"damaged: its raw response to the page 'http://a\.test/'"),
    ):
        recording.response(Request.open("http://a.test/"))


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE answers", "CREATE VIEW answers AS SELECT 1 AS id, '' AS kind, '' AS request, '' AS answer"],
        ["CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM responses; END"],
        ["CREATE TABLE more (id INTEGER)"],
        ["DROP TABLE responses"],
    ],
)
@pytest.mark.parametrize("write", [True, False])
def test_a_file_with_other_tables_than_ours_is_refused(tmp_path: Path, statements: list[str], write: bool) -> None:
    path = tmp_path / "a.webrec"
    Recording(path).close()
    for statement in statements:
        change(path, statement)
    with pytest.raises(RecordingError, match="not a recording of the web"):
        Recording(path, write=write)


@pytest.mark.parametrize("write", [True, False])
def test_a_device_or_a_pipe_is_no_recording(tmp_path: Path, write: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(RecordingError, match="device or a pipe"):
            Recording(path, write=write)
