"""Where a quote came from, as text or as a link that tells the source nothing."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from webgpt_jax.env import Quote, clean_line
from webgpt_jax.env.urls import host_of, in_domain
from webgpt_jax.feedback.markup import Html, element, join

SHOWN_CHARS = 160  # of a URL

# Names that are nobody's site (RFC 2606, 6761, 6762): TinyWeb's pages and those of local folders stand under them.
_RESERVED = ("test", "localhost", "example", "invalid", "local")
_PLAIN = re.compile(r"https?://[!-~]+")  # ASCII; everything else has a percent escape in a URL that was really fetched


def heading(quote: Quote) -> Html:
    """Title and domain of a quote."""
    domain = join(" (", element("bdi", quote.domain), ")") if quote.domain else ""
    return join(element("cite", element("bdi", quote.title or "Untitled")), domain)


def address(quote: Quote) -> Html:
    """The URL of a quote as text, and a link where it leads to a public site."""
    shown = clean_line(quote.url)
    shown = shown if len(shown) <= SHOWN_CHARS else shown[: SHOWN_CHARS - 1] + "…"
    if not leads_out(quote.url):
        return element("bdi", shown)
    link = element(
        "a",
        f"open {host_of(quote.url)}",  # the real host: a URL can be written to look like another's
        href=quote.url,
        rel="noreferrer noopener",
        target="_blank",
    )
    return join(element("bdi", shown), " ", link)


def leads_out(url: str) -> bool:
    """Whether a URL is one that a reader may be sent to: http or https, on a host that can be a public site."""
    host = host_of(url) if _PLAIN.fullmatch(url) else ""
    _, dot, top = host.rpartition(".")
    if not dot or not top[0].isalpha():  # one word, or an address, in one of the many spellings browsers know
        return False
    return "@" not in urlsplit(url).netloc and not any(in_domain(host, name) for name in _RESERVED)
