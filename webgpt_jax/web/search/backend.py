"""What the search back ends share: a key, a request, an answer that may be anything, and errors a reader understands.

A back end is a subclass of `SearchApi` that names its service and says how to ask and where the results stand. All
that can go wrong is dealt with here, and the same way for every service; a subclass adds only what its API says in
ways of its own.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, ClassVar, Protocol

from webgpt_jax.env.protocol import SearchResult, WebError
from webgpt_jax.env.text import clean_line
from webgpt_jax.env.urls import host_of
from webgpt_jax.web.limits import parse_retry_after
from webgpt_jax.web.search.client import Failure, HttpClient, HttpLimits, Reply, Request
from webgpt_jax.web.search.results import cut_query, to_results
from webgpt_jax.web.search.secrets import Secrets
from webgpt_jax.web.status import status_line

MAX_EXPLANATION = 200  # characters that are quoted of a service's own words
_MAX_EXAMINED = 10_000  # characters of them that are looked through for the key


class SearchBackend(Protocol):
    """A search engine: the half of a `Web` that is asked for results."""

    def check(self) -> None:
        """Raises `WebError("key", …)` if what the operator has to supply is missing. Sends nothing."""
        ...

    async def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, best first, each page once. May raise `WebError`."""
        ...

    async def aclose(self) -> None:
        """Closes the connections."""
        ...


@dataclass(frozen=True)
class Service:
    """What there is to know of a search API besides its requests."""

    label: str  # its name, for errors
    variable: str  # the environment variable that holds the key
    key_page: str  # where a key is to be had
    base_url: str  # the API's address, up to the path of the request; empty where the operator has to name it
    max_count: int  # results that one request may ask for
    max_chars: int  # characters of a query
    is_html: bool = False  # whether titles and snippets are HTML
    max_words: int | None = None  # words of a query, where there is a limit
    max_encoded: int | None = None  # characters of a query in a URL, percent-encoded, where there is a limit


class SearchApi(ABC):
    """Common base of the back ends.

    Args:
      key: the key; where it is empty, `check` and every search raise a `WebError` that says where to get one.
      base_url: another address of the API than the service's own.
      count: how many results to ask for, at most the service's `max_count`.
      limits: times, sizes and attempts; see `HttpLimits`.
    """

    service: ClassVar[Service]

    def __init__(
        self, key: str, *, base_url: str | None = None, count: int = 10, limits: HttpLimits | None = None
    ) -> None:
        if not 1 <= count <= self.service.max_count:
            raise ValueError(f"{self.service.label} gives 1 to {self.service.max_count} results, not {count}")
        self._key = key.strip()
        self._secrets = Secrets([self._key])
        self._base_url = (self.service.base_url if base_url is None else base_url).strip().rstrip("/")
        self._count = count
        self._client = HttpClient(self.service.label, limits or HttpLimits())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(host={host_of(self._base_url)!r}, count={self._count})"

    def check(self) -> None:
        """Raises `WebError("key", …)` for a key that is missing or no key, `ValueError` for a base URL that is none.

        Sends nothing.
        """
        service = self.service
        if not self._key:
            raise WebError(
                "key",
                f"{service.label} needs a key, and {service.variable} is not set. Get one at {service.key_page} and "
                f"set the environment variable {service.variable} to it.",
            )
        if not (self._key.isascii() and self._key.isprintable()) or " " in self._key:
            raise WebError(
                "key",
                f"{service.variable} holds characters that no key has. Copy the key for {service.label} again.",
            )
        if not host_of(self._base_url):
            raise ValueError(f"the base URL of {service.label} is no http(s) URL")

    async def search(self, query: str) -> list[SearchResult]:
        """The hits for a query, best first, each page once; a long query is cut to the API's limit.

        Raises:
          WebError: kind "key", "query", "quota", "setup", "rate_limit", "http", "timeout", "connection", "too_large"
            or "bad_answer".
        """
        self.check()
        service = self.service
        text = cut_query(query, service.max_chars, service.max_words, service.max_encoded)
        if not text:
            raise WebError("query", "The search has no words in it.")
        reply = await self._client.send(self._request(text), self._judge)
        return self._results(self._parse(reply))

    async def aclose(self) -> None:
        """Closes the connections; no search can be made afterwards."""
        await self._client.aclose()

    # ---- what a back end says

    @abstractmethod
    def _request(self, query: str) -> Request:
        """The request that asks for a query."""

    @abstractmethod
    def _results(self, answer: Mapping[str, Any]) -> list[SearchResult]:
        """The results in an answer. Raises `WebError` where the answer says that there are none to be had."""

    def _explanation(self, answer: Mapping[str, Any]) -> Any:
        """What the body of an error says in words, where the API's errors have them."""
        return None

    def _diagnose(self, status: int, answer: Mapping[str, Any]) -> Failure | None:
        """The failure that a status other than 200 means to this API, where it differs from what it means to all."""
        return None

    # ---- for back ends

    def _listed(self, answer: Mapping[str, Any], *path: str, title: str, url: str, snippet: str) -> list[SearchResult]:
        """The results in the list at `path` of the answer; none where it, or what it stands in, is left out or null.

        A result that holds the key is left out.
        """
        value: Any = answer
        for name in path:
            if not isinstance(value, Mapping):
                raise self._bad_answer(f"there is no object around its {name!r}")
            value = value.get(name)
            if value is None:
                return []
        if not isinstance(value, list):
            raise self._bad_answer(f"its {path[-1]!r} is no list")
        return to_results(
            value,
            self._count,
            title=title,
            url=url,
            snippet=snippet,
            is_html=self.service.is_html,
            refuse=self._secrets.in_result,
        )

    def _bad_answer(self, what: str) -> WebError:
        label = self.service.label
        return WebError(
            "bad_answer", f"{label} gave an answer that cannot be read: {what}. Check its base URL, or try again later."
        )

    def _refused_key(self, status: int) -> Failure:
        service = self.service
        return Failure(
            WebError(
                "key",
                f"{service.label} refuses the key in {service.variable} (HTTP {status}). Check it, or get another at "
                f"{service.key_page}.",
            )
        )

    def _no_quota(self, status: int) -> Failure:
        service = self.service
        return Failure(
            WebError(
                "quota",
                f"What the key in {service.variable} may ask of {service.label} is used up (HTTP {status}). Raise the "
                f"plan's limit or add credit at {service.key_page}.",
            )
        )

    # ---- statuses and bodies

    def _judge(self, reply: Reply) -> Failure | None:
        status = reply.status
        if status == HTTPStatus.OK:
            return None
        answer = _json_object(reply.body)
        answer = {} if isinstance(answer, str) else answer
        failure = self._diagnose(status, answer)
        if failure is not None:
            return failure
        label = self.service.label
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return self._refused_key(status)
        if status == HTTPStatus.PAYMENT_REQUIRED:
            return self._no_quota(status)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            wait = _retry_after(reply)
            when = f" It asks for a pause of {wait:.0f} seconds." if wait else ""
            error = WebError("rate_limit", f"{label} is being asked too often (HTTP 429).{when} Search more slowly.")
            return Failure(error, retry=True, pause_seconds=wait)
        if status >= 500:
            error = WebError("http", f"{label} is out of order ({status_line(status)}). Try again later.")
            return Failure(error, retry=True, pause_seconds=_retry_after(reply))
        if 300 <= status < 400:
            where = f"{label} points to another address ({status_line(status)})."
            return Failure(WebError("setup", f"{where} Set its base URL to the final one."))
        said = self._quoted(self._explanation(answer))
        return Failure(WebError("http", f"{label} does not take the search ({status_line(status)}).{said}"))

    def _quoted(self, explanation: Any) -> str:
        """The service's own words, as part of an error; nothing if they hold a piece of the key, however spelt."""
        if not isinstance(explanation, str):
            return ""
        words = clean_line(explanation[:_MAX_EXAMINED])
        if not words or self._secrets.in_explanation(words):
            return ""
        return f" It says: {words[:MAX_EXPLANATION]}"

    def _parse(self, reply: Reply) -> Mapping[str, Any]:
        answer = _json_object(reply.body)
        if isinstance(answer, str):
            raise self._bad_answer(answer)
        return answer


def _retry_after(reply: Reply) -> float:
    """The seconds that the service asks for before another request; 0 where it asks for none."""
    return parse_retry_after(reply.headers.get("Retry-After", ""), datetime.now(UTC)) or 0.0


def _json_object(body: bytes) -> dict[str, Any] | str:
    """The JSON object in a body, or what is there instead."""
    start = body.lstrip()[:1]
    if not start:
        return "it is empty"
    if start == b"<":
        return "it is HTML and not JSON, as of a login page or a proxy on the way"
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return "it is broken JSON"
    return answer if isinstance(answer, dict) else "it is JSON, but no object"
