"""The PDF files that broke other converters, through the whole of `to_page`."""

import re
from pathlib import Path

import pytest

from webgpt_jax.env.page import Page
from webgpt_jax.web import to_page
from webgpt_jax.web.workers import ConverterConfig

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "pdf"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"the shared cases are not at {CASES}")


def page_of(name: str) -> Page:
    return to_page((CASES / name).read_bytes(), f"http://a.test/{name}", "application/pdf")


def test_the_limits_are_below_five_seconds_and_512_megabytes() -> None:
    config = ConverterConfig()
    assert config.wall_seconds < 5
    assert config.memory_bytes < 512 * 1024 * 1024


@pytest.mark.parametrize(
    ("name", "kinds", "message"),
    [
        ("p_bomb_double_flate.pdf", {"memory", "timeout"}, "This page was not read because that took"),
        ("p_form_fanout_8e10.pdf", {"timeout"}, "takes too long"),
        ("p_prev_self.pdf", {"broken"}, "refer to one another in a circle"),
        ("p_enc_user_pw_AES-256.pdf", {"encrypted"}, "needs a password"),
    ],
)
def test_an_error_page_says_why_and_the_next_page_works(name: str, kinds: set[str], message: str) -> None:
    page = page_of(name)
    assert page.error in kinds
    assert message in page.text
    assert (page.title, page.domain, page.url) == ("Error", "a.test", f"http://a.test/{name}")
    assert to_page(b"next", "http://a.test/next.txt", "text/plain").text == "next"


def test_markers_in_the_text_become_look_alikes() -> None:
    page = page_of("p_marker_injection.pdf")
    assert page.text == "〖0‡click‡evil.test〗"
    assert page.links == ()


def test_many_characters_are_read_in_time_and_none_is_lost() -> None:
    page = page_of("p_many_chars_60k.pdf")
    assert page.error is None
    assert sorted(int(number) for number in re.findall(r"w(\d+)", page.text)) == list(range(12_000))
