"""How pages are taken apart."""

from hypothesis import given
from hypothesis import strategies as st

from webgpt_jax.baselines.passages import (
    MAX_PASSAGE_CHARS,
    Passage,
    ShownLink,
    split_at_links,
    split_passages,
    without_link_lines,
)
from webgpt_jax.env import Page
from webgpt_jax.env.page import strip_markers


def texts(text: str, *, pairs: bool = False) -> list[str]:
    return [passage.text for passage in split_passages(text, "T", pairs=pairs)]


def test_sentences() -> None:
    assert texts('Dr. Smith met J. Doe in the U.S. Army. He said: "Go!" Then 3.5 km. more followed. End') == [
        "Dr. Smith met J. Doe in the U.S. Army.",
        'He said: "Go!"',
        "Then 3.5 km. more followed.",
        "End",
    ]
    assert texts("蒙古国在亚洲。首都是乌兰巴托！好吗？") == ["蒙古国在亚洲。", "首都是乌兰巴托！", "好吗？"]


def test_wrapped_prose_is_put_together_again() -> None:
    assert texts("Crows are known to bring small gifts\nto people who feed them. Others\nCrows") == [
        "Crows are known to bring small gifts to people who feed them.",
        "Others",
        "Crows",
    ]


def test_lines_have_headings_and_labels() -> None:
    page = "Government\nCapital: name: Ulaanbaatar\nIt was founded in 1639."
    assert list(split_passages(page, "Mongolia", pairs=False)) == [
        Passage("Government", "Mongolia", "", ""),
        Passage("Capital: name: Ulaanbaatar", "Mongolia", "Government", "Capital"),
        Passage("It was founded in 1639.", "Mongolia", "Government", ""),
    ]


def test_pairs() -> None:
    assert texts("Birds\nCrows bring gifts. They like people. Some do not.", pairs=True) == [
        "Birds",
        "Crows bring gifts.",
        "Crows bring gifts. They like people.",
        "They like people.",
        "They like people. Some do not.",
        "Some do not.",
        "Birds\nCrows bring gifts.",
    ]


@given(st.text(alphabet=st.sampled_from("aB 。,;.\n首"), max_size=2000))
def test_every_passage_can_be_quoted(text: str) -> None:
    page = Page("T", "t.test", "https://t.test/", text)
    for passage in split_passages(page.plain, page.title):
        assert len(passage.text) <= 2 * MAX_PASSAGE_CHARS
        assert page.find_quote(" ".join(passage.text.split())) is not None


def test_a_giant_line_is_cut_at_clauses() -> None:
    pieces = texts("; ".join(f"part {number} of it" for number in range(200)))
    assert all(len(piece) <= MAX_PASSAGE_CHARS for piece in pieces)
    assert all(piece.rstrip().endswith((";", "199 of it")) for piece in pieces)
    assert all(len(piece) <= MAX_PASSAGE_CHARS for piece in texts("x" * 5000))


def test_marks_of_headings_items_and_rows() -> None:
    page = "## Government\n* independent since 1911\nCapital | Ulaanbaatar | since 1778\n- 5 degrees\n-5 degrees"
    assert list(split_passages(page, "T")) == [
        Passage("Government", "T", "", ""),
        Passage("independent since 1911", "T", "Government", ""),
        Passage("Capital | Ulaanbaatar | since 1778", "T", "Government", "Capital"),
        Passage("5 degrees", "T", "Government", ""),
        Passage("-5 degrees", "T", "Government", ""),
    ]


def test_lines_that_are_only_a_link_part_their_neighbours() -> None:
    window = "Government\n* 【0†All countries】\nCapital: Ulaanbaatar, see 【1†Tuul】"
    assert texts(without_link_lines(window), pairs=True) == ["Government", "Capital: Ulaanbaatar, see 【1†Tuul】"]


def test_links_of_a_window() -> None:
    window = "Intro\n【0†Laos†atlas.test】\nA country.\n【1†Home】 text\n【2†x†y†z】"
    assert list(split_at_links(window)) == [
        (ShownLink(0, "Laos", "atlas.test"), "A country."),
        (ShownLink(1, "Home", ""), "text\n【2†x†y†z】"),
    ]
    assert list(split_at_links("No results.")) == []
    assert strip_markers("See 【3†the 1911 law†x.test】.") == "See the 1911 law."
