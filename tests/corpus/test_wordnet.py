"""WordNet's files read as wndb(5WN) describes them, and rendered as a dictionary."""

from pathlib import Path

import pytest

from webgpt_jax.corpus.site import CorpusError, SitePage
from webgpt_jax.corpus.wordnet import Pointer, Synset, WordNet, parse_index, parse_synset

LICENCE = "  1 This dictionary is free  \n  2 for all.  \n  3   \n  4 Copyright 2006 by nobody.  \n"
DATA = {
    "noun": (
        '00000100 03 n 02 dog 0 domestic_dog 1 002 @ 00000200 n 0000 + 00000100 v 0101 | "the dog barked <b>"  \n'
        "00000200 03 n 01 animal 0 002 ~ 00000100 n 0000 ~i 00000300 n 0000 | a living & moving thing  \n"
        "00000300 03 n 01 Fido 0 001 @i 00000200 n 0000 | one of them  \n"
        "00000400 03 n 01 hot_dog 0 000 | a sausage  \n"
    ),
    "verb": "00000100 29 v 02 dog 0 chase 0 001 + 00000100 n 0101 01 + 08 00 | go after  \n",
    "adj": (
        "00000100 00 a 02 big(p) 0 large 0 002 ! 00000200 a 0101 & 00000300 s 0000 | of great size  \n"
        "00000200 00 a 01 small 0 001 ! 00000100 a 0101 | of little size  \n"
        "00000300 00 s 01 huge 0 001 & 00000100 a 0000 | very big  \n"
    ),
    "adv": "",
}
INDEX = {
    "noun": (
        "animal n 1 1 ~ 1 1 00000200  \ndog n 2 1 @ 2 1 00000400 00000100  \ndomestic_dog n 1 1 @ 1 0 00000100  \n"
        "fido n 1 1 @i 1 0 00000300  \nhot_dog n 1 0 1 0 00000400  \n"
    ),
    "verb": "chase v 1 1 + 1 0 00000100  \ndog v 1 1 + 1 0 00000100  \n",
    "adj": (
        "big a 1 2 ! & 1 1 00000100  \nhuge a 1 1 & 1 0 00000300  \nlarge a 1 2 ! & 1 0 00000100  \n"
        "small a 1 1 ! 1 1 00000200  \n"
    ),
    "adv": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind, files in (("data", DATA), ("index", INDEX)):
        for name, content in files.items():
            (tmp_path / f"{kind}.{name}").write_text(LICENCE + content)
    return tmp_path


def pages(folder: Path) -> dict[str, SitePage]:
    return {page.path: page for page in WordNet(folder).pages()}


def test_a_synset_line() -> None:
    line = "00001740 00 a 02 able(p) 0 up_to 1 002 = 05200169 n 0000 ! 00002098 s 02a1 | having means  "
    pointers = (Pointer("=", "n", 5200169, 0, 0), Pointer("!", "a", 2098, 2, 161))
    assert parse_synset(line) == (1740, Synset(("able", "up to"), "having means", pointers))
    many = "00000001 03 n 0b " + "w 0 " * 11 + "000 | eleven, in hexadecimal"
    assert len(parse_synset(many)[1].words) == 11


def test_an_index_line() -> None:
    assert parse_index("Domestic_dog n 2 3 @ ~ #m 2 1 00000100 02084071  ") == ("domestic dog", [100, 2084071])


def test_a_word_has_all_its_senses(folder: Path) -> None:
    page = pages(folder)["words/do/dog.html"]
    assert page.title == "dog"
    assert page.body.split("\n") == [
        "<h2>dog, noun, sense 1</h2>",
        "<p>dog (noun) means: a sausage</p>",
        '<p>Synonyms: <a href="../ho/hot-dog.html">hot dog</a></p>',
        "<h2>dog, noun, sense 2</h2>",
        "<p>dog (noun) means: &quot;the dog barked &lt;b&gt;&quot;</p>",
        '<p>Synonyms: <a href="domestic-dog.html">domestic dog</a></p>',
        '<p>A kind of: <a href="../an/animal.html">animal</a></p>',
        '<p>Related forms: <a href="dog.html">dog</a></p>',
        "<h2>dog, verb, sense 3</h2>",
        "<p>dog (verb) means: go after</p>",
        '<p>Synonyms: <a href="../ch/chase.html">chase</a></p>',
        '<p>Related forms: <a href="dog.html">dog</a></p>',
    ]


def test_relations_between_words_are_theirs_alone(folder: Path) -> None:
    found = pages(folder)
    assert '<p>Opposites: <a href="../sm/small.html">small</a></p>' in found["words/bi/big.html"].body
    assert "Opposites" not in found["words/la/large.html"].body
    assert '<p>Similar: <a href="../hu/huge.html">huge</a></p>' in found["words/la/large.html"].body
    assert "Related forms" not in found["words/do/domestic-dog.html"].body


def test_capitals_index_and_licence(folder: Path) -> None:
    found = pages(folder)
    assert found["words/fi/fido.html"].title == "Fido"
    assert '<a href="fi/fido.html">Fido</a>' in found["words/fi.html"].body
    assert '<a href="words/fi.html">Words that begin with fi</a>' in found["index.html"].body
    assert found["licence.html"].body == "<p>This dictionary is free for all.</p>\n<p>Copyright 2006 by nobody.</p>"
    assert "Princeton" in WordNet(folder).attribution


def test_missing_files_name_the_package(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"apt install wordnet-base.*--source"):
        WordNet(tmp_path / "nowhere").version()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("data.noun", "00000100 03 n 02 dog 0 domestic_dog"),
        ("data.noun", "00000100 03 n 01 dog 0 000 no gloss"),
        ("data.noun", "00000100 03 n zz dog 0 000 | gloss"),
        ("data.noun", "00000100 03 n 01 dog 0 001 ?? 00000200 n 0000 | gloss"),
        ("data.noun", "00000100 03 n 01 dog 0 001 @ 00000200 x 0000 | gloss"),
        ("data.verb", "00000900 29 v 01 run 0 001 @ 99999999 v 0000 | leads nowhere"),
        ("data.verb", "00000900 29 v 01 run 0 001 @ 00000200 n 0109 | a ninth word"),
        ("index.noun", "dog n"),
        ("index.noun", "dog n 1 0 1 0 99999999"),
        ("index.noun", "dog n x 0 1 0 00000100"),
    ],
)
def test_damaged_files_are_named(folder: Path, name: str, line: str) -> None:
    with (folder / name).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(CorpusError, match=r"is not as wndb\(5WN\) describes it"):
        pages(folder)


def test_the_version_is_the_datas(folder: Path) -> None:
    version = WordNet(folder).version()
    assert WordNet(folder).version() == version
    (folder / "index.adv").write_text("x")
    assert WordNet(folder).version() != version
