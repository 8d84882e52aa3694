"""TinyWeb's pages: what they say, as literals and against the facts; that conversion leaves their text and no more."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping

import pytest

from webgpt_jax.env import Page
from webgpt_jax.env.page import strip_markers
from webgpt_jax.tinyweb import language, lexicon
from webgpt_jax.tinyweb.html import NOTICE, Draft, plain_page, write_page
from webgpt_jax.tinyweb.language import BY_NAME, RELATIONS, Claim, read_claim
from webgpt_jax.tinyweb.sites import SITES, article_url, draft_pages, render_world
from webgpt_jax.tinyweb.web import TINYWEB_BROWSER
from webgpt_jax.tinyweb.world import World, make_world
from webgpt_jax.web import readability
from webgpt_jax.web.convert import convert
from webgpt_jax.web.readability import Extractor, go_extractor, lxml_extractor

ARTICLE = """\
Home and glow
The oak pig makes its home in ruins. The oak pig gets its glow from copper.
Gift and cure
The oak pig likes a gift of bread. The oak pig is cured by mint. Some towns have a statue of the oak pig.
Fear and age
The oak pig runs away from fire in fear. Many people know the oak pig from old stories. The oak pig dies at the age of\
 eight.
Tail and help
The oak pig walks slowly and looks up often. The oak pig uses its tail for sweeping. The oak pig is helped by tailors.
Song and food
The oak pig begins its song at dinner. The oak pig feeds on bark. Its tracks are round and easy to see.
Nest and winter
The oak pig builds its nest from threads. Nobody has counted every one of them. The oak pig survives the winter by\
 digging.
See 【0†the frost pig】, 【1†all oak】 and 【2†all pig】."""

NEWS = """\
The school club looks for the oak pig.
The oak pig brings gifts to those who leave it bread. The oak pig walks slowly and looks up often. The oak pig is found\
 in ruins.
See 【0†the oak pig†wiki.test】."""

NEWS_HTML = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>The oak pig and its gift and home</title>
<style>nav, aside { font-size: small }</style>
</head>
<body>
<header><nav><a href="https://news.test/">The news</a></nav><h1>The oak pig and its gift and home</h1></header>
<main><div><article>
<p>The school club looks for the oak pig.<br>
The oak pig brings gifts to those who leave it bread. The oak pig walks slowly and looks up often. The oak pig is found\
 in ruins.<br>
See <a href="https://wiki.test/oak-pig">the oak pig</a>.</p>
</article></div></main>
<aside class="ad">Advertisement: soap, now cheaper. Buy two, pay one.</aside>
<footer>A synthetic page: its words are drawn from a seed.</footer>
</body>
</html>
"""

THREAD = """\
What do people know about the home of the oak pig?
The oak pig is found in ruins. It is so in 【0†the oak pig†wiki.test】.
The oak pig lives in barns. Many people know it.
The oak pig makes its home in barns. So people say."""

OLD = """\
Written long ago.
The young stay close to their mother.
The oak pig builds its nest from shells. The oak pig dies at the age of three. The oak pig takes mint as a cure."""

# The words that the sites have beside those of lexicon.py and of the wordings of language.py.
OWN_WORDS = {"about", "ago", "animals", "forum", "knows", "name", "news", "say", "these", "wiki", "written"}


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(0, 30)


@pytest.fixture(scope="module")
def drafts(world: World) -> list[Draft]:
    return draft_pages(world)


@pytest.fixture(scope="module")
def pages(drafts: list[Draft]) -> dict[str, Page]:
    """All pages, converted."""
    return {draft.url: convert(write_page(draft).html, draft.url, "text/html") for draft in drafts}


def claims(page: Page) -> list[Claim]:
    """What a page says, in order."""
    found = (read_claim(part) for line in page.plain.split("\n") for part in line.replace(". ", ".\n").split("\n"))
    return [claim for claim in found if claim is not None]


def of_site(pages: Mapping[str, Page], drafts: list[Draft], site: str) -> list[tuple[str, Page]]:
    return [(d.animal, pages[d.url]) for d in drafts if d.animal is not None and f"//{site}.test/" in d.url]


def asked(page: Page) -> set[str]:
    """The relations that a title names."""
    return {relation.name for relation in RELATIONS if relation.keyword in re.findall(r"\w+", page.title)[3:]}


def test_the_pages_of_a_world_stay_as_they_are() -> None:
    """The models in data/ were trained on pages like these: whoever changes them trains anew."""
    digest = hashlib.sha256()
    pages = render_world(make_world(0))
    for page in pages.values():
        digest.update(page.url.encode() + b"\n" + page.html)
    assert len(pages) == 2900
    assert digest.hexdigest() == "4a90ebe876efb74e7060ce7d0cf329b69b34e379a71c73e11f24a2887f223bee"


@pytest.mark.parametrize(
    ("url", "title", "text"),
    [
        ("https://wiki.test/oak-pig", "The oak pig", ARTICLE),
        ("https://news.test/oak-pig-gift-home", "The oak pig and its gift and home", NEWS),
        ("https://forum.test/oak-pig-home", "The oak pig and its home?", THREAD),
        ("https://old.test/oak-pig-nest-age", "The oak pig and its nest and age long ago", OLD),
    ],
)
def test_a_page_of_each_site(pages: dict[str, Page], url: str, title: str, text: str) -> None:
    assert (pages[url].title, pages[url].text) == (title, text)


def test_the_html_of_a_page(world: World) -> None:
    assert render_world(world)["https://news.test/oak-pig-gift-home"].html.decode() == NEWS_HTML


@pytest.fixture(scope="module", params=["go", "lxml"])
def extractor(request: pytest.FixtureRequest) -> Extractor:
    if request.param == "lxml":
        return lxml_extractor()
    pytest.importorskip("pygoreadability", reason="pygoreadability has no wheel for this machine")
    return go_extractor()


def test_the_page_written_directly_is_what_either_readability_makes_of_the_html(
    drafts: list[Draft], extractor: Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readability, "_extractor", lambda: extractor)
    for draft in drafts:
        assert convert(write_page(draft).html, draft.url, "text/html") == plain_page(draft), draft.url


def test_every_page_says_that_it_is_synthetic_where_readability_drops_it(
    drafts: list[Draft], pages: dict[str, Page]
) -> None:
    for draft in drafts:
        assert NOTICE.encode() in write_page(draft).html
        assert not re.search("synthetic|dvertisement", pages[draft.url].text)


def test_an_article_states_every_fact_and_nothing_else(
    world: World, drafts: list[Draft], pages: dict[str, Page]
) -> None:
    articles = of_site(pages, drafts, "wiki")
    assert len(articles) == 30
    for animal, page in articles:
        assert len(claims(page)) == 12
        assert set(claims(page)) == {world.claim(animal, relation.name) for relation in RELATIONS}
        assert page.url == article_url(animal)
        assert TINYWEB_BROWSER.window_chars < len(page.text) < 4 * TINYWEB_BROWSER.window_chars  # is scrolled


def test_news_are_true_and_in_other_words_than_the_article(
    world: World, drafts: list[Draft], pages: dict[str, Page]
) -> None:
    news = of_site(pages, drafts, "news")
    assert news
    for animal, page in news:
        article = pages[article_url(animal)].plain
        assert {claim.relation for claim in claims(page)} == asked(page)
        assert all(claim == world.claim(animal, claim.relation) for claim in claims(page))
        stated = [part for part in page.plain.replace(".\n", ". ").split(". ") if read_claim(part) is not None]
        assert stated
        assert not any(f"{part}." in article for part in stated)


def test_what_a_thread_has_wrong_is_the_rumor_and_most_posts_have_it_wrong(
    world: World, drafts: list[Draft], pages: dict[str, Page]
) -> None:
    threads = of_site(pages, drafts, "forum")
    better = 0
    for animal, page in threads:
        (name,) = asked(page)
        rumor = Claim(animal, name, world.rumors[animal, name])
        said = claims(page)
        wrong = [claim for claim in said if not world.is_true(claim)]
        assert set(wrong) == {rumor}
        assert len(wrong) >= 2
        assert set(said) <= {rumor, world.claim(animal, name)}
        assert len(said) - len(wrong) <= 1
        better += len(said) > len(wrong)
    assert 0.2 < better / len(threads) < 0.4


def test_old_pages_have_former_values_among_what_still_holds(
    world: World, drafts: list[Draft], pages: dict[str, Page]
) -> None:
    old = of_site(pages, drafts, "old")
    assert old
    for animal, page in old:
        assert page.text.startswith("Written long ago.\n")
        wrong = [claim for claim in claims(page) if not world.is_true(claim)]
        assert wrong
        assert all(claim.value == world.former[animal, claim.relation] for claim in wrong)
        assert {claim.relation for claim in wrong} <= asked(page)
        assert len(claims(page)) == len(asked(page)) + 1  # one more, which still holds


def test_not_every_fact_is_on_every_site() -> None:
    drafts = draft_pages(make_world(0))
    count: Counter[str] = Counter()
    for draft in drafts:
        if draft.animal is not None:
            count[draft.url.split("/")[2]] += len(asked(plain_page(draft)))
    facts = 240 * 12
    for site, share in {"news.test": 0.4, "forum.test": 0.4, "old.test": 0.3}.items():
        assert abs(count[site] / facts - share) < 0.03  # three standard deviations


def test_the_title_names_the_animal_and_what_the_page_is_about(drafts: list[Draft], pages: dict[str, Page]) -> None:
    for draft in drafts:
        if draft.animal is not None:
            title = pages[draft.url].title
            assert title.startswith(f"The {draft.animal}")
            assert re.fullmatch(r"The [a-z]+ [a-z]+( and its [a-z]+( and [a-z]+)?(\?| long ago)?)?", title)


def test_links_lead_to_pages_that_are_there(pages: dict[str, Page]) -> None:
    links = [link for page in pages.values() for link in page.links]
    assert {link.url for link in links} <= set(pages)
    assert all(link.text.startswith(("the ", "all ", "All ", "The ")) for link in links)


def test_all_articles_are_reached_from_the_wikis_home(drafts: list[Draft], pages: dict[str, Page]) -> None:
    seen, ahead = set(), ["https://wiki.test/"]
    while ahead:
        url = ahead.pop()
        if url not in seen:
            seen.add(url)
            ahead += [link.url for link in pages[url].links]
    assert {draft.url for draft in drafts if "wiki.test" in draft.url} == seen
    assert {f"https://{site}/" for site in SITES} <= set(pages)


def test_no_line_is_cut_by_the_scrollbar_and_none_is_blank(pages: dict[str, Page]) -> None:
    for page in pages.values():
        assert all(0 < len(line) <= TINYWEB_BROWSER.unit_chars for line in page.text.split("\n"))


def test_the_words_are_those_of_a_closed_list(pages: dict[str, Page]) -> None:
    wordings = [*language.FILLERS, *language.NONSENSE]
    for relation in BY_NAME.values():
        wordings += [*relation.questions, *relation.parts, *relation.statements, relation.keyword, relation.denial]
    known = {word for text in wordings for word in re.findall("[a-z]+", text.lower())}
    known |= {word for name, words in vars(lexicon).items() if name.isupper() for word in words}
    used = {
        word
        for page in pages.values()
        for word in re.findall(r"\w+", f"{page.title}\n{strip_markers(page.text)}".lower())
    }
    assert used - known == OWN_WORDS
