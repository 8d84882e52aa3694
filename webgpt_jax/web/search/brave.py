"""Brave Search, web search endpoint.

After the API reference at api-dashboard.search.brave.com (`web/search/get`: parameters, 404, 422 and 429 bodies) and
"Response Headers". A key that is none is answered with 422 and a code, not with 401, and a month that is used up with
the same 429 as a second that is full, told apart by the code. Titles and descriptions are HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from webgpt_jax.env.protocol import SearchResult
from webgpt_jax.web.search.backend import SearchApi, Service
from webgpt_jax.web.search.client import Failure, Request
from webgpt_jax.web.search.results import dig

_KEY_CODES = ("SUBSCRIPTION_TOKEN_INVALID", "SUBSCRIPTION_TOKEN_MISSING", "SUBSCRIPTION_NOT_FOUND")


class Brave(SearchApi):
    """Brave Search. The free plan takes one request a second: give `HttpLimits(per_second=1)` there."""

    service: ClassVar[Service] = Service(
        label="Brave Search",
        variable="BRAVE_API_KEY",
        key_page="https://api-dashboard.search.brave.com",
        base_url="https://api.search.brave.com/res/v1",
        max_count=20,
        max_chars=400,
        is_html=True,
        max_words=50,
    )

    def _request(self, query: str) -> Request:
        return Request(
            "GET",
            f"{self._base_url}/web/search",
            params={"q": query, "count": str(self._count), "result_filter": "web", "text_decorations": "false"},
            headers={"X-Subscription-Token": self._key},
        )

    def _results(self, answer: Mapping[str, Any]) -> list[SearchResult]:
        if "web" not in answer and answer.get("type") != "search":  # without hits, "web" is left out
            raise self._bad_answer("it has no web results")
        return self._listed(answer, "web", "results", title="title", url="url", snippet="description")

    def _error(self, answer: Mapping[str, Any]) -> Any:
        # The reference shows a list of errors, the service sends one.
        return answer.get("error") or dig(answer, "errors", 0)

    def _explanation(self, answer: Mapping[str, Any]) -> Any:
        return dig(self._error(answer), "detail")

    def _diagnose(self, status: int, answer: Mapping[str, Any]) -> Failure | None:
        code = dig(self._error(answer), "code")
        if code in _KEY_CODES:
            return self._refused_key(status)
        return self._no_quota(status) if code == "QUOTA_LIMITED" else None
