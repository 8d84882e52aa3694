"""Where pages come from: the live web, folders, offline wikis, recordings; and what turns bytes into a `Page`.

The names are fetched when they are first used, so that a folder of files needs no network library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webgpt_jax.web.fetch import LiveFetcher, Response
    from webgpt_jax.web.workers import to_page

__all__ = ["LiveFetcher", "Response", "to_page"]

_HOMES = {"LiveFetcher": "fetch", "Response": "fetch", "to_page": "workers"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
