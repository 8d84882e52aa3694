"""Which mesh a plan is best run on, and what nearest to it would fit where it does not, by the estimates of `plans`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from webgpt_jax.preflight.plans import Plan, estimate_memory, estimate_work
from webgpt_jax.preflight.topologies import CHIPS
from webgpt_jax.training.sharding import RULES

Sizes = tuple[int | None, int | None, int | None]  # of data, fsdp, tensor; None: any

ANY: Sizes = (None, None, None)


@dataclass(frozen=True)
class Alternative:
    """A plan that should fit, and what was changed for it."""

    change: str
    plan: Plan


def meshes(plan: Plan, wanted: Sizes = ANY) -> Iterator[Plan]:
    """The same plan on every mesh of its topology with the wanted sizes that divides its model and batch."""
    chips = plan.topology.chips
    divisors = [size for size in range(1, chips + 1) if chips % size == 0]
    for fsdp in divisors:
        for tensor in divisors:
            if chips % (fsdp * tensor):
                continue
            mesh = (chips // (fsdp * tensor), fsdp, tensor)
            asked = all(want in (None, size) for want, size in zip(wanted, mesh, strict=True))
            if asked and _divides(plan, mesh):
                yield replace(plan, mesh=mesh)


def _divides(plan: Plan, mesh: tuple[int, int, int]) -> bool:
    """Whether `plan.validate()` would pass on this mesh."""
    config = plan.config
    data, fsdp, tensor = mesh
    parts = {"fsdp": fsdp, "tensor": tensor}
    sizes = {
        "embed": config.embed_dim,
        "vocab": config.padded_vocab_size,
        "heads": config.num_heads,
        "mlp": config.mlp_dim,
    }
    whole = all(size % math.prod(parts[axis] for axis in RULES[name].parameters) == 0 for name, size in sizes.items())
    if config.attention == "cudnn" and tensor > 1:
        return False
    return whole and plan.batch % (data * fsdp * plan.microbatches) == 0


def best_mesh(plan: Plan, wanted: Sizes = ANY) -> Plan | None:
    """On the mesh it fits on with the shortest step, else on that with the least memory; None: none divides."""
    choices = list(meshes(plan, wanted))
    fitting = [choice for choice in choices if fits(choice)]
    if fitting:
        return min(fitting, key=lambda choice: (estimate_work(choice).most_seconds, estimate_memory(choice).peak))
    return min(choices, key=lambda choice: estimate_memory(choice).peak, default=None)


def fits(plan: Plan) -> bool:
    """By the estimate."""
    return estimate_memory(plan).peak <= plan.topology.chip.memory


def alternatives(plan: Plan) -> list[Alternative]:
    """What is nearest to a plan and should fit, one for each thing to change; the most to be wished for first."""
    found = (_rematerialized(plan), _in_parts(plan), _smaller_batch(plan), _larger_slice(plan))
    return [alternative for alternative in found if alternative is not None]


def _fitting(plan: Plan) -> Plan | None:
    """On its own mesh where it fits there, or on the best."""
    if _divides(plan, plan.mesh) and math.prod(plan.mesh) == plan.topology.chips and fits(plan):
        return plan
    best = best_mesh(plan)
    return best if best is not None and fits(best) else None


def _rematerialized(plan: Plan) -> Alternative | None:
    if plan.config.remat == "full":
        return None
    found = _fitting(replace(plan, config=replace(plan.config, remat="full")))
    return None if found is None else Alternative("remat full", found)


def _in_parts(plan: Plan) -> Alternative | None:
    microbatches = 2 * plan.microbatches
    while plan.batch % microbatches == 0:
        found = _fitting(replace(plan, microbatches=microbatches))
        if found is not None:
            return Alternative(f"{microbatches} microbatches", found)
        microbatches *= 2
    return None


def _smaller_batch(plan: Plan) -> Alternative | None:
    batch = plan.batch // 2
    while batch:
        found = _fitting(replace(plan, batch=batch))
        if found is not None:
            return Alternative(f"batch {batch}", found)
        batch //= 2
    return None


def _larger_slice(plan: Plan) -> Alternative | None:
    """Of the same chip; else that in microbatches; else of another chip of the same maker, the fewest first."""
    chip = plan.topology.chip
    larger = [topology for topology in chip.slices if topology.chips > plan.topology.chips]
    alike = [other for other in CHIPS.values() if other != chip and other.platform == chip.platform]
    others = [topology for other in alike for topology in other.slices]
    for topology in larger:
        found = _fitting(replace(plan, topology=topology))
        if found is not None:
            return Alternative(f"topology {topology.name}", found)
    for topology in larger:
        parts = _in_parts(replace(plan, topology=topology))
        if parts is not None:
            return Alternative(f"topology {topology.name} and {parts.change}", parts.plan)
    for topology in sorted(others, key=lambda topology: topology.chips):
        found = _fitting(replace(plan, topology=topology))
        if found is not None:
            return Alternative(f"topology {topology.name}", found)
    return None
