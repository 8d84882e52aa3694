"""Training on meshes: the state, the step, the optimizer, where arrays lie. Takes JAX and optax with it."""

from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer, step_size
from webgpt_jax.training.sharding import MeshConfig, MeshSharding, ShardingError, make_mesh, place_batch, shardings_for
from webgpt_jax.training.train_state import (
    TrainState,
    abstract_train_state,
    check_state,
    create_train_state,
    shardings_of,
    train_state_from,
)
from webgpt_jax.training.train_step import StepConfig, make_gradient_step, make_train_step

__all__ = [
    "MeshConfig",
    "MeshSharding",
    "OptimizerConfig",
    "ShardingError",
    "StepConfig",
    "TrainState",
    "abstract_train_state",
    "check_state",
    "create_train_state",
    "make_gradient_step",
    "make_mesh",
    "make_optimizer",
    "make_train_step",
    "place_batch",
    "shardings_for",
    "shardings_of",
    "step_size",
    "train_state_from",
]
