"""Episodes as a page, for `webgpt view` and `webgpt ask --html`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from webgpt_jax.cli import CommandError
from webgpt_jax.env import Episode
from webgpt_jax.feedback import PageContents, QuestionSection, Shown, write_page
from webgpt_jax.flags import UsageError

SYNTHETIC = "TinyWeb is synthetic: its animals, its facts and the questions about them are made up."


def page_path(html: str | None) -> Path | None:
    """The file that `--html` names.

    Raises:
      UsageError: it is not named as a page: what it names may be something else, and would be lost.
    """
    if html is not None and not html.lower().endswith((".html", ".htm")):
        raise UsageError(f"--html={html} must end in .html: it would be written over")
    return None if html is None else Path(html)


def shown_episode(episode: Episode, policy: str) -> Shown:
    """An episode, with the score that is noted in it where it was chosen by one."""
    try:
        score = float(episode.info["score"])
    except (KeyError, ValueError):
        score = None
    return Shown(episode, policy, score, policy=policy)


def shown_attempts(
    episodes: Sequence[Episode | None], scores: Sequence[float | None], best: int | None, policy: str
) -> list[Shown]:
    """The attempts of a best-of-n that have ended, all of one question. [n] episodes and scores; `best` is a place."""
    return [
        Shown(episode, f"{policy}, attempt {number + 1}", score, best=number == best, policy=policy)
        for number, (episode, score) in enumerate(zip(episodes, scores, strict=True))
        if episode is not None
    ]


def contents_of(policies: Mapping[str, Sequence[Shown]], title: str) -> PageContents:
    """The page of each policy's answers, by question, in the order in which the questions first come. Of answers with
    one label to one question the label is numbered."""
    questions: dict[str, list[Shown]] = {}
    for shown in (shown for answers in policies.values() for shown in answers):
        questions.setdefault(shown.episode.question, []).append(shown)
    episodes = {policy: [shown.episode for shown in answers] for policy, answers in policies.items()}
    synthetic = any(_on_tinyweb(episode) for found in episodes.values() for episode in found)
    return PageContents(
        title=title,
        note=SYNTHETIC if synthetic else "",
        summary=[(policy, _counts(found)) for policy, found in episodes.items()],
        sections=[QuestionSection(question, _numbered(answers)) for question, answers in questions.items()],
    )


def save_page(path: Path, contents: PageContents) -> None:
    """Writes a page.

    Raises:
      CommandError: it cannot be written.
    """
    try:
        write_page(path, contents)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}; give another --html") from None


def _on_tinyweb(episode: Episode) -> bool:
    return episode.info.get("web", "").partition(":")[0] == "tinyweb"


def _numbered(answers: Sequence[Shown]) -> list[Shown]:
    count = Counter(shown.label for shown in answers)
    seen: Counter[str] = Counter()
    numbered = []
    for shown in answers:
        seen[shown.label] += 1
        label = shown.label if count[shown.label] == 1 else f"{shown.label}, {seen[shown.label]}"
        numbered.append(replace(shown, label=label))
    return numbered


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
