"""A tiny run with all that a checkpoint holds, for the tests of checkpoints: a transformer with dropout, Adam, a moving
average, a random key and a stateful position in the data.

As a program it trains in a folder, from its latest checkpoint on, and writes a line "step loss" for each update, the
loss in hexadecimal so that equal lines are equal bits:

    python -m tests.training.tiny_run FOLDER STEPS [SAVE_EVERY [PROCESS COUNT PORT]]
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from webgpt_jax.models import Params, TransformerConfig, forward, initial_parameters, unembed
from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer
from webgpt_jax.training.preemption import PREEMPTED, Preemption
from webgpt_jax.training.train_state import TrainState

MODEL = TransformerConfig(
    vocab_size=48, num_layers=2, embed_dim=32, num_heads=4, head_dim=8, mlp_dim=64, max_length=16, dropout=0.1
)
CONFIG = {"model": dataclasses.asdict(MODEL), "optimizer": {"learning_rate": 0.01, "decay": 0.1}}
OPTIMIZER = optax.adamw(0.01, weight_decay=0.1)
BATCH, LENGTH = 4, 12


def new_state(model: TransformerConfig = MODEL, ema: bool = True) -> TrainState:
    """The state a run starts with, on one device."""
    params = initial_parameters(model, jax.random.key(0))
    average = jax.tree.map(lambda array: array * 0.5, params) if ema else None
    return TrainState(jnp.zeros((), jnp.int32), params, average, OPTIMIZER.init(params))


def sharded(state: TrainState, mesh: Mesh) -> TrainState:
    """The state with arrays split over as many axes of the mesh as divide theirs, the last axis first."""

    def place(array: jax.Array) -> Any:
        names: list[str | None] = [None] * array.ndim
        free = list(mesh.axis_names)
        for axis in reversed(range(array.ndim)):
            if free and array.shape[axis] % mesh.shape[free[0]] == 0:
                names[axis] = free.pop(0)
        return NamedSharding(mesh, PartitionSpec(*names))

    return jax.device_put(state, jax.tree.map(place, state))


def abstract(state: TrainState) -> TrainState:
    """Shapes, types and shardings of a state, without its arrays."""
    return jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding), state)


@jax.jit(donate_argnums=0)
def update(state: TrainState, tokens: jax.Array, key: jax.Array) -> tuple[TrainState, jax.Array]:
    """One update on tokens [B, T + 1], and its loss."""

    def loss_of(params: Params) -> jax.Array:
        hidden = forward(MODEL, params, tokens[:, :-1], dropout_key=key)
        logits = unembed(MODEL, params, hidden)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]))

    loss, gradients = jax.value_and_grad(loss_of)(state.params)
    changes, opt_state = OPTIMIZER.update(gradients, state.opt_state, state.params)
    params = optax.apply_updates(state.params, changes)
    average = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state.ema_params, params)
    return TrainState(state.step + 1, params, average, opt_state), loss


class Tokens:
    """An endless stream of batches whose position is the state of its generator."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def next(self) -> np.ndarray[Any, Any]:
        return self.generator.integers(0, MODEL.vocab_size, (BATCH, LENGTH + 1))

    @property
    def position(self) -> Any:
        return self.generator.bit_generator.state

    @position.setter
    def position(self, position: Any) -> None:
        self.generator.bit_generator.state = position


def main(folder: Path, steps: int, save_every: int) -> None:
    """Trains, saves, leaves when asked to."""
    mesh = Mesh(np.array(jax.devices()), ("fsdp",))
    state, rng, tokens = sharded(new_state(), mesh), jax.random.key(7), Tokens(seed=jax.process_index())
    rows = NamedSharding(mesh, PartitionSpec("fsdp"))
    with (
        Path(f"{folder}.{jax.process_index()}.txt").open("a", encoding="utf-8") as losses,
        Preemption() as preemption,
        Checkpointer(folder, CheckpointConfig(keep_last=2), CONFIG) as checkpointer,
    ):
        step = 0
        if checkpointer.latest_step() is not None:
            restored = checkpointer.restore(abstract(state))
            state, rng, step, tokens.position = restored.state, restored.rng, restored.step, restored.data_position
        while step < steps:
            rng, key = jax.random.split(rng)
            batch = jax.make_array_from_process_local_data(rows, tokens.next())
            state, loss = update(state, batch, key)
            step += 1
            losses.write(f"{step} {float(loss).hex()}\n")
            losses.flush()
            leaving = preemption.requested()
            if leaving or step % save_every == 0:
                checkpointer.save(step, state, rng, tokens.position)
            if leaving:
                raise SystemExit(PREEMPTED)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    jax.config.update("jax_platforms", "cpu")
    if len(sys.argv) > 4:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        process, count, port = map(int, sys.argv[4:])
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=count, process_id=process)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
