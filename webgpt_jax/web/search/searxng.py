"""SearXNG, a metasearch engine anyone can host.

After docs.searxng.org: "Search API" and the `search:` settings. JSON is off by default: an instance answers 403 until
`json` is added to `search.formats` in its settings.yml. There is no key but the address, which the operator sets and
which may be on a private network, unlike the pages that are fetched.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.env.urls import host_of
from webgpt_jax.web.search.backend import SearchApi, Service
from webgpt_jax.web.search.client import Failure, HttpLimits, Request
from webgpt_jax.web.search.secrets import Secrets


def _login(url: str) -> list[str]:
    """The password in a URL, and user name and password as they are sent."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    sent = b64encode(f"{user}:{password}".encode("latin-1", "replace")).decode()
    return [password, sent] if password else []


class SearXNG(SearchApi):
    """A SearXNG instance.

    Args:
      base_url: the instance's address, a path included where it has one. It may hold a user name and a password.
      count: how many of the results to keep; the API itself gives a page of them.
      limits: see `HttpLimits`.
    """

    service: ClassVar[Service] = Service(
        label="SearXNG",
        variable="SEARXNG_URL",
        key_page="https://docs.searxng.org",
        base_url="",
        max_count=100,
        max_chars=1_000,  # our own bounds: the API has none, but servers limit the length of URLs
        max_encoded=1_500,
    )

    def __init__(self, base_url: str, *, count: int = 10, limits: HttpLimits | None = None) -> None:
        super().__init__("", base_url=base_url, count=count, limits=limits)
        self._secrets = Secrets(_login(self._base_url))

    def check(self) -> None:
        """Raises `WebError("key", …)` for an address that is missing or none. Sends nothing."""
        if not self._base_url:
            raise WebError(
                "key",
                "SearXNG needs the address of an instance, and SEARXNG_URL is not set. Set it, for example to "
                "http://localhost:8080; how to run one stands at https://docs.searxng.org.",
            )
        if not host_of(self._base_url):
            raise WebError("key", "SEARXNG_URL is no http(s) URL. Set it, for example, to http://localhost:8080.")

    def _request(self, query: str) -> Request:
        return Request("GET", f"{self._base_url}/search", params={"q": query, "format": "json"})

    def _results(self, answer: Mapping[str, Any]) -> list[SearchResult]:
        if "results" not in answer:
            raise self._bad_answer("it has no results")
        results = self._listed(answer, "results", title="title", url="url", snippet="content")
        if not results and answer.get("unresponsive_engines"):
            raise WebError(
                "http",
                "SearXNG found nothing, and some of the engines it asks did not answer it. Try again later, or turn "
                "other engines on in its settings.",
            )
        return results

    def _diagnose(self, status: int, answer: Mapping[str, Any]) -> Failure | None:
        if status == 401:
            return Failure(WebError("key", "The SearXNG instance asks for a login. Put it into SEARXNG_URL."))
        if status == 403:
            return Failure(
                WebError(
                    "setup",
                    "The SearXNG instance does not answer in JSON (HTTP 403). Add json to search.formats in its "
                    "settings.yml, or use another instance.",
                )
            )
        return None
