"""One process of a run of several, for the test that they train as one does: prints its losses and a sum of weights.

    python -m tests.training.two_processes COUNT NUMBER PORT

Four CPU devices in all, on a mesh of data 2 × fsdp 2; each process feeds its own rows of the batch.
"""

from __future__ import annotations

import json
import sys

from tests.training.processes import join


def main(count: int, number: int, port: int) -> None:
    join(count, number, port)

    import jax
    import jax.numpy as jnp

    from tests.training.tiny import LEARNED, loss_of, random_batch
    from webgpt_jax.training.distributed import shutdown
    from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
    from webgpt_jax.training.sharding import MeshConfig, MeshSharding, make_mesh, place_batch, replicated
    from webgpt_jax.training.train_state import check_state, create_train_state, shardings_of
    from webgpt_jax.training.train_step import make_train_step

    mesh = make_mesh(MeshConfig(data=2, fsdp=2))
    optimizer = make_optimizer(OptimizerConfig(base_step_size=0.01))
    state = create_train_state(LEARNED, optimizer, mesh, jax.random.key(0))
    loss = loss_of(LEARNED, "logits", MeshSharding(mesh))
    step = make_train_step(loss, optimizer, shardings_of(state))
    losses = []
    rows = 8 // count
    for seed in range(3):
        own = jax.tree.map(lambda array: array[number * rows : (number + 1) * rows], random_batch(seed=seed))
        state, metrics = step(state, place_batch(mesh, own), jax.random.key(1))
        losses.append(float(metrics["loss"]))
    check_state(state)
    total = jax.jit(
        lambda params: sum(jnp.abs(array).sum() for array in jax.tree.leaves(params)), out_shardings=replicated(mesh)
    )
    print(json.dumps({"losses": losses, "weights": float(total(state.params))}))
    shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
