"""Episodes as one static page of HTML: it opens from a disk, loads nothing and runs nothing.

All text in it is data: see `markup`. A strict policy in the page stands behind that.
"""

from __future__ import annotations

import errno
import os
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from webgpt_jax.env import clean_line
from webgpt_jax.feedback.answer_card import render_card, render_folded_card, score_of
from webgpt_jax.feedback.contents import Figure, PageContents, QuestionSection
from webgpt_jax.feedback.markup import Html, element, join
from webgpt_jax.feedback.page_style import POLICY, STYLE

LISTED_CHARS = 120  # of a question in the list of questions


def render_page(contents: PageContents) -> str:
    """The page, whole. The same contents always give the same page; it encodes to UTF-8."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", clean_line(contents.title)),
        element("style", Html(STYLE)),
    )
    header = [element("h1", contents.title, dir="auto")]
    header += [element("p", contents.note, class_="note", dir="auto")] if contents.note else []
    main = [_summary(contents.summary)] if contents.summary else []
    main += [_figure(figure) for figure in contents.figures]
    main += [_navigation(contents.sections)] if len(contents.sections) > 1 else []
    main += [_section(section, f"q{number}") for number, section in enumerate(contents.sections, start=1)]
    body = element("body", element("header", *header), element("main", *main))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def write_page(path: Path, contents: PageContents) -> None:
    """Writes the page; whoever opens the file sees the old one or the new one, never a part.

    Raises:
      OSError: it cannot be written.
    """
    page = render_page(contents).encode("utf-8")
    if path.exists() and not path.is_file():  # a device, say, which would be replaced
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _summary(rows: Sequence[tuple[str, str]]) -> Html:
    written = [
        element("tr", element("th", element("bdi", label), scope="row"), element("td", element("bdi", value)))
        for label, value in rows
    ]
    return element("table", element("caption", "Summary", class_="hidden"), element("tbody", *written))


def _figure(figure: Figure) -> Html:
    picture = element("img", src=f"data:image/png;base64,{b64encode(figure.png).decode()}", alt=figure.alt)
    return element("figure", element("figcaption", figure.title), picture)


def _navigation(sections: Sequence[QuestionSection]) -> Html:
    items = []
    for number, section in enumerate(sections, start=1):
        question = clean_line(section.question)
        question = question if len(question) <= LISTED_CHARS else question[: LISTED_CHARS - 1] + "…"
        items.append(element("li", element("a", element("bdi", question), href=f"#q{number}")))
    return element("nav", element("h2", "Questions"), element("ol", *items), aria_label="Questions")


def _section(section: QuestionSection, name: str) -> Html:
    chosen = {shown.policy for shown in section.answers if shown.best}
    first = [shown for shown in section.answers if shown.best or shown.policy not in chosen]
    others = sorted(
        (shown for shown in section.answers if not shown.best and shown.policy in chosen),
        key=lambda shown: (score_of(shown) is None, -(score_of(shown) or 0)),
    )
    cards = [render_card(shown, f"{name}a{number}") for number, shown in enumerate(first, start=1)]
    parts = [element("h2", section.question, id=f"{name}-question", dir="auto")]
    parts.append(join(*cards) if len(cards) == 1 else element("div", *cards, class_="side"))
    if others:
        parts.append(element("h3", "The other answer" if len(others) == 1 else f"The other {len(others)} answers"))
        parts += [render_folded_card(shown, f"{name}a{len(first) + at}") for at, shown in enumerate(others, start=1)]
    return element("section", *parts, id=name, aria_labelledby=f"{name}-question")
