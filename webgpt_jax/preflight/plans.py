"""A training run on a slice before there is one: what it keeps in memory, what it computes and moves, reckoned by hand.

The reckoning of memory is checked against compiled programs (tests/preflight/test_compiler.py) and serves to search:
which mesh, which slice, which batch. What counts is what the compiler says, `compiler.compile_plan`.

Times are bounds, not forecasts: chips at their peak in all three respects, nothing waiting. On a torus every axis is
closed and used both ways; `tensor` communicates along one, `fsdp` and `data` along the others. On nodes of GPUs what an
axis of the mesh exchanges goes over the switch and, once for each node, over the network, both at a time.

Legend: B sequences a device works on at once, T length, D embed_dim, N heads, H head_dim, F mlp_dim, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from jax.sharding import AbstractMesh

from webgpt_jax.models import TransformerConfig
from webgpt_jax.models.flops import forward_flops, parameter_count, training_flops
from webgpt_jax.models.parameters import Head
from webgpt_jax.preflight.topologies import Nodes, Topology
from webgpt_jax.training.sharding import MESH_AXES, check_batch, parameter_shardings

Task = Literal["bc", "rm", "ppo"]
TASKS: tuple[Task, ...] = get_args(Task)

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
MOMENTS = 2  # Adam's, float32 each
FUSED = ("splash", "cudnn")  # attention whose scores are never in memory, nor computed where masked


@dataclass(frozen=True)
class Plan:
    """One way to train. `validate()` says what does not divide."""

    config: TransformerConfig
    task: Task
    topology: Topology
    mesh: tuple[int, int, int]  # data, fsdp, tensor
    batch: int  # demonstrations' sequences, comparisons, or timesteps a step
    length: int  # tokens of a sequence
    microbatches: int = 1
    keep_ema: bool = False  # the float32 average of weights (BC's and RM's)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without devices."""
        return AbstractMesh(self.mesh, MESH_AXES)

    @property
    def heads(self) -> tuple[Head, ...]:
        """What each model that learns ends in; PPO trains a policy and a value model."""
        heads: dict[Task, tuple[Head, ...]] = {"bc": ("logits",), "rm": ("scalar",), "ppo": ("logits", "scalar")}
        return heads[self.task]

    @property
    def frozen_heads(self) -> tuple[Head, ...]:
        """What each model beside them ends in: PPO's reference policy and reward model."""
        return ("logits", "scalar") if self.task == "ppo" else ()

    @property
    def sequences(self) -> int:
        """Sequences a step: a comparison is of two."""
        return self.batch * (2 if self.task == "rm" else 1)

    @property
    def rows(self) -> int:
        """Sequences that a device works on at once, B."""
        data, fsdp, _ = self.mesh
        return self.sequences // (data * fsdp * self.microbatches)

    def validate(self) -> None:
        """Raises `ShardingError` for what the mesh does not divide, `ConfigError` for a model that cannot be."""
        self.config.validate()
        mesh = self.abstract_mesh
        for head in self.heads:
            parameter_shardings(mesh, self.config, head)  # type: ignore[arg-type]  # reads its shape alone
        check_batch(mesh, self.batch, self.microbatches)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Memory:
    """Bytes on one chip."""

    parameters: float  # of the models that learn
    optimizer: float  # Adam's moments
    average: float  # of weights
    frozen: float  # models that do not learn
    gradients: float
    activations: float  # kept for the backward pass, and the most that is worked on at once

    @property
    def state(self) -> float:
        """What stays from step to step."""
        return self.parameters + self.optimizer + self.average + self.frozen

    @property
    def peak(self) -> float:
        """All of it at once."""
        return self.state + self.gradients + self.activations


@dataclass(frozen=True)
class Work:
    """One step of all chips: operations, and the seconds that each kind of work takes at a chip's peak."""

    model_flops: float  # without what is computed twice: what MFU counts
    flops: float
    compute_seconds: float
    memory_seconds: float
    network_seconds: float

    @property
    def least_seconds(self) -> float:
        """With all three at once."""
        return max(self.compute_seconds, self.memory_seconds, self.network_seconds)

    @property
    def most_seconds(self) -> float:
        """With one after the other."""
        return self.compute_seconds + self.memory_seconds + self.network_seconds

    def utilization(self, plan: Plan, seconds: float) -> float:
        """MFU: the model's operations over what the chips could do in that time."""
        return self.model_flops / (seconds * plan.topology.chips * plan.topology.chip.peak_flops)


def estimate_memory(plan: Plan) -> Memory:
    """What a step needs, by hand."""
    size = BYTES[plan.config.param_dtype]
    learning = [_shard(plan, head) for head in plan.heads]
    return Memory(
        parameters=sum(learning) * size,
        optimizer=sum(learning) * 4 * MOMENTS,
        average=sum(learning) * 4 if plan.keep_ema else 0.0,
        frozen=sum(_shard(plan, head) for head in plan.frozen_heads) * size,
        # One model learns after the other. Parts of a batch add up in float32.
        gradients=max(learning) * (4 + size if plan.microbatches > 1 else size),
        activations=_kept(plan) + max(_block_work(plan), _logits(plan)),
    )


def _shard(plan: Plan, head: Head) -> float:
    """Parameters on a chip. The rules split all large ones over `fsdp` and `tensor`."""
    _, fsdp, tensor = plan.mesh
    return parameter_count(plan.config, head) / (fsdp * tensor)


def _stream(plan: Plan) -> float:
    """Bytes of the residual stream of a block, whole."""
    return plan.rows * plan.length * plan.config.embed_dim * BYTES[plan.config.dtype]


def _along_sequence(plan: Plan) -> int:
    """Parts that the residual stream lies in between blocks."""
    return plan.mesh[2] if plan.length % plan.mesh[2] == 0 else 1


def _inner(plan: Plan) -> tuple[float, float]:
    """Bytes of one block's products, and of its attention's float32 scores."""
    config, tensor = plan.config, plan.mesh[2]
    tokens, size = plan.rows * plan.length, BYTES[config.dtype]
    heads = config.num_heads * config.head_dim
    hidden = config.mlp_dim * (2 if config.gated_mlp else 1)
    products = tokens * size * (2 * heads + 2 * config.kv_heads * config.head_dim + 2 * hidden) / tensor
    if config.attention in FUSED:
        return products, 0.0
    return products, plan.rows * config.num_heads * plan.length**2 * 4 / tensor


def _kept(plan: Plan) -> float:
    """What the forward pass leaves for the backward pass."""
    config = plan.config
    kept = _stream(plan) / _along_sequence(plan)
    products, scores = _inner(plan)
    if config.remat == "dots":
        kept += products + 2 * _stream(plan)
    if config.remat == "none":
        kept += 2 * products + scores + 4 * _stream(plan)
    return config.num_layers * kept


def _layer_parameters(plan: Plan) -> float:
    """Of one block, split over `tensor` alone, as it is computed with."""
    config = plan.config
    blocks = parameter_count(config, "scalar") - config.padded_vocab_size * config.embed_dim
    return blocks / config.num_layers / plan.mesh[2]


def _block_work(plan: Plan) -> float:
    """Of the block whose backward pass runs: its weights and those of the next, their gradients, its activations."""
    products, scores = _inner(plan)
    again = products + scores if plan.config.remat != "none" else 0.0
    weights = 3 * _layer_parameters(plan) * BYTES[plan.config.dtype]
    return weights + again + products + scores + 4 * _stream(plan)


def _logits(plan: Plan) -> float:
    """Float32 logits, and their gradient: libtpu's compiler puts it in their place, the CUDA compiler beside them."""
    if "logits" not in plan.heads:
        return 0.0
    copies = 2 if plan.topology.chip.platform == "cuda" else 1
    return copies * 4 * plan.rows * plan.length * plan.config.padded_vocab_size / plan.mesh[2]


def estimate_work(plan: Plan) -> Work:
    """What a step computes and moves, and the least time for it."""
    config, chip = plan.config, plan.topology.chip
    causal = config.attention in FUSED
    model_flops = sum(_training(plan, head, rematerialized=False) for head in plan.heads)
    flops = sum(_training(plan, head, rematerialized=config.remat == "full") for head in plan.heads)
    # PPO scores what it samples once by the reference and the reward model; a rollout is trained on once.
    scoring = sum(
        plan.sequences * forward_flops(config, plan.length, head, causal=causal) for head in plan.frozen_heads
    )
    chips = plan.topology.chips
    return Work(
        model_flops=model_flops + scoring,
        flops=flops + scoring,
        compute_seconds=(flops + scoring) / (chips * chip.peak_flops),
        memory_seconds=len(plan.heads) * _memory_traffic(plan) / chip.memory_bandwidth,
        network_seconds=len(plan.heads) * _network_seconds(plan),
    )


def _training(plan: Plan, head: Head, *, rematerialized: bool) -> int:
    causal = plan.config.attention in FUSED
    each = training_flops(plan.config, plan.length, head, causal=causal, rematerialized=rematerialized)
    return plan.sequences * each


def _passes(plan: Plan) -> int:
    """Through the blocks: forward, backward, and forward again."""
    return 2 if plan.config.remat == "none" else 3


def _memory_traffic(plan: Plan) -> float:
    """Bytes between a chip and its HBM: the state once in and out, weights and activations written and read a pass."""
    memory = estimate_memory(plan)
    weights = plan.config.num_layers * _layer_parameters(plan) * BYTES[plan.config.dtype]
    products, scores = _inner(plan)
    activations = plan.config.num_layers * (products + scores + 4 * _stream(plan)) + _logits(plan)
    learning = (memory.state - memory.frozen + memory.gradients) / len(plan.heads)
    return 2 * (learning + plan.microbatches * _passes(plan) * (weights + activations))


def _network_seconds(plan: Plan) -> float:
    links = plan.topology.chip.links
    if isinstance(links, Nodes):
        return _cluster_seconds(plan, links)
    data, fsdp, tensor = (volume * (size - 1) / size for volume, size in zip(_exchanged(plan), plan.mesh, strict=True))
    axis_bandwidth = 2 * links.link_bandwidth
    axes = sum(side > 1 for side in plan.topology.shape)
    shared = axes < 2 or tensor == 0 or data + fsdp == 0
    if shared:
        return (data + fsdp + tensor) / (max(axes, 1) * axis_bandwidth)
    return max((data + fsdp) / (axes - 1), tensor) / axis_bandwidth


def _exchanged(plan: Plan) -> tuple[float, float, float]:
    """Bytes that a chip puts together from all along each axis of the mesh: what it gathers, and what it reduces."""
    config, size = plan.config, BYTES[plan.config.dtype]
    # Weights are gathered for the forward and the backward pass, gradients reduced once, each part of the batch.
    weights = config.num_layers * _layer_parameters(plan) * size
    # Each branch gathers the stream along the sequence and scatters what it adds, in each pass.
    streams = _passes(plan) * plan.microbatches * config.num_layers * 4 * _stream(plan)
    return 2 * 4 * _shard(plan, plan.heads[0]), 3 * plan.microbatches * weights, streams


def _cluster_seconds(plan: Plan, links: Nodes) -> float:
    """Devices are laid on the mesh node by node, `tensor` innermost. Those of an axis that share a node bring in
    together, each over its own link, what the other nodes have, and pass it on over the switch."""
    switch = network = 0.0
    stride = 1
    for volume, size in zip(reversed(_exchanged(plan)), reversed(plan.mesh), strict=True):
        near = math.gcd(size, max(links.size // stride, 1))
        switch += volume * (size - 1) / size
        network += volume * (size - near) / size / near
        stride *= size
    return max(switch / links.switch_bandwidth, network / links.network_bandwidth)
