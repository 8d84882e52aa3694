"""`search_backend`: names, keys from the environment, and what loading it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.search import BACKEND_NAMES, search_backend

VARIABLES = {
    "brave": "BRAVE_API_KEY",
    "searxng": "SEARXNG_URL",
    "serper": "SERPER_API_KEY",
    "tavily": "TAVILY_API_KEY",
    "mojeek": "MOJEEK_API_KEY",
    "bing": "BING_API_KEY",
}


def test_names() -> None:
    assert set(BACKEND_NAMES) == set(VARIABLES)


@pytest.mark.parametrize("name", VARIABLES)
def test_the_key_comes_from_the_environment(name: str) -> None:
    value = "http://localhost:8080" if name == "searxng" else "a-key-0123456789"
    backend = search_backend(name, {VARIABLES[name]: f" {value}\n"})
    backend.check()
    assert "a-key" not in repr(backend)
    assert type(backend).__name__.lower() == name


@pytest.mark.parametrize("name", VARIABLES)
def test_a_missing_key_is_told_by_check(name: str) -> None:
    others = {variable: "http://localhost" for other, variable in VARIABLES.items() if other != name}
    with pytest.raises(WebError, match=VARIABLES[name]) as raised:
        search_backend(name, others).check()
    assert raised.value.kind == "key"


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-0123456789")
    search_backend("tavily").check()
    monkeypatch.delenv("TAVILY_API_KEY")
    with pytest.raises(WebError, match="TAVILY_API_KEY"):
        search_backend("tavily").check()


@pytest.mark.parametrize("name", ["", "google", "Brave", "../brave", "client", "os"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match="brave, searxng, serper, tavily, mojeek, bing"):
        search_backend(name, {})


def test_settings_are_passed_on() -> None:
    with pytest.raises(ValueError, match="1 to 20"):
        search_backend("brave", {}, count=21)


def test_the_names_are_listed_without_a_network_library() -> None:
    code = (
        "import sys, webgpt_jax.web.pages, webgpt_jax.web.search as search; "
        "print('aiohttp' in sys.modules, *search.BACKEND_NAMES)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "brave", "searxng", "serper", "tavily", "mojeek", "bing"]
