"""The page of episodes: what it shows, that all text in it is data, that it needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
from lxml import etree, html

from webgpt_jax.env import Action, Episode, EpisodeEnd, Quote, Step
from webgpt_jax.feedback import Figure, PageContents, QuestionSection, Shown, render_page, write_page
from webgpt_jax.feedback.sources import leads_out

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
EVIL = (
    '</title></style></pre><script>alert(1)</script>" onmouseover="alert(2) \' &amp; <img src=http://evil.test/x.png>'
    "<!-- ]]> \u202egnp.exe \u200bx\x00\x1b[31m\ud800"
)
OBSERVATION = "♦Question\nWhy?\n\n♦Text\n【0†Crows†crows.org】\n\n♦Next action\n"
WHAT_LOADS = {"script", "link", "iframe", "object", "embed", "form", "base", "audio", "video", "svg", "template"}


def quote(text: str, url: str = "https://crows.org/gifts?a=1&b=2", title: str = "Crows") -> Quote:
    return Quote(text, title, "crows.org", url, 0, len(text))


def episode(
    answer: str | None = "Crows bring gifts [1]. They are black.",
    quotes: tuple[Quote, ...] = (quote("Crows bring gifts."), quote("Crows caw.")),
    actions: tuple[str, ...] = ("Search crows", "Fly away", "End: Answer"),
    end: EpisodeEnd = EpisodeEnd.ANSWER,
    error: str | None = None,
) -> Episode:
    steps = tuple(Step(OBSERVATION, Action(action)) for action in actions)
    said = None if answer is None else Action(answer)
    return Episode("Why?", steps, quotes, end, "Why?■\n", said, error, "A reference.", {"policy": "tiny"})


def page(*answers: Shown, question: str = "Why?") -> html.HtmlElement:
    return parsed(render_page(PageContents("Answers", sections=[QuestionSection(question, answers)])))


def parsed(text: str) -> html.HtmlElement:
    return html.document_fromstring(text.encode("utf-8"))


def words(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def assert_sound(text: str) -> html.HtmlElement:
    """Well-formed as XML, ids unique, every jump has its aim, and nothing is loaded or run."""
    body = re.sub(r"<(meta|img)([^>]*)>", r"<\1\2/>", text.removeprefix("<!DOCTYPE html>\n"))
    etree.fromstring(body.encode("utf-8"))  # raises where an element is left open or an attribute breaks out
    root = parsed(text)
    ids = root.xpath("//@id")
    assert len(ids) == len(set(ids))
    for element in root.iter():
        assert element.tag not in WHAT_LOADS
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert name not in ("style", "srcset", "action", "background")
            if name == "src":
                assert value.startswith("data:image/png;base64,")
            if name == "href" and value.startswith("#"):
                assert value[1:] in ids, f"{value} leads nowhere"
            elif name == "href":
                assert re.match(r"https?://[a-z]", value)
                assert element.get("rel") == "noreferrer noopener"
        for name in ("aria-labelledby",):
            assert element.get(name) is None or element.get(name) in ids
    return root


def full() -> PageContents:
    evil = Shown(
        episode(EVIL + " [1]. [2]", (quote(EVIL, "javascript:alert(1)", EVIL), quote(EVIL, EVIL)), (EVIL, "Top")),
        EVIL,
        note=EVIL,
        score=float("nan"),
    )
    return PageContents(
        EVIL,
        EVIL,
        [(EVIL, EVIL), ("questions", "2")],
        [Figure(EVIL, PNG, EVIL)],
        [QuestionSection("Why?", [Shown(episode(), "A"), Shown(episode(), "B")]), QuestionSection(EVIL, [evil])],
    )


def test_a_page_with_hostile_text_everywhere_is_sound() -> None:
    text = render_page(full())
    root = assert_sound(text)
    assert "<script>alert(1)</script>" in words(root)  # shown as text
    assert not set("\u202e\u200b\x00\x1b\ud800") & set(text)
    assert len(root.xpath("//title")) == len(root.xpath("//style")) == 1
    for element in root.xpath("//section[2]//li//a[@target]"):
        assert not element.get("href").startswith("javascript")


def test_the_policy_allows_its_own_style_and_nothing_else() -> None:
    root = parsed(render_page(full()))
    (policy,) = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    (style,) = root.xpath("//style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"url\(|@import|@font-face", style.text)
    assert root.xpath("//meta[@name='referrer']/@content") == ["no-referrer"]


def test_citations_jump_to_the_quotes_of_their_own_answer() -> None:
    answers = [Shown(episode("Two [2], both [1, 2]."), label) for label in "AB"]
    root = page(*answers)
    for number, card in enumerate(root.xpath("//article"), start=1):
        links = card.xpath(".//*[@class='answer']//a")
        assert [(link.text, link.get("href")) for link in links] == [
            ("[2]", f"#q1a{number}-quote2"),
            ("1", f"#q1a{number}-quote1"),
            ("2", f"#q1a{number}-quote2"),
        ]
        aimed = card.xpath(f".//*[@id='q1a{number}-quote2']//blockquote")
        assert [words(found) for found in aimed] == ["Crows caw."]
        assert words(card.xpath(".//*[@class='answer']")[0]) == "Two [2], both [1, 2]."


def test_bare_sentences_dead_citations_and_unused_quotes_are_marked() -> None:
    root = page(Shown(episode("Crows bring gifts [1]. They are black. So it is [7]!\n\n1. Truly"), "A"))
    assert [words(mark) for mark in root.xpath("//mark")] == ["They are black.", "So it is [7]!", "Truly"]
    assert [dead.text for dead in root.xpath("//*[@class='dead']")] == ["[7]"]
    assert [words(item) for item in root.xpath("//ol[@class='quotes']/li[.//*[text()='never cited']]/blockquote")] == [
        "Crows caw."
    ]
    (remark,) = root.xpath("//article/p[@class='dim']")
    assert words(remark) == (
        "3 of 4 sentences without a citation (underlined). Cited, but no quote: [7]. 1 of 2 quotes never cited: [2]."
    )


def test_an_answer_that_cites_well_has_no_mark() -> None:
    root = page(Shown(episode("Crows bring gifts [1]. They caw [2]."), "A"))
    assert root.xpath("//mark | //article/p") == []
    assert "never cited" not in words(root)


def test_the_trace_shows_each_observation_and_action() -> None:
    root = page(Shown(episode(), "A"))
    (trace,) = root.xpath("//details[@class='trace']")
    assert words(trace[0]) == "Browsing: 3 actions, 1 invalid; ended to answer"
    lines = trace.xpath("./ol/li/details")
    assert [words(line[0]) for line in lines] == ["1. Search crows", "2. Fly awayinvalid", "3. End: Answer"]
    assert [line.xpath("./pre")[0].text for line in lines] == [OBSERVATION] * 3
    assert [words(found) for found in trace.xpath("./details/pre")] == ["Why?■", "A reference."]
    assert "policy: tiny" in words(trace)


def test_hidden_characters_of_an_action_are_shown() -> None:
    root = page(Shown(episode(actions=("Top\u200b", "Quote: a━b", "")), "A"))
    assert [words(line) for line in root.xpath("//details[@class='trace']/ol/li/details/summary")] == [
        "1. Top‹U+200B›invalid",
        "2. Quote: a━b",
        "3. (nothing)invalid",
    ]


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (episode(None, (), end=EpisodeEnd.NO_REFERENCES), "Browsing ended to answer, but nothing was quoted."),
        (episode(None, end=EpisodeEnd.FAILURE, error="no such page"), "It failed: no such page"),
        (episode(" \u200b"), "The policy gave an empty answer."),
        (episode(None, end=EpisodeEnd.DEADLINE), "Browsing ended by the limit of time."),
    ],
)
def test_an_episode_without_an_answer_says_why(shown: Episode, said: str) -> None:
    (line,) = page(Shown(shown, "A")).xpath("//article/p[@id='q1a1-answer']")
    assert words(line) == f"No answer. {said}"


@pytest.mark.parametrize("end", EpisodeEnd)
def test_every_ending_has_words(end: EpisodeEnd) -> None:
    (line,) = page(Shown(episode(end=end), "A")).xpath("//details[@class='trace']/summary")
    assert re.search(r"; (ended|failed)", words(line))


def test_the_best_stands_first_and_the_others_are_folded_by_score() -> None:
    scores = [0.5, None, 2.0, float("nan"), -1.0, 0.75]
    answers = [Shown(episode(), str(at), score, best=at == 2) for at, score in enumerate(scores)]
    root = assert_sound(render_page(PageContents("Answers", sections=[QuestionSection("Why?", answers)])))
    (best,) = root.xpath("//section/article")
    assert words(best.xpath("./h3")[0]) == "2score 2.00best"
    assert [words(folded.xpath("./article/h3")[0]) for folded in root.xpath("//details[@class='other']")] == [
        "5score 0.75",
        "0score 0.50",
        "4score -1.00",
        "1",
        "3",
    ]
    assert root.xpath("//details[@open]") == []


def test_two_policies_stand_side_by_side_in_their_order() -> None:
    root = page(Shown(episode(), "BC", note="a note"), Shown(episode(), "RL"))
    assert [words(card.xpath("./h3")[0]) for card in root.xpath("//div[@class='side']/article")] == ["BC", "RL"]
    assert "a note" in words(root)


def test_the_best_of_a_policy_stands_beside_another_policy() -> None:
    answers = [Shown(episode(), label, best=label == "BC, 2", policy="BC") for label in ("BC, 1", "BC, 2")]
    root = page(*answers, Shown(episode(), "RL", policy="RL"))
    assert [words(card.xpath("./h3/bdi")[0]) for card in root.xpath("//div[@class='side']/article")] == ["BC, 2", "RL"]
    assert [words(folded.xpath("./summary/bdi")[0]) for folded in root.xpath("//details[@class='other']")] == ["BC, 1"]


def test_summary_figures_and_landmarks() -> None:
    contents = PageContents(
        "Answers",
        "Everything here is synthetic.",
        [("questions", "2"), ("answered", "90%")],
        [Figure("Figure 5", PNG, "It rises.")],
        [QuestionSection(question, [Shown(episode(), "A")]) for question in ("Why?", "How?")],
    )
    root = assert_sound(render_page(contents))
    assert [words(row) for row in root.xpath("//table//tr")] == ["questions2", "answered90%"]
    (picture,) = root.xpath("//figure/img")
    assert base64.b64decode(picture.get("src").removeprefix("data:image/png;base64,")) == PNG
    assert picture.get("alt") == "It rises."
    assert [(link.text_content(), link.get("href")) for link in root.xpath("//nav//a")] == [
        ("Why?", "#q1"),
        ("How?", "#q2"),
    ]
    assert root.get("lang") == "en"
    assert len(root.xpath("//h1")) == len(root.xpath("//main")) == len(root.xpath("//header")) == 1
    assert words(root.xpath("//header/p")[0]) == "Everything here is synthetic."
    levels = [int(heading.tag[1]) for heading in root.xpath("//h1 | //h2 | //h3 | //h4")]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_source_is_a_link_that_names_its_real_host() -> None:
    url = "https://evil.co.uk/wiki?a=1&b=2"
    root = page(Shown(episode(quotes=(quote("Crows.", url),)), "A"))
    (link,) = root.xpath("//a[@target='_blank']")
    assert (words(link), link.get("href"), link.get("rel")) == ("open evil.co.uk", url, "noreferrer noopener")
    root = page(Shown(episode(quotes=(quote("Owls.", "http://wiki.test/owl"),)), "A"))
    assert root.xpath("//a[@target='_blank']") == []
    assert "http://wiki.test/owl" in words(root)


@pytest.mark.parametrize(
    ("url", "leads"),
    [
        ("https://en.wikipedia.org/wiki/Crow", True),
        ("http://xn--bcher-kva.example.com:8080/", True),
        ("http://wiki.test/owl", False),
        ("http://factbook.localhost/laos.html", False),
        ("http://localhost:80/", False),
        ("http://127.0.0.1/", False),
        ("http://2130706433/", False),
        ("http://0x7f.1/", False),
        ("http://[::1]/", False),
        ("https://google.com@evil.com/", False),
        ("javascript:alert(1)//https://a.com", False),
        ("data:text/html,x", False),
        ("//a.com/", False),
        ("https://a.com/\u202e", False),
        ("https://a.com/ x", False),
        ("", False),
    ],
)
def test_only_public_sites_are_linked(url: str, leads: bool) -> None:
    assert leads_out(url) is leads


def test_a_figure_is_a_png_with_words_for_it() -> None:
    with pytest.raises(ValueError, match=r"figure 'F': the bytes are no PNG"):
        Figure("F", b"<svg/>", "words")
    with pytest.raises(ValueError, match=r"figure 'F': alt is empty"):
        Figure("F", PNG, " ")


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old", encoding="utf-8")
    write_page(path, full())
    assert path.read_text(encoding="utf-8") == render_page(full())
    with pytest.raises(FileNotFoundError):
        write_page(tmp_path / "missing" / "page.html", full())
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no ordinary file"):
        write_page(pipe, full())
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["page.html", "pipe.html"]
