"""The random key and the position in the data as JSON: the two things of a checkpoint that are no part of the state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from webgpt_jax.models.checkpoint_folder import CheckpointError, Json


def key_to_json(key: jax.Array) -> dict[str, Json]:
    """A key, typed or raw (uint32 words), the same in all processes."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return {"implementation": None, "words": np.asarray(key).tolist()}
    words: Json = np.asarray(jax.random.key_data(key)).tolist()
    return {"implementation": str(jax.random.key_impl(key)), "words": words}


def key_from_json(value: dict[str, Any]) -> jax.Array:
    """The key again, in this process alone: not yet laid out on a mesh."""
    words = jnp.array(np.array(value["words"], np.uint32))
    if value["implementation"] is None:
        return words
    key: jax.Array = jax.random.wrap_key_data(words, impl=value["implementation"])
    return key


def gather_positions(position: Json) -> list[Json]:
    """The positions of all processes, in each of them. Raises `ValueError` or `TypeError` for what is not JSON."""
    text = json.dumps(position, allow_nan=False).encode()
    if jax.process_count() == 1:
        return [json.loads(text)]
    lengths = multihost_utils.process_allgather(np.array([len(text)]))
    padded = np.frombuffer(text.ljust(int(lengths.max())), np.uint8)
    rows = multihost_utils.process_allgather(padded)
    return [json.loads(bytes(np.asarray(row, np.uint8))) for row in rows]


def own_position(positions: Sequence[Json], step_folder: Path) -> Json:
    """This process's position. Another number of processes can share only a position that was the same for all."""
    if len(positions) == jax.process_count():
        return positions[jax.process_index()]
    if any(position != positions[0] for position in positions):
        raise CheckpointError(
            f"{step_folder} was saved by {len(positions)} processes at different places in the data, and this run has "
            f"{jax.process_count()}; resume with {len(positions)} processes"
        )
    return positions[0]
