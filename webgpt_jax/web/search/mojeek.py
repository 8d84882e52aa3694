"""Mojeek Search.

After mojeek.com/support/api/search: "Request Parameters" and "JSON Response Format". The key is a parameter of the
URL and nothing else, so that the URL is a secret: it is in no error and no log of ours. Errors come in the body, as a
status other than "OK", for example "ERROR: Daily Limit Reached".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.web.search.backend import SearchApi, Service
from webgpt_jax.web.search.client import Request
from webgpt_jax.web.search.results import dig


class Mojeek(SearchApi):
    """Mojeek, an index of its own."""

    service: ClassVar[Service] = Service(
        label="Mojeek",
        variable="MOJEEK_API_KEY",
        key_page="https://www.mojeek.com/services/search/web-search-api/",
        base_url="https://www.mojeek.com",
        max_count=100,  # our own bounds, here and below: no limit is published
        max_chars=1_000,
        is_html=True,
        max_encoded=1_500,
    )

    def _request(self, query: str) -> Request:
        return Request(
            "GET",
            f"{self._base_url}/search",
            params={"api_key": self._key, "q": query, "fmt": "json", "t": str(self._count)},
        )

    def _results(self, answer: Mapping[str, Any]) -> list[SearchResult]:
        status = dig(answer, "response", "status")
        if not isinstance(status, str):
            raise self._bad_answer("it has no status")
        if status != "OK":
            raise self._reported(status)
        return self._listed(answer, "response", "results", title="title", url="url", snippet="desc")

    def _reported(self, status: str) -> WebError:
        if "limit" in status.lower():
            return self._no_quota(200).error
        if "key" in status.lower():
            return self._refused_key(200).error
        return WebError("http", f"Mojeek does not take the search.{self._quoted(status)}")

    def _explanation(self, answer: Mapping[str, Any]) -> Any:
        return dig(answer, "response", "status")
