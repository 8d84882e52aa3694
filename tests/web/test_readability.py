import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from webgpt_jax.web import readability
from webgpt_jax.web.markup import parse
from webgpt_jax.web.readability import Extractor, go_extractor, lxml_extractor

BASE = "http://site.test/dir/page.html"
PROSE = "Crows are clever birds, and some of them bring gifts to the people who feed them, day after day. " * 4
PAGE = f"""<html><head><title>Gifts from crows</title></head><body>
<div class="nav"><ul><li><a href="/">Home</a><li><a href="/about">About</a></ul></div>
<div class="article"><p>{PROSE}</p><p style="display:none">secret {PROSE}</p>
<p>{PROSE}<a href="more.html">More</a></p></div>
<div class="footer">Copyright, terms, cookies</div></body></html>"""


def _go() -> Extractor:
    pytest.importorskip("pygoreadability", reason="pygoreadability has no wheel for this machine")
    return go_extractor()


@pytest.mark.parametrize("make", [_go, lxml_extractor])
def test_main_content_is_kept_and_the_rest_is_not(make: Callable[[], Extractor]) -> None:
    article = make()(PAGE, BASE)
    assert article.title == "Gifts from crows"
    assert article.html.count("Crows are clever birds") == 8
    assert re.search(r'href="(http://site.test/dir/)?more.html"', article.html)
    for dropped in ("Home", "Copyright", "secret"):
        assert dropped not in article.html


@pytest.mark.parametrize("make", [_go, lxml_extractor])
@pytest.mark.parametrize(
    "html", ["", " ", "<html></html>", "<!-- -->", "\0", "<p>", "x", "<frameset><frame src=a></frameset>"]
)
def test_pages_without_content_raise_nothing(make: Callable[[], Extractor], html: str) -> None:
    article = make()(html, BASE)
    assert isinstance(article.title, str)
    assert isinstance(article.html, str)


@pytest.mark.parametrize("make", [_go, lxml_extractor])
def test_hidden_content_is_dropped(make: Callable[[], Extractor]) -> None:
    html = (
        f"<div><p>{PROSE}</p><p hidden>one</p><p aria-hidden=true>two</p><p style='visibility:hidden'>three</p></div>"
    )
    content = make()(html, BASE).html
    assert "Crows" in content
    assert not any(f">{word}<" in content for word in ("one", "two", "three"))


@pytest.mark.parametrize(
    "word",
    [
        "crow’s",  # the few curly quotes of an English page, which look like windows-1252
        "Кра\u0301ска",
        "e\u0301te\u0301",  # two characters for each letter, which stay two
        "hy\u00adphen",
        "烏鴉はカラス",
        "까마귀",
        "غراب",
        "😀",
        "\x1b$B%+%i%9\x1b(B",  # it stays no ISO-2022
    ],
)
@pytest.mark.parametrize("make", [_go, lxml_extractor])
def test_characters_stay_as_they_are(make: Callable[[], Extractor], word: str) -> None:
    root = parse(make()(PAGE.replace("gifts", word), BASE).html)
    assert root is not None
    assert "".join(root.itertext()).count(f"bring {word} to") == 8


@pytest.mark.parametrize("date", ["Nov 19 2019 03:05:46 GMT+0000", "yesterday", "2019-13-45", ""])
@pytest.mark.parametrize(
    "metadata",
    [
        '<meta property="article:published_time" content="DATE">',
        '<meta content="DATE" name="article:modified_time">',
        '<meta name="parsely-pub-date" content="DATE">',
        '<meta name="dcterms.created" content="DATE"><meta name="dcterms.modified" content="DATE">',
        '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "NewsArticle",'
        ' "headline": "Gifts from crows", "description": "<b>Crows</b>", "datePublished": "DATE",'
        ' "dateModified": "DATE"}</script>',
    ],
)
def test_dates_in_any_form_cost_no_content(metadata: str, date: str) -> None:
    article = _go()(PAGE.replace("</head>", metadata.replace("DATE", date) + "</head>"), BASE)
    assert article.title == "Gifts from crows"
    assert article.html.count("Crows are clever birds") == 8
    assert "Home" not in article.html


@pytest.mark.parametrize("error", [ImportError("no wheel"), OSError("wrong machine"), RuntimeError("no library")])
def test_fallback_where_the_library_cannot_be_loaded(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot_load() -> Extractor:
        raise error

    monkeypatch.setattr(readability, "go_extractor", cannot_load)
    readability._extractor.cache_clear()
    try:
        article = readability.main_content(PAGE, BASE)
    finally:
        readability._extractor.cache_clear()
    assert article.html.count("Crows are clever birds") == 8


def test_importing_loads_neither_library() -> None:
    program = (
        "import sys, webgpt_jax.web.convert\n"
        "print([name for name in ('pygoreadability', 'readability', 'pdfminer') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
