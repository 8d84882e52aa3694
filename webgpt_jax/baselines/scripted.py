"""A policy without a model: the floor that every model has to beat, and the first user of `Policy`.

It searches with the question's content words, opens the results that fit best, reads them window by window, quotes the
passages that score best by BM25, tries other words when nothing fits, and answers with its quotes. Like every policy it
sees only the prompt; unlike a model it remembers what it has seen, so that one instance plays one episode.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from webgpt_jax.baselines.answer import compose_answer
from webgpt_jax.baselines.bm25 import Bm25, terms
from webgpt_jax.baselines.memory import ReadPage, Results
from webgpt_jax.baselines.passages import Passage, ShownLink, split_passages
from webgpt_jax.baselines.question import Question
from webgpt_jax.baselines.relevance import Relevance, rank_results
from webgpt_jax.env import Action, EpisodeError, is_observation, parse_answer_prompt, parse_observation
from webgpt_jax.env.commands import Back, ClickLink, Command, End, EndKind, FindInPage, QuoteText, ScrollDown, Search
from webgpt_jax.env.observation import ParsedObservation

# Sentences and lines differ in length far more than the documents that BM25's customary b = 0.75 was tuned on; in full,
# the length would say more than the words.
PASSAGE_B = 0.4

ACTIONS_TO_OPEN_AND_QUOTE = 2
RESERVE = 3  # actions kept for the way back to the best page and a quote, or for two quotes and the end
PLENTY = 10  # with more actions than this left, a second window of results is worth one
WINDOWS_AFTER_FIND = 2  # read after a jump within a page, unless a passage fits
LEAST_SHARE = 0.75  # of the best quote's score that a further quote must have


@dataclass(frozen=True)
class ScriptedConfig:
    """How long the scripted policy goes on. It never takes more actions than it has left."""

    max_quotes: int = 4  # references after which it answers
    enough_quotes: int = 2  # references that are enough if they are of more than one page and one answers
    quotes_per_page: int = 2  # so that more than one page has its say
    max_searches: int = 4  # queries, while nothing fits
    max_pages: int = 10  # pages opened in all
    pages_per_search: int = 4  # results opened for one query
    pages_with_quotes: int = 4  # pages read after which any quote is enough
    max_windows: int = 24  # windows read of one page
    max_share: float = 0.5  # of the actions left, what one page may use
    patience: int = 6  # windows in a row without a passage that fits, before it looks for words in the page or leaves
    max_finds: int = 2  # words looked for in one page
    result_windows: int = 3  # windows read of one result list
    enough_results: int = 5  # results that need no further window

    def validate(self) -> None:
        """Raises ValueError, naming the field, for settings that cannot work."""
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"ScriptedConfig.{name} must be more than 0, not {value}")


class Phase(Enum):
    """Where in its plan the policy is."""

    SEARCH = auto()  # about to send the next query
    RESULTS = auto()  # on a result list: read it, open the best result
    READ = auto()  # on a page: read window by window
    QUOTE = auto()  # on a page: quote what was chosen, then leave
    FINISH = auto()  # no more to look for: quote the best after all where there is no quote yet, and end


class ScriptedPolicy:
    """Plays one episode by rule; make a new instance for each. The same prompts always give the same actions."""

    def __init__(self, config: ScriptedConfig | None = None) -> None:
        self._config = config or ScriptedConfig()
        self._config.validate()
        self._phase = Phase.SEARCH
        self._question = Question("")
        self._seen = Bm25(b=PASSAGE_B)
        self._relevance = Relevance(self._question, self._seen)
        self._searches = 0
        self._results = Results("")
        self._opened: set[tuple[str, str]] = set()  # title and domain: all that a result list tells of an address
        self._pages: list[ReadPage] = []
        self._page: ReadPage | None = None  # the one it is on; None on a result list
        self._reading = _Reading()
        self._to_quote: deque[Passage] = deque()
        self._quoted: list[tuple[ReadPage, Passage]] = []
        self._answered = False  # a passage is quoted than which no better one is to be looked for
        self._last_resort: deque[Command] | None = None

    async def act(self, prompt: str) -> Action:
        """The next command, or the answer.

        Raises:
          EpisodeError: the prompt is neither an observation nor an answering prompt.
        """
        try:
            parsed = parse_observation(prompt) if is_observation(prompt) else parse_answer_prompt(prompt)
        except ValueError as error:
            raise EpisodeError(f"the scripted policy cannot read its prompt: {error}") from error
        self._learn(parsed.question)
        if isinstance(parsed, ParsedObservation):
            return Action(str(self._next(parsed)))
        return Action(compose_answer(parsed, self._relevance))

    def _next(self, seen: ParsedObservation) -> Command:
        if not self._question.asks:
            return End(EndKind.NONSENSE)
        phases: dict[Phase, Callable[[ParsedObservation], Command | None]] = {
            Phase.SEARCH: self._search,
            Phase.RESULTS: self._open_result,
            Phase.READ: self._read,
            Phase.QUOTE: self._quote,
            Phase.FINISH: self._finish,
        }
        # A phase that has nothing to do hands on to a later one; FINISH always has something to do.
        while (command := phases[self._phase](seen)) is None:
            pass
        return command

    def _learn(self, question: str) -> None:
        """Observations may show the question cut; the longest showing counts."""
        if len(question) > len(self._question.text):
            self._question = Question(question)
            self._relevance = Relevance(self._question, self._seen)

    # ---- one method a phase: a command, or None when the phase has changed

    def _search(self, seen: ParsedObservation) -> Command | None:
        query = self._question.query(self._searches, self._seen.idf)
        given_up = self._searches >= self._config.max_searches or len(self._pages) >= self._config.max_pages
        if query is None or given_up or self._quoted or self._must_finish(seen.actions_left):
            self._enter(Phase.FINISH)
            return None
        self._searches += 1
        self._results = Results(query)
        self._page = None
        self._enter(Phase.RESULTS)
        return Search(query)

    def _open_result(self, seen: ParsedObservation) -> Command | None:
        if self._must_finish(seen.actions_left):
            self._results.add(seen)
            self._enter(Phase.FINISH)
            return None
        if self._take_in_results(seen):
            return ScrollDown(1)
        link = self._best_result()
        if link is None:
            self._enter(Phase.SEARCH)
            return None
        self._opened.add((link.text, link.domain))
        self._page = ReadPage(self._results.query, link)
        self._pages.append(self._page)
        self._results.opened += 1
        share = int(self._config.max_share * seen.actions_left)
        self._reading = _Reading(
            windows_left=max(1, min(self._config.max_windows, share)), finds_left=self._config.max_finds
        )
        self._enter(Phase.READ)
        return ClickLink(link.id)

    def _read(self, seen: ParsedObservation) -> Command | None:
        assert self._page is not None
        reading = self._reading
        new = self._page.add(seen)
        if new is not None and not self._page.failed:
            self._take_in_window(new)
        at_end = new is None and not reading.looking
        if self._page.failed or at_end or reading.answered or reading.windows_left <= 0 or seen.actions_left <= RESERVE:
            self._enter(Phase.QUOTE)
            return None
        if new is not None and reading.idle < self._config.patience:
            reading.looking = False
            return ScrollDown(1)
        word = self._word_to_find(seen.text)
        if word is None:
            self._enter(Phase.QUOTE)
            return None
        reading.looking = True
        return FindInPage(word)

    def _quote(self, seen: ParsedObservation) -> Command | None:
        assert self._page is not None
        if self._to_quote:
            passage = self._to_quote.popleft()
            self._quoted.append((self._page, passage))
            return _quote_command(passage)
        if self._has_enough() or self._must_finish(seen.actions_left):
            self._enter(Phase.FINISH)
            return None
        if self._best_result() is None:
            self._enter(Phase.SEARCH)
            return None
        self._page = None
        self._enter(Phase.RESULTS)
        return Back()

    def _finish(self, seen: ParsedObservation) -> Command:
        if self._last_resort is None:
            self._last_resort = deque() if self._quoted else self._plan_last_resort(seen.actions_left)
        return self._last_resort.popleft() if self._last_resort else End(EndKind.ANSWER)

    def _enter(self, phase: Phase) -> None:
        """Goes on to a phase; what is to be quoted is chosen once, when a page has been read."""
        self._phase = phase
        if phase is Phase.QUOTE:
            self._to_quote = deque(self._passages_to_quote())

    # ---- what the phases go by

    def _has_enough(self) -> bool:
        pages = len({id(page) for page, _ in self._quoted})
        return (
            len(self._quoted) >= self._config.max_quotes
            or (len(self._quoted) >= self._config.enough_quotes and pages > 1 and self._answered)
            or (pages > 0 and len(self._pages) >= self._config.pages_with_quotes)
        )

    def _must_finish(self, actions_left: int) -> bool:
        """Whether the actions left only do for quoting what is known already."""
        if self._quoted:
            return actions_left < ACTIONS_TO_OPEN_AND_QUOTE
        return actions_left <= 1 or (actions_left <= RESERVE and self._best_known() is not None)

    def _take_in_results(self, seen: ParsedObservation) -> bool:
        """Reads a window of the result list; whether to look at another one."""
        known = len(self._results.found)
        if not self._results.add(seen):
            return False
        for snippet in list(self._results.found.values())[known:]:
            self._seen.add(Counter(terms(snippet)))
        found, config = len(self._results.found), self._config
        wanted = known < found < config.enough_results and self._results.windows < config.result_windows
        return wanted and seen.actions_left > PLENTY

    def _best_result(self) -> ShownLink | None:
        """The unopened result that promises most; None when enough were opened. Once there is a quote, only what holds
        one of the question's names is worth it."""
        results, names = self._results, self._question.names
        if results.opened >= self._config.pages_per_search or len(self._pages) >= self._config.max_pages:
            return None
        for link in rank_results(results.found, self._question, self._seen):
            named = not names.isdisjoint(terms(f"{link.text}\n{results.found[link]}"))
            if (link.text, link.domain) not in self._opened and (named or not names or not self._quoted):
                return link
        return None

    def _take_in_window(self, text: str) -> None:
        assert self._page is not None
        passages = list(split_passages(text, self._page.title, pairs=False))
        for passage in passages:
            self._seen.add(passage.counts)
        reading = self._reading
        reading.windows_left -= 1
        reading.idle = 0 if any(map(self._relevance.fits, passages)) else reading.idle + 1
        reading.answered = any(map(self._relevance.answers, passages))

    def _word_to_find(self, window: str) -> str | None:
        """The rarest term of the question that neither the page's title nor this window holds, each once. A term is the
        beginning of its words, so that it finds them in all their forms."""
        assert self._page is not None
        reading = self._reading
        shown = set(terms(f"{self._page.title}\n{window}"))
        words = [term for term in self._question.terms if term not in shown and term not in reading.found]
        if reading.finds_left <= 0 or not words:
            return None
        word = max(words, key=self._seen.idf)
        reading.finds_left -= 1
        reading.found.add(word)
        reading.idle = max(0, self._config.patience - WINDOWS_AFTER_FIND)
        return word

    def _passages_to_quote(self) -> list[Passage]:
        assert self._page is not None
        if self._page.failed:
            return []
        quoted = [passage for _, passage in self._quoted]
        fitting = [passage for passage in self._page.passages() if self._relevance.fits(passage)]
        room = min(self._config.quotes_per_page, self._config.max_quotes - len(quoted))
        chosen = self._relevance.choose(fitting, room, quoted)
        least = LEAST_SHARE * max(map(self._relevance.score, [*quoted, *chosen]), default=0.0)
        fair = [passage for passage in chosen if self._relevance.score(passage) >= least]
        self._answered = self._answered or any(map(self._relevance.answers, fair))
        return fair

    def _best_known(self) -> tuple[ReadPage, list[Passage]] | None:
        """The page that holds the best passage of all, whether it fits or not as long as it bears on the question; and
        that page's best passages."""
        best: tuple[ReadPage, list[Passage]] | None = None
        for page in self._pages:
            bearing = () if page.failed else filter(self._relevance.says_something, page.passages())
            chosen = self._relevance.choose(bearing, self._config.quotes_per_page)
            if chosen and (best is None or self._relevance.prefers(chosen[0], best[1][0])):
                best = page, chosen
        return best

    def _plan_last_resort(self, actions_left: int) -> deque[Command]:
        """The shortest way to quote the best passages known; where there are none, or the way is too long, to quote the
        best snippet of the result list that is in sight."""
        way: list[Command] = []
        quotes: list[Passage] = []
        if best := self._best_known():
            page, quotes = best
            if page is not self._page:
                same_list = page.query == self._results.query
                back: list[Command] = ([Back()] if self._page else []) if same_list else [Search(page.query)]
                way = [*back, ClickLink(page.link.id)]
        if (not quotes or len(way) >= actions_left) and self._page is None:
            snippets = filter(self._relevance.says_something, self._results.snippets())
            way, quotes = [], self._relevance.choose(snippets, 1)
        return deque([*way, *map(_quote_command, quotes)])


@dataclass
class _Reading:
    """How the reading of the current page goes."""

    windows_left: int = 0
    finds_left: int = 0
    idle: int = 0  # windows in a row without a passage that fits
    answered: bool = False  # a passage was seen than which no better one is to be looked for
    looking: bool = False  # the last command was a find
    found: set[str] = field(default_factory=set)  # words that were looked for


def _quote_command(passage: Passage) -> QuoteText:
    return QuoteText(" ".join(passage.text.split()))  # quoting ignores white space, and one line reads better
