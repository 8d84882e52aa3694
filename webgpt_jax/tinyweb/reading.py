"""Reading tasks: what pre-training teaches a small model that GPT-3 knew already.

Each is a piece of an observation, as the browser renders it, with one question of another kind in place of the next
action: which words to search for, which link leads there, which sentence says it, what is still missing, what the
answer is. None of them is a command: those are left for behavior cloning to teach. Beside them stand plain pages, and
lists to copy and to look things up in, which is how attention learns to find and to repeat.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from webgpt_jax.env.browser import search_page
from webgpt_jax.env.observation import render_answer_prompt, render_observation
from webgpt_jax.env.page import Page, Quote
from webgpt_jax.env.state import BrowserConfig, BrowserState, Place
from webgpt_jax.tinyweb.answers import compose_answer
from webgpt_jax.tinyweb.language import BY_NAME, RELATIONS, Claim, read_claim, state
from webgpt_jax.tinyweb.lexicon import ANIMALS, FIRST_WORDS
from webgpt_jax.tinyweb.questions import SPLITS, QuestionKind, TinyQuestion, questions
from webgpt_jax.tinyweb.web import Library
from webgpt_jax.tinyweb.windows import Asked, ShownLink, best_link, split_sentences

NOTHING = "nothing"  # the completion where what is asked for is not there
_NEXT_ACTION = "♦Next action\n"


@dataclass(frozen=True)
class Reading:
    """A task: what is given, and what should follow."""

    skill: str
    prompt: str
    completion: str


class Reader:
    """Draws tasks about the pages of one world. The same seed draws the same ones.

    Args:
      library: the pages.
      config: of the browser; the windows are at most as large as its own.
      seed: of what is drawn.
      shares: how often each skill is practised.
    """

    def __init__(
        self, library: Library, config: BrowserConfig, seed: int, shares: Mapping[str, float] | None = None
    ) -> None:
        self._shares = dict(BEGINNING if shares is None else shares)
        self._library = library
        self._config = config
        self._draw = random.Random(f"tinyweb reading {library.world.seed} {seed}")
        self._questions = {split: questions(library.world, split, seed) for split in SPLITS}

    def task(self, skill: str | None = None) -> Reading:
        """One task, of that skill or of any.

        Raises:
          KeyError: there is no such skill.
        """
        skill = self._draw.choices(list(self._shares), list(self._shares.values()))[0] if skill is None else skill
        while True:  # a few draws give no task: an animal without that page
            prompt, completion = _TASKS[skill](self) or ("", "")
            if completion:
                return Reading(skill, prompt, completion)

    # ---- the tasks

    def _text(self) -> tuple[str, str]:
        page = self._any_page(self._draw.choice(self._library.world.animals))
        starts = page.units(self._config.unit_chars)
        unit = self._draw.randrange(len(starts) - 1)
        return f"♦Title\n{page.heading}\n\n♦Text\n", page.text[starts[unit] :][: self._config.window_chars]

    def _copy(self) -> tuple[str, str]:
        """A list, and the same again."""
        words = [self._name() for _ in range(self._draw.randint(3, 12))]
        listed = "\n".join(f"the {name}" for name in words)
        return f"♦List\n{listed}\n\n♦Again\n", listed

    def _repeat(self) -> tuple[str, str]:
        """Words of every kind, and the same again: names are not all that has to be repeated."""
        words = " ".join(self._draw.sample(_WORDS, self._draw.randint(4, 20)))
        return f"♦Words\nthe {words}\n\n♦Again\n", f"the {words}"

    def _look_up(self) -> tuple[str, str]:
        """A table, and one of its rows."""
        names = list(dict.fromkeys(self._name() for _ in range(self._draw.randint(3, 10))))
        rows = {name: self._draw.choice(self._draw.choice(RELATIONS).values) for name in names}
        asked = self._draw.choice(names)
        if self._draw.random() < 0.5:  # by what stands behind it
            table = "\n".join(f"{at}† the {name}" for at, name in enumerate(names))
            return f"♦List\n{table}\n\n♦Number of the {asked}:", f" {names.index(asked)}"
        table = "\n".join(f"the {name}: {value}" for name, value in rows.items())
        return f"♦List\n{table}\n\n♦Value of the {asked}:", f" {rows[asked]}"

    def _query(self) -> tuple[str, str]:
        question, at = self._question()
        place = Place(self._any_page(self._draw.choice(self._library.world.animals))) if at else Place(_EMPTY)
        prompt = self._observation(question, at, place, [])
        return f"{prompt}♦Words to search for:", f" {_query_of(question.needs[at])}"

    def _link(self) -> tuple[str, str]:
        question, at = self._question()
        need = question.needs[at]
        query = _query_of(need) if self._draw.random() < 0.7 else self._poor_query(need)
        results = search_page(query, self._library.search(query))
        best = best_link([ShownLink(link.id, link.text, link.domain) for link in results.links], _asked(need))
        prompt = self._observation(question, at, Place(results), [f"Search {query}"])
        return f"{prompt}♦Number of the best link:", f" {NOTHING if best is None else best.id}"

    def _sentence(self) -> tuple[str, str]:
        question, at = self._question()
        need = question.needs[at]
        animal = need.animal if self._draw.random() < 0.9 else self._draw.choice(self._library.world.animals)
        page = self._library.pages[animal][0] if self._draw.random() < 0.7 else self._any_page(animal)
        starts = page.units(self._config.unit_chars)
        config = self._window()
        holding = [
            unit
            for unit in range(len(starts) - 1)
            if sentence_for(page.text[starts[unit] : starts[unit + 1]], need) is not None
        ]
        unit = self._draw.randrange(len(starts) - 1)
        if holding and self._draw.random() < 0.85:  # it is in sight, anywhere in the window
            unit = max(0, holding[0] - self._draw.randrange(1 + config.window_chars // 80))
        past = [f"Search {_query_of(need)}", f"Click {page.title} {page.domain}"]
        past += ["Scrolled down 1"] * (unit > 0)
        prompt = self._observation(question, at, Place(page, unit), past, config)
        shown = prompt.split("♦Text\n", 1)[1].split("\n\n♦Actions left", 1)[0]
        return f"{prompt}♦Sentence:", f" {sentence_for(shown, need) or NOTHING}"

    def _missing(self) -> tuple[str, str]:
        question, at = self._question(complete=True)
        animal = question.needs[min(at, len(question.needs) - 1)].animal
        page = self._any_page(animal) if at else _EMPTY
        prompt = self._observation(question, at, Place(page), [])
        missing = NOTHING if at == len(question.needs) else _query_of(question.needs[at])
        return f"{prompt}♦Still missing:", f" {missing}"

    def _answer(self) -> tuple[str, str]:
        question, _ = self._question()
        needs = list(question.needs)
        if len(needs) > 1 and self._draw.random() < 0.15:
            needs = needs[:1]
        quotes = [self._quote(need) for need in needs]
        order = list(range(len(quotes)))
        if self._draw.random() < 0.3:
            self._draw.shuffle(order)
        prompt = render_answer_prompt(question.text, [quotes[at] for at in order])
        said: list[tuple[Claim, tuple[int, ...]]] = []
        for number in range(len(needs)):
            cited = (order.index(number) + 1,)
            told = read_claim(quotes[number].text)
            assert told is not None
            if question.supposed is not None and question.supposed != told.value:
                said.append((replace(told, value=question.supposed, denied=True), cited))
            said.append((told, cited))
        return prompt, compose_answer(said)

    # ---- what they are made of

    def _name(self) -> str:
        return f"{self._draw.choice(FIRST_WORDS)} {self._draw.choice(ANIMALS)}"

    def _question(self, complete: bool = False) -> tuple[TinyQuestion, int]:
        """A question that can be answered, and the first of its needs that is not quoted yet."""
        while True:
            split = self._draw.choice(SPLITS)
            question = next(self._questions[split], None)
            if question is None:  # all have been asked: begin again
                self._questions[split] = questions(self._library.world, split, self._draw.randrange(1 << 30))
            elif question.kind is not QuestionKind.NONSENSE:
                return question, self._draw.randrange(len(question.needs) + complete)

    def _any_page(self, animal: str) -> Page:
        return self._draw.choice(self._library.pages[animal])

    def _poor_query(self, need: Claim) -> str:
        first, second = need.animal.split()
        return self._draw.choice([need.animal, second, f"{first} {BY_NAME[need.relation].keyword}"])

    def _window(self) -> BrowserConfig:
        """Small windows are easier: nothing is learned from large ones before these are."""
        most = self._config.window_chars
        return replace(self._config, window_chars=self._draw.choice([most // 4, most // 2, most, most]))

    def _quote(self, need: Claim) -> Quote:
        """A quote that says it, from a page that does, where one does; truthful or not."""
        pages = list(self._library.pages[need.animal])
        page = pages[0] if self._draw.random() < 0.6 else self._draw.choice(pages)
        text = sentence_for(page.text, need) or sentence_for(pages[0].text, need)
        if text is None:
            text = state(need, self._draw.randrange(3))
        return Quote(text, page.title, page.domain, page.url, 0, len(text))

    def _observation(
        self,
        question: TinyQuestion,
        quoted: int,
        place: Place,
        past: Sequence[str],
        config: BrowserConfig | None = None,
    ) -> str:
        """What the browser would show, without the line that asks for an action."""
        before: list[str] = []
        for need in question.needs[:quoted]:
            page = self._library.pages[need.animal][0]
            before += [f"Search {_query_of(need)}", f"Click {page.title} {page.domain}", "Quote"]
        left = self._draw.randint(8, 30) - len(before)
        shown = BrowserState(
            question.text,
            max(1, left),
            config or self._config,
            place=place,
            quotes=tuple(self._quote(need) for need in question.needs[:quoted]),
            past_actions=(*before, *past),
        )
        return render_observation(shown).removesuffix(_NEXT_ACTION)


_WORDS = (*FIRST_WORDS, *ANIMALS, *(value for relation in RELATIONS for value in relation.values))
_EMPTY = Page(title="", domain="", url="", text="")
_TASKS: dict[str, Callable[[Reader], tuple[str, str] | None]] = {
    "text": Reader._text,
    "copy": Reader._copy,
    "repeat": Reader._repeat,
    "look-up": Reader._look_up,
    "query": Reader._query,
    "link": Reader._link,
    "sentence": Reader._sentence,
    "missing": Reader._missing,
    "answer": Reader._answer,
}

# How often each skill is practised: first all of them, until attention has learned to find and to repeat; then mostly
# those that take longer.
BEGINNING = {
    "text": 1.0,
    "copy": 0.7,
    "look-up": 1.3,
    "query": 0.7,
    "link": 2.5,
    "sentence": 3.0,
    "missing": 1.2,
    "answer": 1.5,
}
LATER = {
    "text": 0.5,
    "copy": 0.2,
    "repeat": 1.5,
    "look-up": 1.5,
    "query": 0.3,
    "link": 2.5,
    "sentence": 4.0,
    "missing": 0.6,
    "answer": 2.5,
}
SKILLS = tuple(LATER)


def _asked(need: Claim) -> Asked:
    return Asked(need.animal, need.relation)


def _query_of(need: Claim) -> str:
    return _asked(need).query


def sentence_for(text: str, need: Claim) -> str | None:
    """The first sentence of a text that says what the need asks, whatever value it gives; as it stands there."""
    asked = _asked(need)
    return next((said.text for said in split_sentences(text) if asked.is_stated_by(said.claim)), None)
