"""Hosts in hostile spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.env.urls import host_of, in_domain, resolve


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://example.org", "example.org"),
        ("https://Example.ORG/Path", "example.org"),
        ("HTTPS://EXAMPLE.ORG", "example.org"),
        ("http://example.org.", "example.org"),
        ("http://example.org.:80/", "example.org"),
        ("http://example.org%2e/", "example.org"),
        ("http://ex%61mple.org/", "example.org"),
        ("http://user:secret@example.org/", "example.org"),
        ("http://reddit.com@example.org/", "example.org"),
        ("http://a@b@example.org/", "example.org"),
        ("http://example.org:8080/", "example.org"),
        ("http://example.org:/", "example.org"),
        ("http://example.org?q=http://other.test", "example.org"),
        ("http://example.org#@other.test", "example.org"),
        ("http://ｅｘａｍｐｌｅ．ｏｒｇ/", "example.org"),
        ("http://example。org/", "example.org"),
        ("http://ⓔⓧample.org/", "example.org"),
        ("http://ex\u00adample.org/", "example.org"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://BÜCHER.example/", "xn--bcher-kva.example"),
        ("http://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("http://b%C3%BCcher.example/", "xn--bcher-kva.example"),
        ("http://аpple.test/", "xn--pple-43d.test"),  # the first letter is Cyrillic
        ("http://under_score.example.org/", "under_score.example.org"),
        ("http://127.0.0.1:8000/x", "127.0.0.1"),
        ("http://[::1]/", "::1"),
        ("http://[2001:DB8::1]:8080/", "2001:db8::1"),
        ("http://localhost/", "localhost"),
        ("  http://example.org/", "example.org"),
        ("http://exa\tmple.org/", "example.org"),
    ],
)
def test_host(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "/path",
        "//example.org",
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "mailto:a@example.org",
        "http:",
        "http://",
        "http:///path",
        "http:example.org",
        "http://:80/",
        "http://@/",
        "http://.",
        "http://..",
        "http://.example.org/",
        "http://a..b/",
        "http://example.org../",
        "http://exa mple.org/",
        "http://exa%20mple.org/",
        "http://example.org%2fother.test/",
        "http://example.org%00/",
        "http://example.org%ff/",
        "http://example.org:port/",
        "http://example.org:0/",
        "http://example.org:65536/",
        "http://example.org:-1/",
        "http://[::1",
        "http://::1]/",
        "http://[::1%25eth0]/",
        "http://[not an address]/",
        "http://-example.org/",
        "http://example.org-/",
        "http://exa<mple.org/",
        "http://exa【mple.org/",
        "http://exa(mple).org/",
        "http://example.org\u202e/",
        "http://\ud800.org/",
        # Browsers and HTTP libraries differ on which of the two hosts this is.
        "http://reddit.com\\@example.org/",
        "http:\\\\example.org\\",
        "http://example.org℀/",
        f"http://{'a' * 64}.org/",
        f"http://{'a.' * 5000}org/",
        f"http://{'%61.' * 300}org/",
    ],
)
def test_no_host(url: str) -> None:
    assert host_of(url) == ""


def test_names_are_spelt_as_they_are_looked_up() -> None:
    # UTS 46 without its transitional mapping, as browsers and aiohttp have it: not fass.de.
    assert host_of("http://faß.de/") == "xn--fa-hia.de"


def test_the_longest_names() -> None:
    label = "a" * 63
    assert host_of(f"http://{label}.org/") == f"{label}.org"
    longest = ".".join([label, label, label, "b" * 61])
    assert len(longest) == 253
    assert host_of(f"http://{longest}/") == longest
    assert host_of(f"http://{longest}c/") == ""


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("b", "http://a.test/dir/b"),
        ("/b", "http://a.test/b"),
        ("../b", "http://a.test/b"),
        ("?q", "http://a.test/dir/page?q"),
        ("#top", "http://a.test/dir/page#top"),
        ("", "http://a.test/dir/page"),
        ("//b.test/c", "http://b.test/c"),
        ("https://b.test/c", "https://b.test/c"),
        (" \n https://b.test/c\t ", "https://b.test/c"),
        ("ht\ntps://b.te\tst/c", "https://b.test/c"),
        ("\x00\x1fhttps://b.test/", "https://b.test/"),
        ("javascript:alert(1)", ""),
        ("java\nscript:alert(1)", ""),
        ("JaVaScRiPt:alert(1)", ""),
        ("mailto:x@b.test", ""),
        ("data:text/html,x", ""),
        ("file:///etc/passwd", ""),
        ("http://[::1", ""),
        ("https:b.test", ""),
        ("http://b.test:99999/", ""),
        ("\ud800", "http://a.test/dir/\ud800"),
    ],
)
def test_resolve(href: str, url: str) -> None:
    assert resolve("http://a.test/dir/page", href) == url


def test_resolve_on_a_base_that_leads_nowhere() -> None:
    assert resolve("", "b") == ""
    assert resolve("http://[::1", "https://b.test/") in ("", "https://b.test/")
    assert resolve("about:blank", "https://b.test/") == "https://b.test/"


@given(st.text(st.characters(codec=None, categories=None)), st.text(st.characters(codec=None, categories=None)))
def test_no_url_raises_and_a_host_is_always_plain(start: str, rest: str) -> None:
    for url in (start, f"http://{start}/{rest}", f"http://{start}@{rest}", f"https://[{start}]{rest}"):
        host = host_of(url)
        assert set(host) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._:")
        assert len(host) <= 253
        assert host == "" or host_of(f"http://[{host}]/" if ":" in host else f"http://{host}/") == host
        resolved = resolve(start, rest)
        assert resolved == "" or host_of(resolved)


@pytest.mark.parametrize(
    ("host", "domain", "inside"),
    [
        ("reddit.com", "reddit.com", True),
        ("old.reddit.com", "reddit.com", True),
        ("a.b.reddit.com", "reddit.com", True),
        ("notreddit.com", "reddit.com", False),
        ("reddit.com.evil.test", "reddit.com", False),
        ("com", "reddit.com", False),
        ("", "reddit.com", False),
    ],
)
def test_in_domain(host: str, domain: str, inside: bool) -> None:
    assert in_domain(host, domain) is inside
