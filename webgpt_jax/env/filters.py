"""What the paper kept from the model: sites that hold the answers, and pages that hold the question (Appendix A).

Both rules are switches of `BrowserConfig`, on by default.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import unquote

from webgpt_jax.env.page import Page, keep_links
from webgpt_jax.env.text import word_string
from webgpt_jax.env.urls import host_of, in_domain

# The paper's two sites, with their own short forms.
BLOCKED_DOMAINS = ("reddit.com", "quora.com", "redd.it", "qr.ae")

NGRAM = 10

_TRANSLATE = ".translate.goog"  # www-reddit-com.translate.goog serves www.reddit.com
_ARCHIVES = ("archive.org", "archive.today", "archive.is", "archive.ph", "webcache.googleusercontent.com")
_URL_IN_PATH = re.compile(r"https?:/{1,2}[^\s]+", re.IGNORECASE)


def is_blocked(url: str, domains: Collection[str] = BLOCKED_DOMAINS) -> bool:
    """Whether a URL leads to one of the domains or a subdomain of one, also through a translation or archive proxy."""
    host = host_of(url)
    if any(in_domain(host, domain) for domain in domains):
        return True
    if host.endswith(_TRANSLATE):
        # The proxy writes "-" for "." and "--" for "-".
        original = host.removesuffix(_TRANSLATE).replace("--", "\0").replace("-", ".").replace("\0", "-")
        return any(in_domain(original, domain) for domain in domains)
    if any(in_domain(host, archive) for archive in _ARCHIVES):
        inner = _URL_IN_PATH.search(unquote(url), len("https://"))
        return inner is not None and is_blocked(re.sub(r":/+", "://", inner[0], count=1), domains)
    return False


def without_blocked_links(page: Page, domains: Collection[str] = BLOCKED_DOMAINS) -> Page:
    """The page without its links to blocked domains; the links that stay are numbered anew."""
    # Kept with the page: webs hand out the same page many times, and some have thousands of links.
    known: dict[Collection[str], Page] = page.__dict__.setdefault("_without_blocked", {})
    key = frozenset(domains)
    if key not in known:
        known[key] = keep_links(page, lambda link: not is_blocked(link.url, key))
    return known[key]


@lru_cache(maxsize=64)
def _ngrams(text: str, n: int) -> tuple[str, ...]:
    words = word_string(text).split()
    return tuple(f" {' '.join(words[at : at + n])} " for at in range(len(words) - n + 1))


def overlaps(words: str, secrets: Collection[str], n: int = NGRAM) -> bool:
    """Whether a text, given as its `word_string`, shares n words in a row with one of the secrets."""
    return any(ngram in words for secret in secrets for ngram in _ngrams(secret, n))
