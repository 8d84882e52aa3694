"""Questions: ELI5's post-processing to the letter, and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from webgpt_jax.datasets import DataError, Question, Report, eli5_question, read_questions


@pytest.mark.parametrize(
    ("title", "selftext", "question"),
    [
        ("Why is the sky blue?", "", "Why is the sky blue?"),
        ("Why is the sky blue?", "  \n", "Why is the sky blue?"),
        ("Why is the sky blue?", "I see it daily.", "Why is the sky blue?\n\nI see it daily."),
        ("Why is the sky blue?", "[deleted]", "Why is the sky blue?"),
        ("Why is the sky blue?", "[removed]", "Why is the sky blue?"),
        ("Why is the sky blue?", "[removed] it", "Why is the sky blue?\n\n[removed] it"),
        ("[deleted by user]", "Why is the sky blue?", None),
        ("See https://a.test/x?y=1", "and http://b.test/", "See https://a.test/x?y=1\n\nand http://b.test/"),
        ("gravity", "", "Explain: gravity"),
        ("Gravity", "And magnets", "Explain: Gravity\n\nAnd magnets"),
        ("gravity?", "", "gravity?"),
        ("ELI5 gravity", "", "ELI5 gravity"),
        ("eli5: gravity", "", "eli5: gravity"),
        ("EXPLAIN gravity", "", "EXPLAIN gravity"),
        ("explained gravity", "", "Explain: explained gravity"),  # a boundary at either end
        ("I don't get gravity", "", "I don't get gravity"),  # "don"
        ("I dont get gravity", "", "I dont get gravity"),
        ("showhow", "", "Explain: showhow"),
        ("The whole nation", "", "Explain: The whole nation"),
        ("gravity", "I wonder why", "gravity\n\nI wonder why"),
        ("things would_be", "", "Explain: things would_be"),  # an underscore is part of a word
    ],
)
def test_eli5(title: str, selftext: str, question: str | None) -> None:
    assert eli5_question(title, selftext) == question


def test_every_word_of_the_paper_s_list() -> None:
    words = (
        "explain eli5 which what whats whose who whos whom where wheres when whens how hows why whys am is isn isnt "
        "are aren arent was wasn wasnt were weren werent do don dont does doesn doesnt did didn didnt can cant could "
        "couldn couldnt have haven havent has hasn hasnt may might must mustn mustnt shall shant should shouldn "
        "shouldnt will wont would wouldn wouldnt"
    )
    for word in words.split():
        assert eli5_question(f"x {word.upper()}, y", "") == f"x {word.upper()}, y"
        assert eli5_question(f"x z{word} y", "") == f"Explain: x z{word} y"
    assert eli5_question("x had y", "") == "Explain: x had y"  # not in the list


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(
        '{"id": "q1", "question": "Why?", "reference_answer": "So.", "topic": 3}\n\n'
        '{"question": "Why is the sky blue?"}\n',
        encoding="utf-8",
    )
    report = Report()
    assert list(read_questions(path, report=report)) == [
        Question("q1", "Why?", "So.", {"topic": 3}),
        Question("ff880e2bc6fe", "Why is the sky blue?"),
    ]
    assert (report.records, report.questions) == (2, 2)


def test_plain_lines(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("\n Why is the sky blue? \n{not json}\n", encoding="utf-8")
    found = list(read_questions(path))
    assert found[0] == Question("ff880e2bc6fe", "Why is the sky blue?")
    assert found[1].question == "{not json}"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("Why?", "not JSON"),
        ("[]", "expected an object, found list"),
        ('{"id": "q"}', 'field "question"'),
        ('{"question": " "}', 'field "question"'),
        ('{"question": "Why?", "id": 3}', 'field "id": expected a text, found int'),
        ('{"question": "\\ud800"}', 'field "question": half a surrogate pair'),
    ],
)
def test_malformed_questions(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(f'{{"question": "Why?"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(DataError, match=rf"questions\.jsonl, line 2: .*{fault}"):
        list(read_questions(path))
    assert len(list(read_questions(path, skip_bad_records=True))) == 1
