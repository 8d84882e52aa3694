import pytest

from webgpt_jax.web.styles import clipped, colour, declarations, font_pixels, is_animated, may_appear, may_hide


@pytest.mark.parametrize(
    "style",
    [
        "position:absolute; left:-9999px",
        "top: -999em",
        "text-indent: -10000px",
        "clip: rect(0,0,0,0)",
        "clip: rect(1px, 1px, 1px, 1px) !important",
        "clip: rect(0 0 0 0)",
        "clip-path: inset(100%)",
        "clip-path:inset(50%)",
        "clip-path: circle(0)",
        "clip-path: polygon(0 0, 0 0, 0 0, 0 0)",
        "content-visibility: hidden",
        "height:0;overflow:hidden",
        "Max-Height: 0px; Overflow: HIDDEN",
        "width:1px;height:1px;overflow:hidden;position:absolute",
        "width:0; overflow-x:clip",
    ],
)
def test_clipped(style: str) -> None:
    assert may_hide([style.lower()])
    assert clipped(declarations(style))


@pytest.mark.parametrize(
    "style",
    [
        "",
        "left:-5px",
        "margin-left:-9999px",
        "clip:auto",
        "clip: rect(0px, 60px, 200px, 0px)",
        "clip: rect(auto, auto, auto, auto)",
        "clip-path: inset(10%)",
        "clip-path: inset(5px)",
        "clip-path: circle(50%)",
        "clip-path: polygon(0 0, 100% 0, 50% 100%)",
        "height:0",
        "height:100px;overflow:hidden",
        "height:100%;overflow:hidden",
        "line-height:0;overflow:hidden",
        "height:0;padding-bottom:56.25%;overflow:hidden",  # a box that keeps a video's shape
        "width:0;min-width:100%;overflow:hidden",
    ],
)
def test_not_clipped(style: str) -> None:
    assert not clipped(declarations(style))


@pytest.mark.parametrize(
    ("style", "pixels"),
    [
        ("font-size:0", 0),
        ("font-size: 0px", 0),
        ("font-size:.05em;color:red", 0.8),
        ("FONT-SIZE:0.01PX", 0.01),
        ("font-size:0 !important", 0),
        ("font-size:1px", 1),
        ("font-size:1%", 0.16),
        ("font:0/0 a", 0),
        ("font:1px serif", 1),
    ],
)
def test_letters_too_small_to_be_read(style: str, pixels: float) -> None:
    assert may_hide([style.lower()])
    assert font_pixels(declarations(style)) == pytest.approx(pixels)


@pytest.mark.parametrize(
    ("style", "pixels"),
    [
        ("font-size:0.9em", 14.4),
        ("font-size:90%", 14.4),
        ("font-size:10px", 10),
        ("font-size:10pt", 40 / 3),
        ("font:bold 12px/1.5 serif", 12),
        ("font-size:small", None),
        ("font-size:calc(0px + 1em)", None),
        ("font:inherit", None),
        ("font-family:x0", None),
        ("", None),
    ],
)
def test_letters_that_can_be_read(style: str, pixels: float | None) -> None:
    assert not may_hide([style])
    assert font_pixels(declarations(style)) == (None if pixels is None else pytest.approx(pixels))


@pytest.mark.parametrize(
    "style",
    [
        "opacity:0",
        "opacity: 0.0",
        "opacity:.001",
        "opacity:0%",
        "filter:opacity(0)",
        "transform:scale(0)",
        "transform: rotate(3deg) scale(0, 0)",
        "transform:scaleX(0)",
        "scale:0",
    ],
)
def test_transparent_or_shrunk_to_nothing(style: str) -> None:
    assert may_hide([style.lower()])
    assert may_appear(declarations(style))
    assert not is_animated(declarations(style))


@pytest.mark.parametrize(
    "style", ["opacity:0.5", "opacity:.9", "opacity:1", "transform:scale(0.9)", "scale:1", "filter:grayscale(0)", ""]
)
def test_opaque_and_large(style: str) -> None:
    assert not may_hide([style])
    assert not may_appear(declarations(style))


@pytest.mark.parametrize(
    "style",
    [
        "opacity:0;transition:opacity 1s",
        "opacity:0;animation:fade 2s",
        "opacity:0;will-change:opacity",
        "opacity:0;transform:translateY(20px)",
    ],
)
def test_animated(style: str) -> None:
    assert is_animated(declarations(style))


@pytest.mark.parametrize(
    ("value", "rgb"),
    [
        ("#fff", (255, 255, 255)),
        ("#FFFFFF", (255, 255, 255)),
        ("#012345ff", (1, 35, 69)),
        ("white", (255, 255, 255)),
        ("rgb(1, 2, 3)", (1, 2, 3)),
        ("rgb(1 2 999)", (1, 2, 255)),
        ("rgba(1,2,3,1)", (1, 2, 3)),
        ("rgba(1,2,3,0.5)", None),
        ("#fff8", None),
        ("#ff", None),
        ("antiquewhite", None),
        ("var(--white)", None),
        ("inherit", None),
        ("", None),
    ],
)
def test_colours(value: str, rgb: tuple[int, int, int] | None) -> None:
    assert colour(value) == rgb


@pytest.mark.parametrize("piece", ["color:", "font-size:", "opacity:0", "color:rgba(", "height:0", "a:b;", "((((", "0"])
def test_floods_take_time_in_proportion(piece: str) -> None:
    # Anything quadratic in these characters would run into the suite's time limit.
    style = piece * (1_000_000 // len(piece))
    may_hide([style + "overflow"])
    set_in = declarations(style)
    clipped(set_in)
    may_appear(set_in)
    is_animated(set_in)
    font_pixels(set_in)
    colour(style)
