"""How TinyWeb's answers are written: a sentence a claim, its citations before the full stop.

The moss owl does not eat figs [1]. It eats acorns [1]. The sand crow lives in wells [2].
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from webgpt_jax.tinyweb.language import Claim, read_claim, state

_SENTENCE = re.compile(r"([^.\[\]]*[^.\[\]\s])((?:\s*\[\d+\])*)\s*(?:\.|$)")
_NUMBER = re.compile(r"\d+")


def compose_answer(said: Iterable[tuple[Claim, Sequence[int]]]) -> str:
    """The answer that says these claims in this order, in the first wording.

    Args:
      said: each claim with the numbers of the references it cites; of none it is uncited. The animal of the sentence
        before is "it".
    """
    sentences = []
    before = None
    for claim, numbers in said:
        text = state(claim, subject="it" if claim.animal == before else None).removesuffix(".")
        sentences.append("".join([text, *(f" [{number}]" for number in numbers), "."]))
        before = claim.animal
    return " ".join(sentences)


def read_answer(text: str) -> list[tuple[Claim | None, tuple[int, ...]]]:
    """The sentences of an answer, in order: what each says, in whichever wording, and the numbers it cites.

    The claim is None where a sentence says nothing of any animal's facts, or says "it" before one was named.
    """
    said: list[tuple[Claim | None, tuple[int, ...]]] = []
    animal = None
    for found in _SENTENCE.finditer(text):
        claim = read_claim(found[1], animal)
        said.append((claim, tuple(map(int, _NUMBER.findall(found[2])))))
        animal = animal if claim is None else claim.animal
    return said
