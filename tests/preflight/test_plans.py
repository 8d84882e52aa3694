"""What a plan needs, against numbers worked out by hand; the search for meshes and for what fits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.training.tiny import LEARNED
from webgpt_jax.models import preset
from webgpt_jax.models.config import AttentionKind
from webgpt_jax.preflight.plan_search import alternatives, best_mesh, fits, meshes
from webgpt_jax.preflight.plans import Plan, Task, estimate_memory, estimate_work
from webgpt_jax.preflight.topologies import GIB, parse_topology
from webgpt_jax.training.sharding import ShardingError

PARAMETERS_175B = 174_604_836_864
LARGE = preset("175b", dtype="bfloat16", param_dtype="bfloat16", remat="full", attention="splash")


def large(task: Task = "bc", topology: str = "v5p:8x8x8", mesh: tuple[int, int, int] = (1, 64, 8)) -> Plan:
    return Plan(LARGE, task, parse_topology(topology), mesh, 512, 2048)


def test_the_state_is_counted_on_all_chips() -> None:
    memory = estimate_memory(replace(large(), keep_ema=True))
    assert memory.parameters * 512 == pytest.approx(2 * PARAMETERS_175B)
    assert memory.optimizer * 512 == pytest.approx(8 * PARAMETERS_175B)
    assert memory.average * 512 == pytest.approx(4 * PARAMETERS_175B)
    assert memory.frozen == 0
    assert memory.state == memory.parameters + memory.optimizer + memory.average
    assert memory.peak == memory.state + memory.gradients + memory.activations


def test_copies_of_the_model_save_no_memory() -> None:
    split, copied = estimate_memory(large()), estimate_memory(large(mesh=(4, 16, 8)))
    assert copied.state == pytest.approx(4 * split.state)


def test_ppo_holds_four_models_and_trains_two() -> None:
    one, four = estimate_memory(large()), estimate_memory(large("ppo"))
    assert four.optimizer == pytest.approx(2 * one.optimizer, rel=1e-4)
    assert four.frozen == pytest.approx(2 * one.parameters, rel=1e-4)
    assert estimate_work(large("ppo")).model_flops > 2 * estimate_work(large()).model_flops


def test_a_comparison_is_two_sequences() -> None:
    assert (large("rm").sequences, large("rm").rows) == (1024, 16)


def test_operations_and_least_time_of_a_step() -> None:
    work = estimate_work(large())
    # 6 operations a parameter and token, and attention's, on half of the pairs: 12 L N H T / 2 a token.
    expected = 512 * 2048 * (6 * (PARAMETERS_175B - 2048 * 12288) + 6 * 96 * 12288 * 2048)
    assert work.model_flops == pytest.approx(expected, rel=1e-3)
    assert work.compute_seconds == pytest.approx(work.flops / (512 * 459e12))
    assert 1.2 < work.flops / work.model_flops < 4 / 3
    assert work.least_seconds >= work.compute_seconds
    assert work.most_seconds >= work.least_seconds
    assert work.utilization(large(), work.least_seconds) == pytest.approx(work.model_flops / work.flops)


def test_one_chip_has_no_network() -> None:
    plan = Plan(LEARNED, "bc", parse_topology("v5e:1x1"), (1, 1, 1), 8, 16)
    assert estimate_work(plan).network_seconds == 0


def test_without_rematerialisation_175b_does_not_fit_and_with_it_it_does() -> None:
    plan = large()
    assert fits(plan)
    kept = replace(plan, config=replace(LARGE, remat="none", attention="plain"))
    assert estimate_memory(kept).peak > 400 * GIB
    assert not fits(kept)
    changes = [alternative.change for alternative in alternatives(kept)]
    assert changes[0] == "remat full"
    assert all(fits(alternative.plan) for alternative in alternatives(kept))


def test_what_does_not_fit_anywhere_near_has_no_alternative() -> None:
    wide = replace(LARGE, embed_dim=12288 * 16, num_heads=96 * 16, mlp_dim=4 * 12288 * 16)
    assert alternatives(replace(large(topology="v4:2x2x1", mesh=(1, 4, 1)), config=wide)) == []


def test_a_larger_slice_and_a_smaller_batch_are_found() -> None:
    config = preset("13b", dtype="bfloat16", param_dtype="bfloat16", remat="full", attention="splash")
    plan = Plan(config, "bc", parse_topology("v5e:4x4"), (1, 4, 4), 512, 2048)
    assert not fits(plan)
    found = {alternative.change.split()[0]: alternative.plan for alternative in alternatives(plan)}
    assert found["topology"].topology.chips > 16
    assert found["batch"].batch < 512
    for alternative in found.values():
        alternative.validate()
        assert fits(alternative)


def test_where_no_slice_of_the_chip_holds_the_batch_it_is_computed_in_parts() -> None:
    plan = Plan(LARGE, "bc", parse_topology("v5e:1x1"), (1, 1, 1), 512, 2048)
    (alternative,) = alternatives(plan)
    assert alternative.change == f"topology v5e:16x16 and {alternative.plan.microbatches} microbatches"
    assert fits(alternative.plan)


def test_where_no_slice_of_the_chip_holds_the_state_another_chip_is_named() -> None:
    config = replace(LARGE, num_layers=4 * 96)
    (alternative,) = alternatives(Plan(config, "bc", parse_topology("v5e:1x1"), (1, 1, 1), 512, 2048))
    assert alternative.plan.topology.chip.name == "v5p"
    assert fits(alternative.plan)


def test_the_search_ends_for_any_batch() -> None:
    plan = replace(large(), batch=10**15)
    assert all(fits(alternative.plan) for alternative in alternatives(plan))


def test_every_mesh_offered_divides_the_plan() -> None:
    config = preset("13b", param_dtype="bfloat16")
    plan = Plan(config, "bc", parse_topology("v5p:4x4x8"), (1, 1, 1), 512, 2048)
    found = list(meshes(plan))
    assert {choice.mesh for choice in found} >= {(4, 4, 8), (32, 4, 1), (128, 1, 1)}
    assert all(math.prod(choice.mesh) == 128 for choice in found)
    for choice in found:
        choice.validate()
    wanted = [choice.mesh for choice in meshes(plan, (None, 4, None))]
    assert (4, 4, 8) in wanted
    assert {mesh[1] for mesh in wanted} == {4}


def cluster(topology: str, mesh: tuple[int, int, int], attention: AttentionKind = "plain") -> Plan:
    return replace(large(topology=topology, mesh=mesh), config=replace(LARGE, attention=attention))


def test_within_a_node_gpus_exchange_over_their_switch() -> None:
    # In 16 bits, weights gathered twice and gradients reduced once: 7/8 of each from others, at 450 GB/s.
    weights = 96 * (12 * 12288**2 + 13 * 12288)  # and biases and norms: 9 + 4 rows of the width
    expected = 3 * 2 * weights * 7 / 8 / 450e9
    assert estimate_work(cluster("h100:8", (1, 8, 1))).network_seconds == pytest.approx(expected, rel=1e-3)
    assert estimate_work(cluster("h100:1", (1, 1, 1))).network_seconds == 0


def test_between_nodes_each_gpu_has_a_link_and_those_of_an_axis_share_what_comes_in() -> None:
    weights = 96 * (12 * 12288**2 + 13 * 12288)
    # All 64 on one axis: 56/64 come from other nodes, an eighth of it over each of a node's eight links.
    shared = 3 * 2 * weights * 56 / 64 / 8 / 50e9
    assert estimate_work(cluster("h100:8x8", (1, 64, 1))).network_seconds == pytest.approx(shared, rel=1e-3)
    # Eight GPUs of different nodes on an axis: each brings in 7/8 of its eighth of the weights itself.
    alone = 3 * 2 * weights / 8 * 7 / 8 / 50e9
    plan = replace(cluster("h100:8x8", (1, 8, 8)), batch=8, length=128)  # short: the switch has less to do
    assert estimate_work(plan).network_seconds == pytest.approx(alone, rel=1e-3)


def test_cudnn_never_splits_heads_and_counts_no_scores() -> None:
    plan = cluster("h100:8x8", (1, 64, 1), "cudnn")
    assert {choice.mesh[2] for choice in meshes(plan)} == {1}
    assert estimate_memory(plan).peak < estimate_memory(cluster("h100:8x8", (1, 64, 1))).peak
    assert estimate_work(plan).flops < estimate_work(cluster("h100:8x8", (1, 64, 1))).flops


def test_gpus_are_replaced_by_gpus() -> None:
    plan = cluster("h100:8", (1, 8, 1), "cudnn")
    assert not fits(plan)
    changes = [alternative.change for alternative in alternatives(plan)]
    assert changes[-1].startswith("topology h100:")
    wide = replace(plan, config=replace(plan.config, num_layers=16 * 96))
    assert {alternative.plan.topology.chip.name for alternative in alternatives(wide)} <= {"h100", "h200"}


def test_what_no_mesh_divides_is_refused_by_name() -> None:
    plan = Plan(LEARNED, "bc", parse_topology("v5p:2x2x1"), (4, 1, 1), 3, 16)
    assert best_mesh(plan) is None or best_mesh(plan).mesh[2] == 4  # type: ignore[union-attr]
    with pytest.raises(ShardingError, match="batch of 3"):
        plan.validate()
    with pytest.raises(ShardingError, match="embed"):
        replace(plan, config=replace(LEARNED, embed_dim=30), mesh=(1, 4, 1), batch=4).validate()
