"""Reading tasks: what stands in the prompt, and that the completion is right by the page that is shown."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from webgpt_jax.tinyweb.answers import read_answer
from webgpt_jax.tinyweb.language import Claim, read_claim
from webgpt_jax.tinyweb.reading import NOTHING, SKILLS, Reader, Reading, sentence_for
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER, Library, approximate_tokens, open_library


@pytest.fixture(scope="module")
def library() -> Library:
    return open_library(11, animals=20)


@pytest.fixture(scope="module")
def tasks(library: Library) -> dict[str, list[Reading]]:
    reader = Reader(library, TINYWEB_BROWSER, 0)
    return {skill: [reader.task(skill) for _ in range(60)] for skill in SKILLS}


def test_the_same_seed_draws_the_same_and_another_does_not(library: Library) -> None:
    first, again, other = (Reader(library, TINYWEB_BROWSER, seed) for seed in (3, 3, 4))
    drawn = [first.task() for _ in range(50)]
    assert drawn == [again.task() for _ in range(50)]
    assert drawn != [other.task() for _ in range(50)]


def test_no_task_is_a_command_and_all_fit_the_context(tasks: dict[str, list[Reading]]) -> None:
    for task in (task for found in tasks.values() for task in found):
        assert "♦Next action" not in task.prompt
        assert approximate_tokens(task.prompt + task.completion) <= 336


def test_copies_are_copies(tasks: dict[str, list[Reading]]) -> None:
    for task in tasks["copy"]:
        assert task.prompt == f"♦List\n{task.completion}\n\n♦Again\n"
    for task in tasks["repeat"]:
        assert task.prompt == f"♦Words\n{task.completion}\n\n♦Again\n"
        assert 5 <= len(task.completion.split()) <= 21


def test_a_row_is_looked_up_by_its_number_or_its_name(tasks: dict[str, list[Reading]]) -> None:
    asked: Counter[str] = Counter()
    for task in tasks["look-up"]:
        listed, question = task.prompt.removeprefix("♦List\n").split("\n\n")
        kind, name = re.fullmatch("♦(Number|Value) of (the .*):", question).groups()  # type: ignore[union-attr]
        row = f"{task.completion.strip()}† {name}" if kind == "Number" else f"{name}:{task.completion}"
        assert row in listed.split("\n")
        asked[kind] += 1
    assert set(asked) == {"Number", "Value"}


def test_the_sentence_stands_in_the_text_that_is_shown(tasks: dict[str, list[Reading]]) -> None:
    found = 0
    for task in tasks["sentence"]:
        said = task.completion.removeprefix(" ")
        if said != NOTHING:
            shown = task.prompt.split("♦Text\n")[1].split("♦Actions left")[0]
            assert said in re.sub(r"【\d+†([^】†]*)(?:†[^】†]*)?】", r"\1", shown)
            assert read_claim(said) is not None
            found += 1
    assert 20 < found < 60


def test_the_best_link_is_trusted_and_about_the_animal(tasks: dict[str, list[Reading]]) -> None:
    numbers: Counter[str] = Counter()
    for task in tasks["link"]:
        number = task.completion.strip()
        numbers[number] += 1
        if number != NOTHING:
            assert re.search(rf"【{number}†The \w+ \w+[^†]*†(wiki|news)\.test】", task.prompt)
    assert len(numbers) >= 4


def test_an_answer_says_what_its_quotes_say(tasks: dict[str, list[Reading]]) -> None:
    for task in tasks["answer"]:
        quotes = re.findall(r"\[(\d+)\] [^\n]*\n\n([^■]*)■", task.prompt)
        told = {int(number): read_claim(text) for number, text in quotes}
        for claim, numbers in read_answer(task.completion):
            assert claim is not None
            assert len(numbers) == 1
            quoted = told[numbers[0]]
            assert quoted is not None
            assert claim == quoted or (claim.denied and claim.value != quoted.value)


def test_a_sentence_by_hand() -> None:
    need = Claim("moss owl", "food", "nuts")
    page = "Food\nThe moss owl is a small animal. The moss owl feeds on figs. The moss crow eats nuts."
    assert sentence_for(page, need) == "The moss owl feeds on figs."
    assert sentence_for(page, Claim("moss owl", "home", "caves")) is None
