"""One episode as a card: the answer with its citations, the quotes they jump to, and how it was browsed."""

from __future__ import annotations

import math

from webgpt_jax.env import Episode, EpisodeEnd, Step, clean
from webgpt_jax.feedback.citations import CITATION, NUMBER, Sentence, split_sentences
from webgpt_jax.feedback.contents import Shown
from webgpt_jax.feedback.markup import Html, element, exact, join
from webgpt_jax.feedback.sources import address, heading

SUMMARY_CHARS = 120  # of a folded answer

ENDINGS = {
    EpisodeEnd.ANSWER: "ended to answer",
    EpisodeEnd.NONSENSE: "ended: the question was judged to make no sense",
    EpisodeEnd.CONTROVERSIAL: "ended: the question was judged one that should not be answered",
    EpisodeEnd.ACTION_LIMIT: "ended by the limit of actions",
    EpisodeEnd.REFERENCE_LIMIT: "ended by the limit of references",
    EpisodeEnd.NO_REFERENCES: "ended to answer, but nothing was quoted",
    EpisodeEnd.DEADLINE: "ended by the limit of time",
    EpisodeEnd.FAILURE: "failed",
}


def answer_text(episode: Episode) -> str:
    """The answer as it is shown; empty where there is none."""
    return clean(episode.answer.text).strip() if episode.answer else ""


def render_card(shown: Shown, name: str) -> Html:
    """The card of an episode.

    Args:
      shown: the episode and what is said of it.
      name: the card's id, unique on the page; those of its parts begin with it.
    """
    episode = shown.episode
    lines = [split_sentences(line) for line in answer_text(episode).split("\n") if line.strip()]
    sentences = [sentence for line in lines for sentence in line]
    cited = frozenset(number for sentence in sentences for number in sentence.cites)
    title = element("h3", element("bdi", shown.label), *_tags(shown), id=f"{name}-label")
    body = [title]
    if shown.note:
        body.append(element("p", shown.note, class_="dim", dir="auto"))
    if sentences:
        paragraphs = [
            element("p", *(_sentence(sentence, name, len(episode.quotes)) for sentence in line), dir="auto")
            for line in lines
        ]
        body.append(element("div", *paragraphs, class_="answer", id=f"{name}-answer"))
        body += _remarks(sentences, cited, len(episode.quotes))
    else:
        body.append(element("p", element("strong", "No answer."), f" {_why_not(episode)}", id=f"{name}-answer"))
    if episode.quotes:
        quotes = [_quote(episode, name, number, number in cited) for number in range(1, len(episode.quotes) + 1)]
        body += [element("h4", "Quotes"), element("ol", *quotes, class_="quotes")]
    body.append(_trace(episode))
    classes = "best" if shown.best else None
    return element("article", *body, class_=classes, id=name, aria_labelledby=f"{name}-label")


def render_folded_card(shown: Shown, name: str) -> Html:
    """The card of an episode behind a line that can be opened: label, score and the answer's beginning."""
    said = " ".join(answer_text(shown.episode).split()) or "No answer."
    said = said if len(said) <= SUMMARY_CHARS else said[: SUMMARY_CHARS - 1] + "…"
    line = element("summary", element("bdi", shown.label), *_tags(shown), " ", element("bdi", said, class_="dim"))
    return element("details", line, render_card(shown, name), class_="other")


def score_of(shown: Shown) -> float | None:
    """The score; None also where it is no number."""
    return None if shown.score is None or math.isnan(shown.score) else shown.score


def _tags(shown: Shown) -> list[Html]:
    score = score_of(shown)
    tags = [] if score is None else [element("span", f"score {score:.2f}", class_="tag")]
    return [*tags, element("span", "best", class_="tag good")] if shown.best else tags


def _cites_a_quote(sentence: Sentence, quotes: int) -> bool:
    return any(1 <= number <= quotes for number in sentence.cites)


def _sentence(sentence: Sentence, name: str, quotes: int) -> Html:
    """A sentence with links for its citations, marked where it cites no quote."""
    pieces: list[str] = []
    begin = 0
    for found in CITATION.finditer(sentence.text):
        pieces.append(sentence.text[begin : found.start()])
        begin = found.end()
        if NUMBER.fullmatch(found[1]):
            pieces.append(_citation(found[0], int(found[1]), name, quotes))
            continue
        inside = found.start() + 1
        pieces.append("[")
        for number in NUMBER.finditer(sentence.text, inside, found.end()):
            pieces += [sentence.text[inside : number.start()], _citation(number[0], int(number[0]), name, quotes)]
            inside = number.end()
        pieces.append("]")
    pieces.append(sentence.text[begin:])
    if _cites_a_quote(sentence, quotes) or not sentence.says_something:
        return join(*pieces)
    pieces[-1] = pieces[-1].rstrip()
    return join(element("mark", *pieces), element("span", " (no citation)", class_="hidden"), " ")


def _citation(written: str, number: int, name: str, quotes: int) -> Html:
    if not 1 <= number <= quotes:
        return element("span", written, class_="dead")
    return element("a", written, href=f"#{name}-quote{number}", aria_label=f"quote {number}")


def _remarks(sentences: list[Sentence], cited: frozenset[int], quotes: int) -> list[Html]:
    """A line on what is marked; nothing where nothing is."""
    saying = [sentence for sentence in sentences if sentence.says_something]
    bare = sum(not _cites_a_quote(sentence, quotes) for sentence in saying)
    dead = sorted(number for number in cited if not 1 <= number <= quotes)
    unused = [number for number in range(1, quotes + 1) if number not in cited]
    remarks = []
    if bare:
        remarks.append(f"{bare} of {_count(len(saying), 'sentence')} without a citation (underlined).")
    if dead:
        remarks.append(f"Cited, but no quote: {_numbers(dead)}.")
    if unused:
        remarks.append(f"{len(unused)} of {_count(quotes, 'quote')} never cited: {_numbers(unused)}.")
    return [element("p", " ".join(remarks), class_="dim")] if remarks else []


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _numbers(numbers: list[int]) -> str:
    return ", ".join(f"[{number}]" for number in numbers)


def _why_not(episode: Episode) -> str:
    if episode.error:
        return f"It failed: {episode.error}"
    if episode.answer is not None:
        return "The policy gave an empty answer."
    return f"Browsing {ENDINGS[episode.end]}."


def _quote(episode: Episode, name: str, number: int, is_cited: bool) -> Html:
    quote = episode.quotes[number - 1]
    tag = "" if is_cited or not answer_text(episode) else element("span", "never cited", class_="tag bad")
    parts = [element("div", heading(quote), tag)]
    parts += [element("div", address(quote), class_="dim")] if quote.url else []
    parts.append(element("blockquote", quote.text, dir="auto"))
    parts.append(element("a", "back to the answer", href=f"#{name}-answer", class_="dim"))
    return element("li", *parts, id=f"{name}-quote{number}")


def _trace(episode: Episode) -> Html:
    """The browsing, folded: a line a step with its action, which opens to what the policy was shown."""
    invalid = sum(not step.valid for step in episode.steps)
    line = f"Browsing: {_count(len(episode.steps), 'action')}"
    line += f", {invalid:,} invalid" if invalid else ""
    line += f"; {ENDINGS[episode.end]}"
    body = [element("ol", *(_step(step, number) for number, step in enumerate(episode.steps, start=1)))]
    if episode.answer_prompt is not None:
        prompt = element("pre", exact(episode.answer_prompt), dir="auto")
        body.append(element("details", element("summary", "The prompt of the answer"), prompt))
    if episode.reference_answer is not None:
        reference = element("pre", exact(episode.reference_answer), dir="auto")
        body.append(element("details", element("summary", "The reference answer, never shown to it"), reference))
    made = "; ".join(f"{key}: {value}" for key, value in sorted(episode.info.items()))
    body += [element("p", element("bdi", made), class_="dim")] if made else []
    return element("details", element("summary", line), *body, class_="trace")


def _step(step: Step, number: int) -> Html:
    action = element("code", exact(step.action.text)) if step.action.text else element("em", "(nothing)")
    tag = "" if step.valid else element("span", "invalid", class_="tag bad")
    shown = element("pre", exact(step.observation), dir="auto")
    return element("li", element("details", element("summary", f"{number}. ", action, tag), shown))
