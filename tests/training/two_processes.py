"""One process of a run of several, for the test that they train as one does: prints its losses and a sum of weights.

    python -m tests.training.two_processes COUNT NUMBER PORT

Four CPU devices in all, on a mesh of data 2 × fsdp 2; each process feeds its own rows of the batch.
"""

from __future__ import annotations

import json
import os
import sys


def main(count: int, number: int, port: int) -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={4 // count} --xla_backend_optimization_level=0"

    import jax
    import jax.numpy as jnp

    from tests.training.tiny import LEARNED, loss_of, random_batch
    from webgpt_jax.training import distributed
    from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
    from webgpt_jax.training.sharding import MeshConfig, MeshSharding, make_mesh, place_batch, replicated
    from webgpt_jax.training.train_state import check_state, create_train_state, shardings_of
    from webgpt_jax.training.train_step import make_train_step

    distributed.initialize(
        distributed.DistributedConfig(
            num_processes=count,
            process_id=number,
            coordinator_port=port,
            initialization_timeout=60,
            heartbeat_timeout=30,
            shutdown_timeout=30,
        )
    )
    assert (jax.process_count(), len(jax.devices())) == (count, 4)
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
    distributed.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
