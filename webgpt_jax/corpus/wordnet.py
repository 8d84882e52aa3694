"""WordNet as a dictionary of linked pages, from its own data files (`data.noun`, `index.noun` …).

Each word has a page with its senses in WordNet's order: the gloss, the synonyms, and the words it is related to. The
format of the files is described in the manual page wndb(5WN).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from html import escape
from pathlib import Path

from webgpt_jax.corpus.site import CorpusError, SitePage, items, link, paragraphs, unique_slugs

DEBIAN_FOLDER = Path("/usr/share/wordnet")

PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_SPEECH_NAMES = {"n": "noun", "v": "verb", "a": "adjective", "r": "adverb"}

# Pointer symbols of wndb(5WN), in the order in which a sense's relations are shown.
RELATIONS = {
    "!": "Opposites",
    "@": "A kind of",
    "@i": "An instance of",
    "~": "Kinds",
    "~i": "Instances",
    "#m": "Member of",
    "#s": "Substance of",
    "#p": "Part of",
    "%m": "Members",
    "%s": "Made of",
    "%p": "Parts",
    "=": "Attributes",
    "&": "Similar",
    "^": "See also",
    "*": "Entails",
    ">": "Causes",
    "$": "Same group of verbs",
    "<": "Participle of",
    "\\": "Pertains to",
    "+": "Related forms",
    ";c": "Topic",
    "-c": "Words of this topic",
    ";r": "Region",
    "-r": "Words of this region",
    ";u": "Usage",
    "-u": "Words of this usage",
}


@dataclass(frozen=True)
class Pointer:
    """A relation to another synset; where `source` and `target` are not 0, between those words of either, from 1."""

    symbol: str
    speech: str
    offset: int
    source: int
    target: int


@dataclass(frozen=True)
class Synset:
    """Words of one meaning, its gloss and its relations."""

    words: tuple[str, ...]
    gloss: str
    pointers: tuple[Pointer, ...]


class WordNet:
    """WordNet as a `Source`.

    Args:
      folder: the folder with the data files; by default where Debian's package puts it.
    """

    title = "WordNet"
    base_url = "http://wordnet.localhost/"
    attribution = (
        "Source: WordNet 3.0, Copyright 2006 by Princeton University, all rights reserved; "
        "used, copied and distributed under its licence, which is on the page licence.html."
    )

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = DEBIAN_FOLDER if folder is None else folder

    def version(self) -> str:
        digest = sha256()
        for speech in PARTS_OF_SPEECH.values():
            for kind in ("data", "index"):
                digest.update(self._read(f"{kind}.{speech}"))
        return digest.hexdigest()

    def _read(self, name: str) -> bytes:
        path = self._folder / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise CorpusError(
                f"WordNet's file {path} cannot be read ({error.strerror or error}): install its data "
                "(apt install wordnet-base), or give the folder that holds data.noun with --source"
            ) from error

    def _lines(self, name: str) -> Iterator[str]:
        """The lines of a file without the licence at its head."""
        for line in self._read(name).decode("utf-8", errors="replace").splitlines():
            if line and not line.startswith("  "):
                yield line

    @cached_property
    def _synsets(self) -> Mapping[tuple[str, int], Synset]:
        synsets = {}
        for speech, name in PARTS_OF_SPEECH.items():
            for line in self._lines(f"data.{name}"):
                try:
                    offset, synset = parse_synset(line)
                except (ValueError, IndexError) as error:
                    raise _damaged(f"data.{name}", line) from error
                synsets[speech, offset] = synset
        for synset in synsets.values():
            for pointer in synset.pointers:
                target = synsets.get((pointer.speech, pointer.offset))
                if target is None or pointer.target > len(target.words) or pointer.source > len(synset.words):
                    raise _damaged(f"data.{PARTS_OF_SPEECH[pointer.speech]}", f"of {synset.words[0]}")
        return synsets

    @cached_property
    def _senses(self) -> Mapping[str, list[tuple[str, Synset]]]:
        """The senses of each word (in lower case), most frequent first, with their part of speech."""
        senses: dict[str, list[tuple[str, Synset]]] = {}
        for speech, name in PARTS_OF_SPEECH.items():
            for line in self._lines(f"index.{name}"):
                try:
                    word, offsets = parse_index(line)
                    senses.setdefault(word, []).extend((speech, self._synsets[speech, offset]) for offset in offsets)
                except (ValueError, IndexError, KeyError) as error:
                    raise _damaged(f"index.{name}", line) from error
        return senses

    def pages(self) -> Iterator[SitePage]:
        words = sorted(self._senses)
        paths = {word: f"words/{slug[:2]}/{slug}.html" for word, slug in unique_slugs(words).items()}
        groups: dict[str, list[str]] = {}
        for word in words:
            groups.setdefault(paths[word].split("/")[1], []).append(word)
        group_paths = {group: f"words/{group}.html" for group in sorted(groups)}
        index = "index.html"
        yield SitePage(
            index,
            self.title,
            f"<p>A dictionary of {len(words)} English words and their relations.</p>\n"
            f"<p>{link('Licence of WordNet', 'licence.html', index)}</p>\n"
            + items(link(f"Words that begin with {group}", path, index) for group, path in group_paths.items()),
        )
        yield SitePage("licence.html", "Licence of WordNet", paragraphs(map(escape, self._licence())))
        for group, path in group_paths.items():
            lines = (link(self._shown(word), paths[word], path) for word in groups[group])
            yield SitePage(path, f"Words that begin with {group}", items(lines))
        for word in words:
            yield self._word_page(word, paths)

    def _licence(self) -> list[str]:
        head = (line for line in self._read("data.noun").decode("utf-8", errors="replace").splitlines())
        lines = [line.strip().partition(" ")[2].strip() for line in head if line.startswith("  ")]
        blocks = "\n".join(lines).split("\n\n")
        return [" ".join(block.split()) for block in blocks if block.strip()]

    def _shown(self, word: str) -> str:
        """The word with its capitals."""
        spellings = (spelling for _, synset in self._senses[word] for spelling in synset.words)
        return next((spelling for spelling in spellings if spelling.lower() == word), word)

    def _word_page(self, word: str, paths: Mapping[str, str]) -> SitePage:
        path, shown = paths[word], self._shown(word)

        def links(others: list[str]) -> str:
            unique = dict.fromkeys(others)
            return ", ".join(
                link(other, paths[other.lower()], path) if other.lower() in paths else escape(other) for other in unique
            )

        body: list[str] = []
        for number, (speech, synset) in enumerate(self._senses[word], start=1):
            body.append(f"<h2>{escape(shown)}, {_SPEECH_NAMES[speech]}, sense {number}</h2>")
            lines = [f"{escape(shown)} ({_SPEECH_NAMES[speech]}) means: {escape(synset.gloss)}"]
            synonyms = [other for other in synset.words if other.lower() != word]
            if synonyms:
                lines.append(f"Synonyms: {links(synonyms)}")
            related = self._related(word, synset)
            lines += (f"{label}: {links(related[symbol])}" for symbol, label in RELATIONS.items() if symbol in related)
            body.append(paragraphs(lines))
        return SitePage(path, shown, "\n".join(body))

    def _related(self, word: str, synset: Synset) -> dict[str, list[str]]:
        """The words that a sense of the word is related to, by pointer symbol."""
        related: dict[str, list[str]] = {}
        for pointer in synset.pointers:
            if pointer.source and synset.words[pointer.source - 1].lower() != word:
                continue  # a relation of one of its synonyms
            target = self._synsets[pointer.speech, pointer.offset]
            related.setdefault(pointer.symbol, []).append(target.words[max(pointer.target, 1) - 1])
        return related


def _damaged(name: str, line: str) -> CorpusError:
    return CorpusError(
        f"WordNet's file {name} is not as wndb(5WN) describes it, at the line {line[:40]!r}: install wordnet-base again"
    )


def parse_synset(line: str) -> tuple[int, Synset]:
    """A line of a data file: its offset and what it says. Raises `ValueError` or `IndexError` where it is damaged."""
    head, bar, gloss = line.partition("|")
    fields = head.split()
    if not bar:
        raise ValueError("no gloss")
    count = int(fields[3], 16)
    words = tuple(_spelt(word) for word in fields[4 : 4 + 2 * count : 2])
    at = 4 + 2 * count
    pointers = []
    for start in range(at + 1, at + 1 + 4 * int(fields[at]), 4):
        symbol, offset, speech, ends = fields[start : start + 4]
        if symbol not in RELATIONS:
            raise ValueError(f"unknown pointer {symbol}")
        pointers.append(Pointer(symbol, _head(speech), int(offset), int(ends[:2], 16), int(ends[2:], 16)))
    if len(words) != count or not words:
        raise ValueError("too few words")
    return int(fields[0]), Synset(words, " ".join(gloss.split()), tuple(pointers))


def parse_index(line: str) -> tuple[str, list[int]]:
    """A line of an index file: the word in lower case and the offsets of its senses."""
    fields = line.split()
    count = int(fields[2])
    offsets = [int(field) for field in fields[-count:]]
    if count < 1 or len(offsets) != count:
        raise ValueError("too few senses")
    return _spelt(fields[0]).lower(), offsets


def _head(speech: str) -> str:
    """The part of speech whose file holds it: satellites ("s") lie with the adjectives."""
    if speech not in "nvars":
        raise ValueError(f"unknown part of speech {speech}")
    return "a" if speech == "s" else speech


def _spelt(word: str) -> str:
    """The word without the marker of an adjective's position, with blanks for underscores."""
    return word.partition("(")[0].replace("_", " ")
