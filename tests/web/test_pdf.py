import logging

import pytest
from pdf_files import FAN_OUT, NAMELESS_FONT, encrypted_pdf, lines, link, pdf, text

from webgpt_jax.env.page import Link
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web import pdf as module
from webgpt_jax.web.pdf import pdf_to_page

URL = "http://a.test/papers/On_Crows.pdf"
HELLO = text(72, 700, "Crows bring gifts.")


def error(body: bytes) -> tuple[str, str]:
    with pytest.raises(WebError) as caught:
        pdf_to_page(body, URL)
    return caught.value.kind, caught.value.message


# ---- text


def test_text_title_domain_and_url() -> None:
    page = pdf_to_page(pdf(HELLO, info=b"/Title(A Study of Crows)"), URL)
    assert (page.title, page.domain, page.url, page.text) == ("A Study of Crows", "a.test", URL, "Crows bring gifts.")
    assert (page.links, page.error) == ((), None)


def test_lines_are_joined_to_paragraphs_and_pages_to_a_text() -> None:
    first = lines(72, 700, "Crows are known to bring gifts to those who feed", "them, and they remem-", "ber faces.")
    second = lines(72, 700, "So do North-", "American jays.")
    assert pdf_to_page(pdf(first, second), URL).text == (
        "Crows are known to bring gifts to those who feed them, and they remember faces.\nSo do North- American jays."
    )


def test_two_columns_are_read_one_after_the_other() -> None:
    sheet = text(72, 740, "A title that is as wide as both of the columns together, and more than that")
    for x, name in ((72, "left"), (320, "right")):
        for y in (700, 600):
            sheet += lines(
                x, y, f"The {name} column at {y}, line one,", "which goes on in line two and", "ends in three."
            )
    assert [line.split(",")[0] for line in pdf_to_page(pdf(sheet), URL).text.split("\n")] == [
        "A title that is as wide as both of the columns together",
        "The left column at 700",
        "The left column at 600",
        "The right column at 700",
        "The right column at 600",
    ]


def test_text_inside_forms_is_read() -> None:
    assert pdf_to_page(pdf(b"/X1 Do", forms={b"X1": HELLO}), URL).text == "Crows bring gifts."


def test_ligatures_are_letters_and_leaders_are_short() -> None:
    cmap = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding<</Differences[65/fi/ffl]>>>>"
    assert pdf_to_page(pdf(text(72, 700, "A B"), font=cmap), URL).text == "fi ffl"
    assert pdf_to_page(pdf(text(72, 700, "Crows . . . . . . . . . . . . . . . . 12")), URL).text == "Crows … 12"


def test_no_text_acts_as_ours() -> None:
    sheet = text(72, 700, "\u2020 and 0") + text(72, 600, "see")
    page = pdf_to_page(pdf(sheet, info=b"/Title<FEFF3010003020203011>", annotations=[]), URL)
    assert (page.title, page.text) == ("〖0‡〗", "‡ and 0\nsee")


# ---- links


def test_web_links_are_marked_where_they_stand() -> None:
    sheet = text(72, 700, "See the site of crows now.") + text(72, 650, "And here.")
    annotations = [
        link("http://Crows.test/x", 72 + 22.7, 698, 72 + 103.5, 712),  # over "the site of crow"
        link("more.html", 72, 648, 300, 662),
        link("mailto:crow@crows.test", 72, 698, 300, 712),
        link("http://nothing-here.test/", 400, 100, 500, 120),
    ]
    page = pdf_to_page(pdf(sheet, annotations=annotations), URL)
    assert page.text == "See 【0†the site of crow†crows.test】s now.\n【1†And here.】"
    assert page.links == (
        Link(0, "the site of crow", "http://Crows.test/x", "crows.test"),
        Link(1, "And here.", "http://a.test/papers/more.html", "a.test"),
    )


@pytest.mark.parametrize(
    "annotation",
    [b"null", b"<<>>", b"<</Rect[1 2]/A<</URI(http://b.test/)>>>>", b"<</Rect[/a 1 2 3]/A 7>>", b"[1 2]", b"99 0 R"],
)
def test_damaged_annotations_are_passed_over(annotation: bytes) -> None:
    assert pdf_to_page(pdf(HELLO, annotations=[annotation]), URL).text == "Crows bring gifts."


# ---- titles


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        (b"(Microsoft Word - On crows and their gifts)", "On crows and their gifts"),
        (b"<FEFF6F22>", "漢"),
        (b"(\xef\xbb\xbf\xe6\xbc\xa2)", "漢"),
        (b"(two\nlines)", "two lines"),
        (b"()", "On Crows"),
        (b"( - )", "On Crows"),
        (b"(untitled)", "On Crows"),
        (b"(Microsoft Word - draft_v2.DOC)", "On Crows"),
        (b"(paper.dvi)", "On Crows"),
        (b"(PowerPoint Presentation)", "On Crows"),
        (b"(Slide 1)", "On Crows"),
        (b"(" + b"long " * 100 + b")", "On Crows"),
        (b"42", "On Crows"),
        (b"99 0 R", "On Crows"),
    ],
)
def test_a_title_that_is_none_gives_way_to_the_files_name(title: bytes, shown: str) -> None:
    assert pdf_to_page(pdf(HELLO, info=b"/Title " + title), URL).title == shown


@pytest.mark.parametrize(
    ("url", "title"),
    [
        ("http://a.test/", "a.test"),
        ("http://a.test/get?file=x.pdf", "get"),
        ("http://a.test/a%20b%2Fc.PDF", "c"),
        ("http://a.test/x/%E3%80%90.pdf/", "〖"),
        ("http://a.test/pdf/1706.03762", "1706.03762"),
    ],
)
def test_titles_from_urls(url: str, title: str) -> None:
    assert pdf_to_page(pdf(HELLO), url).title == title


# ---- what cannot be read


def test_a_password_is_asked_for() -> None:
    kind, message = error(encrypted_pdf(HELLO, b"secret"))
    assert kind == "encrypted"
    assert "needs a password" in message


def test_an_owners_password_keeps_nobody_from_reading() -> None:
    assert pdf_to_page(encrypted_pdf(HELLO), URL).text == "Crows bring gifts."


def test_unknown_encryption() -> None:
    kind, message = error(pdf(HELLO, encrypt=b"<</Filter/Adobe.PubSec/V 4>>"))
    assert kind == "encrypted"
    assert "unknown way" in message


def test_a_table_that_refers_to_itself() -> None:
    kind, message = error(pdf(HELLO, trailer=b"/Prev {xref}"))
    assert kind == "broken"
    assert "circle" in message


@pytest.mark.parametrize("body", [b"", b"%PDF-1.7", b"\0" * 1000, b"<html>Not found</html>", pdf(HELLO)[:100]])
def test_what_is_no_pdf(body: bytes) -> None:
    kind, message = error(body)
    assert kind == "broken"
    assert "damaged or is no PDF" in message


def test_a_file_without_its_table_is_read_all_the_same() -> None:
    whole = pdf(HELLO)
    assert pdf_to_page(whole[: whole.index(b"xref")] + b"trailer\n<</Root 1 0 R>>\n", URL).text == "Crows bring gifts."


@pytest.mark.parametrize("sheet", [b"", b"0 0 100 100 re f", text(72, 700, "   ")])
def test_a_scan_has_no_text(sheet: bytes) -> None:
    kind, message = error(pdf(sheet))
    assert kind == "no_text"
    assert "no text" in message


def test_a_file_without_pages_has_no_text() -> None:
    assert error(pdf())[0] == "no_text"


def test_fonts_that_name_no_letters() -> None:
    kind, message = error(pdf(text(72, 700, '!"#$%&'), font=NAMELESS_FONT))
    assert kind == "no_text"
    assert "fonts" in message


# ---- damage and limits inside a document

DAMAGED = b"BT /F1 12 Tf (" + b"x" * 10 + b") Tj ET /X0 Do"
BAD_STREAM = b"<</Filter/NoSuchFilter/Length 4>>stream\nabcd\nendstream"


def test_a_damaged_page_is_left_out_and_said_so() -> None:
    page = pdf_to_page(pdf(HELLO, BAD_STREAM, text(72, 700, "The end.")), URL)
    assert page.text == "Crows bring gifts.\nThe end.\n[Parts of this document are not shown: they are damaged.]"


def test_damaged_pages_only() -> None:
    kind, message = error(pdf(BAD_STREAM))
    assert kind == "broken"
    assert "pages are damaged" in message


def test_too_many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAGES", 2)
    sheets = [text(72, 700, f"Page {number}.") for number in range(3)]
    assert pdf_to_page(pdf(*sheets), URL).text == (
        "Page 0.\nPage 1.\n[The rest of this document is not shown: it is too long.]"
    )
    assert pdf_to_page(pdf(*sheets[:2]), URL).text == "Page 0.\nPage 1."


def test_too_much_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHARS", 10)
    assert pdf_to_page(pdf(HELLO, HELLO), URL).text == (
        "Crows brin\n[The rest of this document is not shown: it is too long.]"
    )
    assert pdf_to_page(pdf(HELLO), URL).text == "Crows brin\n[The rest of this document is not shown: it is too long.]"


def test_time_that_runs_out_in_the_middle_of_a_page_keeps_the_pages_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SECONDS", 0.5)
    assert pdf_to_page(pdf(HELLO, b"/X0 Do", HELLO, forms=FAN_OUT), URL).text == (
        "Crows bring gifts.\n[The rest of this document is not shown: reading it would take too long.]"
    )


def test_time_that_runs_out_on_the_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SECONDS", 0.2)
    assert error(pdf(b"/X0 Do", forms=FAN_OUT))[0] == "timeout"


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        pdf_to_page(pdf(HELLO, BAD_STREAM, DAMAGED), URL)
    assert caplog.text == ""


def test_no_damage_brings_the_reader_down() -> None:
    """A byte changed here and there: a page or a clear error, nothing else."""
    body = pdf(
        HELLO, b"/X1 Do", info=b"/Title(Crows)", annotations=[link("http://b.test/", 0, 0, 9, 9)], forms={b"X1": HELLO}
    )
    for place in range(0, len(body), 5):
        for byte in b"\0/":
            try:
                pdf_to_page(body[:place] + bytes([byte]) + body[place + 1 :], URL)
            except WebError as caught:
                assert caught.kind in ("broken", "no_text", "encrypted")  # noqa: PT017 - most of them raise nothing
