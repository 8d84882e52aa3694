"""A URL as the live fetcher understands it: checked, spelt in one way, safe to send and safe to show.

Two programs that read one URL differently are how address filters are got round, so a URL is taken apart once, here,
and put together again from its parts: what is checked is what is sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote, urlsplit

from webgpt_jax.env.protocol import WebError
from webgpt_jax.env.urls import host_of
from webgpt_jax.web.guard import AddressRefused, Guard

MAX_URL_CHARS = 8_000  # servers refuse longer ones, and no page that people read has one
_SHOWN_CHARS = 160

_STRIPPED = "".join(chr(code) for code in range(0x21))  # C0 controls and the blank, as browsers strip them
_PORTS = {"http": 80, "https": 443}
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*\Z")
# What may stand in a path or a query as it is: escapes already there are kept, all else is escaped as browsers do.
_SAFE_IN_PATH = "/%:@!$&'()*+,;=~|[]^"
_SAFE_IN_QUERY = "/%:@!$&()*+,;=~|[]^?\\`{}"


@dataclass(frozen=True)
class Target:
    """Where a request goes. The fragment is gone; path and query are escaped; the host is canonical."""

    scheme: str
    host: str
    port: int
    path: str
    query: str

    @property
    def origin(self) -> str:
        """Scheme, host and port, the last only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    @property
    def url(self) -> str:
        return self.origin + self.path + (f"?{self.query}" if self.query else "")

    @property
    def shown(self) -> str:
        """Host and path, for messages: queries may hold keys and names."""
        text = self.origin.partition("://")[2] + self.path
        return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"

    def robots(self) -> Target:
        """Where the site keeps its robots.txt."""
        return Target(self.scheme, self.host, self.port, "/robots.txt", "")


def _refused(message: str) -> WebError:
    return WebError("refused", message)


def _canonical_host(host: str) -> str:
    """One spelling for each address. Raises `WebError` for the odd ones, which are made to slip past filters."""
    if ":" in host:
        try:
            return str(IPv6Address(host))
        except ValueError:
            raise _refused("The URL's host is not a valid IPv6 address, so it was not fetched.") from None
    if _NUMBER.match(host.rpartition(".")[2]):
        # Browsers and the system's resolver read 2130706433, 0177.1 and 0x7f.0.0.1 all as 127.0.0.1.
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise _refused("The URL's host is a number in an odd spelling; write an address as 192.0.2.1.") from None
    return host


def _without_dots(path: str) -> str:
    """The path with `.` and `..` followed, as browsers do: rules about paths are written for the result."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for at, segment in enumerate(segments):
        dots = segment.lower().replace("%2e", ".")
        if dots == "..":
            del kept[-1:]
        elif dots != ".":
            kept.append(segment)
        if dots in (".", "..") and at == len(segments) - 1:
            kept.append("")  # what ends in dots is a folder
    return "/" + "/".join(kept)


def parse_target(url: str, guard: Guard) -> Target:
    """The target of a URL. Raises `WebError("refused", ...)` for what may not be fetched, however it is reached."""
    url = url.strip(_STRIPPED)
    if len(url) > MAX_URL_CHARS:
        raise _refused(f"The URL is longer than {MAX_URL_CHARS:,} characters, so it was not fetched.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused("The URL is malformed, so it was not fetched.") from None
    if parts.scheme not in _PORTS:
        raise _refused("Only http and https URLs are fetched; this one is of another kind.")
    if "@" in parts.netloc:
        raise _refused("URLs with a user name or a password are not fetched; leave out what stands before the @.")
    host = host_of(url)
    if not host:
        raise _refused("The URL has no valid host name, so it was not fetched.")
    host = _canonical_host(host)
    try:
        path = quote(parts.path.replace("\\", "/"), safe=_SAFE_IN_PATH, errors="surrogateescape")
        query = quote(parts.query, safe=_SAFE_IN_QUERY, errors="surrogateescape")
    except UnicodeEncodeError:
        raise _refused("The URL holds characters that cannot be sent, so it was not fetched.") from None
    target = Target(parts.scheme, host, _PORTS[parts.scheme] if port is None else port, _without_dots(path), query)
    try:
        guard.check_port(target.port)
        if ":" in host or _NUMBER.match(host.rpartition(".")[2]):
            guard.check_address(host)
    except AddressRefused as refused:
        raise refusal(target, refused) from None
    return target


def refusal(target: Target, refused: AddressRefused) -> WebError:
    """The error for a target that leads where the guard does not allow."""
    return _refused(
        f"{target.shown} was not fetched because it leads to {refused.reason}; "
        "--allow_private_hosts lifts this rule for tests."
    )
