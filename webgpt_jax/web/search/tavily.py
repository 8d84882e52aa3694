"""Tavily Search.

After docs.tavily.com ("Tavily Search", its OpenAPI file, and the 400 characters of "Best practices for search") and
help.tavily.com "Error codes": 432 and 433 mean that the plan or the pay-as-you-go limit is used up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from webgpt_jax.env.protocol import SearchResult
from webgpt_jax.web.search.backend import SearchApi, Service
from webgpt_jax.web.search.client import Failure, Request
from webgpt_jax.web.search.results import dig

_LIMIT_STATUSES = (432, 433)


class Tavily(SearchApi):
    """Tavily at its basic depth, one credit a search. The written answer it offers is not asked for: a quote has to
    come from a page."""

    service: ClassVar[Service] = Service(
        label="Tavily",
        variable="TAVILY_API_KEY",
        key_page="https://app.tavily.com",
        base_url="https://api.tavily.com",
        max_count=20,
        max_chars=400,
    )

    def _request(self, query: str) -> Request:
        return Request(
            "POST",
            f"{self._base_url}/search",
            headers={"Authorization": f"Bearer {self._key}"},
            json={"query": query, "max_results": self._count, "search_depth": "basic"},
        )

    def _results(self, answer: Mapping[str, Any]) -> list[SearchResult]:
        if "results" not in answer:
            raise self._bad_answer("it has no results")
        return self._listed(answer, "results", title="title", url="url", snippet="content")

    def _explanation(self, answer: Mapping[str, Any]) -> Any:
        return dig(answer, "detail", "error") or answer.get("detail")

    def _diagnose(self, status: int, answer: Mapping[str, Any]) -> Failure | None:
        return self._no_quota(status) if status in _LIMIT_STATUSES else None
