"""Open weights: each family's logits are those of transformers, what is written is what was read, and no more is read,
nor held in memory, than a model has."""

from __future__ import annotations

import functools
import json
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from safetensors.numpy import load_file, save_file

from tests.models.shapes import LEARNED, OPTIONS, ROTARY
from webgpt_jax.models import (
    PretrainedError,
    Tokenizer,
    Transformer,
    TransformerConfig,
    load_pretrained,
    parameter_specs,
    parameters,
    save_pretrained,
)
from webgpt_jax.models.parameters import map_tree
from webgpt_jax.models.tensors import SafetensorsFolder, Slices
from webgpt_jax.models.tokenizer import byte_level_bpe

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"
NAMES = sorted(path.parent.name for path in GOLDEN.glob("*/config.json"))


@functools.cache
def golden_model(name: str) -> Transformer:
    model, tokenizer = load_pretrained(GOLDEN / name)
    assert tokenizer is None
    return model


def zeros(config: TransformerConfig) -> Transformer:
    return Transformer(config, params=map_tree(lambda spec: jnp.zeros(spec.shape), parameter_specs(config)))


def assert_same(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, parameters(one), parameters(other))


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name: str) -> None:
    golden = load_file(GOLDEN / name / "golden.safetensors")
    logits = golden_model(name)(jnp.array(golden["tokens"]), mask=jnp.array(golden["mask"]))
    assert np.abs(golden["logits"]).max() > 1
    np.testing.assert_allclose(logits * golden["mask"][:, :, None], golden["logits"], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_what_was_loaded(name: str, tmp_path: Path) -> None:
    save_pretrained(golden_model(name), tmp_path / "saved")
    before = load_file(GOLDEN / name / "model.safetensors")
    after = load_file(tmp_path / "saved" / "model.safetensors")
    assert sorted(after) == sorted(before)
    for tensor, array in before.items():
        np.testing.assert_array_equal(after[tensor], array, err_msg=tensor)
    again, _ = load_pretrained(tmp_path / "saved")
    assert again.config == golden_model(name).config


def test_every_golden_model_has_its_family() -> None:
    assert len(NAMES) == 15
    families = {json.loads((GOLDEN / name / "config.json").read_text())["model_type"] for name in NAMES}
    assert families == {"gpt2", "gpt_neox", "opt", "llama", "mistral", "qwen2", "qwen3"}


def test_the_older_spelling_of_rotary_settings(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "llama3", tmp_path / "old"))
    config = json.loads((folder / "config.json").read_text())
    rotary = config.pop("rope_parameters")
    config |= {"rope_theta": rotary.pop("rope_theta"), "rope_scaling": rotary, "torch_dtype": config.pop("dtype")}
    (folder / "config.json").write_text(json.dumps(config))
    model, _ = load_pretrained(folder)
    assert model.config == golden_model("llama3").config
    assert model.config.rotary_theta == 500.0


def test_older_files_without_prefix_and_with_buffers(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "gpt2", tmp_path / "old"))
    tensors = load_file(folder / "model.safetensors")
    old = {name.removeprefix("transformer."): array for name, array in tensors.items()}
    old["h.0.attn.bias"] = np.tril(np.ones((1, 1, 16, 16), np.float32))
    old["h.1.attn.masked_bias"] = np.array(-1e4, np.float32)
    save_file(old, folder / "model.safetensors")
    assert_same(load_pretrained(folder)[0], golden_model("gpt2"))


def test_a_tied_unembedding_may_be_repeated(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "opt", tmp_path / "repeated"))
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "lm_head.weight": tensors["model.decoder.embed_tokens.weight"]}, folder / "model.safetensors")
    assert_same(load_pretrained(folder)[0], golden_model("opt"))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_stored_types_are_converted(kind: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "qwen3", tmp_path / "half"))
    tensors = {name: array.astype(kind) for name, array in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors")
    model, _ = load_pretrained(folder)
    assert {array.dtype for array in jax.tree.leaves(parameters(model))} == {jnp.dtype("float32")}
    expected = tensors["model.layers.1.mlp.down_proj.weight"].astype(np.float32).T
    np.testing.assert_array_equal(parameters(model)["blocks"]["mlp"]["down"][1], expected)


def test_parameters_in_bfloat16_come_and_go(tmp_path: Path) -> None:
    model, _ = load_pretrained(GOLDEN / "mistral", param_dtype="bfloat16", dtype="bfloat16", attention="xla")
    assert (model.config.dtype, model.config.attention) == ("bfloat16", "xla")
    assert {array.dtype for array in jax.tree.leaves(parameters(model))} == {jnp.dtype("bfloat16")}
    save_pretrained(model, tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["torch_dtype"] == "bfloat16"
    again, _ = load_pretrained(tmp_path / "saved", param_dtype="bfloat16")
    assert_same(again, model)


def test_a_padded_vocabulary_has_the_same_logits_and_is_not_saved(tmp_path: Path) -> None:
    model, _ = load_pretrained(GOLDEN / "llama", vocab_multiple=32)
    assert parameters(model)["embedding"].shape == (64, 24)
    assert parameters(model)["unembedding"].shape == (24, 64)
    tokens = jnp.array([[5, 9, 60, 3]])
    np.testing.assert_allclose(model(tokens), golden_model("llama")(tokens), atol=1e-6)
    save_pretrained(model, tmp_path / "saved")
    assert load_file(tmp_path / "saved" / "model.safetensors")["lm_head.weight"].shape == (61, 24)


# One axis of each parameter is split over four devices, and the whole held twice.
SPLIT = {"embed": "part", "mlp": None}


def split(config: TransformerConfig) -> Any:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("copy", "part"))

    def place(spec: Any) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*(SPLIT.get(axis or "") for axis in spec.axes)))

    return map_tree(place, parameter_specs(config))


class Recorded(SafetensorsFolder):
    """Notes every part of a tensor that is read."""

    reads: list[tuple[str, int]]

    def read(self, name: str, slices: Slices) -> np.ndarray:
        array = super().read(name, slices)
        self.reads.append((name, array.size))
        return array


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    Recorded.reads = []
    monkeypatch.setattr("webgpt_jax.models.pretrained.SafetensorsFolder", Recorded)
    return Recorded.reads


@pytest.mark.parametrize("name", ["gpt2", "pythia", "llama", "qwen3"])
def test_each_number_is_read_once_straight_into_its_shard(name: str, reads: list[tuple[str, int]]) -> None:
    whole = golden_model(name)
    reads.clear()
    model, _ = load_pretrained(GOLDEN / name, shardings=split)
    assert_same(model, whole)
    qkv = parameters(model)["blocks"]["attention"]["qkv"]
    assert {shard.data.shape for shard in qkv.addressable_shards} == {(2, qkv.shape[1] // 4, *qkv.shape[2:])}
    shapes = SafetensorsFolder(GOLDEN / name).shapes
    total: dict[str, int] = {}
    for tensor, size in reads:
        total[tensor] = total.get(tensor, 0) + size
        if len(shapes[tensor]) > 1:  # a quarter of its rows or columns
            assert size * 4 == np.prod(shapes[tensor]), tensor
    assert total == {tensor: np.prod(shape) for tensor, shape in shapes.items()}


def test_memory_is_that_of_the_model_and_one_parameter(tmp_path: Path) -> None:
    config = replace(ROTARY, num_layers=16, embed_dim=128, num_heads=8, head_dim=16, mlp_dim=128, vocab_size=4096)
    generator = np.random.default_rng(0)
    params = map_tree(lambda spec: jnp.asarray(generator.random(spec.shape, np.float32)), parameter_specs(config))
    model = Transformer(config, params=params)
    save_pretrained(model, tmp_path / "saved", max_file_bytes=1 << 20)
    assert len(list((tmp_path / "saved").glob("*.safetensors"))) > 5
    sizes = [array.nbytes for array in jax.tree.leaves(params)]
    assert sum(sizes) > 4 * max(sizes)
    load_pretrained(tmp_path / "saved")  # what is imported and compiled once is not counted
    tracemalloc.start()
    try:
        again, _ = load_pretrained(tmp_path / "saved")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_same(again, model)
    # NumPy's arrays are counted, and JAX's where they are NumPy's. A second model would be twice this.
    assert max(sizes) < peak < sum(sizes) + max(sizes)


def test_a_model_in_several_files_with_its_tokenizer(tmp_path: Path) -> None:
    library = byte_level_bpe({"a": 0, "b": 1, "ab": 2}, [("a", "b")])
    library.add_special_tokens(["<end>"])
    tokenizer = Tokenizer(library, specials={"eos": "<end>"}, chat_template="{{ messages }}")
    save_pretrained(golden_model("qwen2"), tmp_path / "saved", tokenizer, max_file_bytes=10_000)
    files = sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert files[:3] == ["config.json", "generation_config.json", "model-00001-of-00004.safetensors"]
    assert files[-2:] == ["tokenizer.json", "tokenizer_config.json"]
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["eos_token_id"] == 3
    model, again = load_pretrained(tmp_path / "saved")
    assert_same(model, golden_model("qwen2"))
    assert again is not None
    assert (again.encode("aab"), again.eos_id, again.chat_template) == ([0, 2], 3, "{{ messages }}")
    (tmp_path / "saved" / files[3]).unlink()
    with pytest.raises(PretrainedError, match=f"{files[3]} is missing"):
        load_pretrained(tmp_path / "saved")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(PretrainedError, match="is no empty folder"):
        save_pretrained(golden_model("gpt2"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("webgpt_jax.models.export.save_file", full)
    with pytest.raises(OSError, match="No space left"):
        save_pretrained(golden_model("gpt2"), tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (LEARNED, "gpt2, cannot say its head_dim"),  # as the paper's 13B: its heads do not make up its width
        (replace(LEARNED, head_dim=5, qkv_bias=False), "gpt2, cannot say its qkv_bias"),
        (replace(LEARNED, head_dim=5, norm_bias=False), "gpt2, cannot say its norm_bias"),
        (OPTIONS["gptj"], "shared_norm"),
        (OPTIONS["embedding scale"], "llama, cannot say its embedding_scale"),
    ],
)
def test_a_model_that_no_architecture_is_cannot_be_saved(config: TransformerConfig, words: str, tmp_path: Path) -> None:
    with pytest.raises(PretrainedError, match=words):
        save_pretrained(zeros(config), tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_a_family_that_is_asked_for_is_written(tmp_path: Path) -> None:
    save_pretrained(golden_model("mistral-without-window"), tmp_path / "saved", family="mistral")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["model_type"] == "mistral"
    assert load_pretrained(tmp_path / "saved")[0].config == golden_model("mistral-without-window").config
    with pytest.raises(PretrainedError, match="qwen2, cannot say its qkv_bias, qk_norm"):
        save_pretrained(golden_model("qwen3"), tmp_path / "other", family="qwen2")
    with pytest.raises(PretrainedError, match="'bert' is not supported"):
        save_pretrained(golden_model("qwen3"), tmp_path / "other", family="bert")
