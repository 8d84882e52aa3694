"""Questions: the paper's post-processing of ELI5 (Appendix B), and files of questions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webgpt_jax.datasets.records import Report, check_text, read_records
from webgpt_jax.datasets.splits import question_place

DELETED_TITLE = "[deleted by user]"
DELETED_TEXTS = frozenset({"[deleted]", "[removed]"})
# The paper's list, to the letter. An apostrophe is a word boundary: "don" is there for "don't".
QUESTION_WORDS = """
explain eli5 which what whats whose who whos whom where wheres when whens how hows why whys am is isn isnt are aren
arent was wasn wasnt were weren werent do don dont does doesn doesnt did didn didnt can cant could couldn couldnt have
haven havent has hasn hasnt may might must mustn mustnt shall shant should shouldn shouldnt will wont would wouldn
wouldnt
"""
_IS_QUESTION = re.compile(rf"\?|\b(?:{'|'.join(QUESTION_WORDS.split())})\b", re.IGNORECASE)


def eli5_question(title: str, selftext: str) -> str | None:
    """The question that an ELI5 post asks; None for a deleted one.

    The URLs in it are kept as they are: it takes a post, not the ELI5 dataset's text with `_URL_` tokens for them.

    Args:
      title: the post's title.
      selftext: the post's text; it may be empty, `[deleted]` or `[removed]`.
    """
    title, selftext = title.strip(), selftext.strip()
    if not title or title == DELETED_TITLE:
        return None
    question = f"{title}\n\n{selftext}" if selftext and selftext not in DELETED_TEXTS else title
    # Our reading: the whole question is looked at, not the title alone.
    return question if _IS_QUESTION.search(question) else f"Explain: {question}"


@dataclass(frozen=True)
class Question:
    """A question to ask."""

    id: str
    question: str
    reference_answer: str | None = None  # pages that hold ten words in a row of it are hidden
    info: Mapping[str, Any] = field(default_factory=dict)  # the record's other fields, as they stand


def read_questions(path: Path, *, skip_bad_records: bool = False, report: Report | None = None) -> Iterator[Question]:
    """The questions of a file: JSON lines where its name ends in .jsonl or .json, else plain text, one question a line.

    A record is {"id": …, "question": …}, and "reference_answer" or anything else where there is such. Plain questions,
    and records without an ID, get one of 12 hexadecimal digits, made of the question's text.

    Raises:
      DataError: the file cannot be read, or a line is no question; the message names file, line and field.
    """
    decode = _from_json if path.suffix in {".jsonl", ".json"} else _from_text
    report = Report() if report is None else report
    for question in read_records(path, decode, report=report, skip_bad_records=skip_bad_records):
        report.questions += 1
        yield question


def _text_id(question: str) -> str:
    return f"{round(question_place(question) * 2**48):012x}"


def _from_text(line: str) -> Question:
    return Question(_text_id(line.strip()), line.strip())


def _from_json(line: str) -> Question:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON that can be read: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"expected an object, found {type(record).__name__}")
    question = record.pop("question", None)
    if not isinstance(question, str) or not question.strip():
        raise ValueError('field "question": expected a text that is not empty')
    check_text(question, "question")
    texts = {}
    for name in ("id", "reference_answer"):
        texts[name] = record.pop(name, None)
        if texts[name] is not None and not isinstance(texts[name], str):
            raise ValueError(f'field "{name}": expected a text, found {type(texts[name]).__name__}')
    return Question(texts["id"] or _text_id(question), question, texts["reference_answer"], record)
