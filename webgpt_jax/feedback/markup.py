"""HTML that is safe by construction: a plain string is text and is cleaned and escaped wherever it is put; only what
this module's functions return is markup."""

from __future__ import annotations

from html import escape

from webgpt_jax.env import clean
from webgpt_jax.env.text import LOOKALIKES

_VOID = frozenset({"img", "meta"})


class Html(str):
    """Finished markup."""

    __slots__ = ()


def text(value: str) -> Html:
    """Foreign text as markup: what a reader cannot see is dropped and our markers become look-alikes (`env.clean`).
    Markup stays what it is."""
    return value if isinstance(value, Html) else Html(escape(clean(value)))


def join(*children: str) -> Html:
    """Pieces of text and markup, one after the other."""
    return Html("".join(map(text, children)))


def element(name: str, /, *children: str, **attributes: str | None) -> Html:
    """An element. Attributes of None are left out; `class_` is `class`, and `aria_label` is `aria-label`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{join(*children)}</{name}>")


class _Visible(dict[int, str]):
    """Characters that `clean` takes out or makes a line's end, each as its code; our markers stay what they are."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kept = clean(character) == character or character in LOOKALIKES
        self[code] = character if kept else f"‹U+{code:04X}›"
        return self[code]


_VISIBLE = _Visible()


def exact(value: str) -> Html:
    """What went between policy and browser, with our markers, and hidden characters shown by their codes: ‹U+200B›."""
    return Html(escape(value.translate(_VISIBLE)))
