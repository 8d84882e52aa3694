"""HTTP statuses in words, for errors."""

from __future__ import annotations

from http import HTTPStatus


def status_line(status: int) -> str:
    """For example "HTTP 404 Not Found"; without a phrase where the server made the status up."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"
