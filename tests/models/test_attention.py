"""Masks as literals, the kernels against the plain definition, and clear errors where one cannot run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.shapes import ROTARY, random_parameters
from webgpt_jax.models import ConfigError, Transformer, Unsharded
from webgpt_jax.models.attention import causal_mask, plain_attention, splash_attention


def test_masks() -> None:
    def literal(*rows: str) -> list[list[bool]]:
        return [[cell == "x" for cell in row] for row in rows]

    assert causal_mask(3, None, None).tolist() == [literal("x..", "xx.", "xxx")]
    assert causal_mask(4, None, 2).tolist() == [literal("x...", "xx..", ".xx.", "..xx")]
    segments = jnp.array([[0, 1, 1, 2], [1, 1, 0, 0]])
    assert causal_mask(4, segments, None).tolist() == [
        literal("x...", ".x..", ".xx.", "...x"),
        literal("x...", "xx..", "..x.", "..xx"),
    ]


@pytest.mark.parametrize("window", [None, 17])
@pytest.mark.parametrize("packed", [False, True], ids=["one", "packed"])
def test_the_splash_kernel_is_the_plain_definition(packed: bool, window: int | None) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    length, kv_heads, group, head_dim = 150, 2, 2, 64  # padded to 256
    arrays = (
        jax.random.normal(keys[0], (2, length, kv_heads, group, head_dim)),
        jax.random.normal(keys[1], (2, length, kv_heads, head_dim)),
        jax.random.normal(keys[2], (2, length, kv_heads, head_dim)),
    )
    segments = (jnp.arange(length)[None] > jnp.array([[40], [0]])).astype(jnp.int32) if packed else None

    def run(kernel: object) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        def loss(*arrays: jax.Array) -> tuple[jax.Array, jax.Array]:
            mixed = (
                plain_attention(*arrays, segments, window)
                if kernel == "plain"
                else splash_attention(*arrays, segments, window, interpret=True)
            )
            return jnp.square(mixed).sum(), mixed

        (_, mixed), gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True))(*arrays)
        return mixed, gradients

    mixed, gradients = run("splash")
    expected, expected_gradients = run("plain")
    np.testing.assert_allclose(mixed, expected, atol=1e-5)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, wanted, atol=1e-5 * float(jnp.abs(wanted).max()))


@dataclass(frozen=True)
class OnTpu(Unsharded):
    """A program compiled for a TPU, on a machine without one."""

    @property
    def platform(self) -> str:
        return "tpu"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_a_model_with_the_splash_kernel_is_translated_for_tpus(dtype: str, masked: bool) -> None:
    config = replace(ROTARY, max_length=256, attention="splash", remat="full", dtype=dtype)
    model = Transformer(config, params=random_parameters(config), sharding=OnTpu())
    tokens = jnp.zeros((2, 256), jnp.int32)
    mask = jnp.ones((2, 256), bool) if masked else None
    step = jax.jit(jax.grad(lambda model: model(tokens, mask=mask).sum(), allow_int=True))
    assert step.trace(model).lower(lowering_platforms=("tpu",)).as_text().count("tpu_custom_call") == 3


@pytest.mark.parametrize(("kind", "needs"), [("splash", "a TPU"), ("cudnn", "an NVIDIA GPU")])
def test_an_attention_that_cannot_run_here_says_so(kind: str, needs: str) -> None:
    config = replace(ROTARY, attention=kind)
    model = Transformer(config, params=random_parameters(config))
    with pytest.raises(ConfigError, match=f"attention='{kind}' needs {needs}, not cpu: use 'plain' or 'xla'"):
        model(jnp.zeros((1, 4), jnp.int32))
