"""Export of a recording as a web archive (WARC 1.1), readable by the usual tools.

What was fetched from the live web becomes request and response records. The response's headers are made anew from
what a recording keeps (status, content type, decoded body), and its page as the model saw it follows as a conversion
record. Pages without a raw response become resource records of their text; searches and failures, which no archive
format knows, resource and metadata records in JSON. Record IDs, dates and order come from the recording, so that the
same recording always gives the same file.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from http.client import responses
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from webgpt_jax.env.codec import encode
from webgpt_jax.env.page import Page
from webgpt_jax.web.recording_answer import Failure, Results
from webgpt_jax.web.recording_file import RawResponse, Recorded, Recording, RecordingError

_URI_SAFE = "!$%&'()*+,/:;=?@[]~#-._"  # what stays as it is in a URI; blanks, controls and letters beyond ASCII do not
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
_AUTHORITY = re.compile(r"(?:https?://)?([^/?]*)(.*)")
_HTTP = "application/http; msgtype={}"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:webgpt:recording")
_EPOCH = "1970-01-01T00:00:00Z"

_INFO = (
    "software: webgpt_jax\r\n"
    "format: WARC File Format 1.1\r\n"
    "description: a recording of what a text browser searched for and opened; "
    "HTTP requests and headers are reconstructed, bodies are stored without their transfer and content encodings\r\n"
)


def export_warc(recording: Recording, destination: Path) -> int:
    """Writes the recording as a WARC file, compressed where the name ends in ".gz"; returns the number of records.

    A file of that name is replaced once the new one is whole, keeping its permissions; of a symbolic link, the file
    that it leads to.

    Raises:
      RecordingError: the recording cannot be read, the file cannot be written, warcio is not installed, or the
        destination is no file to be replaced: a folder, a device, a pipe, standard output, the recording itself.
    """
    try:
        from warcio.warcwriter import WARCWriter
    except ImportError as error:
        raise RecordingError("exporting a recording needs the package warcio: pip install warcio") from error
    count = 0
    try:
        target = _target(recording, destination)
        partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}.partial")
        try:
            with partial.open("xb") as file:
                writer = WARCWriter(file, gzip=destination.suffix == ".gz", warc_version="WARC/1.1")
                for record in _records(recording, writer):
                    writer.write_record(record)
                    count += 1
            if target.exists():
                shutil.copymode(target, partial)
            partial.replace(target)
        finally:
            with suppress(OSError):  # it has become the archive, or was never made
                partial.unlink()
    except OSError as error:
        raise RecordingError(f"the web archive {destination} cannot be written: {error}") from error
    return count


def _target(recording: Recording, destination: Path) -> Path:
    """The file to write: a new file's name takes its place, so that it must be no device and nothing in use."""
    try:
        status = destination.stat()
    except FileNotFoundError:
        status = None
    target = destination.resolve()
    database = recording.path.resolve()
    if target in [database.with_name(database.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")]:
        raise RecordingError(f"the web archive {destination} would replace the recording itself: give another name")
    if status is None:
        return target
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or a pipe, and no file"
        raise RecordingError(f"the web archive {destination} cannot be written: it is {what}; name a file")
    for stream in (0, 1, 2):
        with suppress(OSError):  # a stream that is closed
            if os.path.samestat(status, os.fstat(stream)):
                raise RecordingError(
                    f"the web archive {destination} cannot be written: this command reads or prints there; "
                    "name another file"
                )
    return target


def _records(recording: Recording, builder: Any) -> Iterator[Any]:
    rows = recording.rows()
    first = next(rows, None)
    date = _EPOCH if first is None else first.recorded_at
    yield _record(builder, "warcinfo", None, "application/warc-fields", _INFO.encode(), date)
    if first is not None:
        for row in chain([first], rows):
            yield from _search(builder, row) if row.request.kind == "search" else _page(recording, builder, row)


def _search(builder: Any, row: Recorded) -> Iterator[Any]:
    uri = f"urn:webgpt:search:{quote(row.request.text, safe='')}"
    if isinstance(row.answer, Results):
        body = _json({"query": row.request.text, "results": encode(row.answer.hits)})
        yield _record(builder, "resource", uri, "application/json", body, row.recorded_at)
    else:
        yield from _failure(builder, uri, row)


def _page(recording: Recording, builder: Any, row: Recorded) -> Iterator[Any]:
    uri = quote(row.request.text, safe=_URI_SAFE)
    raw = recording.response(row.request)
    origin = {}
    if raw is not None:
        response, request = _exchange(builder, uri, raw)
        origin = {"WARC-Refers-To": response.rec_headers.get_header("WARC-Record-ID")}
        yield from (request, response)
    if isinstance(row.answer, Page):
        kind = "resource" if raw is None else "conversion"
        body = row.answer.text.encode()
        yield _record(builder, kind, uri, "text/plain; charset=utf-8", body, row.recorded_at, more=origin)
    else:
        yield from _failure(builder, uri, row)


def _failure(builder: Any, uri: str, row: Recorded) -> Iterator[Any]:
    if isinstance(row.answer, Failure):
        body = _json({"error": row.answer.kind, "message": row.answer.message})
        yield _record(builder, "metadata", uri, "application/json", body, row.recorded_at)


def _exchange(builder: Any, uri: str, raw: RawResponse) -> tuple[Any, Any]:
    """The response record and its request record."""
    from warcio.statusandheaders import StatusAndHeaders

    headers = [("Content-Length", str(len(raw.body)))]
    if raw.content_type is not None:
        headers.insert(0, ("Content-Type", _UNPRINTABLE.sub("?", raw.content_type)))
    status = StatusAndHeaders(f"{raw.status} {responses.get(raw.status, '')}".strip(), headers, protocol="HTTP/1.1")
    more = {} if raw.url == uri else {"WebGPT-Final-URI": quote(raw.url, safe=_URI_SAFE)}
    response = _record(builder, "response", uri, _HTTP.format("response"), raw.body, raw.recorded_at, status, more)
    authority, asked = _AUTHORITY.fullmatch(uri).groups()  # type: ignore[union-attr]  # it matches any text
    target = asked if asked.startswith("/") else f"/{asked}"
    line = StatusAndHeaders(f"{target} HTTP/1.1", [("Host", authority.rpartition("@")[2])], protocol="GET")
    more = {"WARC-Concurrent-To": response.rec_headers.get_header("WARC-Record-ID")}
    return response, _record(builder, "request", uri, _HTTP.format("request"), b"", raw.recorded_at, line, more)


def _record(
    builder: Any,
    kind: str,
    uri: str | None,
    content_type: str,
    body: bytes,
    date: str,
    http: Any = None,
    more: Mapping[str, str] | None = None,
) -> Any:
    # Named by its content: the same record has the same ID in every export.
    content = "\n".join((kind, uri or "", date, sha256(body).hexdigest(), str(http), *(more or {}).values()))
    headers = {
        "WARC-Record-ID": f"<urn:uuid:{uuid.uuid5(_NAMESPACE, content)}>",
        "WARC-Date": date,
        "Content-Type": content_type,
        **(more or {}),
    }
    return builder.create_warc_record(
        uri, kind, payload=BytesIO(body), length=len(body), warc_headers_dict=headers, http_headers=http
    )


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=1).encode()
