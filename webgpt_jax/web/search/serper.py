"""Serper (serper.dev): Google's results.

There is no public reference: this follows the request and response that serper.dev's playground shows, and the error
bodies it is known to send, 403 `{"message": "Unauthorized."}` and 400 `{"message": "Not enough credits"}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from webgpt_jax.env.protocol import SearchResult
from webgpt_jax.web.search.backend import SearchApi, Service
from webgpt_jax.web.search.client import Failure, Request


class Serper(SearchApi):
    """Serper. Only the organic results are taken: answer boxes and "people also ask" are no pages to open."""

    service: ClassVar[Service] = Service(
        label="Serper",
        variable="SERPER_API_KEY",
        key_page="https://serper.dev",
        base_url="https://google.serper.dev",
        max_count=100,
        max_chars=2_000,  # our own bound: no limit is published
    )

    def _request(self, query: str) -> Request:
        return Request(
            "POST",
            f"{self._base_url}/search",
            headers={"X-API-KEY": self._key},
            json={"q": query, "num": self._count},
        )

    def _results(self, answer: Mapping[str, Any]) -> list[SearchResult]:
        if "organic" not in answer and "searchParameters" not in answer:
            raise self._bad_answer("it has no organic results")
        return self._listed(answer, "organic", title="title", url="link", snippet="snippet")

    def _explanation(self, answer: Mapping[str, Any]) -> Any:
        return answer.get("message")

    def _diagnose(self, status: int, answer: Mapping[str, Any]) -> Failure | None:
        message = answer.get("message")
        if status == 400 and isinstance(message, str) and "credits" in message.lower():
            return self._no_quota(status)
        return None
