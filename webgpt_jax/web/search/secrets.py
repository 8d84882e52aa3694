"""Whether a text gives away a key, however it is spelt.

A service may send back what it was sent. It may do so in small letters, in groups of four, or percent-encoded, and
what it says ends up in a page, a prompt, a recording. Texts are therefore compared without case and without all that
is no letter or digit.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote

from webgpt_jax.env.protocol import SearchResult

# Characters in a row that give a key away. In what a service says of an error, any few of them; a search result is
# about anything at all, and may hold the start that all keys of a service have in common.
PIECE_OF_EXPLANATION = 6
PIECE_OF_RESULT = 12


def fold(text: str) -> str:
    """The letters and digits of a text, in one case, percent and HTML escapes resolved."""
    plain = unicodedata.normalize("NFKC", html.unescape(unquote(text)))
    return "".join(filter(str.isalnum, plain.casefold()))


class Secrets:
    """The secrets of a back end. A repr shows none of them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._folded = [folded for folded in map(fold, secrets) if folded]

    def in_explanation(self, text: str) -> bool:
        """Whether a text holds six characters of a secret in a row, or the whole of a shorter one."""
        return self._in(fold(text), PIECE_OF_EXPLANATION)

    def in_result(self, result: SearchResult) -> bool:
        """Whether title, URL or snippet hold twelve characters of a secret in a row, or the whole of a shorter one.

        A secret of less than six characters is not looked for: it is part of too many words.
        """
        return any(
            self._in(fold(text), PIECE_OF_RESULT, PIECE_OF_EXPLANATION)
            for text in (result.title, result.url, result.snippet)
        )

    def _in(self, folded: str, piece: int, least: int = 1) -> bool:
        return any(
            secret[at : at + piece] in folded
            for secret in self._folded
            if len(secret) >= least
            for at in range(max(1, len(secret) - piece + 1))
        )
