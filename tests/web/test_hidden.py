import pytest

from webgpt_jax.web.hidden import is_hidden, may_hide, without_hidden
from webgpt_jax.web.markup import parse


def hides(attributes: str, tag: str = "p") -> bool:
    root = parse(f"<{tag} {attributes}>text</{tag}>")
    assert root is not None
    element = next(root.iter(tag))
    return is_hidden(tag, element)


@pytest.mark.parametrize(
    "attributes",
    [
        "hidden",
        "hidden=hidden",
        "aria-hidden=true",
        "style='display:none'",
        "style='color: red; DISPLAY : none !important'",
        "style='visibility:hidden'",
        "style='visibility: collapse;'",
    ],
)
def test_hidden(attributes: str) -> None:
    assert hides(attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        "",
        "hidden=until-found",
        "aria-hidden=false",
        "aria-hidden=true class='x fallback-image'",
        "style='display:block'",
        "style='visibility:visible'",
        "style='opacity:0'",
        "class=hidden",
    ],
)
def test_shown(attributes: str) -> None:
    assert not hides(attributes)


def test_dialogs_are_shown_when_open() -> None:
    assert hides("", "dialog")
    assert not hides("open", "dialog")


UNSEEN = [
    "font-size:0",
    "font-size: 0px",
    "font-size:.0em;color:red",
    "font-size:0 !important",
    "position:absolute; left:-9999px",
    "text-indent: -10000px",
    "clip: rect(0,0,0,0)",
    "content-visibility: hidden",
]


@pytest.mark.parametrize("style", UNSEEN)
def test_unseen_text_is_taken_out_and_what_follows_stays(style: str) -> None:
    page = f"<p>before</p><p style='{style}'>secret <b>words</b></p>after<p>end</p>"
    assert may_hide(page)
    assert without_hidden(page) == "<html><body><p>before</p><p></p>after<p>end</p></body></html>"


@pytest.mark.parametrize(
    "style", ["font-size:0.9em", "font-size:10px", "left:-5px", "margin-left:-9999px", "clip:auto"]
)
def test_seen_text_stays(style: str) -> None:
    page = f"<p style='{style}'>words</p>"
    assert not may_hide(page)
    assert ">words<" in without_hidden(page)


def test_mails_close_gaps_with_a_font_size_of_zero() -> None:
    page = (
        "<div style='font-size:0px'><div><p style='font-size:16px'>shown</p></div><p style='font-size:0'>not</p></div>"
    )
    assert "shown" in without_hidden(page)
    assert "not" not in without_hidden(page)


def test_nothing_to_parse() -> None:
    assert without_hidden("") == ""
