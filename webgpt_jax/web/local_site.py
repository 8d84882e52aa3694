"""The made-up sites under which local pages stand: `http://<name>.localhost/`, which can never be anybody's real site
(RFC 6761)."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import urlsplit

from webgpt_jax.env.urls import host_of

_MAX_LABEL = 60  # a label of a host name may have 63 characters
_DEFAULT_PORTS = {"http": 80, "https": 443}


def slug(name: str) -> str:
    """A name as one label of a host name; "local" where nothing of it can stand there."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_name)[:_MAX_LABEL].strip("-") or "local"


def local_url(name: str) -> str:
    """The URL of the site of that name."""
    return f"http://{slug(name)}.localhost/"


def site_of(url: str) -> tuple[str, int | None]:
    """Host and port of an http(s) URL, by which sites are told apart; no port where it is the scheme's own. The host is
    empty for what is no such URL."""
    host = host_of(url)
    if not host:
        return "", None
    parts = urlsplit(url)
    return host, None if parts.port == _DEFAULT_PORTS[parts.scheme] else parts.port
