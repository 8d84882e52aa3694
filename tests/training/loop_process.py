"""One process of a run of several through the training loop: prints what it gave of each batch, and the losses.

    python -m tests.training.loop_process FOLDER COUNT NUMBER PORT

Four CPU devices in all: once on a mesh that splits the batch, once on one that splits the model between the processes.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from tests.training.processes import join


def main(folder: Path, count: int, number: int, port: int) -> None:
    join(count, number, port)

    import jax

    from tests.training.tiny import LEARNED, loss_of, random_batch, weight_of
    from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer
    from webgpt_jax.training.distributed import shutdown
    from webgpt_jax.training.loop import LoopConfig, batch_shard, make_evaluate, train
    from webgpt_jax.training.metrics import MetricsWriter
    from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
    from webgpt_jax.training.sharding import MeshConfig, MeshSharding, make_mesh
    from webgpt_jax.training.train_state import create_train_state, shardings_of
    from webgpt_jax.training.train_step import make_train_step

    shown = []
    for name, config in {"batch": MeshConfig(data=2, fsdp=2), "model": MeshConfig(data=1, tensor=4)}.items():
        mesh = make_mesh(config)
        shard, shards = batch_shard(mesh)
        rows = slice(shard * 8 // shards, (shard + 1) * 8 // shards)

        class Source:
            """Three batches."""

            taken = 0
            epoch = 0.0

            def __next__(self, rows: slice = rows) -> object:
                if self.taken == 3:
                    raise StopIteration
                self.taken += 1
                return jax.tree.map(lambda array: array[rows], random_batch(seed=self.taken))

        optimizer = make_optimizer(OptimizerConfig(base_step_size=0.01))
        state = create_train_state(LEARNED, optimizer, mesh, jax.random.key(0))
        loss = loss_of(LEARNED, "logits", MeshSharding(mesh))
        held_out = [jax.tree.map(lambda array, rows=rows: array[rows], random_batch(seed=9))]
        evaluate = make_evaluate(loss, state, lambda held_out=held_out: iter(held_out), weight_of("logits"))
        settings = {"model": dataclasses.asdict(LEARNED)}
        with (
            Checkpointer(folder / name, CheckpointConfig(), settings) as checkpointer,
            MetricsWriter(folder / name) as metrics,
        ):
            step = make_train_step(loss, optimizer, shardings_of(state))
            loop = LoopConfig(log_every=1)
            result = train(
                state, step, Source(), jax.random.key(1), loop, checkpointer, evaluate=evaluate, metrics=metrics
            )
        shown.append({"shard": [shard, shards], "score": result.position.best_score})
    print(json.dumps(shown))
    shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
