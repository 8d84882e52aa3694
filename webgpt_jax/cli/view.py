"""`webgpt view`: files of episodes as one page to read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from webgpt_jax.cli import CommandError, emit
from webgpt_jax.cli.best_of import FORMAT as BEST_OF_FORMAT
from webgpt_jax.cli.pages import contents_of, page_path, save_page, shown_attempts, shown_episode
from webgpt_jax.env import episode_from_json
from webgpt_jax.env.codec import decode
from webgpt_jax.feedback import Shown
from webgpt_jax.flags import UsageError, describe, option, parse


@dataclass(frozen=True)
class ViewFlags:
    """The flags of `webgpt view`."""

    html: str | None = option(None, "write the page to this file; it opens from the disk, without a network")
    title: str = option("Questions and answers", "the heading of the page")


def usage() -> str:
    return "\n".join(
        [
            "usage: webgpt view FILE … --html=PAGE.html",
            "",
            "Writes one page of the episodes that webgpt ask and webgpt browse save, or that webgpt ask --json prints",
            "(with --best_of, all attempts): questions, answers with citations that jump to their quotes, scores, and",
            "the browsing step by step. Of a folder, all its .jsonl files are read. The answers of several files to",
            "one question stand side by side.",
            "",
            describe(ViewFlags),
        ]
    )


def run(arguments: Sequence[str]) -> int:
    flags, rest = parse(ViewFlags, arguments)
    if not rest:
        raise UsageError("give a file of episodes, or a folder of them")
    page = page_path(flags.html)
    if page is None:
        raise UsageError("say where the page goes: --html=PAGE.html")
    policies = {label: list(_read(path, label)) for path, label in _labels(_files(rest)).items()}
    if not any(policies.values()):
        raise CommandError(f"no episodes in {', '.join(rest)}")
    save_page(page, contents_of(policies, flags.title))
    emit(page.as_posix())
    return 0


def _files(names: Sequence[str]) -> list[Path]:
    """The files, each once; for a folder the files of episodes in it, by name."""
    files: dict[Path, None] = {}
    for path in map(Path, names):
        found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not found:
            raise CommandError(f"no .jsonl files in {path}")
        files.update(dict.fromkeys(found))
    return list(files)


def _labels(files: Sequence[Path]) -> Mapping[Path, str]:
    """The files' names; their paths where two have the same name."""
    stems = [path.stem for path in files]
    return {path: path.stem if stems.count(path.stem) == 1 else path.as_posix() for path in files}


def _read(path: Path, policy: str) -> Iterator[Shown]:
    """The answers in a file, which are all one policy's."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    try:
                        yield from _shown(line.decode("utf-8"), policy)
                    except ValueError as error:
                        cure = "give files that webgpt ask or webgpt browse wrote"
                        raise CommandError(f"{path}, line {number}: {error}; {cure}") from None
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None


@dataclass(frozen=True)
class _Chosen:
    """What a line of `webgpt ask --best_of=N --json` holds besides its episodes."""

    question: str
    best: int | None
    scores: tuple[float | None, ...]


def _shown(line: str, policy: str) -> list[Shown]:
    """The episode of a line, or its attempts at one question.

    Raises:
      ValueError: the line holds neither; the message names the field.
    """
    if not line.startswith(f'{{"format":"{BEST_OF_FORMAT}"'):
        return [shown_episode(episode_from_json(line), policy)]
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON that can be read: {error}") from None
    del record["format"]
    found = record.pop("episodes", None)
    chosen = decode(_Chosen, record)
    if not isinstance(found, list) or len(found) != len(chosen.scores):
        raise ValueError('field "episodes": expected a list as long as "scores"')
    episodes = [None if episode is None else episode_from_json(json.dumps(episode)) for episode in found]
    return shown_attempts(episodes, chosen.scores, chosen.best, policy)
