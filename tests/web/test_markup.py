import contextlib

import pytest
from lxml import etree

from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.markup import MAX_TAGS, base_url, guard, parse, title_of


def depth(html: str) -> int:
    root = parse(html)
    assert root is not None
    return max(sum(1 for _ in element.iterancestors()) for element in root.iter())


def words(html: str) -> list[str]:
    root = parse(html)
    assert root is not None
    return " ".join(root.itertext()).split()


def test_ordinary_page_is_left_as_it_is() -> None:
    page = "<!doctype html><title>T</title><!-- <b> --><script>if (a<b) {}</script><p>one<p>two <b>three</b><br>four"
    assert guard(page) == page


def test_unclosed_paragraphs_and_items_are_not_deep() -> None:
    page = "<ul>" + "<li><p>item" * 5000 + "</ul>" + "<table>" + "<tr><td>cell" * 5000 + "</table>"
    assert guard(page) == page


def test_tags_in_comments_scripts_and_attributes_are_no_tags() -> None:
    for around in ("<!-- {} -->", "<script>{}</script>", "<style>{}</style>", '<i title="{}">', "<i title='{}'>"):
        page = "<p>text</p>" + around.format("<div>" * 90) * 2
        assert guard(page) == page


def test_closing_tags_in_comments_and_attributes_do_not_hide_depth() -> None:
    for hidden in ("<!--</div>-->", "<i title='></div>'></i>", "<script></div></script>", "<!--></b>"):
        flat = guard(f"<div>{hidden}word " * 1000)
        assert depth(flat) < 250
        assert words(flat).count("word") == 1000


@pytest.mark.parametrize(
    "tag", ["div", "span", "b", "font", "a href=x", "table><tr><td", "blockquote", "ul><li", "svg"]
)
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_is_flattened_and_its_words_kept(tag: str, closed: bool) -> None:
    ends = "".join(f"</{name.split()[0]}>" for name in reversed(tag.split("><")))
    page = "<p>first</p>" + f"<{tag}>word " * 3000 + (ends * 3000 if closed else "") + "<p>last</p>"
    flat = guard(page)
    assert depth(flat) < 250
    assert words(flat).count("word") == 3000
    assert words(flat)[0] == "first"
    assert words(flat)[-1] == "last"


def test_flattening_keeps_links_and_structure_near_the_root() -> None:
    flat = guard("<h1>Head</h1><p>a <a href='/x'>link</a></p>" + "<div>" * 2000 + "<p>deep</p><a href='/y'>other</a>")
    root = parse(flat)
    assert root is not None
    assert [link.get("href") for link in root.iter("a")] == ["/x", "/y"]
    assert root.findtext(".//h1") == "Head"
    assert "deep" in words(flat)


def test_blocks_left_out_do_not_join_words() -> None:
    assert words(guard("<div>" * 2000 + "<div>one</div><div>two</div>"))[-2:] == ["one", "two"]


def test_formatting_left_open_is_not_reopened_in_every_paragraph() -> None:
    page = "".join(f"<font color={n}>" for n in range(90)) + "<p>word" * 20_000
    flat = guard(page)
    root = parse(flat)
    assert root is not None
    assert sum(1 for _ in root.iter()) < 30_000
    assert words(flat) == ["word"] * 20_000


@pytest.mark.parametrize(
    "piece",
    [
        "<svg viewBox='0 0 9 9'><g><path d='M0 0'/><circle r=1 /></g></svg>",
        "<math><mi>x</mi><mspace/><mrow><mo>+</mo><mi/></mrow></math>",
    ],
)
def test_icons_and_formulas_are_not_deep(piece: str) -> None:
    page = f"<p><b>word</b> {piece}</p>" * 2000
    assert guard(page) == page
    deep = guard("<div>" * 300 + page)
    assert words(deep).count("word") == 2000
    assert deep.count("</p>") == page.count("</p>") or depth(deep) < 250


@pytest.mark.parametrize(
    "start",
    [
        "",
        "<svg></svg>",
        "<svg/>",
        "<svg><p>",
        "<svg></p>",
        "<svg><desc>",
        "<svg><foreignObject>",
        "<math><mi>",
        "<math><mtext></mi>",
        "<math><annotation-xml encoding=text/html>",
        "<svg></svg><math></math>",
    ],
)
def test_slash_that_closes_nothing_hides_no_depth(start: str) -> None:
    page = start + "<path/>" * 1000 + "<p>word"
    assert guard(page) != page


def test_svg_titles_cannot_smuggle_depth() -> None:
    # In SVG, to HTML 5's parsers, the content of a title is markup.
    flat = guard("<p>text</p><svg><title>" + "<div>" * 5000)
    assert "<svg" not in flat
    assert depth(flat) < 250


def test_long_scripts_are_dropped_but_not_json() -> None:
    script, data = "x<b;" * 1000, '{"headline": "' + "H" * 1000 + '"}'
    page = (
        f"<script>{script}</script><p>text</p><script type='application/ld+json'>{data}</script><style>{script}</style>"
    )
    assert (
        guard(page) == f"<script></script><p>text</p><script type='application/ld+json'>{data}</script><style></style>"
    )


def test_too_many_tags() -> None:
    assert guard("<br>" * (MAX_TAGS - 1)).count("<") == MAX_TAGS - 1
    with pytest.raises(WebError, match="more than 200,000 tags") as raised:
        guard("<br>" * (MAX_TAGS + 1))
    assert raised.value.kind == "too_complex"


@pytest.mark.parametrize(
    "piece",
    ["<", "<a ", '<a x="', "<a x='", "<!--", "<script>", "<title>", "<a =", "<base ", "&amp;", "</", "<![CDATA["],
)
def test_floods_take_time_in_proportion(piece: str) -> None:
    # Anything quadratic in these two megabytes would run into the suite's time limit.
    page = piece * (2_000_000 // len(piece))
    base_url(page, "http://a.test/")
    title_of(page)
    with contextlib.suppress(WebError):
        guard(page)


@pytest.mark.parametrize(
    ("tag", "base"),
    [
        ("<base href='/dir/'>", "http://a.test/dir/"),
        ('<BASE target=x HREF = "http://b.test/?a=1&amp;b=2">', "http://b.test/?a=1&b=2"),
        ("<base href=sub/>", "http://a.test/x/sub/"),
        ("<base target=_top>", "http://a.test/x/y"),
        ("<base href='javascript:alert(1)'>", "http://a.test/x/y"),
        ("<base href='http://[::1'>", "http://a.test/x/y"),
        ("", "http://a.test/x/y"),
    ],
)
def test_base_url(tag: str, base: str) -> None:
    assert base_url(f"<html><head>{tag}</head>", "http://a.test/x/y") == base


def test_title() -> None:
    assert title_of("<TITLE lang=en>\n A &amp; B\u2028 </TITLE>") == "A & B"
    assert title_of("<p>no title</p>") == ""


def test_parse_gives_nothing_for_nothing() -> None:
    assert parse("") is None
    assert parse("<!-- only a comment -->") is None
    root = parse("nul \0 lone \ud800 surrogate <p>text")
    assert isinstance(root, etree._Element)
    assert words("nul\0 <p>text") == ["nul", "text"]
