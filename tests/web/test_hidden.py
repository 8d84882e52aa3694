import pytest

from webgpt_jax.web.hidden import as_seen, is_hidden, may_look_different
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
        "style='display:block'",
        "style='visibility:visible'",
        "style='opacity:0'",
        "class=hidden",
    ],
)
def test_shown(attributes: str) -> None:
    assert not hides(attributes)


def test_images_are_seen_whatever_is_said_of_them() -> None:
    assert not hides("aria-hidden=true", "img")
    assert hides("style='display:none'", "img")


def test_dialogs_are_shown_when_open() -> None:
    assert hides("", "dialog")
    assert not hides("open", "dialog")


@pytest.mark.parametrize("style", ["font-size:0", "opacity: 0", "clip: rect(0,0,0,0)", "color:white;background:white"])
def test_unseen_text_is_taken_out_and_what_follows_stays(style: str) -> None:
    page = f"<p>before</p><p style='{style}'>secret <b>words</b></p>after<p>end</p>"
    assert may_look_different(page)
    assert as_seen(page) == "<html><body><p>before</p><p></p>after<p>end</p></body></html>"


@pytest.mark.parametrize("style", ["font-size:0.9em", "left:-5px", "margin-left:-9999px", "clip:auto", "color:#333"])
def test_seen_text_stays_and_costs_nothing(style: str) -> None:
    page = f"<p style='{style}'>words</p>"
    assert not may_look_different(page)
    assert ">words<" in as_seen(page)


SHEET = "<link rel=stylesheet href=x.css>"


@pytest.mark.parametrize(
    ("page", "seen"),
    [
        ("<p style='color:white'>x", False),  # on the white of every page without a style sheet
        (SHEET + "<p style='color:white'>x", True),
        ("<style></style><p style='color:white'>x", True),
        ("<p><font color=#FFFFFF>x</font>", False),
        (SHEET + "<body bgcolor=white><p><font color=#FFF>x</font>", False),
        (SHEET + "<body bgcolor=navy><p><font color=#FFF>x</font>", True),
        (SHEET + "<div style='background:#000'><p style='color:black'>x", False),
        (SHEET + "<div style='background:#000'><p class=light style='color:black'>x", True),
        (SHEET + "<div style='background:#fff url(dark.png)'><p style='color:#fff'>x", True),
        (SHEET + "<p style='color:#fff;background:#fff'><b style='color:#000'>x</b>", True),
        ("<font color=black>x</font>", True),
    ],
)
def test_text_in_the_colour_of_what_is_behind(page: str, seen: bool) -> None:
    assert may_look_different(page) or seen
    assert (">x" in as_seen(page)) == seen


def test_page_that_fades_in_stays() -> None:
    page = "<p>menu</p><main style='opacity:0'><p>the text</p><p style='opacity:0'>more</p></main>"
    assert "the text" in as_seen(page)
    assert "more" in as_seen(page)


@pytest.mark.parametrize("mode", ["open", "closed", "OPEN"])
def test_shadow_roots_are_shown(mode: str) -> None:
    page = f"<p>before</p><x-card><template shadowrootmode={mode}><p>shadow</p></template>light</x-card>"
    assert may_look_different(page)
    assert "<div" in as_seen(page)
    assert "<template" not in as_seen(page)
    assert not may_look_different(page.replace("shadowrootmode", "id"))
    assert "<template" in as_seen(page.replace("shadowrootmode", "id"))


def test_inline_elements_displayed_as_blocks_stand_apart() -> None:
    page = "<p>a<span style='display:block'>b</span><span style='display: flex'>c</span>d</p>"
    assert may_look_different(page)
    text = as_seen(page).replace(' style="display:block"', "").replace(' style="display: flex"', "")
    assert text == "<html><body><p>a<br><span>b</span><br><span>c</span><br>d</p></body></html>"


def test_mails_close_gaps_with_a_font_size_of_zero() -> None:
    page = (
        "<div style='font-size:0px'><div><p style='font-size:16px'>shown</p></div><p style='font-size:0'>not</p></div>"
    )
    assert "shown" in as_seen(page)
    assert "not" not in as_seen(page)


def test_nothing_to_parse() -> None:
    assert as_seen("") == ""
