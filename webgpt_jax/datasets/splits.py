"""Which questions are held out. The question's text alone decides: the same in every file, run, order and language
version, so that a question's demonstrations and comparisons are all on one side."""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = get_args(Split)


def question_place(question: str) -> float:
    """A question's place in [0, 1), uniform over questions. Case and white space make no difference."""
    normal = " ".join(question.casefold().split())
    digest = hashlib.sha256(normal.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def is_in_split(question: str, split: Split, held_out: float, share: float = 1.0) -> bool:
    """Whether a question is in a split.

    Args:
      question: its text.
      split: "validation" holds the questions whose place is below `held_out`, "train" the others.
      held_out: a share of the questions. What a smaller share holds out, a larger one does too.
      share: of the questions of "train", how many are taken. What a smaller share takes, a larger one does too.

    Raises:
      ValueError: there is no such split, or a share is not in 0 … 1.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, not {split!r}")
    if not 0 <= held_out <= 1:
        raise ValueError(f"held_out must be a share from 0 to 1, not {held_out}")
    if not 0 < share <= 1:
        raise ValueError(f"share must be more than 0 and at most 1, not {share}")
    place = question_place(question)
    if split == "validation":
        return place < held_out
    return held_out <= place < held_out + share * (1 - held_out)
