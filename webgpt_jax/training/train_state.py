"""What training carries from step to step."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import optax

from webgpt_jax.models import Params


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """All that a step changes; a pytree, so that it is jitted, donated, sharded and saved as one."""

    step: jax.Array  # [] int32: updates made so far
    params: Params  # the weights that learn, in `param_dtype`
    ema_params: Params | None  # their moving average, or None where none is kept
    opt_state: optax.OptState  # the optimizer's; its moments are nested, shaped and sharded as `params`
