"""Comparisons of two answers to a question: the reward model's data (paper, section 3.1; released as Appendix K says).

Our own format is JSON lines, one comparison a line:

    {"format": "webgpt-comparison-1", "id": "c-17", "question": "Why is the sky blue?", "question_id": null,
     "labeler": "ann", "label": 1.0, "rating": 0.5, "info": {},
     "a": {"quotes": [{"title": "Sky", "domain": "sky.test", "text": "Blue light …", "url": "", "start": 0, "end": 0}],
           "answer": "Because … [1]", "tokens": null},
     "b": {…}}

`label` is 1 where A is better, 0.5 for a tie, 0 where B is better. `rating`, from −1 to 1, says how much better A is;
its sign is the label, and one of the two is enough. What is null, empty or 0 above may be left out.

Also read are the two shapes in which the paper's comparisons are public: a line with a pair of records, and a line with
one record whose fields end in `_0` and `_1`. Record 0 is A.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from webgpt_jax.datasets.records import Report, check_text, read_records
from webgpt_jax.datasets.splits import Split, is_in_split
from webgpt_jax.env import Quote, render_answer_prompt
from webgpt_jax.env.codec import decode, encode

FORMAT = "webgpt-comparison-1"
LABELS = (1.0, 0.5, 0.0)
GPT2_TOKENS = 50257
SUM_TOLERANCE = 1e-6  # by which a pair's scores may miss 0


@dataclass(frozen=True)
class ReleasedTokens:
    """An answer and its prompt as released, in GPT-2's tokens. Their concatenation is the reward model's input."""

    prefix: tuple[int, ...]
    completion: tuple[int, ...]

    def __post_init__(self) -> None:
        wrong = [token for token in self.prefix + self.completion if not 0 <= token < GPT2_TOKENS]
        if wrong:
            raise ValueError(f"{wrong[0]} is none of GPT-2's tokens")


@dataclass(frozen=True)
class Side:
    """One of the two answers, with its references."""

    quotes: tuple[Quote, ...]
    answer: str
    tokens: ReleasedTokens | None = None


@dataclass(frozen=True)
class Comparison:
    """Two answers to a question, and which is better.

    Raises:
      ValueError: no question, a label that is none of 1, 0.5 and 0, or a rating that does not fit it.
    """

    id: str  # of the comparison; released ones have their question's: "<dataset>/<ID>"
    question: str
    a: Side
    b: Side
    label: float  # 1: A is better; 0.5: a tie; 0: B is better
    rating: float | None = None  # from -1 to 1, how much better A is; training uses the label alone
    labeler: str | None = None
    question_id: str | None = None  # decides the split in the question's place: one for all that must be on one side
    info: Mapping[str, str] = field(default_factory=dict)  # how it was made: policies, seed …

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise ValueError('field "question": it is empty')
        for name, text in (("question", self.question), ("a.answer", self.a.answer), ("b.answer", self.b.answer)):
            check_text(text, name)
        if self.label not in LABELS:
            raise ValueError(f'field "label": expected 1, 0.5 or 0, found {self.label}')
        if self.rating is not None and label_of(self.rating) != self.label:
            raise ValueError(f'field "rating": {self.rating} does not fit the label {self.label}')

    def prompt(self, side: Side) -> str:
        """The answering prompt of a side. The reward model's input is this and the answer."""
        return render_answer_prompt(self.question, side.quotes)


def label_of(rating: float) -> float:
    """The label that a rating from -1 (B is better) to 1 (A is better) stands for: its sign; 0 is a tie.

    Raises:
      ValueError: the rating is out of bounds.
    """
    if not -1 <= rating <= 1:
        raise ValueError(f'field "rating": expected -1 to 1, found {rating}')
    return 0.5 if rating == 0 else float(rating > 0)


def comparison_to_json(comparison: Comparison) -> str:
    """One line of JSON. The same comparison always gives the same line."""
    return json.dumps({"format": FORMAT} | encode(comparison), separators=(",", ":"))


def write_comparisons(path: Path, comparisons: Iterable[Comparison]) -> None:
    """Writes a file of our format, in place of what was there."""
    with path.open("w", encoding="utf-8") as lines:
        lines.writelines(f"{comparison_to_json(comparison)}\n" for comparison in comparisons)


def comparison_from_json(line: str) -> Comparison:
    """A comparison in any of the three shapes; see the module's docstring.

    Raises:
      ValueError: the line is no comparison; the message names the field.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON that can be read: {error}") from None
    if isinstance(record, list):
        return _from_pair(decode(_Pair, {"pair": [_known(_Record, side) for side in record]}).pair)
    if isinstance(record, dict) and "format" in record:
        return _from_ours(record)
    if isinstance(record, dict) and "answer_0" in record:
        return _from_flat(decode(_Flat, _known(_Flat, record)))
    raise ValueError(f'neither a pair of records, nor fields like "answer_0", nor the format "{FORMAT}"')


def read_comparisons(
    paths: Sequence[Path],
    *,
    split: Split,
    held_out: float = 0.25,
    share: float = 1.0,
    skip_bad_records: bool = False,
    report: Report | None = None,
) -> Iterator[Comparison]:
    """The comparisons of files, in any of the shapes, that are in a split.

    Args:
      paths: the files, read in this order.
      split: "train" or "validation", by `question_id` or else the question; see `is_in_split`.
      held_out: the share of questions in "validation" (paper: 5,500 of 21,500 comparisons).
      share: of the questions of "train", how many are taken; see `is_in_split`.
      skip_bad_records: whether lines that are no comparison are counted and passed over.
      report: where all is counted.

    Raises:
      DataError: a file cannot be read, or a line is no comparison; the message names file, line and field.
    """
    report = Report() if report is None else report
    questions = set()
    for path in paths:
        for found in read_records(path, comparison_from_json, report=report, skip_bad_records=skip_bad_records):
            key = found.question if found.question_id is None else found.question_id
            if is_in_split(key, split, held_out, share):
                questions.add(key)
                report.questions = len(questions)
                report.examples += 1
                yield found


# ---- our format

_OPTIONAL: dict[str, Any] = {"question_id": None, "labeler": None, "rating": None, "info": {}}
_OPTIONAL_OF_SIDE: dict[str, Any] = {"tokens": None}
_OPTIONAL_OF_QUOTE: dict[str, Any] = {"domain": "", "url": "", "start": 0, "end": 0}


def _from_ours(record: dict[str, Any]) -> Comparison:
    if record.pop("format") != FORMAT:
        raise ValueError(f'field "format": expected "{FORMAT}"')
    record = _OPTIONAL | record
    for name in ("a", "b"):
        side = record.get(name)
        if isinstance(side, dict):
            side = record[name] = _OPTIONAL_OF_SIDE | side
            if isinstance(side.get("quotes"), list):
                side["quotes"] = [
                    _OPTIONAL_OF_QUOTE | quote if isinstance(quote, dict) else quote for quote in side["quotes"]
                ]
    if record.get("label") is None and isinstance(record["rating"], int | float):
        record["label"] = label_of(record["rating"])
    return decode(Comparison, record)


# ---- the released shapes, as Appendix K describes them


@dataclass(frozen=True)
class _Question:
    full_text: str
    dataset: str
    id: str


@dataclass(frozen=True)
class _Quotes:
    title: tuple[str, ...]  # with the domain, as the observation writes it
    extract: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.title) != len(self.extract):
            raise ValueError(f"{len(self.title)} titles and {len(self.extract)} extracts")


@dataclass(frozen=True)
class _Record:
    question: _Question
    quotes: _Quotes
    answer: str
    tokens: ReleasedTokens | None
    score: float


@dataclass(frozen=True)
class _Pair:
    pair: tuple[_Record, ...]


@dataclass(frozen=True)
class _Flat:
    question: _Question
    quotes_0: _Quotes
    answer_0: str
    tokens_0: ReleasedTokens | None
    score_0: float
    quotes_1: _Quotes
    answer_1: str
    tokens_1: ReleasedTokens | None
    score_1: float


def _known(kind: type, record: Any) -> Any:
    """The fields that we read: mirrors add others, and some leave the tokens out."""
    if not isinstance(record, dict):
        return record
    known = {part.name: record[part.name] for part in fields(kind) if part.name in record}
    return {part.name: None for part in fields(kind) if part.name.startswith("tokens")} | known


def _from_pair(records: Sequence[_Record]) -> Comparison:
    if len(records) != 2:
        raise ValueError(f"expected a pair of records, found {len(records)}")
    first, second = records
    if first.question.full_text != second.question.full_text:
        raise ValueError('field "pair[1].question.full_text": it is another question than that of record 0')
    return _from_flat(
        _Flat(
            first.question,
            *(first.quotes, first.answer, first.tokens, first.score),
            *(second.quotes, second.answer, second.tokens, second.score),
        )
    )


def _from_flat(record: _Flat) -> Comparison:
    if not abs(record.score_0 + record.score_1) <= SUM_TOLERANCE:  # NaN is no score either
        raise ValueError(f'field "score_1": {record.score_0} and {record.score_1} do not sum to 0')
    return Comparison(
        id=f"{record.question.dataset}/{record.question.id}",
        question=record.question.full_text,
        a=_side(record.quotes_0, record.answer_0, record.tokens_0),
        b=_side(record.quotes_1, record.answer_1, record.tokens_1),
        label=label_of(record.score_0),
        rating=record.score_0,
    )


def _side(quotes: _Quotes, answer: str, tokens: ReleasedTokens | None) -> Side:
    pairs = zip(quotes.title, quotes.extract, strict=True)
    return Side(tuple(Quote(text, title, "", "", 0, 0) for title, text in pairs), answer, tokens)
