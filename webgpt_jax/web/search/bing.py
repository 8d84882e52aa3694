"""Bing Web Search API v7: what the paper used (Appendix A), and RETIRED by Microsoft on 11 August 2025.

Kept for services that speak the same API under another base URL, and as the record of what the paper's results came
from. After learn.microsoft.com/bing/search-apis/bing-web-search/reference: endpoints, query parameters, response
objects, error codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from webgpt_jax.env.protocol import SearchResult
from webgpt_jax.web.search.backend import SearchApi, Service
from webgpt_jax.web.search.client import Request
from webgpt_jax.web.search.results import dig


class Bing(SearchApi):
    """Bing's old API. Microsoft answers no key any more; every error says so."""

    service: ClassVar[Service] = Service(
        label="Bing Web Search (retired by Microsoft in August 2025; use another back end)",
        variable="BING_API_KEY",
        key_page="https://learn.microsoft.com/bing/search-apis (which gives out no new ones)",
        base_url="https://api.bing.microsoft.com/v7.0",
        max_count=50,
        max_chars=1_500,
        max_encoded=1_300,  # the parameters must stay under 1,500 characters of URL in all
    )

    def _request(self, query: str) -> Request:
        return Request(
            "GET",
            f"{self._base_url}/search",
            params={
                "q": query,
                "count": str(self._count),
                "responseFilter": "Webpages",
                "textDecorations": "false",
                "textFormat": "Raw",
            },
            headers={"Ocp-Apim-Subscription-Key": self._key},
        )

    def _results(self, answer: Mapping[str, Any]) -> list[SearchResult]:
        if "webPages" not in answer and answer.get("_type") != "SearchResponse":  # without hits, it is left out
            raise self._bad_answer("it has no web pages")
        return self._listed(answer, "webPages", "value", title="name", url="url", snippet="snippet")

    def _explanation(self, answer: Mapping[str, Any]) -> Any:
        return dig(answer, "errors", 0, "message") or dig(answer, "error", "message")
