"""What is seen in an observation, on windows written out."""

from __future__ import annotations

from webgpt_jax.env import ParsedObservation
from webgpt_jax.tinyweb.language import Claim
from webgpt_jax.tinyweb.windows import Asked, Sentence, ShownLink, best_link, read_window

FOOD = Asked("moss owl", "food")


def shown(title: str, text: str, first: int = 0) -> ParsedObservation:
    return ParsedObservation("Why?", (), (), title, (first, first + text.count("\n") + 1), text, 9)


def test_an_article() -> None:
    window = read_window(
        shown(
            "The moss owl (wiki.test)",
            "Food and home\nThe moss owl feeds on acorns. Some towns have a statue of the moss owl.\n"
            "See 【0†the moss crow】 and 【1†all moss】.",
            first=4,
        )
    )
    assert (window.title, window.domain, window.first, window.animal) == ("The moss owl", "wiki.test", 4, "moss owl")
    assert window.is_article
    assert window.is_trusted
    assert window.at_end
    assert not any([window.is_blank, window.is_results, window.is_error])
    assert window.sentences == (
        Sentence("Food and home", None),
        Sentence("The moss owl feeds on acorns.", Claim("moss owl", "food", "acorns")),
        Sentence("Some towns have a statue of the moss owl.", None),
        Sentence("See the moss crow and all moss.", None),
    )
    assert window.links == (ShownLink(0, "the moss crow", "wiki.test"), ShownLink(1, "all moss", "wiki.test"))
    assert window.links[0].is_article("moss crow")
    assert window.statement(FOOD) == 1
    assert window.statement(Asked("moss owl", "home")) is None
    assert window.statement(Asked("moss crow", "food")) is None


def test_the_beginning_of_an_article_is_not_its_end() -> None:
    assert not read_window(shown("The moss owl (wiki.test)", "Food\nThe moss owl feeds on acorns.")).at_end


def test_results() -> None:
    window = read_window(
        shown(
            "Search results for: moss owl food",
            "【0†The moss owl and its food?†forum.test】\nWho knows…\n【1†The moss owl†wiki.test】\nThe moss owl…\n"
            "【2†The moss owl and its age long ago†old.test】\n【3†All owl†wiki.test】",
        )
    )
    assert window.is_results
    assert (window.domain, window.animal) == ("", None)
    assert [link.domain for link in window.links] == ["forum.test", "wiki.test", "old.test", "wiki.test"]
    assert [link.animal for link in window.links] == ["moss owl", "moss owl", "moss owl", None]
    assert [link.promises(FOOD) for link in window.links] == [True, False, False, False]
    assert [link.is_article("moss owl") for link in window.links] == [False, True, False, False]


def test_the_best_link_is_the_article_or_trusted_news() -> None:
    links = [
        ShownLink(0, "The moss owl and its food?", "forum.test"),
        ShownLink(1, "The moss crow", "wiki.test"),
        ShownLink(2, "The moss owl and its food", "news.test"),
        ShownLink(3, "The moss owl", "wiki.test"),
    ]
    assert best_link(links, FOOD) == links[3]
    assert best_link(links[:3], FOOD) == links[2]
    assert best_link(links[:2], FOOD) is None


def test_other_pages() -> None:
    assert read_window(shown("", "")).is_blank
    assert read_window(shown("Error (wiki.test)", "Nothing.")).is_error
    thread = read_window(
        shown("The moss owl and its food? (forum.test)", "Who knows about it? The moss owl eats figs.")
    )
    assert (thread.title, thread.domain, thread.animal) == ("The moss owl and its food?", "forum.test", "moss owl")
    assert not any([thread.is_article, thread.is_trusted])
    assert [said.text for said in thread.sentences] == ["Who knows about it?", "The moss owl eats figs."]


def test_what_is_asked() -> None:
    assert Asked("moss owl", "song").query == "moss owl song"
    assert FOOD.is_stated_by(Claim("moss owl", "food", "figs"))
    assert not FOOD.is_stated_by(Claim("moss owl", "food", "figs", denied=True))
    assert not FOOD.is_stated_by(Claim("moss owl", "home", "caves"))
    assert not FOOD.is_stated_by(None)
