"""TinyWeb's sites, drawn from a world alone.

    wiki.test   an article for each animal: every fact, true; lists by the words of their names
    news.test   short articles on one fact or two, true, in other words
    forum.test  threads on one fact: two or three posts repeat the rumor; in some threads one post knows better
    old.test    pages written long ago: what was held true then, among facts that still hold

Not everything is on every site: see `NEWS`, `THREADS` and `OLD`. The names are reserved (RFC 6761): nobody's real site
can have them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from webgpt_jax.env.urls import host_of
from webgpt_jax.tinyweb.html import Anchor, Draft, HtmlPage, Line, write_page
from webgpt_jax.tinyweb.language import BY_NAME, FILLERS, RELATIONS, Claim, sentence, state, the
from webgpt_jax.tinyweb.world import World

SITES = {
    "wiki.test": "The wiki",
    "news.test": "The news",
    "forum.test": "The forum",
    "old.test": "Old news",
}  # with names
TRUSTED = ("wiki.test", "news.test")  # whose word is enough, the fullest first; the others are doubtful

NEWS, THREADS, OLD = 0.4, 0.4, 0.3  # how many of all facts have an article, a thread, an old page
NEWS_PAIRS, OLD_PAIRS = 0.4, 0.7  # how often two of them share it
KNOWS_BETTER = 0.3  # of the threads have one post that is true
FORMER = 0.7  # of the second facts of old pages too have been taken back since
FILLED = 0.6  # of an article's sections hold a sentence that says nothing
RELATED = 3  # animals that an article links to, at most
LISTED = 12  # pages that a home page links to, at most

_LEADS = (
    "A traveler brings news of {e}.",
    "Many people in some towns know {e}.",
    "The school club looks for {e}.",
    "A traveler was close to {e}.",
)
_ASKED = (
    "Who knows about the {k} of {e}?",
    "What do people know about the {k} of {e}?",
    "What about the {k} of {e}?",
)
_SURE = ("Many people know it.", "I know it from old stories.", "It is easy to see.", "So people say.")
_LONG_AGO = "Written long ago."


def render_world(world: World) -> Mapping[str, HtmlPage]:
    """All pages of a world by URL. The same world gives the same bytes on every machine."""
    return {draft.url: write_page(draft) for draft in draft_pages(world)}


def draft_pages(world: World) -> list[Draft]:
    """All pages of a world: each animal's, its article first, then lists and home pages."""
    drafts = [draft for animal in world.animals for draft in _pages_of(world, animal)]
    drafts += _lists(world)
    drafts += _homes(world, drafts)
    return drafts


def article_url(animal: str) -> str:
    """Where the wiki's article on an animal is."""
    return f"https://wiki.test/{_slug(animal)}"


def _slug(*words: str) -> str:
    return "-".join(words).replace(" ", "-")


def _draft(url: str, title: str, lines: Sequence[Line], animal: str | None = None) -> Draft:
    host = host_of(url)
    return Draft(url, title, lines, [Anchor(SITES[host], f"https://{host}/")], animal)


def _pages_of(world: World, animal: str) -> Iterator[Draft]:
    """The article first."""
    draw = random.Random(f"tinyweb sites {world.seed} {animal}")
    wording = {relation.name: draw.randrange(len(relation.statements)) for relation in RELATIONS}
    yield _article(world, animal, wording, draw)
    for names in _some(draw, NEWS, NEWS_PAIRS):
        yield _news(world, animal, names, wording, draw)
    for (name,) in _some(draw, THREADS, 0):
        yield _thread(world, animal, name, draw)
    for names in _some(draw, OLD, OLD_PAIRS):
        yield _old(world, animal, names, draw)


def _some(draw: random.Random, share: float, paired: float) -> Iterator[list[str]]:
    """A share of the relations, in an order drawn, one or two at a time."""
    chosen = [relation.name for relation in RELATIONS if draw.random() < share]
    draw.shuffle(chosen)
    while chosen:
        count = 2 if draw.random() < paired else 1
        yield chosen[:count]
        chosen = chosen[count:]


def _filler(draw: random.Random, animal: str) -> str:
    return sentence(draw.choice(FILLERS).format(e=the(animal)))


def _title(animal: str, names: Sequence[str]) -> str:
    """`The moss owl and its food and nest`."""
    return f"The {animal} and its {' and '.join(BY_NAME[name].keyword for name in names)}"


def _article(world: World, animal: str, wording: Mapping[str, int], draw: random.Random) -> Draft:
    names = [relation.name for relation in RELATIONS]
    draw.shuffle(names)
    fillers = [sentence(text.format(e=the(animal))) for text in draw.sample(FILLERS, len(names) // 2)]
    lines: list[Line] = []
    for at in range(0, len(names), 2):
        pair = names[at : at + 2]
        sentences = [state(world.claim(animal, name), wording[name]) for name in pair]
        if draw.random() < FILLED:
            sentences.insert(draw.randrange(3), fillers[at // 2])
        lines += [[" and ".join(BY_NAME[name].keyword for name in pair).capitalize()], [" ".join(sentences)]]
    lines.append(_see_also(world, animal, draw))
    return _draft(article_url(animal), sentence(the(animal)).removesuffix("."), lines, animal)


def _see_also(world: World, animal: str, draw: random.Random) -> Line:
    """Links to a few animals that share a word of the name, and to the lists of these words."""
    words = animal.split()
    others = [other for word in words for other in world.by_word[word] if other != animal]
    line: list[str | Anchor] = ["See "]
    for other in draw.sample(others, min(RELATED, len(others))):
        line += [Anchor(the(other), article_url(other)), ", "]
    first, second = (Anchor(f"all {word}", f"https://wiki.test/{word}") for word in words)
    return [*line, first, " and ", second, "."]


def _news(world: World, animal: str, names: list[str], wording: Mapping[str, int], draw: random.Random) -> Draft:
    sentences = []
    for name in names:  # not in the article's words
        other = wording[name] + 1 + draw.randrange(len(BY_NAME[name].statements) - 1)
        sentences.append(state(world.claim(animal, name), other))
    sentences.insert(draw.randrange(len(sentences) + 1), _filler(draw, animal))
    lines: list[Line] = [
        [draw.choice(_LEADS).format(e=the(animal))],
        [" ".join(sentences)],
        ["See ", Anchor(the(animal), article_url(animal)), "."],
    ]
    return _draft(f"https://news.test/{_slug(animal, *names)}", _title(animal, names), lines, animal)


def _thread(world: World, animal: str, name: str, draw: random.Random) -> Draft:
    rumor = Claim(animal, name, world.rumors[animal, name])
    wordings = list(range(len(BY_NAME[name].statements)))
    draw.shuffle(wordings)
    sure = draw.sample(_SURE, len(wordings))
    posts: list[Line] = [
        [f"{state(rumor, wording)} {said}"] for wording, said in zip(wordings[:2], sure[:2], strict=True)
    ]
    if draw.random() < KNOWS_BETTER:
        true = state(world.claim(animal, name), wordings[2])
        known: Line = [f"{true} It is so in ", Anchor(the(animal), article_url(animal)), "."]
        posts.insert(draw.randrange(3), known)
    elif draw.random() < 0.5:
        posts.append([f"{state(rumor, wordings[2])} {sure[2]}"])
    asked = draw.choice(_ASKED).format(k=BY_NAME[name].keyword, e=the(animal))
    return _draft(f"https://forum.test/{_slug(animal, name)}", f"{_title(animal, [name])}?", [[asked], *posts], animal)


def _old(world: World, animal: str, names: list[str], draw: random.Random) -> Draft:
    was = [True, *(draw.random() < FORMER for _ in names[1:])]  # one of them at least
    draw.shuffle(was)
    claims = [
        Claim(animal, name, world.former[animal, name]) if wrong else world.claim(animal, name)
        for name, wrong in zip(names, was, strict=True)
    ]
    still = draw.choice([relation.name for relation in RELATIONS if relation.name not in names])
    claims.insert(draw.randrange(len(claims) + 1), world.claim(animal, still))
    said = [state(claim, draw.randrange(3)) for claim in claims]
    lines: list[Line] = [[_LONG_AGO], [_filler(draw, animal)], [" ".join(said)]]
    return _draft(f"https://old.test/{_slug(animal, *names)}", f"{_title(animal, names)} long ago", lines, animal)


def _lists(world: World) -> Iterator[Draft]:
    """For each word, the animals that have it in their names."""
    for word, animals in sorted(world.by_word.items()):
        lines: list[Line] = [[f"These animals have {word} in the name, and many people know all of them."]]
        lines += [[Anchor(the(animal), article_url(animal))] for animal in animals]
        yield _draft(f"https://wiki.test/{word}", f"All {word}", lines)


def _homes(world: World, drafts: Sequence[Draft]) -> Iterator[Draft]:
    """Each site's home page: the wiki's links to all lists, the others' to a few pages."""
    for site, name in SITES.items():
        home = f"https://{site}/"
        own = [draft for draft in drafts if draft.url.startswith(home)]
        if site == "wiki.test":
            own = [draft for draft in own if draft.animal is None]
        else:
            own = random.Random(f"tinyweb home {world.seed} {site}").sample(own, min(LISTED, len(own)))
        lines: list[Line] = [["Some of what people know of animals, and some of what people say."]]
        yield _draft(home, name, lines + [[Anchor(draft.title, draft.url)] for draft in own])
