"""The transformer against a slow one in NumPy, and what must hold of any causal model."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.models.reference import reference_hidden, reference_logits
from tests.models.shapes import LEARNED, OPTIONS, ROTARY, random_parameters
from webgpt_jax.models import Transformer, TransformerConfig, logical_axes, parameters

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 28, 0, 7]


def build(config: TransformerConfig) -> Transformer:
    return Transformer(config, params=random_parameters(config))


@pytest.mark.parametrize("config", OPTIONS.values(), ids=OPTIONS)
def test_logits_are_those_of_the_slow_one(config: TransformerConfig) -> None:
    model = build(config)
    expected = reference_logits(config, random_parameters(config), TOKENS)
    logits = model(jnp.array([TOKENS]))
    assert logits.shape == (1, 12, 29)
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits[0], expected, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("name", ["gpt2", "opt", "llama", "mistral", "neox"])
def test_padding_on_either_side_changes_nothing(name: str) -> None:
    config = OPTIONS[name]
    model = build(config)
    rows, mask = np.full((3, 10), 8), np.zeros((3, 10), bool)
    sequences = [TOKENS[:10], TOKENS[2:8], TOKENS[5:9]]
    places = [slice(0, 10), slice(4, 10), slice(0, 4)]  # whole, padded on the left, padded on the right
    for row, (sequence, place) in enumerate(zip(sequences, places, strict=True)):
        rows[row, place], mask[row, place] = sequence, True
    logits = model(jnp.array(rows), mask=jnp.array(mask))
    for row, (sequence, place) in enumerate(zip(sequences, places, strict=True)):
        expected = reference_logits(config, random_parameters(config), sequence)
        np.testing.assert_allclose(logits[row, place], expected, atol=2e-4, rtol=2e-4)
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("config", [LEARNED, ROTARY], ids=["learned", "rotary"])
def test_packed_sequences_do_not_see_each_other(config: TransformerConfig) -> None:
    segments = jnp.array([[1] * 5 + [2] * 4 + [3] * 3])
    logits = build(config)(jnp.array([TOKENS]), segments=segments)
    for part in (slice(0, 5), slice(5, 9), slice(9, 12)):
        expected = reference_logits(config, random_parameters(config), TOKENS[part])
        np.testing.assert_allclose(logits[0, part], expected, atol=2e-4, rtol=2e-4)


def test_hidden_is_what_the_last_norm_gives() -> None:
    hidden = build(LEARNED).hidden(jnp.array([TOKENS]))
    np.testing.assert_allclose(hidden[0], reference_hidden(LEARNED, random_parameters(LEARNED), TOKENS), atol=2e-5)


@pytest.mark.parametrize("attention", ["plain", "xla"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
def test_a_later_token_changes_nothing_before_it(name: str, attention: str) -> None:
    model = build(replace(OPTIONS[name], attention=attention))
    first = model(jnp.array([TOKENS]))
    second = model(jnp.array([TOKENS]).at[0, 7].set(20))
    np.testing.assert_array_equal(first[0, :7], second[0, :7])
    assert (jnp.abs(first[0, 7:] - second[0, 7:]).max(axis=-1) > 1e-3)[:3].all()


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "one kv head"])
def test_attention_of_the_library_is_the_plain_one(name: str) -> None:
    tokens, mask = jnp.array([TOKENS, TOKENS[::-1]]), jnp.array([[0] * 3 + [1] * 9, [1] * 7 + [0] * 5], bool)
    plain = build(OPTIONS[name])
    library = build(replace(OPTIONS[name], attention="xla"))
    np.testing.assert_allclose(plain(tokens), library(tokens), atol=2e-5)
    difference = jnp.abs(plain(tokens, mask=mask) - library(tokens, mask=mask))
    assert difference[mask].max() < 2e-5


@pytest.mark.parametrize("remat", ["none", "dots", "full"])
@pytest.mark.parametrize("scan", [True, False], ids=["scanned", "unrolled"])
def test_scan_and_rematerialisation_change_neither_loss_nor_gradients(remat: str, scan: bool) -> None:
    tokens = jnp.array([TOKENS])

    def loss(config: TransformerConfig) -> tuple[jax.Array, nnx.State]:
        graph, params = nnx.split(build(config), nnx.Param)
        return jax.value_and_grad(lambda params: jnp.square(nnx.merge(graph, params)(tokens)).mean())(params)

    expected, expected_gradients = loss(ROTARY)
    value, gradients = loss(replace(ROTARY, remat=remat, scan_layers=scan))
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for gradient, wanted in zip(jax.tree.leaves(gradients), jax.tree.leaves(expected_gradients), strict=True):
        assert np.abs(wanted).max() > 0
        np.testing.assert_allclose(gradient, wanted, atol=1e-5 * float(np.abs(wanted).max()))


def test_gradients_are_the_slopes_of_the_loss() -> None:
    tokens = jnp.array([TOKENS])
    params = random_parameters(LEARNED)
    direction = random_parameters(LEARNED, seed=1)

    def loss(step: float) -> jax.Array:
        moved = jax.tree.map(lambda array, by: array + step * by, params, direction)
        return jax.nn.logsumexp(Transformer(LEARNED, params=moved)(tokens), axis=-1).mean()

    slope = jax.grad(loss)(0.0)
    measured = (reference_loss(params, direction, 1e-5) - reference_loss(params, direction, -1e-5)) / 2e-5
    np.testing.assert_allclose(slope, measured, rtol=1e-3)


def reference_loss(params: dict, direction: dict, step: float) -> float:
    moved = jax.tree.map(lambda array, by: np.float64(array) + step * np.float64(by), params, direction)
    return float(np.log(np.exp(reference_logits(LEARNED, moved, TOKENS)).sum(axis=-1)).mean())


def test_grouped_heads_are_repeated_heads() -> None:
    grouped = random_parameters(ROTARY)
    repeated = jax.tree.map(np.copy, grouped)
    qkv = grouped["blocks"]["attention"]["qkv"]  # [L, D, K, G + 2, H]
    queries = qkv[:, :, :, :2].reshape(2, 20, 4, 1, 6)
    keys_values = np.repeat(qkv[:, :, :, 2:], 2, axis=2)
    repeated["blocks"]["attention"]["qkv"] = np.concatenate([queries, keys_values], axis=3)
    tokens = jnp.array([TOKENS])
    one = Transformer(ROTARY, params=grouped)(tokens)
    other = Transformer(replace(ROTARY, num_kv_heads=4), params=repeated)(tokens)
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_bfloat16_computes_near_float32_from_float32_parameters() -> None:
    model = build(replace(ROTARY, dtype="bfloat16"))
    assert {str(array.dtype) for array in jax.tree.leaves(parameters(model))} == {"float32"}
    assert model.hidden(jnp.array([TOKENS])).dtype == jnp.bfloat16
    logits, exact = model(jnp.array([TOKENS])), build(ROTARY)(jnp.array([TOKENS]))
    assert logits.dtype == jnp.float32
    error = jnp.sqrt(jnp.mean(jnp.square(logits - exact)) / jnp.mean(jnp.square(exact)))
    assert 1e-4 < error < 0.03


def test_logits_of_vocabulary_padding_are_never_chosen() -> None:
    model = build(OPTIONS["padded vocabulary"])
    padded = model.unembed(model.hidden(jnp.array([TOKENS])))
    assert padded.shape == (1, 12, 32)
    assert (jax.nn.softmax(padded)[..., 29:] == 0).all()
    entropy = -(jax.nn.softmax(padded) * jax.nn.log_softmax(padded)).sum(axis=-1)
    assert np.isfinite(entropy).all()


def test_dropout_needs_a_key_and_keeps_the_mean() -> None:
    config = replace(LEARNED, dropout=0.5)
    model, plain = build(config), build(LEARNED)
    tokens = jnp.array([TOKENS])
    np.testing.assert_array_equal(model(tokens), plain(tokens))
    one, again, other = (model.hidden(tokens, dropout_key=jax.random.key(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert jnp.abs(one - other).max() > 0.1


def test_a_model_is_split_and_merged_with_its_axis_names() -> None:
    model = build(ROTARY)
    graph, params = nnx.split(model, nnx.Param)
    merged = nnx.merge(graph, params)
    np.testing.assert_array_equal(merged(jnp.array([TOKENS])), model(jnp.array([TOKENS])))
    assert merged.blocks["attention"]["qkv"].axes == ("layers", "embed", "kv_heads", None, "head_dim")
    assert logical_axes(params) == logical_axes(model)
    assert logical_axes(model)["unembedding"] == ("embed", "vocab")


def test_a_model_too_large_for_any_machine_has_shapes_and_axes() -> None:
    config = replace(LEARNED, embed_dim=12_288, num_heads=96, head_dim=128, mlp_dim=49_152, num_layers=96)
    model = nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0)))
    assert model.blocks["mlp"]["up"].shape == (96, 12_288, 49_152)
    assert model.blocks["mlp"]["up"].axes == ("layers", "embed", "mlp")


def test_first_values_are_those_of_gpt2() -> None:
    config = replace(LEARNED, embed_dim=200, mlp_dim=300, init_std=0.02)
    params = parameters(Transformer(config, rngs=nnx.Rngs(0)))
    blocks = params["blocks"]
    for array in (params["embedding"], blocks["attention"]["qkv"], blocks["mlp"]["up"]):
        np.testing.assert_allclose(np.std(array), 0.02, rtol=0.05)
    for array in (blocks["attention"]["out"], blocks["mlp"]["down"]):  # 2 branches a layer
        np.testing.assert_allclose(np.std(array), 0.02 / np.sqrt(4), rtol=0.05)
    assert (blocks["mlp_norm"]["scale"] == 1).all()
    assert (blocks["mlp"]["up_bias"] == 0).all()
    assert not np.array_equal(blocks["mlp"]["up"][0], blocks["mlp"]["up"][1])


def test_first_values_do_not_depend_on_other_options() -> None:
    one = parameters(Transformer(LEARNED, rngs=nnx.Rngs(7)))
    other = parameters(Transformer(replace(LEARNED, qk_norm=True, qkv_bias=False), rngs=nnx.Rngs(7)))
    np.testing.assert_array_equal(one["blocks"]["mlp"]["up"], other["blocks"]["mlp"]["up"])


def test_wrong_input_is_refused() -> None:
    model = build(LEARNED)
    with pytest.raises(ValueError, match="25 tokens are more than the model's max_length 24"):
        model(jnp.zeros((1, 25), jnp.int32))
    with pytest.raises(ValueError, match="mask or segments, not both"):
        model(jnp.zeros((1, 2), jnp.int32), mask=jnp.ones((1, 2)), segments=jnp.ones((1, 2), jnp.int32))
    with pytest.raises(ValueError, match="either rngs"):
        Transformer(LEARNED)


def test_a_token_outside_the_vocabulary_is_seen() -> None:
    assert np.isnan(build(LEARNED)(jnp.array([[1, 29]]))[0, 1]).all()


def test_wrong_parameters_are_named() -> None:
    params = random_parameters(LEARNED)
    del params["blocks"]["mlp"]["up"]
    with pytest.raises(ValueError, match="blocks/mlp/up is missing"):
        Transformer(LEARNED, params=params)
    with pytest.raises(ValueError, match=r"embedding has shape \(29, 20\), the model's is \(32, 20\)"):
        Transformer(replace(LEARNED, vocab_multiple=8), params=random_parameters(LEARNED))
    with pytest.raises(ValueError, match="unembedding is not a parameter of this model"):
        Transformer(LEARNED, params=random_parameters(replace(LEARNED, tied_embeddings=False)))
