"""Comparisons: our format and both released shapes, ties, faults by field."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.samples import comparison
from webgpt_jax.datasets import (
    Comparison,
    DataError,
    ReleasedTokens,
    Report,
    Side,
    comparison_from_json,
    comparison_to_json,
    label_of,
    read_comparisons,
    write_comparisons,
)
from webgpt_jax.env import Quote

LINE = (
    '{"format":"webgpt-comparison-1","id":"c-1","question":"Why?","a":{"quotes":[{"text":"Blue light.","title":"Sky",'
    '"domain":"sky.test","url":"","start":0,"end":0}],"answer":"Light [1].","tokens":null},"b":{"quotes":[],"answer":'
    '"No idea.","tokens":null},"label":1.0,"rating":0.5,"labeler":"ann","question_id":null,"info":{"seed":"3"}}'
)
OURS = Comparison(
    "c-1",
    "Why?",
    Side((Quote("Blue light.", "Sky", "sky.test", "", 0, 0),), "Light [1]."),
    Side((), "No idea."),
    label=1.0,
    rating=0.5,
    labeler="ann",
    info={"seed": "3"},
)
QUESTION = {"full_text": "Why is the sky blue?", "dataset": "eli5", "id": "5abc"}
FLAT: dict[str, Any] = {
    "question": QUESTION,
    "quotes_0": {"title": ["Sky (sky.test)", "Light"], "extract": ["Blue light.", "Waves."]},
    "answer_0": "It scatters [1][2].",
    "tokens_0": {"prefix": [5195, 318], "completion": [1026]},
    "score_0": -0.25,
    "quotes_1": {"title": [], "extract": []},
    "answer_1": "Magic.",
    "tokens_1": {"prefix": [5195], "completion": [22975, 13]},
    "score_1": 0.25,
}
PAIR: list[dict[str, Any]] = [
    {"question": QUESTION} | {name: FLAT[f"{name}_{side}"] for name in ("quotes", "answer", "tokens", "score")}
    for side in (0, 1)
]
RELEASED = Comparison(
    "eli5/5abc",
    "Why is the sky blue?",
    Side(
        (Quote("Blue light.", "Sky (sky.test)", "", "", 0, 0), Quote("Waves.", "Light", "", "", 0, 0)),
        "It scatters [1][2].",
        ReleasedTokens((5195, 318), (1026,)),
    ),
    Side((), "Magic.", ReleasedTokens((5195,), (22975, 13))),
    label=0.0,
    rating=-0.25,
)


# ---- our format


def test_our_format_written_and_read() -> None:
    assert comparison_to_json(OURS) == LINE
    assert comparison_from_json(LINE) == OURS


def test_what_may_be_left_out() -> None:
    short = (
        '{"format":"webgpt-comparison-1","id":"c-1","question":"Why?","rating":-0.5,"a":{"quotes":[{"text":"Blue '
        'light.","title":"Sky"}],"answer":"Light [1]."},"b":{"quotes":[],"answer":"No idea."}}'
    )
    read = comparison_from_json(short)
    assert (read.label, read.rating, read.labeler, read.question_id, read.info) == (0.0, -0.5, None, None, {})
    assert read.a.quotes == (Quote("Blue light.", "Sky", "", "", 0, 0),)


def test_the_prompt_holds_the_quotes() -> None:
    assert OURS.prompt(OURS.a) == "Why?■\n[1] Sky (sky.test)\n\nBlue light.■\n"
    assert OURS.prompt(OURS.b) == "Why?■\n"
    assert RELEASED.prompt(RELEASED.a) == (
        "Why is the sky blue?■\n[1] Sky (sky.test)\n\nBlue light.■\n[2] Light\n\nWaves.■\n"
    )


@pytest.mark.parametrize(("rating", "label"), [(1, 1.0), (0.01, 1.0), (0, 0.5), (-0.0, 0.5), (-0.3, 0.0), (-1.0, 0.0)])
def test_a_rating_s_label_is_its_sign(rating: float, label: float) -> None:
    assert label_of(rating) == label


@given(st.text(), st.text(), st.sampled_from([1.0, 0.5, 0.0]), st.dictionaries(st.text(), st.text(), max_size=2))
def test_any_text_is_read_as_it_was_written(answer: str, labeler: str, label: float, info: dict[str, str]) -> None:
    written = Comparison("c", "Why?", Side((), answer), Side((), ""), label, labeler=labeler, info=info)
    assert comparison_from_json(comparison_to_json(written)) == written


# ---- the released shapes


def test_both_released_shapes_are_the_same_comparison() -> None:
    assert comparison_from_json(json.dumps(FLAT)) == RELEASED
    assert comparison_from_json(json.dumps(PAIR)) == RELEASED


def test_released_ties_are_kept_and_fields_of_mirrors_passed_over() -> None:
    tie = FLAT | {"score_0": 0, "score_1": 0.0, "row": 7}
    del tie["tokens_0"], tie["tokens_1"]
    read = comparison_from_json(json.dumps(tie))
    assert (read.label, read.a.tokens, read.b.tokens) == (0.5, None, None)
    assert comparison_from_json(json.dumps([record | {"score": 0.0} for record in PAIR])).label == 0.5


def test_a_released_comparison_in_our_format() -> None:
    assert comparison_from_json(comparison_to_json(RELEASED)) == RELEASED


# ---- faults


def _ours(**changes: Any) -> str:
    return json.dumps(json.loads(LINE) | changes)


def _pair(**changes: Any) -> str:
    return json.dumps([PAIR[0], PAIR[1] | changes])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "not JSON"),
        ("3", "neither a pair of records"),
        ("{}", "neither a pair of records"),
        (_ours(format="webgpt-comparison-9"), 'field "format"'),
        (_ours(label=0.7), r'field "label": expected 1, 0\.5 or 0, found 0\.7'),
        (_ours(label=None, rating=None), 'field "label"'),
        (_ours(label=True), 'field "label"'),
        (_ours(label=0.0), 'field "rating": 0.5 does not fit the label 0'),
        (_ours(label=None, rating=1.5), 'field "rating": expected -1 to 1'),
        (_ours(question=" "), 'field "question": it is empty'),
        (_ours(winner="a"), 'field "winner" is unknown'),
        (_ours(a={"quotes": [{"text": "x"}], "answer": ""}), r'field "a\.quotes\[0\]\.title" is missing'),
        (_ours(b={"quotes": "x", "answer": ""}), r'field "b\.quotes": expected a list'),
        (_ours(b={"quotes": [], "answer": "\ud800"}), r'field "b\.answer": half a surrogate pair'),
        (_pair(score=0.5), 'field "score_1": -0.25 and 0.5 do not sum to 0'),
        (_pair(score=float("nan")), "do not sum to 0"),
        (_pair(score="0.25"), r'field "pair\[1\]\.score": expected float'),
        (_pair(question=QUESTION | {"full_text": "Why?"}), r'field "pair\[1\]\.question\.full_text": it is another'),
        (_pair(quotes={"title": ["x"], "extract": []}), r'field "pair\[1\]\.quotes": 1 titles and 0 extracts'),
        (_pair(tokens={"prefix": [50257], "completion": []}), r'field "pair\[1\]\.tokens": 50257 is none of GPT-2'),
        (json.dumps(PAIR[:1]), "expected a pair of records, found 1"),
        (json.dumps([PAIR[0], 3]), r'field "pair\[1\]": expected an object'),
        (json.dumps(FLAT | {"answer_1": None}), 'field "answer_1": expected str'),
        (json.dumps({name: value for name, value in FLAT.items() if name != "score_1"}), 'field "score_1" is missing'),
        (json.dumps(FLAT | {"score_0": -3, "score_1": 3}), r"expected -1 to 1"),
    ],
)
def test_malformed_comparisons(line: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        comparison_from_json(line)


# ---- files


def test_a_file_and_its_split(tmp_path: Path) -> None:
    path = tmp_path / "comparisons.jsonl"
    write_comparisons(path, [comparison(number % 30) for number in range(60)])
    found = {split: list(read_comparisons([path], split=split)) for split in ("train", "validation")}  # type: ignore[arg-type]
    assert len(found["train"]) + len(found["validation"]) == 60
    questions = {split: {one.question for one in some} for split, some in found.items()}
    assert questions["train"].isdisjoint(questions["validation"])
    assert all(questions.values())


def test_a_question_id_decides_the_split_in_the_question_s_place(tmp_path: Path) -> None:
    path = tmp_path / "comparisons.jsonl"
    write_comparisons(path, [replace(comparison(number), question_id="one") for number in range(20)])
    sizes = [len(list(read_comparisons([path], split=split, held_out=0.5))) for split in ("train", "validation")]  # type: ignore[arg-type]
    assert sorted(sizes) == [0, 20]


def test_faults_are_named_by_file_and_line_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "comparisons.jsonl"
    path.write_text(f"{LINE}\n{json.dumps(FLAT)}\n{_ours(label=3)}\n{json.dumps(PAIR)}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r'comparisons\.jsonl, line 3: field "label"'):
        list(read_comparisons([path], split="train", held_out=0))
    report = Report()
    found = list(read_comparisons([path], split="train", held_out=0, skip_bad_records=True, report=report))
    assert found == [OURS, RELEASED, RELEASED]
    assert (report.records, report.bad_records, report.questions, report.examples) == (3, 1, 2, 3)
