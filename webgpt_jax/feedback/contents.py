"""What a page of episodes is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webgpt_jax.env import Episode

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Shown:
    """An episode as an answer on the page.

    Attributes:
      episode: the episode.
      label: whose answer it is.
      score: its reward score, where there is one.
      best: whether it was chosen among the answers of its question.
      note: a line of text under the label.
      policy: whose answers it is one of, where they are several; not shown.
    """

    episode: Episode
    label: str
    score: float | None = None
    best: bool = False
    note: str = ""
    policy: str = ""


@dataclass(frozen=True)
class QuestionSection:
    """A question with its answers, side by side in the given order. Where one of a policy's answers is the best, that
    policy's others are folded, below all that are not, highest score first."""

    question: str
    answers: Sequence[Shown]


@dataclass(frozen=True)
class Figure:
    """A picture, embedded in the page.

    Raises:
      ValueError: the bytes are no PNG, or `alt`, which says what the picture shows, is empty.
    """

    title: str
    png: bytes
    alt: str

    def __post_init__(self) -> None:
        if not self.png.startswith(PNG_SIGNATURE):
            raise ValueError(f"figure {self.title!r}: the bytes are no PNG")
        if not self.alt.strip():
            raise ValueError(f"figure {self.title!r}: alt is empty; say in words what the figure shows")


@dataclass(frozen=True)
class PageContents:
    """A whole page.

    Attributes:
      title: its heading.
      note: what every reader must know first, such as that all is synthetic.
      summary: rows of a table, label and value.
      figures: shown under the table.
      sections: the questions.
    """

    title: str
    note: str = ""
    summary: Sequence[tuple[str, str]] = ()
    figures: Sequence[Figure] = ()
    sections: Sequence[QuestionSection] = ()
