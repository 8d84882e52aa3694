"""Formulas, on literals that a reader verifies by eye. `m` spells MathML briefly: x^2 is m("msup", "x", "2")."""

import pytest

from webgpt_jax.env.page import PageWriter
from webgpt_jax.web.html import render
from webgpt_jax.web.markup import guard, parse
from webgpt_jax.web.mathml import linear


def m(tag: str, *children: str) -> str:
    return f"<{tag}>{''.join(token(child) for child in children)}</{tag}>"


def token(text: str) -> str:
    if text.startswith("<"):
        return text
    name = "mn" if text[0].isdigit() else "mi" if text.isalpha() and text not in "∑∏" else "mo"
    return f"<{name}>{text}</{name}>"


def row(text: str) -> str:
    """A row of symbols that blanks part."""
    return m("mrow", *text.split())


def line(*children: str) -> str | None:
    root = parse(guard(m("math", *children)))
    assert root is not None
    return linear(next(root.iter("math")))


HALF = m("mfrac", "1", "2")
SQUARE = m("msup", "x", "2")


@pytest.mark.parametrize(
    ("children", "text"),
    [
        # fractions
        ([HALF], "1/2"),
        ([m("mfrac", row("a + b"), "2")], "(a+b)/2"),
        ([m("mfrac", "1", row("2 a"))], "1/(2a)"),
        ([m("mfrac", row("( a + b )"), "2")], "(a+b)/2"),
        ([m("mfrac", row("( a ) + ( b )"), "2")], "((a)+(b))/2"),
        ([m("mfrac", HALF, "3")], "(1/2)/3"),
        ([m("mfrac", "1", m("mfrac", "2", "3"))], "1/(2/3)"),
        ([m("mfrac", SQUARE, m("msub", "y", "i"))], "x^2/y_i"),
        (["2", HALF], "2 1/2"),
        (["2", HALF, "cups"], "(2 1/2) cups"),
        (["x", "+", HALF, "=", "3"], "x+1/2=3"),
        ([HALF, "x"], "(1/2)x"),
        (["x", HALF], "x(1/2)"),
        (["a", "/", m("mfrac", "b", "c")], "a/(b/c)"),
        (["(", m("mfrac", "n", "k").replace("<mfrac", "<mfrac linethickness=0"), ")"], "(n choose k)"),
        # roots
        ([m("msqrt", "2")], "√2"),
        ([m("msqrt", "x", "+", "1")], "√(x+1)"),
        ([m("msqrt", "2"), "x"], "√2 x"),
        ([m("msqrt", HALF)], "√(1/2)"),
        ([m("mroot", "x", "3")], "√[3]x"),
        ([m("mroot", row("a b"), "n")], "√[n](ab)"),
        # scripts
        ([m("msup", "q", "3")], "q^3"),
        ([m("msubsup", "x", "i", "2")], "x_i^2"),
        ([m("msup", row("a + b"), "2")], "(a+b)^2"),
        (["(", "a", "+", "b", m("msup", ")", "2")], "(a+b)^2"),
        ([m("msup", row("( a + b )"), "2")], "(a+b)^2"),
        ([m("msup", SQUARE, "3")], "(x^2)^3"),
        ([m("msup", m("msub", "x", "i"), "2")], "x_i^2"),
        ([m("msup", m("msqrt", "2"), "2")], "(√2)^2"),
        ([m("msup", "<mn>-1</mn>", "2")], "(-1)^2"),
        ([m("msup", "e", m("mrow", "-", SQUARE))], "e^(-x^2)"),
        ([m("msup", "e", m("msup", "x", "2"))], "e^(x^2)"),
        ([m("msup", "x", HALF)], "x^(1/2)"),
        ([m("msub", "a", row("i j"))], "a_(ij)"),
        ([SQUARE, "y"], "x^2 y"),
        ([SQUARE, "3"], "x^2 3"),
        (["3", "×", m("msup", "10", row("- 4"))], "3×10^(-4)"),
        (["f", m("msup", "<mi></mi>", "′"), "(", "x", ")"], "f′(x)"),
        ([m("mmultiscripts", "C", "<mprescripts/>", "6", "14")], "_6^14 C"),
        ([m("mmultiscripts", "T", "i", "<none/>", "<none/>", "j")], "T_i^j"),
        ([m("msup", "x", "<mrow></mrow>")], "x"),
        # above and below
        ([m("munderover", "∑", row("i = 1"), "n"), m("msup", "i", "2")], "∑_(i=1)^n i^2"),
        ([m("munder", "lim", row("x → 0")), "f", "(", "x", ")"], "lim_(x→0) f(x)"),
        ([m("mover", "x", "¯"), "+", m("mover", "v", "→")], "x̄+v⃗"),
        ([m("mover", row("A B"), "→")], "(AB)^→"),
        # side by side
        (["sin", "<mo>\u2061</mo>", "x"], "sin x"),
        (["2", "sin", "x"], "2 sin x"),
        (["1", "2"], "1 2"),
        (["2", "x", "y"], "2xy"),
        (["<mtext>if </mtext>", "x"], "if x"),
        (["x", "<mspace width=1em></mspace>", "y"], "x y"),
        (["x", "<mphantom><mi>y</mi></mphantom>", "z"], "xz"),
        ([m("mfenced", "a", "b")], "(a,b)"),
        (
            ["<mfenced open='[' close=']' separators=';,'><mi>a</mi><mi>b</mi><mi>c</mi><mi>d</mi></mfenced>"],
            "[a;b,c,d]",
        ),
        (["x+1"], "x+1"),
        # tables
        (["A", "=", m("mtable", m("mtr", m("mtd", "1"), m("mtd", "2")), m("mtr", m("mtd", "3")))], "A=[1, 2; 3]"),
        (["(", m("mtable", m("mtr", m("mtd", "1"), m("mtd", "2")), m("mtr", m("mtd", "3"))), ")"], "(1, 2; 3)"),
        (
            [m("mtable", m("mtr", m("mtd", "a"), m("mtd", "=", "b")), m("mtr", "<mtd/>", m("mtd", "=", "c")))],
            "a =b; =c",
        ),
    ],
)
def test_formula(children: list[str], text: str) -> None:
    assert line(*children) == text


TEX = "<annotation encoding='application/x-tex'>{\\displaystyle x^{2}}</annotation>"


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        (f"<semantics>{SQUARE}{TEX}</semantics>", "x^2"),
        (f"<semantics><mrow>{SQUARE}</mrow>{TEX}</semantics>", "x^2"),
        (f"<semantics>{TEX}</semantics>", "x^{2}"),
        (f"<semantics><apply><power/><ci>x</ci><cn>2</cn></apply>{TEX}</semantics>", "x^{2}"),
        (
            "<semantics><apply><power/><ci>x</ci><cn>2</cn></apply><annotation-xml encoding='MathML-Presentation'>"
            f"{SQUARE}</annotation-xml></semantics>",
            "x^2",
        ),
        ("<apply><plus/><ci>a</ci></apply>", "a"),
        ("<mrow></mrow>", ""),
    ],
)
def test_annotations_are_not_said_twice(inside: str, text: str) -> None:
    assert line(inside) == text


def test_prefixed_elements() -> None:
    root = parse("<m:math><m:mfrac><m:mn>1</m:mn><m:mn>2</m:mn></m:mfrac></m:math>")
    assert root is not None
    assert linear(next(root.iter("m:math"))) == "1/2"


def test_what_is_no_formula_is_left_to_others() -> None:
    assert line("x", "<p>text</p>") is None
    assert line("x", "<a href=/x>link</a>") is None


def test_hidden_parts_are_left_out() -> None:
    assert line("x", "<mi style='display:none'>y</mi>") == "x"


@pytest.mark.parametrize("tag", ["mrow", "msqrt", "mfrac", "msup", "mtable", "mfenced"])
def test_deep_and_broken_formulas_break_nothing(tag: str) -> None:
    for inside in (f"<{tag}>" * 95 + "x", f"<{tag}><mi>x</mi>" * 5000, f"<{tag}></{tag}>" * 5000 + "x"):
        root = parse(guard(f"<math>{inside}"))
        assert root is not None
        assert "x" in render(root, "", PageWriter(""))
