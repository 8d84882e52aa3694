"""Search engines behind one interface, one file an API.

The names can be listed without loading a network library; `search_backend` loads the one it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webgpt_jax.web.search.backend import SearchBackend
    from webgpt_jax.web.search.client import HttpLimits

# The class of each back end and the environment variable with its key (of SearXNG: with its address). The module has
# the back end's name.
_BACKENDS = {
    "brave": ("Brave", "BRAVE_API_KEY"),
    "searxng": ("SearXNG", "SEARXNG_URL"),
    "serper": ("Serper", "SERPER_API_KEY"),
    "tavily": ("Tavily", "TAVILY_API_KEY"),
    "mojeek": ("Mojeek", "MOJEEK_API_KEY"),
    "bing": ("Bing", "BING_API_KEY"),
}
BACKEND_NAMES = tuple(_BACKENDS)


def search_backend(
    name: str, environ: Mapping[str, str] = os.environ, *, count: int = 10, limits: HttpLimits | None = None
) -> SearchBackend:
    """The back end of that name, with the key that the environment holds.

    A missing key is no error here: `check()` and the first search raise it.

    Args:
      name: one of `BACKEND_NAMES`.
      environ: where the key is looked up.
      count: how many results to ask for.
      limits: times, sizes and attempts; see `HttpLimits`.

    Raises:
      ValueError: for a name that is not known.
    """
    if name not in _BACKENDS:
        raise ValueError(f"no search back end is called {name!r}; there are {', '.join(BACKEND_NAMES)}")
    class_name, variable = _BACKENDS[name]
    backend: SearchBackend = getattr(import_module(f"{__name__}.{name}"), class_name)(
        environ.get(variable, ""), count=count, limits=limits
    )
    return backend
