"""The names that a model gives its activations, and that placing them on a mesh by name changes no number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tests.models.shapes import LEARNED, ROTARY, random_parameters
from webgpt_jax.models import Transformer, Unsharded, logical_axes
from webgpt_jax.models.parameters import Axes

RULES = {"batch": "data", "residual_length": "tensor", "kv_heads": "tensor", "heads": "tensor", "mlp": "tensor"}


@dataclass(frozen=True)
class Recorded(Unsharded):
    """Notes the names it is given."""

    seen: list[tuple[Axes, tuple[int, ...]]] = field(default_factory=list, hash=False, compare=False)

    def constrain(self, array: jax.Array, axes: Axes) -> jax.Array:
        self.seen.append((axes, array.shape))
        return array


@dataclass(frozen=True)
class OnMesh(Unsharded):
    """Places activations by `RULES`, as a trainer would."""

    mesh: Mesh

    def constrain(self, array: jax.Array, axes: Axes) -> jax.Array:
        spec = PartitionSpec(*(RULES.get(name or "") for name in axes))
        return jax.lax.with_sharding_constraint(array, NamedSharding(self.mesh, spec))

    def per_device(
        self, function: Callable[..., jax.Array], inputs: tuple[Axes, ...], output: Axes
    ) -> Callable[..., jax.Array]:
        raise AssertionError("no kernel here")


def test_activations_are_named_and_of_as_many_axes() -> None:
    recorded = Recorded()
    config = replace(ROTARY, scan_layers=False, num_layers=1)
    Transformer(config, params=random_parameters(config), sharding=recorded)(jnp.zeros((2, 5), jnp.int32))
    assert recorded.seen == [
        (("batch", "residual_length", "embed"), (2, 5, 20)),
        (("batch", "length", "kv_heads", None, "head_dim"), (2, 5, 2, 2, 6)),
        (("batch", "length", "mlp"), (2, 5, 28)),
        (("batch", "residual_length", "embed"), (2, 5, 20)),
        (("batch", "length", "vocab"), (2, 5, 29)),
    ]


@pytest.mark.parametrize("config", [LEARNED, ROTARY], ids=["learned", "rotary"])
def test_a_model_on_a_mesh_computes_the_same(config: object) -> None:
    mesh = jax.make_mesh((4, 2), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2)
    tokens = jnp.array(np.random.default_rng(0).integers(0, 29, (4, 8)))
    model = Transformer(config, params=random_parameters(config))  # type: ignore[arg-type]
    graph, params = nnx.split(model, nnx.Param)

    def loss(params: nnx.State, sharding: Unsharded) -> jax.Array:
        merged = nnx.merge(graph, params)
        merged.sharding = sharding
        return jnp.square(merged(tokens)).mean()

    axes = logical_axes(params)
    placed = jax.tree.map(
        lambda array, names: jax.device_put(
            array, NamedSharding(mesh, PartitionSpec(*(RULES.get(name or "") for name in names)))
        ),
        nnx.to_pure_dict(params),
        axes,
        is_leaf=lambda entry: isinstance(entry, tuple),
    )
    assert placed["blocks"]["attention"]["out"].addressable_shards[0].data.shape == (2, 2, 6, 20)  # 2 of 4 heads
    nnx.replace_by_pure_dict(sharded := jax.tree.map(lambda array: array, params), placed)
    value, gradients = jax.jit(jax.value_and_grad(loss), static_argnums=1)(sharded, OnMesh(mesh))
    expected, expected_gradients = jax.jit(jax.value_and_grad(loss), static_argnums=1)(params, Unsharded())
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for gradient, wanted in zip(jax.tree.leaves(gradients), jax.tree.leaves(expected_gradients), strict=True):
        np.testing.assert_allclose(gradient, wanted, atol=1e-5 * float(np.abs(wanted).max()))
