"""Counts against known models, against XLA's own count of compiled programs, and against counting one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.models.shapes import OPTIONS, random_parameters
from webgpt_jax.models import TransformerConfig, forward, initial_parameters, preset, unembed
from webgpt_jax.models.cache import create_cache, decode_step, prefill, unstack
from webgpt_jax.models.flops import (
    attention_flops,
    decode_flops,
    forward_flops,
    parameter_count,
    prefill_flops,
    seen_pairs,
    training_flops,
)

GPT2 = replace(preset("760m"), num_layers=12, embed_dim=768, num_heads=12, head_dim=64, mlp_dim=3072, max_length=1024)
LENGTH, CACHE = 128, 512


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (replace(GPT2, vocab_multiple=1), 124_439_808),  # as every copy of GPT-2 has it
        (preset("smollm2-135m"), 134_515_008),  # its model card's file
        (preset("760m"), 760_372_224),
        (preset("13b"), 12_936_729_960),
        (preset("175b"), 174_604_836_864),
    ],
    ids=["gpt2", "smollm2", "760m", "13b", "175b"],
)
def test_parameters_of_known_models(config: TransformerConfig, count: int) -> None:
    assert parameter_count(config) == count


@pytest.mark.parametrize("name", ["llama", "neox", "gptj", "qwen3", "padded vocabulary"])
def test_parameters_are_those_of_the_arrays(name: str) -> None:
    arrays = jax.tree.leaves(random_parameters(OPTIONS[name]))
    assert parameter_count(OPTIONS[name]) == sum(array.size for array in arrays)


def test_a_scalar_head_counts_its_own() -> None:
    assert parameter_count(OPTIONS["llama"], "scalar") == parameter_count(OPTIONS["llama"]) - 20 * 29 + 20 + 1


MODELS = {
    "gpt2": replace(GPT2, num_layers=2, vocab_size=2000, scan_layers=False),
    "smollm2": preset("smollm2-135m", num_layers=2, vocab_size=2000, scan_layers=False),
}


def program(config: TransformerConfig, kind: str) -> tuple[Callable[..., Any], tuple[Any, ...], int]:
    """A function, the shapes of its arguments, and our count."""
    ints = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.int32)
    params = jax.eval_shape(lambda: initial_parameters(config, jax.random.key(0)))
    apart, cache = jax.eval_shape(unstack, params), jax.eval_shape(lambda: create_cache(config, 1, CACHE))

    def logits(params: Any, tokens: jax.Array) -> jax.Array:
        return unembed(config, params, forward(config, params, tokens))

    def gradient(params: Any, tokens: jax.Array) -> Any:
        return jax.grad(lambda params: jnp.square(logits(params, tokens)).sum())(params)

    match kind:
        case "forward":
            return logits, (params, ints((1, LENGTH))), forward_flops(config, LENGTH)
        case "training":
            return gradient, (params, ints((1, LENGTH))), training_flops(config, LENGTH)
        case "prefill":
            arguments = (apart, cache, ints((1, LENGTH)), ints((1,)), ints((1,)), ints((1,)))
            return functools.partial(prefill, config), arguments, prefill_flops(config, LENGTH, CACHE)
        case _:
            return (
                functools.partial(decode_step, config),
                (apart, cache, ints((1,)), ints((1,))),
                decode_flops(config, CACHE),
            )


@pytest.mark.parametrize("kind", ["forward", "training", "prefill", "decode"])
@pytest.mark.parametrize("name", MODELS)
def test_operations_are_those_that_xla_counts(name: str, kind: str) -> None:
    function, arguments, ours = program(MODELS[name], kind)
    counted = jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]
    assert ours < counted < 1.01 * ours  # XLA adds norms, softmax and the like


@pytest.mark.parametrize("parallel", [False, True], ids=["in turn", "parallel"])
def test_rematerialisation_runs_the_blocks_twice(parallel: bool) -> None:
    config = replace(MODELS["gpt2"], parallel_residual=parallel)
    function, arguments, _ = program(replace(config, remat="full"), "training")
    counted = jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]
    ours = training_flops(config, LENGTH, rematerialized=True)
    assert ours < counted < 1.01 * ours


@pytest.mark.parametrize("window", [None, 1, 3, 50])
def test_pairs_that_see_each_other(window: int | None) -> None:
    config = replace(OPTIONS["llama"], sliding_window=window)
    pairs = sum(query - (window or 99) < key <= query for query in range(10) for key in range(10))
    assert seen_pairs(config, 10) == pairs
    saved = forward_flops(config, 10) - forward_flops(config, 10, causal=True)
    assert saved == attention_flops(config, 100 - pairs)


def test_the_papers_largest_model_takes_about_six_operations_a_parameter_and_token() -> None:
    config = preset("175b")
    a_token = training_flops(config, 2048) / 2048
    assert 6.0 < a_token / parameter_count(config) < 6.3
