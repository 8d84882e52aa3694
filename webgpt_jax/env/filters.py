"""What the paper kept from the model: sites that hold the answers, and pages that hold the question (Appendix A).

Both rules are switches of `BrowserConfig`, on by default.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from webgpt_jax.env.page import Page, keep_links
from webgpt_jax.env.text import word_string
from webgpt_jax.env.urls import host_of, in_domain

# The paper's two sites, with their own short forms.
BLOCKED_DOMAINS = ("reddit.com", "quora.com", "redd.it", "qr.ae")

NGRAM = 10

_TRANSLATE = ".translate.goog"  # www-reddit-com.translate.goog serves www.reddit.com
_ARCHIVES = ("archive.org", "archive.today", "archive.is", "archive.ph", "webcache.googleusercontent.com")
_SEGMENT = re.compile(r"[^\s/?#&=:@]+")
_MAX_PROXIES = 5  # an archive of an archive of an archive … has something to hide


def is_blocked(url: str, domains: Collection[str] = BLOCKED_DOMAINS) -> bool:
    """Whether a URL leads to one of the domains or a subdomain of one, also through a translation or archive proxy."""
    for _ in range(_MAX_PROXIES):
        host = host_of(url)
        if host.endswith(_TRANSLATE):
            # The proxy writes "-" for "." and "--" for "-".
            host = host.removesuffix(_TRANSLATE).replace("--", "\0").replace("-", ".").replace("\0", "-")
        if any(in_domain(host, domain) for domain in domains):
            return True
        if not any(in_domain(host, archive) for archive in _ARCHIVES):
            return False
        url = _archived(url)
    return bool(domains)


def _archived(url: str) -> str:
    """What an archive is asked for: the URL, with or without its scheme, after `https://web.archive.org/web/2020/`."""
    parts = urlsplit(url)
    rest = unquote(f"{parts.path}?{parts.query}")
    return next((f"http://{rest[at.start() :]}" for at in _SEGMENT.finditer(rest) if "." in at[0]), "")


def without_blocked_links(page: Page, domains: Collection[str] = BLOCKED_DOMAINS) -> Page:
    """The page without its links to blocked domains; the links that stay are numbered anew."""
    # Kept with the page: webs hand out the same page many times, and some have thousands of links.
    known: dict[Collection[str], Page] = page.__dict__.setdefault("_without_blocked", {})
    key = frozenset(domains)
    if key not in known:
        known[key] = keep_links(page, lambda link: not is_blocked(link.url, key))
    return known[key]


@lru_cache(maxsize=64)
def _runs(text: str, n: int) -> dict[str, list[str]]:
    """The runs of n words, each under a run half as long that it holds: without that one, it need not be sought."""
    words = word_string(text).split()
    half = max(1, n // 2)
    runs: dict[str, list[str]] = {}
    for at in range(len(words) - n + 1):
        middle = -(-at // half) * half  # the first multiple of `half` from `at` on
        key = f" {' '.join(words[middle : middle + half])} "
        runs.setdefault(key, []).append(f" {' '.join(words[at : at + n])} ")
    return runs


def overlaps(words: str, secrets: Collection[str], n: int = NGRAM) -> bool:
    """Whether a text, given as its `word_string`, shares n words in a row with one of the secrets."""
    return any(
        half in words and any(run in words for run in runs)
        for secret in secrets
        for half, runs in _runs(secret, n).items()
    )
