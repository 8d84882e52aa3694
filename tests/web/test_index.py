import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from webgpt_jax.web import index as index_module
from webgpt_jax.web.index import Document, IndexFault, IndexWriter, SearchIndex, build_index
from webgpt_jax.web.terms import Term

DOCUMENTS = [
    Document("mongolia", "Mongolia", "A country in Asia. Its capital is Ulaanbaatar.\nThree million people.", "1"),
    Document("france", "France", "The capital of France is Paris, where many people live.", "2"),
    Document("crows", "Gifts from crows", "Crows and ravens bring gifts; don't feed them. iPhone用アプリ", "3"),
    Document("tokyo", "東京都", "東京都は日本の首都である。人口は約1400万人。", "4"),
    Document("bangkok", "กรุงเทพมหานคร", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย", "5"),
    Document("hindi", "हिन्दी", "हिन्दी भारत की भाषा है", "6"),
    Document("seoul", "서울", "서울은 대한민국의 수도이다", "7"),
    Document("cafe", "Café", "L'école U.S. façade, C++", "8"),
]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "index.sqlite"
    build_index(path, DOCUMENTS)
    return path


@pytest.fixture
def index(path: Path) -> Iterator[SearchIndex]:
    index = SearchIndex(path)
    yield index
    index.close()


def keys(index: SearchIndex, query: str) -> list[str]:
    return [hit.key for hit in index.search(query)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What is the capital of Mongolia and how many people live there?", ["mongolia", "france"]),
        ("gift crow", ["crows"]),  # stemmed
        ("GIFTS", ["crows"]),
        ("don’t", ["crows"]),
        ("首都", ["tokyo"]),
        ("東京", ["tokyo"]),
        ("都", ["tokyo"]),  # also where it ends a run
        ("日本の首都はどこですか", ["tokyo"]),  # a whole question in one run
        ("iPhone", ["crows"]),
        ("ｱﾌﾟﾘ", ["crows"]),
        ("เมืองหลวง", ["bangkok"]),
        ("भाषा", ["hindi"]),
        ("수도", ["seoul"]),
        ("cafe", ["cafe"]),
        ("ecole", ["cafe"]),
        ("u.s.", ["cafe"]),
        ("zeppelin", []),
        ("zeppelin crows", ["crows"]),  # a word that stands nowhere is no hindrance
        ("", []),
    ],
)
def test_search(index: SearchIndex, query: str, expected: list[str]) -> None:
    assert keys(index, query) == expected


HOSTILE = [
    "\0",
    '"',
    '""',
    "'",
    "NEAR(a b, 2)",
    "*",
    "^",
    "crows*",
    "title:crows",
    "{title text} : crows",
    "- crows",
    "crows AND",
    "OR NOT",
    "crows NOT gifts",
    "\ud800 crows",
    "a" * 100_000,
    '"' * 100_000,
    "crows " * 20_000,
    '" OR pages MATCH "x',
    "'; DROP TABLE documents; --",
    "😀",
    "½ ① ℃",
    "\ufaff",
    "\U0001e900\U0001fbf9",
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_every_string_is_a_query(index: SearchIndex, query: str) -> None:
    assert keys(index, query) == (["crows"] if "crows" in query else [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(), max_size=60))
def test_no_query_is_an_error(index: SearchIndex, query: str) -> None:
    index.search(query)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.text(st.characters(), max_size=60))
@example("\ud800 crow \0 【0†x】")
def test_every_text_can_be_indexed(path: Path, text: str) -> None:
    with IndexWriter(path) as writer:
        writer.add([Document("strange", text, text)])
        writer.publish()
    index = SearchIndex(path)
    for hit in index.search(text):
        hit.snippet.encode()
        hit.title.encode()
    index.close()


def test_a_term_stays_a_term_whatever_it_holds() -> None:
    assert index_module._expression(Term('a" OR "b')) == '"a"" OR ""b"'
    assert index_module._expression(Term("東京都", unspaced=True)) == '{title_pairs text_pairs} : "東京 京都"'
    assert index_module._expression(Term("都", unspaced=True)) == '{title_pairs text_pairs} : "都" *'


def test_the_text_is_cleaned_and_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MAX_TEXT_CHARS", 30)
    build_index(
        tmp_path / "i", [Document("k", "A 【1†crow】\n\u202eflies", "It flies 【2†home】\u200b today, and tomorrow")]
    )
    index = SearchIndex(tmp_path / "i")
    (hit,) = index.search("flies")
    assert (hit.title, hit.snippet) == ("A 〖1‡crow〗 flies", "It flies 〖2‡home〗 today, and")
    assert keys(index, "tomorrow") == []


def test_titles_without_blanks_are_searched_too(tmp_path: Path) -> None:
    build_index(tmp_path / "i", [Document("k", "東京タワー", "A tower.")])
    (hit,) = SearchIndex(tmp_path / "i").search("タワー")
    assert (hit.key, hit.snippet) == ("k", "A tower.")


def test_the_title_weighs_more(tmp_path: Path) -> None:
    build_index(
        tmp_path / "i",
        [
            Document("text", "Birds", "A raven is a raven and nothing but a raven."),
            Document("title", "Raven", "It is a bird, black, and lives nearly everywhere it likes."),
            Document("other", "Fish", "Swims"),
            Document("other2", "Fish", "Swims"),
            Document("other3", "Fish", "Swims"),
        ],
    )
    assert keys(SearchIndex(tmp_path / "i"), "raven") == ["title", "text"]


def test_pages_with_all_words_come_first(tmp_path: Path) -> None:
    noise = [Document(f"noise{number}", "", "unrelated text of no use") for number in range(10)]
    build_index(
        tmp_path / "i",
        [
            Document("some", "Zebra Zebra", "zebra " * 10),
            Document("all", "", "a zebra, " + "then " * 50 + "a yak"),
            *noise,
        ],
    )
    assert keys(SearchIndex(tmp_path / "i"), "zebra yak") == ["all", "some"]


def test_equal_scores_are_ordered_by_key_whatever_the_history(tmp_path: Path) -> None:
    twins = [Document(key, "Crow", "The same text about a crow.") for key in "dacb"]
    others = [Document(f"o{number}", "Fish", "Swims in the sea.") for number in range(10)]
    build_index(tmp_path / "once", twins + others)
    build_index(tmp_path / "refreshed", others + twins[:2])
    for documents in ([twins[0]], twins[1:]):
        with IndexWriter(tmp_path / "refreshed") as writer:
            writer.add(documents)
            writer.publish()
    once, refreshed = SearchIndex(tmp_path / "once"), SearchIndex(tmp_path / "refreshed")
    assert keys(once, "crow") == keys(refreshed, "crow") == ["a", "b", "c", "d"]


def test_snippets_are_plain_text_on_one_line(index: SearchIndex) -> None:
    (hit,) = index.search("Ulaanbaatar")
    assert hit.title == "Mongolia"
    assert hit.snippet == "A country in Asia. Its capital is Ulaanbaatar. Three million people."
    (hit,) = index.search("首都")
    assert hit.snippet == "東京都は日本の首都である。人口は約1400万人。"


def test_snippets_show_the_place_and_are_bounded(tmp_path: Path) -> None:
    far = "filler " * 500 + "a crow brought a gift " + "filler " * 500
    build_index(tmp_path / "i", [Document("far", "", far), Document("giant", "giant", "x" * 900_000)])
    index = SearchIndex(tmp_path / "i")
    (hit,) = index.search("crow gift")
    assert "a crow brought a gift" in hit.snippet
    (hit,) = index.search("giant")
    assert len(hit.snippet) == index_module.SNIPPET_CHARS


def test_add_replaces_and_remove_removes(path: Path) -> None:
    with IndexWriter(path) as writer:
        writer.add([Document("france", "France", "Republic.", "9"), Document("new", "New", "Fresh words", "10")])
        writer.remove(["crows", "never there"])
        writer.publish()
    index = SearchIndex(path)
    assert len(index) == len(DOCUMENTS)
    assert keys(index, "paris") == keys(index, "ravens") == []
    assert keys(index, "republic") == ["france"]
    assert keys(index, "fresh") == ["new"]
    assert index.stamps()["france"] == "9"
    assert "crows" not in index.stamps()


def test_a_key_twice_in_one_batch_is_one_document(tmp_path: Path) -> None:
    build_index(tmp_path / "i", [Document("k", "", "first"), Document("k", "", "second")])
    index = SearchIndex(tmp_path / "i")
    assert (keys(index, "first"), keys(index, "second"), len(index)) == ([], ["k"], 1)


def test_progress_and_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "BATCH", 3)
    seen: list[int] = []
    assert build_index(tmp_path / "i", DOCUMENTS, seen.append) == 8
    assert seen == [3, 6, 8]


def test_an_open_index_goes_on_while_the_next_is_published(path: Path) -> None:
    before = SearchIndex(path)
    build_index(path, [Document("only", "Only", "crows")])
    assert keys(before, "gifts") == ["crows"]
    assert keys(SearchIndex(path), "crows") == ["only"]


class StopBuildError(Exception):
    pass


def test_an_interrupted_build_is_not_believed_and_goes_on(path: Path) -> None:
    def interrupted() -> None:
        with IndexWriter(path) as writer:
            writer.add([Document("half", "Half", "done")])
            raise StopBuildError

    with pytest.raises(StopBuildError):
        interrupted()
    assert keys(SearchIndex(path), "half") == []
    with IndexWriter(path) as writer:
        assert "half" in writer.stamps()
        writer.publish()
    assert keys(SearchIndex(path), "half") == ["half"]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_leaving_without_publishing_changes_nothing(path: Path) -> None:
    content = path.read_bytes()
    with IndexWriter(path) as writer:
        writer.add([Document("x", "x", "x")])
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_failed_batch_is_rolled_back(path: Path) -> None:
    def failing() -> Iterator[Document]:
        yield Document("new", "New", "text")
        raise StopBuildError

    with IndexWriter(path) as writer:
        with pytest.raises(StopBuildError):
            writer.add(failing())
        with pytest.raises(IndexFault, match="delete it"):
            writer.add([Document("good", "", ""), Document("bad", "", "", None)])  # type: ignore[arg-type]
        assert writer.stamps().keys() == {document.key for document in DOCUMENTS}
        writer.publish()
    assert len(SearchIndex(path)) == len(DOCUMENTS)


BUILDER = """
import itertools, sys
from pathlib import Path
from webgpt_jax.web.index import Document, build_index
count = int(sys.argv[2])
documents = (Document(f"{n}", f"Title {n}", f"crow number {n} " * 20) for n in (range(count) or itertools.count()))
build_index(Path(sys.argv[1]), documents, lambda done: print(done, flush=True))
"""


def builder(path: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(path), str(count)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def test_a_killed_build_leaves_the_old_index(path: Path) -> None:
    process = builder(path, 0)
    assert process.stdout is not None
    assert process.stdout.readline() == "1000\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert keys(SearchIndex(path), "gifts") == ["crows"]
    (left,) = [file for file in path.parent.iterdir() if file != path]
    build_index(path, DOCUMENTS)  # too young to be taken for a killed build's
    assert left.exists()
    os.utime(left, (0, time.time() - 2 * 24 * 60 * 60))
    build_index(path, DOCUMENTS)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_two_builders_at_once_leave_one_whole_index(tmp_path: Path) -> None:
    path = tmp_path / "both.sqlite"
    processes = [builder(path, 5_000), builder(path, 4_000)]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0]
    index = SearchIndex(path)
    assert len(index) in (4_000, 5_000)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.execute("INSERT INTO pages(pages) VALUES('integrity-check')")
    connection.close()


def test_several_processes_read_a_file_nobody_may_write(path: Path) -> None:
    path.chmod(0o444)
    path.parent.chmod(0o555)
    program = "import sys, pathlib; from webgpt_jax.web.index import SearchIndex\n"
    program += "print([hit.key for hit in SearchIndex(pathlib.Path(sys.argv[1])).search('crows')])"
    readers = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [reader.communicate()[0] for reader in readers] == ["['crows']\n"] * 3
    path.parent.chmod(0o755)


def test_faults_name_the_file_and_the_cure(path: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexFault, match="there is no search index"):
        SearchIndex(tmp_path / "missing")
    for name, content in (("empty", b""), ("text", b"not a database at all, but some text"), ("zeros", bytes(10_000))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(IndexFault, match=f"{name}.*delete it"):
            SearchIndex(tmp_path / name)
    foreign = sqlite3.connect(tmp_path / "foreign")
    foreign.execute("CREATE TABLE documents(id)")
    foreign.close()
    with pytest.raises(IndexFault, match="not a search index"):
        SearchIndex(tmp_path / "foreign")
    half = path.read_bytes()
    (tmp_path / "half").write_bytes(half[: len(half) // 2])
    with pytest.raises(IndexFault, match="delete it"):
        SearchIndex(tmp_path / "half").search("crows people capital")


def test_damage_is_an_error_and_never_a_crash(path: Path) -> None:
    sound = path.read_bytes()
    expected = keys(SearchIndex(path), "capital people crows 首都")
    damaged = path.with_name("damaged")
    outcomes: set[bool | None] = set()
    for at in range(0, len(sound), 997):
        damaged.write_bytes(sound[:at] + b"\xff" * 64 + sound[at + 64 :])
        try:
            index = SearchIndex(damaged)
            outcomes.add(keys(index, "capital people crows 首都") == expected)
        except IndexFault:
            outcomes.add(None)
    assert {True, None} <= outcomes


def test_a_damaged_base_is_built_anew(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])
    with IndexWriter(path) as writer:
        assert writer.stamps() == {}
        writer.add(DOCUMENTS)
        writer.publish()
    assert keys(SearchIndex(path), "gifts") == ["crows"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(IndexFault, match="choose another place"):
        build_index(tmp_path / "file" / "index", DOCUMENTS)


def test_a_python_without_full_text_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_SCHEMA", index_module._SCHEMA.replace("USING fts5", "USING fts5_missing"))
    with pytest.raises(IndexFault, match=r"no full-text search \(FTS5\): use a Python"):
        build_index(tmp_path / "i", DOCUMENTS)
    assert list(tmp_path.iterdir()) == []


def test_strange_file_names(tmp_path: Path) -> None:
    for name in ("a?b#c%41.sqlite", "new\nline [x] *", os.fsdecode(b"\xff\xfe")):
        path = tmp_path / name
        try:
            build_index(path, DOCUMENTS)
        except IndexFault:
            if sys.platform == "linux":  # other systems refuse names that are no UTF-8
                raise
            continue
        assert keys(SearchIndex(path), "gifts") == ["crows"]
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    assert not [file for file in tmp_path.iterdir() if file.name.endswith(".tmp")]


def test_common_words_do_not_drown_rare_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MAX_RANKED", 10)
    documents = [Document(f"{n:03}", "", f"common{n % 3} filler{n}") for n in range(90)]
    build_index(tmp_path / "i", itertools.chain(documents, [Document("rare", "", "unique thing")]))
    # "common1" alone would mean ranking thirty pages: more than there is room for beside "unique".
    assert keys(SearchIndex(tmp_path / "i"), "common1 unique") == ["rare"]
    assert len(keys(SearchIndex(tmp_path / "i"), "common1")) == 10
