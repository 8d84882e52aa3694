import random
import zlib

import pytest

from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.decode import decode

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
CHINESE = "网页的编码有时与声明不符，浏览器会自己判断。" * 5
KOREAN = "웹 페이지의 인코딩은 선언과 다를 수 있으며, 브라우저가 스스로 판단합니다. " * 5
THAI = "การเข้ารหัสของหน้าเว็บอาจไม่ตรงกับที่ประกาศไว้ " * 5
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
        ("cp949", "cp949", KOREAN),
        ("iso-2022-kr", "iso2022_kr", KOREAN),
        ("hz-gb-2312", "hz", "网页的编码 ~ x"),
        ("x-mac-cyrillic", "mac_cyrillic", RUSSIAN),
        ("tis-620", "cp874", THAI),
        ("macintosh", "mac_roman", "naïve “quoted”"),
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


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("utf-8", JAPANESE),
        ("cp1251", RUSSIAN),
        ("koi8-r", RUSSIAN),
        ("gb18030", CHINESE),
        ("hz", CHINESE),
        ("big5", "網頁的編碼有時與聲明不符，瀏覽器會自己判斷。" * 5),
        ("euc-jp", JAPANESE),
        ("shift_jis", JAPANESE),
        ("iso2022-jp", JAPANESE),
        ("euc-kr", KOREAN),
        ("cp949", "똠방각하 " + KOREAN),
        ("iso2022-kr", KOREAN),
        ("cp874", THAI),
        ("cp1252", "Où est l’été? Là-bas, à côté du château où naît le naïf aîné, déjà âgé."),
        ("cp1252", "Größe, Straße, über Öl, äußerst schöne Füße; ÄÖÜ"),
        ("cp1254", "Pijamalı hasta yağız şoföre çabucak güvendi. " * 3),
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy. " * 3),
    ],
)
def test_detection_without_any_declaration(codec: str, text: str) -> None:
    for page in (text, f"<html><body><p>{text}</p></body></html>"):
        assert decode(page.encode(codec), None) == page
        assert decode(page.encode(codec), "text/html; charset=bogus") == page


@pytest.mark.parametrize("text", ['(format t "~{~a~^, ~}" items)', "~{ab~}", "a ~{0000 ~} b", "~~{00001111~} and ~x"])
def test_what_looks_a_little_like_hz_is_ascii(text: str) -> None:
    assert decode(text.encode(), None) == text


@pytest.mark.parametrize(
    "header",
    [
        "text/html; charset=koi8-r, text/html; charset=koi8-r",
        "text/html; charset=none; charset=koi8-r",
        "text/html;; CHARSET = 'koi8-r' ;x",
        "text/html charset=koi8-r",
    ],
)
def test_odd_headers_declare_too(header: str) -> None:
    assert decode(RUSSIAN.encode("koi8-r"), header) == RUSSIAN


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
