import random
import zlib

import pytest

from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.decode import decode

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
CHINESE = "网页的编码有时与声明不符，浏览器会自己判断。" * 5
JAPANESE = "文字コードの宣言は、しばしば間違っている。" * 5


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"\xef\xbb\xbfcaf\xc3\xa9", "text/html; charset=latin-1", "café"),
        ("﻿né".encode("utf-16-le"), None, "né"),
        ("﻿né".encode("utf-16-be"), None, "né"),
        ("﻿né".encode("utf-32-le"), None, "né"),
    ],
)
def test_byte_order_mark_outranks_all_else(body: bytes, content_type: str | None, text: str) -> None:
    assert decode(body, content_type) == text


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("utf-8", "utf-8", RUSSIAN),
        ("windows-1251", "cp1251", RUSSIAN),
        ("KOI8-R", "koi8-r", RUSSIAN),
        ("latin1", "cp1252", "“quoted” – it’s 5 €"),
        ("ISO-8859-1", "cp1252", "“quoted” – it’s 5 €"),
        ("us-ascii", "cp1252", "naïve"),
        ("gb2312", "gb18030", CHINESE + "镕㐀"),
        ("gbk", "gb18030", CHINESE + "㐀"),
        ("big5", "big5hkscs", "網頁的編碼"),
        ("shift_jis", "cp932", JAPANESE + "①髙"),
        ("euc-jp", "euc-jp", JAPANESE),
        ("iso-2022-jp", "iso2022-jp", JAPANESE),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
    ],
)
def test_labels_mean_what_browsers_take_them_for(label: str, codec: str, text: str) -> None:
    page = text.encode(codec)
    assert decode(page, f'text/html; charset="{label}"') == text
    meta = f"<meta charset={label}>"
    assert decode(meta.encode() + page, "text/html") == meta + text
    equiv = f"<META http-equiv='Content-Type' content='text/html; charset={label}'>"
    assert decode(equiv.encode() + page, None) == equiv + text
    xml = f"<?xml version='1.0' encoding='{label}'?>"
    assert decode(xml.encode() + page, "application/xml") == xml + text


def test_header_outranks_meta() -> None:
    page = b"<meta charset=koi8-r>" + RUSSIAN.encode("cp1251")
    assert RUSSIAN in decode(page, "text/html; charset=windows-1251")


def test_meta_in_a_comment_declares_nothing() -> None:
    page = b"<!-- <meta charset=koi8-r> -->" + RUSSIAN.encode("cp1251")
    assert RUSSIAN in decode(page, None)


@pytest.mark.parametrize("label", ["bogus", "utf-7", "rot13", "base64", "\x00", "é", "x" * 10_000, "x-user-defined"])
def test_unknown_charsets_are_passed_over(label: str) -> None:
    assert decode("né à l’été".encode(), f"text/html; charset={label}") == "né à l’été"
    page = f"<meta charset={label}>né à l’été"
    assert decode(page.encode(), None) == page


def test_declaration_that_does_not_fit_is_passed_over() -> None:
    text = "café naïve “quoted” €5 " * 20
    assert decode(text.encode("cp1252"), "text/html; charset=utf-8") == text
    assert decode(RUSSIAN.encode("cp1251"), "text/html; charset=utf-8") == RUSSIAN
    assert decode(CHINESE.encode(), "text/html; charset=iso-8859-1") == CHINESE
    assert decode(CHINESE.encode(), "text/html; charset=gbk") == CHINESE
    assert decode(b"<meta charset=utf-16>" + RUSSIAN.encode(), None).endswith(RUSSIAN)


def test_single_bad_byte_does_not_overturn_a_declaration() -> None:
    page = RUSSIAN.encode() + b"\xff" + RUSSIAN.encode()
    assert decode(page, "text/html; charset=utf-8") == RUSSIAN + "�" + RUSSIAN


@pytest.mark.parametrize("codec", ["utf-8", "cp1251", "gb18030", "euc-jp", "shift_jis", "iso2022-jp"])
def test_detection_without_any_declaration(codec: str) -> None:
    text = {"cp1251": RUSSIAN, "gb18030": CHINESE}.get(codec, JAPANESE)
    assert decode(text.encode(codec), None) == text


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16_is_known_by_its_nuls(codec: str) -> None:
    text = "<html><body><p>UTF-16 without a mark.</p></body></html>"
    assert decode(text.encode(codec), "text/html") == text
    assert decode(text.encode(codec), "text/html; charset=utf-8") == text


def test_page_cut_within_a_character() -> None:
    assert decode(RUSSIAN.encode()[:101], None) == RUSSIAN.encode()[:101].decode(errors="ignore")


def test_empty_body_is_empty_text() -> None:
    assert decode(b"", None) == ""


@pytest.mark.parametrize(
    "body",
    [
        random.Random(0).randbytes(5000),
        zlib.compress(random.Random(1).randbytes(5000)),
        b"\x00" * 1000,
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01\x00" + random.Random(2).randbytes(1000),
    ],
)
@pytest.mark.parametrize("content_type", [None, "text/html", "text/html; charset=utf-8"])
def test_what_is_no_text_says_so(body: bytes, content_type: str | None) -> None:
    with pytest.raises(WebError, match="could not be decoded") as raised:
        decode(body, content_type)
    assert raised.value.kind == "undecodable"
