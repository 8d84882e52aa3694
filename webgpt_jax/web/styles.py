"""What an inline style hides from people's eyes.

Only what is certain from the style alone: too small to be seen, clipped away, off the screen, transparent, in the
colour of its own background. Style sheets are out of reach here, and with them most of what is hidden on the web.

Text for screen readers, which is clipped to nothing or pushed off the screen, is real, but it counts as hidden: the
model sees what a person at the screen sees, and a page could tell it anything else by the same means.
"""

from __future__ import annotations

import re

SMALLEST = 1.5  # pixels; smaller letters cannot be read
_SAME_COLOUR = 8  # of 255, in each of red, green and blue: no eye tells these apart

# What a style that hides something has in it.
_NOTHING = r"0*\.?0\d*(?![.\d])"  # at most a tenth
_SUSPECT = re.compile(
    rf"font(?:-size)?\s*:\s*(?:{_NOTHING}|0?\.\d+p|1(?:\.[0-4]\d*)?p|[1-9]%)"
    r"|(?<![a-z-])(?:left|top|right|text-indent)\s*:\s*-(?:\d{4}|999)"
    r"|clip\s*:\s*rect|clip-path\s*:\s*(?:inset|circle|polygon|ellipse)|content-visibility\s*:\s*hidden"
    rf"|opacity[\s:(]+{_NOTHING}|(?<![a-z])scale(?:x|y|3d)?[\s:(]+{_NOTHING}"
    r"|(?<![a-z-])color\s*:\s*(?:transparent|rgba\([^);]{0,60},\s*0*\.?0*%?\s*\))",
)
_NO_SIZE = re.compile(r"(?<![a-z-])(?:max-)?(?:height|width)\s*:\s*[01](?![\d%])")

_DECLARATION = re.compile(r"([a-z-]+)\s*:\s*([^;]*)")
_LENGTH = re.compile(r"([+-]?\d*\.?\d+)([a-z%]*)")
_PIXELS = {"": 1.0, "px": 1.0, "pt": 4 / 3, "pc": 16.0, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 0.16}
_FONT_SIZE = re.compile(r"(?:\A|\s)([\d.]+(?:px|pt|em|rem|%)?)\s*(?:/|\s)")
_OFF_SCREEN = re.compile(r"-(?:\d{4,}|999)")
_SHRUNK = re.compile(r"(?:\A|\s)scale(?:x|y|3d)?\(\s*0*\.?0*\s*[,)]")
_NUMBERS = re.compile(r"-?\d*\.?\d+")
_NO_ANIMATION = frozenset(("none", "all 0s", "initial"))
_HEX = re.compile(r"#([0-9a-f]{3,8})\b")
_RGB = re.compile(r"rgba?\(([^()]{0,60})\)")
_COLOURS = {"white": "#fff", "black": "#000", "red": "#f00", "yellow": "#ff0", "blue": "#00f", "lime": "#0f0"}
_COLOURS |= {"gray": "#808080", "grey": "#808080", "silver": "#c0c0c0", "snow": "#fffafa", "ivory": "#fffff0"}
_NAMED = re.compile(rf"(?<![\w#-])(?:{'|'.join(_COLOURS)})(?![\w-])")

Colour = tuple[int, int, int]
Style = dict[str, str]


def may_hide(styles: list[str]) -> bool:
    """Whether there may be one among some styles, in small letters, that hides something: a quick look."""
    return _SUSPECT.search("\n".join(styles)) is not None or any(
        "overflow" in style and _NO_SIZE.search(style) for style in styles
    )


def declarations(style: str) -> Style:
    """The properties that an inline style sets, in small letters; of one set twice, the last."""
    return {
        name: value.partition("!")[0].strip() for name, value in _DECLARATION.findall(style.lower().replace("/**/", ""))
    }


def font_pixels(style: Style) -> float | None:
    """The size of the letters in pixels, of relative sizes as if 16 pixels were usual; None where it is not set."""
    size = style.get("font-size")
    if size is None and (font := _FONT_SIZE.search(style.get("font", "") + " ")):
        size = font[1]
    return _pixels(size)


def clipped(style: Style) -> bool:
    """Whether the element is cut away, off the screen, or left out of what is drawn."""
    get = style.get
    if get("content-visibility") == "hidden":
        return True
    if any(_OFF_SCREEN.match(get(side, "")) for side in ("left", "top", "right", "text-indent")):
        return True
    if get("clip", "").startswith("rect") and _nothing_left(get("clip", "")):
        return True
    shape, _, size = get("clip-path", "").partition("(")
    numbers = [float(number) for number in _NUMBERS.findall(size)]
    if shape == "inset" and len(numbers) == 1 and numbers[0] >= 50 and "%" in size:
        return True
    if (shape in ("circle", "ellipse") and numbers[:1] == [0.0]) or (
        shape == "polygon" and numbers and not any(numbers)
    ):
        return True
    return _no_room(style)


def may_appear(style: Style) -> bool:
    """Whether the element is transparent or shrunk to nothing, as long as no script or animation changes that."""
    opacity = _NUMBERS.match(style.get("opacity", ""))
    return (
        (opacity is not None and float(opacity[0]) <= 0.01)
        or re.match(r"opacity\(0*\.?0*%?\)", style.get("filter", "")) is not None
        or _SHRUNK.search(style.get("transform", "")) is not None
        or re.fullmatch(r"0*\.?0*", style.get("scale", "1")) is not None
    )


def is_animated(style: Style) -> bool:
    """Whether the style itself says that the element is going to change."""
    return any(
        name.startswith(("transition", "animation", "will-change")) and value not in _NO_ANIMATION
        for name, value in style.items()
    ) or ("opacity" in style and "translate" in style.get("transform", ""))


def text_colour(style: Style) -> Colour | None:
    """The colour of the letters, as far as it is known."""
    return colour(style.get("color", ""))


def transparent_text(style: Style) -> bool:
    """Whether the letters have no colour; not so where a background or a shadow shows in their shape."""
    value = style.get("color", "")
    if value != "transparent" and not (value.startswith("rgba(") and re.search(r",\s*0*\.?0*%?\s*\)\Z", value)):
        return False
    return "text-shadow" not in style and not any("clip" in name or "text" in style[name].split() for name in style)


def background_colour(style: Style) -> Colour | None:
    """The colour behind the letters, as far as it is known: not where there is a picture."""
    if "background-image" in style and style["background-image"] != "none":
        return None
    value = style.get("background-color") or style.get("background", "")
    return None if "url(" in value or "gradient" in value else colour(value)


def same(one: Colour, other: Colour) -> bool:
    """Whether no eye tells two colours apart."""
    return all(abs(a - b) <= _SAME_COLOUR for a, b in zip(one, other, strict=True))


def colour(value: str) -> Colour | None:
    """An opaque colour as red, green and blue of 255; None for any other, and for names that are not common."""
    value = value.strip().lower()
    if value[:1].isalpha() and (named := _NAMED.search(value)):
        value = _COLOURS[named[0]]
    if found := _HEX.search(value):
        digits = found[1]
        if len(digits) in (3, 4):
            digits = "".join(digit * 2 for digit in digits)
        if len(digits) == 6 or (len(digits) == 8 and digits.endswith("ff")):
            return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)
        return None
    if found := _RGB.search(value):
        numbers = [float(number) for number in _NUMBERS.findall(found[1])]
        if "%" not in found[1] and (len(numbers) == 3 or (len(numbers) == 4 and numbers[3] >= 1)):
            red, green, blue = (min(max(round(number), 0), 255) for number in numbers[:3])
            return red, green, blue
    return None


def _pixels(size: str | None) -> float | None:
    found = _LENGTH.fullmatch(size or "")
    if found is None or found[2] not in _PIXELS:
        return None
    return float(found[1]) * _PIXELS[found[2]]


def _nothing_left(rectangle: str) -> bool:
    """Whether `rect(top, right, bottom, left)` is at most a pixel wide or high."""
    sides = [float(number) for number in _NUMBERS.findall(rectangle)]
    return len(sides) == 4 and "auto" not in rectangle and (sides[2] - sides[0] <= 1 or sides[1] - sides[3] <= 1)


def _no_room(style: Style) -> bool:
    """Whether a box without height or width hides what is in it.

    Not so where padding makes room, as in boxes that keep a picture's shape.
    """
    if not any(style.get(name, "") in ("hidden", "clip") for name in ("overflow", "overflow-x", "overflow-y")):
        return False
    if any(name.startswith("padding") and any(map(float, _NUMBERS.findall(value))) for name, value in style.items()):
        return False
    for side in ("height", "width"):
        sizes = [size for name in (side, f"max-{side}") if (size := _pixels(style.get(name))) is not None]
        if sizes and min(sizes) <= 1 and f"min-{side}" not in style:
            return True
    return False
