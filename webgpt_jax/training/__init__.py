"""Training on meshes: the state, the step, the optimizer, where arrays lie. Takes JAX and optax with it."""

from webgpt_jax.training.train_state import TrainState

__all__ = ["TrainState"]
