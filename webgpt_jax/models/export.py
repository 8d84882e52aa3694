"""Our models as Hugging Face folders: `save_pretrained` writes what transformers and `load_pretrained` read.

A reward model's folder is that of its transformer without the unembedding, and `scalar_head.safetensors`, which is ours
alone: `load_reward_model` reads it.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save_file

from webgpt_jax.models.config import TransformerConfig
from webgpt_jax.models.families import FAMILIES, Family
from webgpt_jax.models.fields import Fields
from webgpt_jax.models.layout import Part, axis_sizes, disassemble
from webgpt_jax.models.parameters import map_named, parameters
from webgpt_jax.models.settings import FolderSettings, write_settings
from webgpt_jax.models.tensors import SCALAR_HEAD_FILE, PretrainedError
from webgpt_jax.models.tokenizer import Tokenizer
from webgpt_jax.models.transformer import TransformerBase

MAX_FILE_BYTES = 4 << 30
# What a family's config.json does not say, because it changes how a model is trained and computed and not what it is.
OURS_ALONE = ("vocab_multiple", "dropout", "init_std", "dtype", "param_dtype", "attention", "remat", "scan_layers")


@dataclass(frozen=True)
class _Piece:
    """One of our arrays, or one layer of it: what is brought to the host and written at a time."""

    array: jax.Array
    parts: tuple[Part, ...]
    layer: int | None

    @property
    def size(self) -> int:
        """Bytes."""
        shape = self.array.shape if self.layer is None else self.array.shape[1:]
        return math.prod(shape) * self.array.dtype.itemsize

    def on_host(self) -> np.ndarray[Any, Any]:
        """The numbers."""
        return np.asarray(self.array if self.layer is None else self.array[self.layer])


def save_pretrained(
    model: TransformerBase,
    folder: str | Path,
    tokenizer: Tokenizer | None = None,
    *,
    settings: FolderSettings | None = None,
    family: str | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> None:
    """Writes config.json, safetensors and the tokenizer's files: a folder that transformers loads to the same logits.

    Written beside its place and then moved, so that a folder is whole or not there.

    Args:
      model: a `Transformer` or a `ScalarTransformer`, with all its parameters within reach of this process.
      folder: a new or empty folder.
      tokenizer: its files are written too, where it is given.
      settings: webgpt.json is written too, where they are given.
      family: the `model_type` to write; by default the first that says all that the model is.
      max_file_bytes: safetensors are cut into several files above it.

    Raises:
      PretrainedError: no architecture of transformers says what this model is; or the folder is not empty.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PretrainedError(f"{folder} is no empty folder: a model is written to a new one")
    chosen = _family(model.config, family)
    pieces = _pieces(model, chosen)
    values = {
        "architectures": [chosen.architecture],
        "model_type": chosen.model_type,
        "torch_dtype": str(pieces[0].array.dtype),
        **_token_ids(tokenizer),
        **chosen.write(model.config),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write(partial, pieces, axis_sizes(model.config), max_file_bytes)
        (partial / "config.json").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        if model.head == "scalar":
            _write_scalar_head(model, partial / SCALAR_HEAD_FILE)
        if tokenizer is not None:
            tokenizer.save(partial)
        if settings is not None:
            write_settings(partial, settings)
        partial.chmod(0o755)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def has_family(config: TransformerConfig) -> bool:
    """Whether an architecture of transformers is this model, so that `save_pretrained` can write it."""
    return any(not _differing(family, config) for family in FAMILIES.values())


def _family(config: TransformerConfig, name: str | None) -> Family:
    """The family whose config.json, read again, is this config."""
    if name is not None and name not in FAMILIES:
        raise PretrainedError(f"the architecture {name!r} is not supported, only {', '.join(FAMILIES)}")
    best: tuple[Family, list[str]] | None = None
    for family in FAMILIES.values() if name is None else [FAMILIES[name]]:
        differing = _differing(family, config)
        if not differing:
            return family
        if best is None or len(differing) < len(best[1]):
            best = family, differing
    assert best is not None
    lost = ", ".join(best[1])
    raise PretrainedError(
        f"no architecture of transformers is this model; the nearest, {best[0].model_type}, cannot say its {lost}"
    )


def _differing(family: Family, config: TransformerConfig) -> list[str]:
    """Options that are lost in the family's config.json."""
    try:
        read = family.read(Fields(family.write(config), Path("config.json")))
    except PretrainedError as error:
        return [str(error)]
    read = replace(read, num_kv_heads=read.kv_heads, **{name: getattr(config, name) for name in OURS_ALONE})
    ours, theirs = asdict(replace(config, num_kv_heads=config.kv_heads)), asdict(read)
    return [name for name, value in ours.items() if theirs[name] != value]


def _pieces(model: TransformerBase, family: Family) -> list[_Piece]:
    layout = family.full_layout()
    pieces: list[_Piece] = []

    def add(path: str, array: jax.Array) -> None:
        if not array.is_fully_addressable:
            raise PretrainedError(f"the parameter {path} lies partly in other processes: gather the model first")
        layers = range(array.shape[0]) if path.startswith("blocks/") else (None,)
        pieces.extend(_Piece(array, layout[path], layer) for layer in layers)

    map_named(add, {name: entry for name, entry in parameters(model).items() if name != "scalar_head"})
    return pieces


def _write_scalar_head(model: TransformerBase, path: Path) -> None:
    """A reward model's score is the last norm's output times `kernel` [D], and `bias` []."""
    save_file({name: np.asarray(array) for name, array in parameters(model)["scalar_head"].items()}, path)
    path.chmod(0o644)


def _write(folder: Path, pieces: list[_Piece], sizes: Any, max_file_bytes: int) -> None:
    """Safetensors, with an index where they are several; one file's tensors are in memory at a time."""
    files: list[list[_Piece]] = [[]]
    room = max_file_bytes
    for piece in pieces:
        if files[-1] and piece.size > room:
            files.append([])
            room = max_file_bytes
        files[-1].append(piece)
        room -= piece.size
    index: dict[str, str] = {}
    for number, held in enumerate(files, start=1):
        name = "model.safetensors" if len(files) == 1 else f"model-{number:05}-of-{len(files):05}.safetensors"
        tensors = {
            tensor: array
            for piece in held
            for tensor, array in disassemble(piece.parts, sizes, piece.on_host(), piece.layer)
        }
        save_file(tensors, folder / name, metadata={"format": "pt"})
        (folder / name).chmod(0o644)  # the library keeps its files to their owner
        index |= dict.fromkeys(tensors, name)
    if len(files) > 1:
        content = {"metadata": {"total_size": sum(piece.size for piece in pieces)}, "weight_map": index}
        (folder / "model.safetensors.index.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _token_ids(tokenizer: Tokenizer | None) -> dict[str, int]:
    if tokenizer is None:
        return {}
    ids = {"bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id, "pad_token_id": tokenizer.pad_id}
    return {name: token for name, token in ids.items() if token is not None}
