"""The engine over a mesh of fake devices: slots split over "data", heads, MLP and vocabulary over "tensor"."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from tests.sampling.models import CONFIG, SIZE, tiny_model
from webgpt_jax.models import logical_axes, parameters
from webgpt_jax.models.parameters import Axes
from webgpt_jax.sampling import Completion, Engine

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8]
RULES = {"batch": "data", "kv_heads": "tensor", "heads": "tensor", "mlp": "tensor"}


def mesh_of(data: int, tensor: int) -> jax.sharding.Mesh:
    if len(jax.devices()) < data * tensor:
        pytest.skip(f"needs {data * tensor} devices")
    devices = jax.devices()[: data * tensor]
    return jax.make_mesh((data, tensor), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2, devices=devices)


async def play(engine: Engine) -> list[Completion]:
    """Prefills, forks, a resumption, more requests than slots."""
    completions = await asyncio.gather(
        *(engine.generate(PROMPT[: 9 + number % 3], jax.random.key(number), 10, hold=True) for number in range(9))
    )
    return [*completions, await engine.resume(completions[0], 5), await engine.resume(completions[8], 5)]


@pytest.mark.parametrize(("data", "tensor"), [(2, 1), (1, 2), (2, 2)])
def test_the_same_on_a_mesh_as_on_one_device(data: int, tensor: int) -> None:
    mesh = mesh_of(data, tensor)

    def sharding_of(axes: Axes) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*(RULES.get(axis or "") for axis in axes)))

    model = tiny_model()
    shardings = jax.tree.map(sharding_of, logical_axes(model), is_leaf=lambda entry: isinstance(entry, tuple))
    placed = jax.device_put(parameters(model), shardings)
    with Engine(model, SIZE) as engine:
        expected = asyncio.run(play(engine))
    with Engine((CONFIG, placed), SIZE, sharding_of=sharding_of) as engine:
        answers = asyncio.run(play(engine))
        cache = engine._scheduler._programs._cache
    for answer, wanted in zip(answers, expected, strict=True):
        assert answer.tokens == wanted.tokens
        np.testing.assert_allclose(answer.logprobs, wanted.logprobs, atol=1e-4, rtol=0)
    # After all those steps the arrays still lie in parts, one on each device.
    keys = cache.keys[0]
    assert len(keys.sharding.device_set) == data * tensor
    shape = (SIZE.slots // data, CONFIG.kv_heads // tensor, CONFIG.head_dim, SIZE.max_length)
    assert {shard.data.shape for shard in keys.addressable_shards} == {shape}


def test_slots_that_do_not_divide_are_an_error_before_anything_runs() -> None:
    mesh = mesh_of(2, 1)

    def sharding_of(axes: Axes) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*(RULES.get(axis or "") for axis in axes)))

    params = jax.device_put(parameters(tiny_model()), NamedSharding(mesh, PartitionSpec()))
    with pytest.raises(ValueError, match=r"\b3\b"):
        Engine((CONFIG, params), replace(SIZE, slots=3), sharding_of=sharding_of)
