"""URLs taken apart and put together: one spelling for each, nothing secret in what is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.guard import Guard
from webgpt_jax.web.target import parse_target

OPEN = Guard(allow_private=True)


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://h.test", "http://h.test/"),
        ("HTTP://H.Test.:80/#top", "http://h.test/"),
        ("https://h.test:443/a?b#c", "https://h.test/a?b"),
        ("http://h.test:443/", "http://h.test:443/"),
        ("http://h.test:/", "http://h.test/"),
        ("http://bücher.test/ü?ü#ü", "http://xn--bcher-kva.test/%C3%BC?%C3%BC"),
        ("http://BÜCHER。test/", "http://xn--bcher-kva.test/"),
        ("http://h%2Etest/", "http://h.test/"),
        ("http://93.184.215.14/", "http://93.184.215.14/"),
        ("http://[2606:4700:0:0:0:0:0:1111]/", "http://[2606:4700::1111]/"),
        ("http://[2606:4700::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        ("http://h.test/a/../b/./c/..", "http://h.test/b/"),
        ("http://h.test/../../etc/passwd", "http://h.test/etc/passwd"),
        ("http://h.test/a/%2e%2E/b/%2e", "http://h.test/b/"),
        ("http://h.test/a/...", "http://h.test/a/..."),
        ("http://h.test//a//", "http://h.test//a//"),
        ("http://h.test?q=a/../b", "http://h.test/?q=a/../b"),
        ("\n http://h.test/ ", "http://h.test/"),
    ],
)
def test_one_spelling(url: str, canonical: str) -> None:
    target = parse_target(url, OPEN)
    assert target.url == canonical
    assert parse_target(canonical, OPEN) == target


def test_what_is_shown() -> None:
    target = parse_target("https://h.test:8443/path/to?key=secret#secret", OPEN)
    assert (target.shown, target.origin) == ("h.test:8443/path/to", "https://h.test:8443")
    assert target.robots().url == "https://h.test:8443/robots.txt"
    assert len(parse_target("http://h.test/" + "x" * 5_000, OPEN).shown) == 160


@given(st.text(), st.text(), st.sampled_from(["http://", "https://", "http://h.test/", "http://h.test:80", ""]))
def test_any_text_is_a_target_or_refused(start: str, end: str, middle: str) -> None:
    try:
        target = parse_target(start + middle + end, OPEN)
    except WebError:
        return
    assert target.url.isascii()
    assert not set(target.url) & set(" \t\r\n\0\\#@") - {"@"}
    assert "@" not in target.origin
    assert parse_target(target.url, OPEN) == target
    # The library that sends the request reads the URL as we do.
    read = URL(target.url, encoded=True)
    assert (read.scheme, read.raw_host, read.port) == (target.scheme, target.host, target.port)
    assert read.raw_path_qs == target.url.removeprefix(target.origin)
