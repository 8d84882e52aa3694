"""What training carries from step to step, made where it belongs: no device ever holds more than its part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from webgpt_jax.models import Params, TransformerConfig, initial_parameters
from webgpt_jax.models.parameters import Head
from webgpt_jax.training.sharding import check_alike, parameter_shardings, replicated


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """All that a step changes; a pytree, so that it is jitted, donated, sharded and saved as one."""

    step: jax.Array  # [] int32: updates made so far
    params: Params  # the weights that learn, in the model's `param_dtype`
    ema_params: Params | None  # their moving average in float32, or None where none is kept
    opt_state: optax.OptState  # the optimizer's; its moments are nested, shaped and sharded as `params`


def create_train_state(
    config: TransformerConfig,
    optimizer: optax.GradientTransformation,
    mesh: Mesh,
    key: jax.Array,
    *,
    head: Head = "logits",
    keep_ema: bool = True,
) -> TrainState:
    """A model's first state. The same weights on any mesh; each device draws only its part of them.

    Args:
      config: the model.
      optimizer: of `make_optimizer`.
      mesh: of `make_mesh`.
      key: what first weights are drawn from.
      head: what the model ends in.
      keep_ema: whether the average of weights is kept.

    Raises:
      ShardingError: a parameter that the mesh does not divide, by name.
    """

    def create(key: jax.Array) -> TrainState:
        return _first_state(initial_parameters(config, key, head), optimizer, keep_ema)

    shardings = _shardings(jax.eval_shape(create, key), parameter_shardings(mesh, config, head), mesh)
    state: TrainState = jax.jit(create, out_shardings=shardings)(key)
    check_state(state)
    return state


def train_state_from(
    params: Params,
    config: TransformerConfig,
    optimizer: optax.GradientTransformation,
    mesh: Mesh,
    *,
    head: Head = "logits",
    keep_ema: bool = True,
) -> TrainState:
    """A first state around weights that are there already: open ones, or those of the training before.

    The state has copies of them, so that the first step, which is given the state to overwrite, spares the caller's.
    Arguments and errors as in `create_train_state`; `params` may lie anywhere.
    """

    def start(params: Params) -> TrainState:
        return _first_state(jax.tree.map(jnp.copy, params), optimizer, keep_ema)

    placed = parameter_shardings(mesh, config, head)
    shardings = _shardings(jax.eval_shape(start, params), placed, mesh)
    state: TrainState = jax.jit(start, in_shardings=(placed,), out_shardings=shardings)(jax.device_put(params, placed))
    check_state(state)
    return state


def abstract_train_state(
    config: TransformerConfig,
    optimizer: optax.GradientTransformation,
    mesh: Mesh,
    *,
    head: Head = "logits",
    keep_ema: bool = True,
) -> TrainState:
    """As `create_train_state`, of shapes, types and shardings without data: to compile for, or to restore into."""

    def create(key: jax.Array) -> TrainState:
        return _first_state(initial_parameters(config, key, head), optimizer, keep_ema)

    shapes = jax.eval_shape(create, jax.random.key(0))
    abstract: TrainState = jax.tree.map(
        lambda shape, sharding: jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding),
        shapes,
        _shardings(shapes, parameter_shardings(mesh, config, head), mesh),
    )
    return abstract


def shardings_of(state: TrainState) -> TrainState:
    """Where each array of a state, or of an abstract one, lies."""
    shardings: TrainState = jax.tree.map(lambda array: array.sharding, state)
    return shardings


def check_state(state: TrainState) -> None:
    """Raises `ShardingError` unless the average and every moment lie exactly as their parameters do."""
    if state.ema_params is not None:
        check_alike(state.params, state.ema_params, "averages")
    nodes = jax.tree.leaves(state.opt_state, is_leaf=lambda node: _is_nested_as(node, state.params))
    moments = [node for node in nodes if _is_nested_as(node, state.params)]
    for number, moment in enumerate(moments, 1):
        check_alike(state.params, moment, f"moments {number}")


def _first_state(params: Params, optimizer: optax.GradientTransformation, keep_ema: bool) -> TrainState:
    average = jax.tree.map(lambda param: jnp.array(param, jnp.float32, copy=True), params) if keep_ema else None
    return TrainState(jnp.zeros((), jnp.int32), params, average, optimizer.init(params))


def _shardings(shapes: TrainState, params: Any, mesh: Mesh) -> TrainState:
    """The parameters' shardings for all that is nested as they are, a copy on each device of the rest (counters)."""
    everywhere = replicated(mesh)

    def place(node: Any) -> Any:
        return params if _is_nested_as(node, shapes.params) else everywhere

    opt_state = jax.tree.map(place, shapes.opt_state, is_leaf=lambda node: _is_nested_as(node, shapes.params))
    average = None if shapes.ema_params is None else params
    return TrainState(step=everywhere, params=params, ema_params=average, opt_state=opt_state)  # type: ignore[arg-type]


def _is_nested_as(node: Any, params: Params) -> bool:
    structure: Any = jax.tree.structure(params)
    return bool(structure == jax.tree.structure(node))
