"""What stands for images, on literals that a reader would agree with."""

import pytest

from webgpt_jax.env.page import PageWriter
from webgpt_jax.web.html import render
from webgpt_jax.web.images import MAX_ALT
from webgpt_jax.web.markup import parse

URL = "http://site.test/page.html"
HALIBUT = "Whole Foods touted a price cut on halibut"


def text_of(html: str) -> str:
    root = parse(html)
    assert root is not None
    writer = PageWriter(URL)
    return writer.page("", render(root, URL, writer)).plain


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<img src=x>", "[Image]"),
        ("<img src=x alt=''>", "[Image]"),
        ("<img src=x alt=' '>", "[Image]"),
        ("<img src=x alt='A cat on a mat'>", "[Image: A cat on a mat]"),
        ("<img src=x><img src=x>", "[Image][Image]"),
        ("<img src=x alt=cat><img src=x alt=cat>", "[Image: cat][Image: cat]"),
    ],
)
def test_images(html: str, text: str) -> None:
    assert text_of(html) == text


def test_formulas_are_never_repetitions() -> None:
    plus, minus = (
        rf"<img src=x aria-hidden=true alt='{{\displaystyle \alpha {sign} \beta =\gamma }}'>" for sign in "+-"
    )
    assert text_of(plus + minus + plus) == (
        r"[Image: {\displaystyle \alpha + \beta =\gamma }][Image: {\displaystyle \alpha - \beta =\gamma }]"
        r"[Image: {\displaystyle \alpha + \beta =\gamma }]"
    )


@pytest.mark.parametrize(
    "attributes",
    [
        "src=p width=1 height=1",
        "src=p width=0",
        "src=p height=1px alt=counter",
        "src=/i/spacer.gif",
        "src='http://a.test/x_blank.png?v=2' alt=''",
        "src=1x1.gif",
    ],
)
def test_what_nobody_sees_leaves_nothing(attributes: str) -> None:
    assert text_of(f"one <img {attributes}> two") == "one two"


def test_a_spacer_with_words_is_none() -> None:
    assert text_of("<img src=spacer.gif alt='Our new spacers'>") == "[Image: Our new spacers]"
    assert text_of("<img src=myspacer.gif> <img width=10 src=x>") == "[Image] [Image]"


@pytest.mark.parametrize(
    "alt",
    [
        "performance.jpg",
        "12-IMG_3886.JPG",
        "IMG_4228",
        "DSC01234",
        "0225-lupita-nyongo-getty-01",
        "update_graphic_red_bar",
        "https://cdn.site.test/a/b.webp?w=3",
    ],
)
def test_names_of_files_are_left_out(alt: str) -> None:
    assert text_of(f"<img src=x alt='{alt}'>") == "[Image]"


@pytest.mark.parametrize(
    "alt",
    [
        "COVID-19",
        "2020-01-05",
        "state-of-the-art",
        "mother-in-law-tongue",
        "x_1",
        "F-16",
        "logo",
        "Mozilla dinosaur head logo.png",
        "a.b.c",
        "烏鴉",
    ],
)
def test_words_that_look_a_little_like_names_of_files_stay(alt: str) -> None:
    assert text_of(f"<img src=x alt='{alt}'>") == f"[Image: {alt}]"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        # captions, in whatever elements they stand
        (
            f"<figure><div><img alt='{HALIBUT}.'></div><figcaption><b>{HALIBUT}</b> (AP)</figcaption></figure>",
            f"[Image]\n{HALIBUT} (AP)",
        ),
        ("<p><img alt='Attach moss.'></p>\n\n<p>Attach moss. (Lucy Akins)</p>", "[Image]\n\nAttach moss. (Lucy Akins)"),
        (f"<img alt='{HALIBUT}'><p>Seattle: {HALIBUT} in May", f"[Image]\n\nSeattle: {HALIBUT} in May"),
        (f"<p>{HALIBUT}</p><img alt='{HALIBUT}'>", f"{HALIBUT}\n\n[Image]"),
        ("<img alt='烏鴉送禮物給孩子'><p>圖：烏鴉送禮物給孩子", "[Image]\n\n圖：烏鴉送禮物給孩子"),
        # links and headings
        ("<a href=/><img alt='Home'> Home</a>", "[Image] Home"),
        ("<a href=/>Home <img alt='home'></a>", "Home [Image]"),
        ("<h2><img alt='Add-ons'></h2><h2>Add-ons</h2>", "## [Image]\n\n## Add-ons"),
        ("<h2>Metroid</h2><p><img alt='Metroid'> text", "## Metroid\n\n[Image] text"),
        # a template's words
        (f"<img alt='{HALIBUT}'><p>one</p><img alt='{HALIBUT}'>", f"[Image: {HALIBUT}]\n\none\n\n[Image]"),
        # markup, of which the words are left
        ("<img alt='A &lt;b&gt;cat&lt;/b&gt;&lt;br&gt;here'>", "[Image: A cat here]"),
        ("<img alt='&lt;span style=\"x\"&gt;&lt;/span&gt;'>", "[Image]"),
        ("<img alt='if a &lt; b and c &gt; d'>", "[Image: if a < b and c > d]"),
    ],
)
def test_what_is_said_beside_an_image_is_not_said_again(html: str, text: str) -> None:
    assert text_of(html) == text


@pytest.mark.parametrize(
    "html",
    [
        "<p>The vote was close.</p><img alt='vote'><p>Then came a vote.</p>",  # by accident
        "<p>cats</p><img alt='cat'><p>caterpillars</p>",
        "<table><tr><td><img alt='Yes'></td><td>Yes</td></table>",  # another cell's
        "<ul><li><img alt='One'><li>One</ul>",  # another item's
        f"<img alt='{HALIBUT} and cod'><p>{HALIBUT}</p>",  # it says more
        "<img alt='♥'><p>♥</p>",
    ],
)
def test_what_has_a_meaning_of_its_own_stays(html: str) -> None:
    assert "[Image: " in text_of(html)


def test_words_far_away_do_not_count() -> None:
    assert text_of(f"<img alt='{HALIBUT}'><p>{'x ' * 400}</p><p>{HALIBUT}</p>").startswith(f"[Image: {HALIBUT}]")


def test_long_texts_are_cut() -> None:
    text = text_of(f"<img alt='{'w' * 10_000}'>")
    assert text == f"[Image: {'w' * (MAX_ALT - 1)}…]"
