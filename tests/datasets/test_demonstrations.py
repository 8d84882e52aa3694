"""Episodes as examples: what is taught, what is not, and scrolls merged as if they had been played so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.datasets.samples import episode, observation, write_episodes
from tests.env.webs import MemoryWeb, ScriptedPolicy, linked_page, run
from webgpt_jax.datasets import (
    DataError,
    Example,
    Report,
    demonstration,
    is_in_split,
    merge_scrolls,
    read_demonstrations,
)
from webgpt_jax.env import (
    Action,
    Browser,
    BrowserConfig,
    Episode,
    EpisodeEnd,
    SearchResult,
    run_episode,
)

PAGE = linked_page("https://long.test/", "Long", "\n".join(f"Line {number} of a long page." for number in range(200)))
DOWN, UP = "Scrolled down 1", "Scrolled up 1"


def _played(*actions: str, config: BrowserConfig | None = None) -> Episode:
    """An episode in which these actions follow a search and a click."""
    browser = Browser(
        MemoryWeb({PAGE.url: PAGE}, {None: [SearchResult("Long", PAGE.url, "A snippet.")]}),
        config or BrowserConfig(window_chars=300),
    )
    policy = ScriptedPolicy(["Search long", "Clicked on link 0", *actions, "End: Answer", "An answer [1]."])
    return run(run_episode(browser, policy, "Why?"))


# ---- examples


def test_a_step_is_an_example_and_the_answer_one_more() -> None:
    found = demonstration(episode("Why is the sky blue?"))
    assert found.examples == (
        Example(observation("Why is the sky blue?", (), 9, "page 0"), "Search sky"),
        Example(observation("Why is the sky blue?", ("Search sky",), 8, "page 1"), "End: Answer"),
        Example("Why is the sky blue?■\n[1] Sky (sky.test)\n\nBlue light scatters.■\n", "Blue."),
    )
    assert (found.question, found.invalid_actions, found.merged_scrolls, found.failed) == (
        "Why is the sky blue?",
        0,
        0,
        False,
    )


def test_the_text_is_taught_where_the_action_has_tokens_too() -> None:
    played = episode("Why?", ["Top"], answer=None)
    spoken = replace(played, steps=(replace(played.steps[0], action=Action("Top", (7, 8), (-1.0, -1.0))),))
    assert [example.completion for example in demonstration(spoken).examples] == ["Top"]


@pytest.mark.parametrize("end", [EpisodeEnd.FAILURE, EpisodeEnd.DEADLINE])
def test_failed_episodes_are_not_taught(end: EpisodeEnd) -> None:
    found = demonstration(replace(episode("Why?"), end=end))
    assert found.examples == ()
    assert found.failed


def test_invalid_actions_and_empty_answers_are_not_taught() -> None:
    found = demonstration(episode("Why?", ["Scrolled down 4", "search x", "Top"], answer=" "))
    assert [example.completion for example in found.examples] == ["Top"]
    assert found.invalid_actions == 3


# ---- merged scrolls


def test_a_run_of_five_is_a_three_and_a_two() -> None:
    merged = merge_scrolls(episode("Why?", ["Search sky", *[DOWN] * 5, "Top"]))
    assert [(step.observation, step.action.text) for step in merged.steps] == [
        (observation("Why?", (), 9, "page 0"), "Search sky"),
        (observation("Why?", ("Search sky",), 8, "page 1"), "Scrolled down 3"),
        (observation("Why?", ("Search sky", "Scrolled down 3"), 7, "page 4"), "Scrolled down 2"),
        (observation("Why?", ("Search sky", "Scrolled down 3", "Scrolled down 2"), 6, "page 6"), "Top"),
    ]
    assert demonstration(episode("Why?", ["Search sky", *[DOWN] * 5, "Top"])).merged_scrolls == 3


@pytest.mark.parametrize(
    ("actions", "merged"),
    [
        ([DOWN], [DOWN]),
        ([DOWN] * 2, ["Scrolled down 2"]),
        ([DOWN] * 4, ["Scrolled down 3", DOWN]),
        ([UP] * 3, ["Scrolled up 3"]),
        ([DOWN, UP, UP, DOWN], [DOWN, "Scrolled up 2", DOWN]),
        ([DOWN, "Scrolled down 2", DOWN], [DOWN, "Scrolled down 2", DOWN]),
        ([DOWN, "bogus", DOWN], [DOWN, "bogus", DOWN]),
        ([DOWN, "Top", DOWN, DOWN], [DOWN, "Top", "Scrolled down 2"]),
    ],
)
def test_what_is_merged(actions: list[str], merged: list[str]) -> None:
    shown = [text for text in actions if text != "bogus"]  # no observation shows an invalid action
    played = episode("Why?", actions, answer=None)
    played = replace(
        played,
        steps=tuple(
            replace(step, observation=observation("Why?", shown[: len([a for a in actions[:at] if a != "bogus"])]))
            for at, step in enumerate(played.steps)
        ),
    )
    assert [step.action.text for step in merge_scrolls(played).steps] == merged


def test_a_merged_episode_is_what_the_browser_shows_for_its_actions() -> None:
    actions = [*[DOWN] * 5, "bogus", DOWN, "Find in page: nowhere", DOWN, UP, UP, "Quote: Line 30 of", DOWN, "Back"]
    played = _played(*actions)
    merged = merge_scrolls(played)
    again = _played(*[step.action.text for step in merged.steps[2:-1]])
    assert [step.action.text for step in merged.steps[2:6]] == ["Scrolled down 3", "Scrolled down 2", "bogus", DOWN]
    assert merged == again
    assert len(merged.steps) == len(played.steps) - 4


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (7, ("Scrolled down 3", "Scrolled down 3", DOWN)),
        (5, ("Scrolled down 3", "Scrolled down 3", DOWN)),  # the third scroll is the last of the first three
        (4, ("Scrolled down 3", DOWN)),
        (1, (DOWN,)),
        (0, ()),
    ],
)
def test_observations_that_show_the_last_of_their_past_actions_only(last: int, shown: tuple[str, ...]) -> None:
    played = episode("Why?", [*[DOWN] * 7, "Top"])
    cut = replace(played.steps[7], observation=observation("Why?", [DOWN] * last, 2, "page 7"))
    merged = merge_scrolls(replace(played, steps=(*played.steps[:7], cut)))
    assert [step.action.text for step in merged.steps] == ["Scrolled down 3", "Scrolled down 3", DOWN, "Top"]
    assert merged.steps[3].observation == observation("Why?", shown, 6, "page 7")


def test_an_episode_whose_observations_do_not_show_its_scrolls() -> None:
    played = episode("Why?", [DOWN, DOWN, "Top"])
    last = replace(played.steps[2], observation=observation("Why?", (UP, DOWN)))
    with pytest.raises(ValueError, match=r'"steps\[2\].observation": the past action "Scrolled up 1" is not among'):
        merge_scrolls(replace(played, steps=(*played.steps[:2], last)))
    with pytest.raises(ValueError, match=r'"steps\[0\].observation": not an observation'):
        merge_scrolls(replace(played, steps=(replace(played.steps[0], observation="x"),)))


# ---- files


def test_reading_a_split(tmp_path: Path) -> None:
    questions = [f"Question {number}?" for number in range(40)]
    first = write_episodes(tmp_path / "a.jsonl", [episode(question, [DOWN, DOWN, "nothing"]) for question in questions])
    second = write_episodes(tmp_path / "b.jsonl", [replace(episode(questions[0]), end=EpisodeEnd.FAILURE)])
    reports = {split: Report() for split in ("train", "validation")}
    found = {
        split: list(read_demonstrations([first, second], split=split, held_out=0.3, report=report))  # type: ignore[arg-type]
        for split, report in reports.items()
    }
    held = [question for question in questions if is_in_split(question, "validation", 0.3)]
    assert 0 < len(held) < 40
    assert [one.question for one in found["validation"] if not one.failed] == held
    train = [question for question in questions if question not in held]
    assert [one.question for one in found["train"] if not one.failed] == train
    report = reports["train"]
    assert (report.records, report.questions, report.examples) == (41, len(train), 2 * len(train))
    assert (report.merged_scrolls, report.invalid_actions) == (len(train), len(train))
    assert reports["train"].failed_episodes + reports["validation"].failed_episodes == 1


def test_a_malformed_line_is_an_error_with_file_line_and_field(tmp_path: Path) -> None:
    path = write_episodes(tmp_path / "a.jsonl", [episode("Why?"), episode("How?")])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"text":"Search sky"', '"text":3', 1) + '\n{"half', encoding="utf-8")
    with pytest.raises(DataError, match=r'a\.jsonl, line 1: field "steps\[0\]\.action\.text": expected str'):
        list(read_demonstrations([path], split="train", held_out=0))
    report = Report()
    found = list(read_demonstrations([path], split="train", held_out=0, skip_bad_records=True, report=report))
    assert [one.question for one in found] == ["How?"]
    assert (report.records, report.bad_records) == (1, 2)
    assert [fault.partition(":")[0].rpartition("/")[2] for fault in report.faults] == [
        "a.jsonl, line 1",
        "a.jsonl, line 4",
    ]
    assert str(report).startswith("records 1, bad_records 2, questions 1, examples 3\n")


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: .*decode"):
        list(read_demonstrations([path], split="train"))
    with pytest.raises(DataError, match=r"none\.jsonl cannot be read: No such file"):
        list(read_demonstrations([tmp_path / "none.jsonl"], split="train"))
    path = write_episodes(path, [episode("Why?", answer="\ud800")])
    with pytest.raises(DataError, match=r"line 1: .*half a surrogate pair"):
        list(read_demonstrations([path], split="train", held_out=0))
