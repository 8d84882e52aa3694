"""An answer made of nothing but quotes: each sentence in quotation marks, followed by the number of its reference."""

from __future__ import annotations

import re
from dataclasses import replace

from webgpt_jax.baselines.passages import Passage, split_passages
from webgpt_jax.baselines.relevance import QUESTION_MARKS, Relevance
from webgpt_jax.env.observation import ParsedAnswerPrompt

MAX_SENTENCES = 5
MAX_SENTENCE_CHARS = 300  # a longer sentence is cut at a blank
NO_ANSWER = "Nothing that was read answers the question."

_CITATION = re.compile(r"\s*\[(?:\d+|[a-z]|citation needed|note \d+)\]")  # the page's own: it would pass for ours
_END = re.compile(r"[.!?…。！？][\"'”’)\]」』]*\Z")
_LEADING = "#*•;:,；，、 "  # marks of headings and items, and what a cut leaves; not the minus of a number
_TRAILING = " ;:,；，、-–—"
_INNER_QUOTES = str.maketrans("“”", "‘’")


def compose_answer(prompt: ParsedAnswerPrompt, relevance: Relevance) -> str:
    """The answer for an answering prompt: at most `MAX_SENTENCES` sentences, those of the best reference first.

    Every reference has its best sentence before any has a second one; the sentences of one reference keep their order.
    """
    sentences = [_sentences(heading, extract) for heading, extract in prompt.references]
    ranked = sorted(
        (-relevance.score(passage), number, place)
        for number, passages in enumerate(sentences)
        for place, passage in enumerate(passages)
    )
    firsts: dict[int, tuple[float, int, int]] = {}
    for entry in ranked:
        firsts.setdefault(entry[1], entry)
    best_first = list(firsts.values())
    kept = (best_first + [entry for entry in ranked if entry not in best_first])[:MAX_SENTENCES]
    parts = []
    for number in dict.fromkeys(entry[1] for entry in best_first[:MAX_SENTENCES]):
        places = sorted(place for _, of, place in kept if of == number)
        said = " ".join(_readable(sentences[number][place].text) for place in places)
        parts.append(f"“{said}” [{number + 1}]")
    return " ".join(parts) or NO_ANSWER


def _sentences(heading: str, extract: str) -> list[Passage]:
    """The readable sentences of a reference, each with the heading that the quote itself has above it, and a question
    with what follows it; where there is none, the reference as a whole."""
    found = [passage for passage in split_passages(extract, heading, pairs=False) if _readable(passage.text)]
    above = {passage.heading for passage in found}
    sentences: list[Passage] = []
    for passage in found:
        if passage.text in above:
            continue
        if sentences and sentences[-1].text.endswith(QUESTION_MARKS):
            sentences[-1] = replace(sentences[-1], text=f"{sentences[-1].text} {passage.text}")
        else:
            text = f"{passage.heading}: {passage.text}" if passage.heading else passage.text
            sentences.append(replace(passage, text=text))
    return sentences or ([Passage(extract, heading, "", "")] if _readable(extract) else [])


def _readable(text: str) -> str:
    """A sentence on one line, with an end, without the citations of its page; empty where nothing is left."""
    text = " ".join(_CITATION.sub("", text).translate(_INNER_QUOTES).split())
    text = text.lstrip(_LEADING).rstrip(_TRAILING)
    if len(text) > MAX_SENTENCE_CHARS:
        return (text[:MAX_SENTENCE_CHARS].rpartition(" ")[0] or text[:MAX_SENTENCE_CHARS]).rstrip(_TRAILING) + "…"
    return text if not text or _END.search(text) else f"{text}."
