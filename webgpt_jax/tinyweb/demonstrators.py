"""TinyWeb's scripted people: they browse with more or less skill and write answers from what they have quoted.

Synthetic: they know which facts a question asks for, and read them in the wordings of `language.py`; what the facts
are they learn from pages. What they do depends on what the observation shows and on chance, so that a model which is
shown one observation at a time can learn it; all that they remember is what ends a walk in circles:

    the question makes no sense         End: Nonsense
    all that is asked for is quoted     one more fact in sight, or End: Answer
    a missing fact is in sight          Quote: the sentence
    search results                      the link to the animal's article, else to news of the fact, else other words
    the animal's article                Scrolled down 1, or Find in page: the keyword; at its end Top or Scrolled up 1
    another page that names it          the link to its article
    any other page                      Back, or Search <animal> <keyword>

Skill is the chance of each slip: see `Skill`. After a slip they go by the same table, which is how they recover.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from webgpt_jax.env import (
    Action,
    EpisodeError,
    ParsedObservation,
    is_observation,
    parse_answer_prompt,
    parse_observation,
)
from webgpt_jax.env.commands import (
    Back,
    ClickLink,
    Command,
    End,
    EndKind,
    FindInPage,
    QuoteText,
    ScrollDown,
    ScrollUp,
    Search,
    Top,
)
from webgpt_jax.tinyweb.answers import compose_answer
from webgpt_jax.tinyweb.language import BY_NAME, RELATIONS, Claim
from webgpt_jax.tinyweb.questions import QuestionKind, TinyQuestion
from webgpt_jax.tinyweb.sites import TRUSTED
from webgpt_jax.tinyweb.windows import Asked, Window, best_link, read_window, split_sentences

Said = tuple[Claim, tuple[int, ...]]  # a claim and the references it cites

MOST_EXTRA = 2  # facts quoted beyond those asked for
RESERVE = 2  # with no more actions than these left, they answer with what they have
LAST_TIME = 3  # how often they do the same thing in the same place before they give up


@dataclass(frozen=True)
class Skill:
    """How somebody browses and writes: chances, each drawn where it matters. Slips but for the first two of them."""

    name: str
    more: float  # to quote one more fact that is in sight, when all that is asked for is quoted
    finds: float  # to look for the keyword instead of scrolling

    poor_query: float  # to search with too few words, the wrong ones or the whole question
    distracted: float  # to open a result about something else
    trusting: float  # to open a result of a doubtful site
    believes: float  # to quote what a doubtful site says
    overlooks: float  # to scroll past the sentence
    neighbor: float  # to quote the sentence beside it
    hasty: float  # after a quote, to answer though something is missing
    puzzled: float  # to search for nonsense before saying that it is

    uncited: float  # for each sentence of an answer: to leave out its citation
    omits: float  # for each sentence but the first: to leave it out
    invents: float  # to add what no quote says
    repeats: float  # to say something again

    def validate(self) -> None:
        """Raises ValueError, naming the field, for what is no chance."""
        for chance in fields(self)[1:]:
            if not 0 <= getattr(self, chance.name) <= 1:
                raise ValueError(f"Skill.{chance.name} must be from 0 to 1, not {getattr(self, chance.name)}")


def _graded(name: str, slip: float, more: float, finds: float) -> Skill:
    """Slips in the proportions of the rest: 1 is somebody who has no idea."""
    return Skill(
        name,
        more=more,
        finds=finds,
        poor_query=slip,
        distracted=slip / 3,
        trusting=slip / 2,
        believes=min(1.0, 2 * slip),
        overlooks=slip / 2,
        neighbor=slip / 3,
        hasty=slip / 2,
        puzzled=slip,
        uncited=slip / 3,
        omits=slip / 4,
        invents=slip / 3,
        repeats=slip / 6,
    )


PERFECT = _graded("perfect", 0.0, 0.0, 0.0)
EXPERT = _graded("expert", 0.04, 0.35, 0.3)
SKILLED = _graded("skilled", 0.15, 0.25, 0.3)
NOVICE = _graded("novice", 0.45, 0.15, 0.15)
MIX: Mapping[Skill, float] = {EXPERT: 0.35, SKILLED: 0.45, NOVICE: 0.2}  # who demonstrates, how often


class Demonstrator:
    """Plays one episode; make a new one for each. It is a `Policy`.

    Args:
      question: what is asked. Of its needs the values are not looked at.
      skill: how well it browses and writes.
      seed: of its chances: the same prompts and the same seed give the same actions.
    """

    def __init__(self, question: TinyQuestion, skill: Skill = SKILLED, seed: int | str = 0) -> None:
        skill.validate()
        self._question = question.text
        self._nonsense = question.kind is QuestionKind.NONSENSE
        self._asked = tuple(Asked(need.animal, need.relation) for need in question.needs)
        self._supposed = question.supposed
        self._skill = skill
        self._draw = random.Random(f"tinyweb demonstrator {seed}")
        self._done: Counter[tuple[str, tuple[int, int], int, str]] = Counter()  # against going round in circles

    async def act(self, prompt: str) -> Action:
        """The next command, or the answer.

        Raises:
          EpisodeError: the prompt is neither an observation nor an answering prompt.
        """
        try:
            if not is_observation(prompt):
                return Action(self._answer(parse_answer_prompt(prompt).references))
            seen = parse_observation(prompt)
        except ValueError as error:
            raise EpisodeError(f"the demonstrator cannot read its prompt: {error}") from error
        command = self._next(seen)
        place = (seen.title, seen.scrollbar, len(seen.quotes), str(command))
        self._done[place] += 1
        return Action(str(End(EndKind.ANSWER) if self._done[place] == LAST_TIME else command))

    def _slips(self, chance: float) -> bool:
        return self._draw.random() < chance

    # ---- browsing

    def _next(self, seen: ParsedObservation) -> Command:
        if self._nonsense:
            return self._dismiss(seen)
        window = read_window(seen)
        quoted = [said.claim for _, text in seen.quotes for said in split_sentences(text) if said.claim is not None]
        missing = [asked for asked in self._asked if not any(map(asked.is_stated_by, quoted))]
        if not missing:
            return self._one_more(window, quoted) or End(EndKind.ANSWER)
        begun = len(missing) < len(self._asked)
        if seen.actions_left <= RESERVE or (begun and _last(seen) == "Quote" and self._slips(self._skill.hasty)):
            return End(EndKind.ANSWER)
        if window.is_blank:
            return self._search(missing[0], seen)
        if window.is_results:
            return self._open(window, missing[0], seen)
        return self._quote(window, missing, seen) or self._go_on(window, missing, seen)

    def _dismiss(self, seen: ParsedObservation) -> Command:
        if not seen.past_actions and self._slips(self._skill.puzzled):
            return Search(self._question)
        doubts = bool(seen.past_actions) and self._draw.random() < 0.5
        return End(EndKind.CONTROVERSIAL if doubts else EndKind.NONSENSE)

    def _one_more(self, window: Window, quoted: Sequence[Claim]) -> Command | None:
        """The first other fact in sight, where the page is one to believe."""
        known = {(claim.animal, claim.relation) for claim in quoted}
        if not window.is_trusted or len(known) >= len(self._asked) + MOST_EXTRA:
            return None
        animals = {asked.animal for asked in self._asked}
        for said in window.sentences:
            claim = said.claim
            if claim is not None and claim.animal in animals and (claim.animal, claim.relation) not in known:
                return QuoteText(said.text) if self._draw.random() < self._skill.more else None
        return None

    def _search(self, asked: Asked, seen: ParsedObservation) -> Command:
        """With the words that find it, or poorer ones that have not been tried; the second way is the list of all
        animals of that name."""
        queries = [asked.query, f"all {asked.animal.split()[1]}"]
        if self._slips(self._skill.poor_query):
            queries.insert(0, self._poor_query(asked))
        untried = [Search(query) for query in queries if f"Search {query}" not in seen.past_actions]
        return untried[0] if untried else End(EndKind.ANSWER)

    def _poor_query(self, asked: Asked) -> str:
        first, second = asked.animal.split()
        other = self._draw.choice([relation.keyword for relation in RELATIONS if relation.name != asked.relation])
        return self._draw.choice(
            [
                self._question,
                asked.animal,
                f"{second} {asked.keyword}",
                f"{first} {asked.keyword}",
                f"{asked.animal} {other}",
                f"all {second}",
            ]
        )

    def _open(self, results: Window, asked: Asked, seen: ParsedObservation) -> Command:
        """Follows a result that was not followed since the search."""
        links = [link for link in results.links if f"Click {link.text} {link.domain}" not in _since_search(seen)]
        lists = (link for link in links if link.text == f"All {asked.animal.split()[1]}")
        best = best_link(links, asked) or next(lists, None)  # else the list of all animals of that name
        doubtful = [link for link in links if link.domain not in TRUSTED and link.promises(asked)]
        others = [link for link in links if link.animal not in (None, asked.animal)]
        if doubtful and self._slips(self._skill.trusting):
            best = self._draw.choice(doubtful)
        elif others and self._slips(self._skill.distracted):
            best = self._draw.choice(others)
        if best is not None:
            return ClickLink(best.id)
        return self._search(asked, seen)

    def _quote(self, window: Window, missing: Sequence[Asked], seen: ParsedObservation) -> Command | None:
        """Quotes the first missing fact that is in sight."""
        if window.is_error:
            return None
        found = next((at for asked in missing if (at := window.statement(asked)) is not None), None)
        if found is None or not (window.is_trusted or self._slips(self._skill.believes)):
            return None
        if window.is_article and not window.at_end and self._slips(self._skill.overlooks):
            return ScrollDown(1)
        if self._slips(self._skill.neighbor):
            texts = {text for _, text in seen.quotes}
            for beside in window.sentences[found + 1 :] + window.sentences[:found]:
                if beside.text.endswith(".") and beside.text not in texts:  # no heading of a section
                    return QuoteText(beside.text)
        return QuoteText(window.sentences[found].text)

    def _go_on(self, window: Window, missing: Sequence[Asked], seen: ParsedObservation) -> Command:
        """Nothing to quote is in sight: reads on, or leaves."""
        asked = next((asked for asked in missing if asked.animal == window.animal), None)
        if asked is not None and window.is_article:
            if not window.at_end:
                return self._read_on(asked, seen, window)
            if window.first > 0:  # it was passed
                up = _last(seen) != "Scrolled up 1" and self._draw.random() < 0.5
                return ScrollUp(1) if up else Top()
            return self._search(asked, seen)
        asked = asked or missing[0]
        for link in window.links:
            if link.is_article(asked.animal):
                return ClickLink(link.id)
        moves = [action for action in seen.past_actions if action.startswith(("Search ", "Click ", "Back"))]
        if len(moves) > 1 and moves[-1].startswith("Click ") and _searched(seen, asked.animal):
            return Back()
        return self._search(asked, seen)

    def _read_on(self, asked: Asked, seen: ParsedObservation, window: Window) -> Command:
        find = FindInPage(asked.keyword)
        if _last(seen) == "Scrolled up 1" and window.first > 0:  # going up: down again would be in circles
            return Top()
        if str(find) not in seen.past_actions and self._draw.random() < self._skill.finds:
            return find
        return ScrollDown(1)

    # ---- answering

    def _answer(self, references: Sequence[tuple[str, str]]) -> str:
        """A sentence a quoted fact, in the question's order, then what else was quoted of its animals."""
        told = _quoted(references)
        animals = {asked.animal for asked in self._asked}
        order = [asked for asked in self._asked if asked in told]
        order += [asked for asked in told if asked.animal in animals and asked not in self._asked]
        said: list[Said] = []
        for asked in order:
            claim, number = told[asked]
            if asked in self._asked and self._supposed is not None and self._supposed != claim.value:
                said.append((replace(claim, value=self._supposed, denied=True), (number,)))
            said.append((claim, (number,)))
        if not said:  # the first quote is all that there is to say
            return f"{references[0][1].rstrip('.?')} [1]."
        return compose_answer(self._with_slips(said))

    def _with_slips(self, said: Sequence[Said]) -> list[Said]:
        skill = self._skill
        kept = [entry for at, entry in enumerate(said) if at == 0 or not self._slips(skill.omits)]
        written = [(claim, () if self._slips(skill.uncited) else numbers) for claim, numbers in kept]
        if self._slips(skill.invents):
            written.append((self._invention(said), ()))
        if self._slips(skill.repeats):
            written.append(self._draw.choice(written))
        return written

    def _invention(self, said: Sequence[Said]) -> Claim:
        """Something that no quote says, best of what was asked."""
        told = [Asked(claim.animal, claim.relation) for claim, _ in said]
        animal = told[-1].animal
        unasked = [asked for relation in RELATIONS if (asked := Asked(animal, relation.name)) not in told]
        asked = next((asked for asked in self._asked if asked not in told), None) or self._draw.choice(unasked)
        return Claim(asked.animal, asked.relation, self._draw.choice(BY_NAME[asked.relation].values))


def _last(seen: ParsedObservation) -> str:
    return seen.past_actions[-1] if seen.past_actions else ""


def _since_search(seen: ParsedObservation) -> Sequence[str]:
    """The past actions since the last search, or all that are shown."""
    begin = max((at for at, action in enumerate(seen.past_actions) if action.startswith("Search ")), default=-1)
    return seen.past_actions[begin + 1 :]


def _searched(seen: ParsedObservation, animal: str) -> bool:
    """Whether the last search named the animal."""
    searches = [action for action in seen.past_actions if action.startswith("Search ")]
    return bool(searches) and animal in searches[-1]


def _quoted(references: Sequence[tuple[str, str]]) -> dict[Asked, tuple[Claim, int]]:
    """What the references state, and the number of the first that does, trusted sites before others.

    Args:
      references: (heading, extract) pairs, number 1 first.
    """
    numbered = [(number, *reference) for number, reference in enumerate(references, start=1)]
    numbered.sort(key=lambda entry: not entry[1].endswith(tuple(f" ({domain})" for domain in TRUSTED)))
    told: dict[Asked, tuple[Claim, int]] = {}
    for number, _, extract in numbered:
        for sentence in split_sentences(extract):
            claim = sentence.claim
            if claim is not None and not claim.denied:
                told.setdefault(Asked(claim.animal, claim.relation), (claim, number))
    return told
