"""The training step of a plan, compiled for TPUs or GPUs on a machine that has none: does it fit?

libtpu brings a compiler that needs no chip, JAX's CUDA plugin one that needs no GPU, only a description of it. It is
given the very step that training runs, `make_train_step`, with abstract arrays in their places on the mesh; nothing is
allocated. Its word on memory is the one that counts: where a step does not fit, libtpu refuses, and the CUDA compiler
says how much it takes. That is experimental: kernels are chosen without trying them, where a GPU would try them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import Mesh

from webgpt_jax.models.parameters import Head
from webgpt_jax.preflight.losses import batch_shapes, loss_for
from webgpt_jax.preflight.plans import Plan, estimate_memory
from webgpt_jax.preflight.topologies import GIB, Topology
from webgpt_jax.training.optimizer import OptimizerConfig, make_optimizer
from webgpt_jax.training.sharding import MeshConfig, MeshSharding, batch_sharding, make_mesh, replicated
from webgpt_jax.training.train_state import abstract_train_state, shardings_of
from webgpt_jax.training.train_step import StepConfig, make_train_step

_REFUSAL = re.compile(r"\((?P<needed>[\d.]+)(?P<unit>[KMG])\) exceeds available HBM \((?P<limit>[\d.]+)G\)")
_UNITS = {"K": 2**10, "M": 2**20, "G": GIB}


@dataclass(frozen=True)
class _Compiler:
    name: str
    modules: tuple[str, ...]  # any of them has it
    cure: str
    environment: Mapping[str, str]
    options: Mapping[str, bool | str]  # of each program


_COMPILERS: Mapping[str, _Compiler] = MappingProxyType(
    {
        "tpu": _Compiler(
            "libtpu",
            ("libtpu",),
            "pip install -e '.[tpu]'",
            # It looks for the machine it is on, by asking the network; several processes may compile at once.
            {
                "TPU_SKIP_MDS_QUERY": "1",
                "TPU_WORKER_HOSTNAMES": "localhost",
                "TPU_ACCELERATOR_TYPE": "v5p-8",
                "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            },
            {},
        ),
        "cuda": _Compiler(
            "the CUDA plugin",
            ("jax_cuda12_plugin", "jax_cuda13_plugin"),
            "pip install -e '.[train,gpu]'",
            {},
            # Triton's products of matrices are tiled by trial on a GPU; without one some have no tiling.
            {"xla_gpu_enable_triton_gemm": False},
        ),
    }
)


class PreflightError(RuntimeError):
    """The compiler could not say; the message says why and what to do."""


class CompilerMissingError(PreflightError):
    """The compiler is not installed, or not for this machine."""


class DoesNotFitError(PreflightError):
    """The step needs more memory than a chip has, by the compiler."""

    def __init__(self, needed: float | None) -> None:
        self.needed = needed  # bytes beside the state, where the compiler says
        amount = "more memory than a chip has" if needed is None else f"{needed / GIB:.1f} GiB a chip beside its state"
        super().__init__(f"by the compiler the step needs {amount}")


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
      CompilerMissingError: the compiler is not installed.
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
    """The chips of a slice, or the GPUs of a cluster, as devices that programs can be compiled for.

    Raises:
      CompilerMissingError: there is no libtpu, or no CUDA plugin.
      PreflightError: the compiler does not know the topology.
    """
    compiler = _COMPILERS[topology.chip.platform]
    if not any(importlib.util.find_spec(module) for module in compiler.modules):
        raise CompilerMissingError(f"{compiler.name}, the compiler, is not installed: {compiler.cure} (Linux)")
    for name, value in compiler.environment.items():
        os.environ.setdefault(name, value)
    options = topology.chip.compiler_options
    if topology.chip.platform == "cuda":
        options = {**options, "topology": "x".join(map(str, (1, *topology.shape)))}  # of one NVLink domain a node
    try:
        description = topologies.get_topology_desc(topology.name, topology.chip.platform, **options)
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise PreflightError(f"{compiler.name} cannot compile for {topology.name}: {reason}") from error
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
        lowered = step.lower(state, rows, key)
        compiled = lowered.compile(compiler_options=dict(_COMPILERS[plan.topology.chip.platform].options))
    except RuntimeError as error:  # JAX's own errors are such, and what it raises where there is no cuDNN
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
