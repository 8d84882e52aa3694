"""Which HTML elements are what: the facts that the guard and the serializer share."""

from __future__ import annotations


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


VOID = _names("area base basefont br col embed frame hr img input keygen link meta param source track wbr")

# What HTML 5's parsers open again in every block where it was left open; none of it shows in our text.
FORMATTING = _names("b big code em font i nobr s small strike strong tt u")

# Not shown to people, or not as text.
DROPPED = _names(
    "annotation annotation-xml applet audio canvas datalist head iframe link meta meter noscript object option progress"
    " rp script select style svg template title video"
)

# Blocks, and how many line ends part them from their neighbours: 2 leave a blank line.
BLOCKS = dict.fromkeys(
    _names(
        "address article aside body caption center dd details dialog dir div dt fieldset figcaption figure footer form"
        " frameset header hgroup html legend li main menu nav noframes optgroup search section summary tbody td"
        " textarea tfoot th thead tr"
    ),
    1,
) | dict.fromkeys(_names("blockquote dl h1 h2 h3 h4 h5 h6 hr listing ol p plaintext pre table ul xmp"), 2)

HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
LISTS = _names("dir menu ol ul")
VERBATIM = _names("listing plaintext pre textarea xmp")
CELLS = _names("td th")
# Side by side on the screen with what stands beside them, but not one word.
SPACED = _names("audio button canvas iframe input label meter object progress select svg video")

# A table row with one of these in a cell does not fit on a line.
BUSY = tuple(_names("blockquote dl h1 h2 h3 h4 h5 h6 ol pre table ul"))

# Elements that end when one of these begins; they add a few levels at most to each level of the others.
_SECTIONS = _names("tbody td tfoot th thead tr")
SELF_CLOSING = {
    "p": _names("p"),
    "li": _names("li"),
    "dt": _names("dd dt"),
    "dd": _names("dd dt"),
    "option": _names("option"),
    "optgroup": _names("optgroup option"),
    "td": CELLS,
    "th": CELLS,
    "tr": CELLS | {"tr"},
    "tbody": _SECTIONS,
    "thead": _SECTIONS,
    "tfoot": _SECTIONS,
    "rt": _names("rp rt"),
    "rp": _names("rp rt"),
}

# SVG, MathML, and those of their elements that hold no HTML, and do not send a parser back to HTML; then the few of
# MathML that do hold it.
FOREIGN_ROOTS = _names("math svg")
HOLD_HTML = _names("mi mn mo ms mtext")
FOREIGN = HOLD_HTML | _names(
    "circle clippath defs ellipse fegaussianblur feoffset filter g line lineargradient mask path pattern polygon"
    " polyline radialgradient rect stop symbol text tspan use menclose mfenced mfrac mmultiscripts mover mpadded"
    " mphantom mprescripts mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd mtr munder munderover none"
)

# What stands before the text of superscripts, subscripts, ruby texts and struck text, and what stands after it.
SCRIPTS = {"sup": "^", "sub": "_", "rt": "("} | dict.fromkeys(("del", "s", "strike"), "[deleted: ")
SCRIPT_ENDS = {"^": "", "_": "", "(": ")", "[deleted: ": "]"}
