"""`webgpt view`: files of episodes as one page to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from webgpt_jax.cli import CommandError, emit
from webgpt_jax.env import Episode, read_episodes
from webgpt_jax.feedback import PageContents, QuestionSection, Shown, write_page
from webgpt_jax.flags import UsageError, describe, option, parse

SYNTHETIC = "TinyWeb is synthetic: its animals, its facts and the questions about them are made up."


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
            "Writes one page of the episodes that webgpt ask and webgpt browse save: questions, answers with citations",
            "that jump to their quotes, and the browsing step by step. Of a folder, all its .jsonl files are read. The",
            "answers of several files to the same question stand side by side.",
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
    files = {path: _episodes(path) for path in _files(rest)}
    if not any(files.values()):
        raise CommandError(f"no episodes in {', '.join(rest)}")
    save_page(page, contents_of(_named(files), flags.title))
    emit(page.as_posix())
    return 0


def page_path(html: str | None) -> Path | None:
    """The file that `--html` names.

    Raises:
      UsageError: it is not named as a page: what it names may be something else, and would be lost.
    """
    if html is not None and not html.lower().endswith((".html", ".htm")):
        raise UsageError(f"--html={html} must end in .html: it would be written over")
    return None if html is None else Path(html)


def save_page(path: Path, contents: PageContents) -> None:
    """Writes a page.

    Raises:
      CommandError: it cannot be written.
    """
    try:
        write_page(path, contents)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}; give another --html") from None


def contents_of(policies: Mapping[str, Sequence[Episode]], title: str) -> PageContents:
    """The page of each policy's episodes, by question, in the order in which the questions first come."""
    questions: dict[str, list[Shown]] = {}
    for label, episodes in policies.items():
        answers: dict[str, list[Episode]] = {}
        for episode in episodes:
            answers.setdefault(episode.question, []).append(episode)
        for question, found in answers.items():
            labels = [label] if len(found) == 1 else [f"{label}, {number}" for number in range(1, len(found) + 1)]
            questions.setdefault(question, []).extend(map(Shown, found, labels))
    webs = {episode.info.get("web", "") for episodes in policies.values() for episode in episodes}
    return PageContents(
        title=title,
        note=SYNTHETIC if any(web.startswith("tinyweb") for web in webs) else "",
        summary=[(label, _counts(episodes)) for label, episodes in policies.items()],
        sections=[QuestionSection(question, answers) for question, answers in questions.items()],
    )


def _counts(episodes: Sequence[Episode]) -> str:
    answered = sum(episode.answer is not None and bool(episode.answer.text.strip()) for episode in episodes)
    steps = [step for episode in episodes for step in episode.steps]
    parts = [
        f"{len(episodes):,} episode{'s' * (len(episodes) != 1)}",
        f"{answered:,} answered",
        f"{len(steps):,} action{'s' * (len(steps) != 1)}",
        f"{sum(not step.valid for step in steps):,} invalid",
    ]
    return ", ".join(parts)


def _files(names: Sequence[str]) -> list[Path]:
    """The files, each once; for a folder the files of episodes in it, by name."""
    files: dict[Path, None] = {}
    for path in map(Path, names):
        found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not found:
            raise CommandError(f"no .jsonl files in {path}")
        files.update(dict.fromkeys(found))
    return list(files)


def _episodes(path: Path) -> list[Episode]:
    try:
        return list(read_episodes(path))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"{error}; give files that webgpt ask or webgpt browse wrote") from None


def _named(files: Mapping[Path, Sequence[Episode]]) -> dict[str, Sequence[Episode]]:
    """The files' episodes by the files' names; by their paths where two have the same name."""
    stems = [path.stem for path in files]
    return {path.stem if stems.count(path.stem) == 1 else path.as_posix(): found for path, found in files.items()}
