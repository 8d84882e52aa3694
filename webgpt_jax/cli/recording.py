"""`webgpt recording`: what a recording holds, and its export as WARC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from webgpt_jax.cli import CommandError, emit
from webgpt_jax.env import EpisodeError, clean_line
from webgpt_jax.flags import UsageError, describe, option, parse


@dataclass(frozen=True)
class RecordingFlags:
    """The flags of `webgpt recording`."""

    warc: str | None = option(None, "write the recording to this WARC file; .gz compresses it")


def usage() -> str:
    return "\n".join(
        [
            "usage: webgpt recording FILE [--warc=OUT.warc.gz]",
            "",
            "Lists what was recorded with --record=FILE, or exports it.",
            "",
            describe(RecordingFlags),
        ]
    )


def run(arguments: Sequence[str]) -> int:
    from webgpt_jax.web.recording import Recording
    from webgpt_jax.web.warc import export_warc

    flags, rest = parse(RecordingFlags, arguments)
    if len(rest) != 1:
        raise UsageError("give one recording")
    if flags.warc is not None and not flags.warc.endswith((".warc", ".warc.gz")):
        raise UsageError(f"--warc={flags.warc} must end in .warc or .warc.gz: it would be written over")
    try:
        with Recording(Path(rest[0]), write=False) as recording:
            if flags.warc is not None:
                emit(f"{export_warc(recording, Path(flags.warc))} records written to {flags.warc}")
                return 0
            kinds: Counter[str] = Counter()
            for row in recording.rows():
                kinds[row.request.kind] += 1
                emit(f"{row.request.kind:6} {clean_line(row.request.text)}")
            emit(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "nothing recorded")
    except EpisodeError as error:
        raise CommandError(str(error)) from None
    return 0
