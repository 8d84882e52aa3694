"""The training step of a plan, compiled for TPUs on a machine that has none: does it fit?

libtpu brings a compiler that needs no chip. It is given the very step that training runs, `make_train_step`, with
abstract arrays in their places on the mesh; nothing is allocated. Its word on memory is the one that counts: where a
step does not fit, it refuses.
"""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import Mesh

from webgpt_jax.models.parameters import Head
from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
from webgpt_jax.training.plans import Plan, estimate_memory
from webgpt_jax.training.preflight_losses import batch_shapes, loss_for
from webgpt_jax.training.sharding import MeshConfig, MeshSharding, batch_sharding, make_mesh, replicated
from webgpt_jax.training.topologies import GIB, Topology
from webgpt_jax.training.train_state import abstract_train_state, shardings_of
from webgpt_jax.training.train_step import StepConfig, make_train_step

_REFUSAL = re.compile(r"\((?P<needed>[\d.]+)(?P<unit>[KMG])\) exceeds available HBM \((?P<limit>[\d.]+)G\)")
_UNITS = {"K": 2**10, "M": 2**20, "G": GIB}

# libtpu looks for the machine it is on, by asking the network; several processes may compile at once.
_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5p-8",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


class PreflightError(RuntimeError):
    """The compiler could not say; the message says why and what to do."""


class CompilerMissingError(PreflightError):
    """libtpu is not installed, or not for this machine."""


class DoesNotFitError(PreflightError):
    """The compiler refused: the step needs more memory than a chip has."""

    def __init__(self, needed: float | None) -> None:
        self.needed = needed  # bytes beside the state, where the compiler says
        amount = "more memory than a chip has" if needed is None else f"{needed / GIB:.1f} GiB a chip beside its state"
        super().__init__(f"the compiler refuses: the step needs {amount}")


@dataclass(frozen=True)
class Compiled:
    """What the compiler says of a step, in bytes on one chip."""

    state: float  # what stays from step to step, models at rest included
    peak: float  # the most in use at any time
    reserved: float  # what the program is given to run in: with the gaps between arrays, its code and what it gives out
    seconds: float  # that compiling took


def compile_plan(plan: Plan) -> Compiled:
    """Compiles the step of each model that learns; the others' states lie beside it meanwhile.

    Raises:
      DoesNotFitError: it needs more memory than a chip has.
      CompilerMissingError: there is no libtpu.
      PreflightError: the compiler failed otherwise.
      ShardingError: the plan does not divide.
    """
    plan.validate()
    begin = time.monotonic()
    data, fsdp, tensor = plan.mesh
    mesh = make_mesh(MeshConfig(data, fsdp, tensor), topology_devices(plan.topology))
    steps = [_compile_step(plan, mesh, head) for head in plan.heads]
    state = estimate_memory(plan).frozen + sum(step.state for step in steps)
    peak = max(state - step.state + step.peak for step in steps)
    reserved = max(state - step.state + step.reserved for step in steps)
    if reserved > plan.topology.chip.memory:  # the compiler looks at one program, and at no model beside it
        raise DoesNotFitError(reserved - state)
    return Compiled(state, peak, reserved, time.monotonic() - begin)


def topology_devices(topology: Topology) -> Sequence[jax.Device]:
    """The chips of a slice as devices that programs can be compiled for.

    Raises:
      CompilerMissingError: there is no libtpu.
      PreflightError: libtpu does not know the slice.
    """
    if importlib.util.find_spec("libtpu") is None:
        raise CompilerMissingError("libtpu, the compiler, is not installed: pip install -e '.[tpu]' (Linux)")
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        description = topologies.get_topology_desc(topology.name, "tpu", **topology.chip.compiler_options)
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise PreflightError(f"libtpu cannot compile for {topology.name}: {reason}") from error
    return description.devices


def _compile_step(plan: Plan, mesh: Mesh, head: Head) -> Compiled:
    """The step of one model."""
    begin = time.monotonic()
    optimizer = make_optimizer(OptimizerConfig())
    state = abstract_train_state(plan.config, optimizer, mesh, head=head, keep_ema=plan.keep_ema)
    loss = loss_for(plan.task, head, plan.config, MeshSharding(mesh))
    step = make_train_step(loss, optimizer, shardings_of(state), StepConfig(microbatches=plan.microbatches))
    rows = {
        name: jax.ShapeDtypeStruct(shape, dtype, sharding=batch_sharding(mesh))
        for name, (shape, dtype) in batch_shapes(plan.task, head, plan.batch, plan.length).items()
    }
    key = jax.eval_shape(lambda: jax.random.key(0))
    key = jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=replicated(mesh))
    try:
        compiled = step.lower(state, rows, key).compile()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise PreflightError(f"the compiler failed: {str(error).splitlines()[0]}") from error
        refusal = _REFUSAL.search(str(error))
        needed = None if refusal is None else float(refusal["needed"]) * _UNITS[refusal["unit"]]
        raise DoesNotFitError(needed) from error
    memory: Any = compiled.memory_analysis()
    state = memory.argument_size_in_bytes
    new = memory.output_size_in_bytes - memory.alias_size_in_bytes
    reserved = state + memory.temp_size_in_bytes + new + memory.generated_code_size_in_bytes
    peak = memory.peak_memory_in_bytes
    return Compiled(state, peak, max(peak, reserved), time.monotonic() - begin)
