"""The vocabulary inside a GGUF file as a tokenizer: byte-level BPE ("gpt2") and SentencePiece's BPE ("llama")."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from webgpt_jax.models.tensors import PretrainedError
from webgpt_jax.models.tokenizer import Tokenizer, byte_level_bpe

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # kinds of tokens
KEYS = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}

# How llama.cpp cuts text before merging, by the name in the file.
_LLAMA3 = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {"llama-bpe": _LLAMA3, "qwen2": _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")}
_GPT2_NAMES = {"gpt-2", "gpt2"}
_DIGITS_NAMES = {"smollm", "starcoder"}  # digits one by one, then GPT-2's pattern
SPACE = "\u2581"


def tokenizer_from_gguf(metadata: Mapping[str, Any], path: Path) -> Tokenizer:
    """The file's tokenizer. `PretrainedError` naming the field that is missing, contradicts another or is of a kind
    whose tokens would differ from llama.cpp's."""
    tokens = _list(metadata, "tokens", str, path)
    kinds = (
        _list(metadata, "token_type", int, path) if "tokenizer.ggml.token_type" in metadata else [NORMAL] * len(tokens)
    )
    if len(kinds) != len(tokens):
        raise PretrainedError(f"{path}: tokenizer.ggml.token_type has {len(kinds)} entries for {len(tokens)} tokens")
    if len(set(tokens)) != len(tokens):
        raise PretrainedError(f"{path}: tokenizer.ggml.tokens holds a token twice")
    kind = metadata.get("tokenizer.ggml.model")
    if kind == "gpt2":
        library = _byte_level(metadata, tokens, path)
    elif kind == "llama":
        library = _sentencepiece(metadata, tokens, kinds, path)
    else:
        raise PretrainedError(f"{path}: tokenizer.ggml.model {kind!r} is not supported, only gpt2 and llama")
    marked = ((CONTROL, True), (USER_DEFINED, False))
    for wanted, special in marked:
        added = [text for text, kind in zip(tokens, kinds, strict=True) if kind == wanted]
        library.add_tokens([AddedToken(text, special=special, normalized=False) for text in added])
    template = metadata.get("tokenizer.chat_template")
    return Tokenizer(
        library,
        specials=_specials(metadata, tokens, path),
        stop_ids=_stops(metadata, len(tokens), path),
        chat_template=template if isinstance(template, str) else None,
    )


def _byte_level(metadata: Mapping[str, Any], tokens: list[str], path: Path) -> LibraryTokenizer:
    merges = []
    for merge in _list(metadata, "merges", str, path):
        first, space, second = merge.partition(" ")
        if not (first and space and second) or " " in second:
            raise PretrainedError(f"{path}: tokenizer.ggml.merges holds {merge!r}, which is not of two pieces")
        merges.append((first, second))
    library = byte_level_bpe({text: number for number, text in enumerate(tokens)}, merges)
    architecture = metadata.get("general.architecture")
    cut = metadata.get("tokenizer.ggml.pre", "gpt-2" if architecture == "gpt2" else None)
    if cut in _DIGITS_NAMES:
        library.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), library.pre_tokenizer]
        )
    elif cut in _PATTERNS:
        library.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_PATTERNS[str(cut)]), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        if cut == "llama-bpe":
            library.model.ignore_merges = True
    elif cut not in _GPT2_NAMES:
        known = ", ".join(sorted({*_DIGITS_NAMES, *_PATTERNS, *_GPT2_NAMES}))
        raise PretrainedError(f"{path}: tokenizer.ggml.pre {cut!r} is not supported, only {known}")
    return library


def _sentencepiece(metadata: Mapping[str, Any], tokens: list[str], kinds: list[int], path: Path) -> LibraryTokenizer:
    """SentencePiece's BPE merges whichever neighbours make the best-scored piece: pairs in the order of scores."""
    scores = [float(score) for score in _list(metadata, "scores", float, path)]
    if len(scores) != len(tokens):
        raise PretrainedError(f"{path}: tokenizer.ggml.scores has {len(scores)} entries for {len(tokens)} tokens")
    numbers = {text: number for number, text in enumerate(tokens)}
    mergeable = {text for text, kind in zip(tokens, kinds, strict=True) if kind == NORMAL}
    pairs = []
    for number, text in enumerate(tokens):
        if kinds[number] == NORMAL:
            for cut in range(1, len(text)):
                if text[:cut] in mergeable and text[cut:] in mergeable:
                    pairs.append((-scores[number], number, numbers[text[:cut]], text[:cut], text[cut:]))
    unknown = metadata.get("tokenizer.ggml.unknown_token_id", 0)
    unknown = tokens[unknown] if isinstance(unknown, int) and 0 <= unknown < len(tokens) else None
    library = LibraryTokenizer(
        models.BPE(
            vocab=numbers,
            merges=[(first, second) for *_, first, second in sorted(pairs)],
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=BYTE in kinds,
        )
    )
    prefixed = metadata.get("tokenizer.ggml.add_space_prefix", True)
    library.normalizer = normalizers.Sequence(
        [*([normalizers.Prepend(SPACE)] if prefixed else []), normalizers.Replace(" ", SPACE)]
    )
    library.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            *([decoders.Strip(" ", 1, 0)] if prefixed else []),
        ]
    )
    return library


def _specials(metadata: Mapping[str, Any], tokens: list[str], path: Path) -> dict[str, str]:
    texts = {}
    for name, key in KEYS.items():
        number = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if number is not None:
            texts[name] = tokens[_token(number, f"{key}_token_id", len(tokens), path)]
    return texts


def _stops(metadata: Mapping[str, Any], count: int, path: Path) -> list[int]:
    """End of turn and end of message, where the file has them."""
    found = ((key, metadata.get(f"tokenizer.ggml.{key}")) for key in ("eot_token_id", "eom_token_id"))
    return [_token(number, key, count, path) for key, number in found if number is not None]


def _token(number: Any, key: str, count: int, path: Path) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise PretrainedError(f"{path}: tokenizer.ggml.{key} is {number!r}, no token of {count}")
    return number


def _list(metadata: Mapping[str, Any], name: str, kind: type, path: Path) -> list[Any]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not all(isinstance(entry, kind) for entry in value):
        raise PretrainedError(f"{path}: tokenizer.ggml.{name} is missing or no list of {kind.__name__}")
    return value
