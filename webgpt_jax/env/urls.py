"""Hosts and domains of URLs, spelt one way.

Every rule about a site (the domain shown in a link marker, blocked domains, per-host limits) compares hosts in the form
`host_of` gives, so that capitals, a trailing dot, percent escapes, user names, ports and full-width letters make no
difference.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urljoin, urlsplit

import idna

_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\Z")
_STRIPPED = "".join(chr(code) for code in range(0x21))  # C0 controls and the blank, as browsers strip them
_REMOVED = re.compile(r"[\t\n\r]")
_IPV6 = re.compile(r"[0-9a-f:.]+\Z")
_MAX_LABEL = 63  # characters between two dots of a name
_MAX_HOST = 253  # characters of a name in the DNS; a longer one would only fill the page it is shown on


def host_of(url: str) -> str:
    """The host of an http(s) URL in lower case, internationalised names in their xn-- form, without port or user name.

    An empty string when the URL is not http(s), has no host or does not parse: such a URL cannot be followed.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port  # `port` raises for what is no port number
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return ""
    if "\\" in parts.netloc:  # parsers do not agree on where such a host ends
        return ""
    if ":" in host:  # an IPv6 literal; urlsplit has taken the brackets off
        return host if _IPV6.match(host) else ""
    try:
        host = unquote(host, errors="strict")
        if not host.isascii():
            # UTS 46 folds case and full-width forms and knows the ideographic full stops, as browsers and aiohttp do.
            host = idna.encode(host, uts46=True).decode("ascii")
    except UnicodeError:  # what is no name, bytes that are no UTF-8
        return ""
    host = host.lower().removesuffix(".")
    if len(host) > _MAX_HOST or not all(0 < len(label) <= _MAX_LABEL for label in host.split(".")):
        return ""
    return host if _HOST.match(host) else ""


def resolve(base: str, href: str) -> str:
    """The absolute http(s) URL that `href` means on a page at `base`; empty where it leads nowhere we can go."""
    href = _REMOVED.sub("", href).strip(_STRIPPED)
    try:
        url = urljoin(base, href)
    except ValueError:
        return ""
    return url if host_of(url) else ""


def in_domain(host: str, domain: str) -> bool:
    """Whether a host is the domain or a subdomain of it."""
    return host == domain or host.endswith("." + domain)
