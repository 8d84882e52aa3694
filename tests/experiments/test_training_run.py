"""What trainings share: the paper's tables as literals, what the final folder says, models of no architecture."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import jax
import jax.numpy as jnp
import numpy as np

from experiments.train_bc import BCFlags, bc_recipe
from experiments.train_rm import RMFlags, rm_recipe
from experiments.training_flags import TrainingFlags
from experiments.training_run import Chosen, Start, choose, folder_settings, held_out_rows, write_final
from tests.experiments.training_samples import write_tokenizer
from webgpt_jax.flags import UsageError
from webgpt_jax.models import FolderSettings, load_pretrained, load_reward_model, parameters, preset, read_settings
from webgpt_jax.models.parameters import Head
from webgpt_jax.models.tokenizer import tokenizer_from_folder
from webgpt_jax.training import MeshConfig, create_train_state, make_mesh, make_optimizer
from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer
from webgpt_jax.training.optimizer import OptimizerConfig

TOKENIZER: Any = None  # not asked


@pytest.mark.parametrize(
    ("name", "bc", "rm"),
    [
        ("760m", Chosen(2.5e-4, 0.1, 256, 12, 2048), Chosen(2.5e-4, 0.05, 64, 6, 2048)),
        ("13b", Chosen(1.0e-4, 0.1, 512, 12, 2048), Chosen(1.0e-4, 0.05, 64, 6, 2048)),
        ("175b", Chosen(0.6e-4, 0.1, 512, 12, 2048), Chosen(0.6e-4, 1 / 60, 32, 6, 2048)),
        ("tiny", Chosen(1e-3, 0.1, 512, 12, 2048), Chosen(1e-3, 0.05, 64, 6, 2048)),
    ],
)
def test_the_papers_tables(name: str, bc: Chosen, rm: Chosen) -> None:
    start = Start(preset(name), None, TOKENIZER, None)
    assert choose(BCFlags(model=name), bc_recipe(BCFlags()), start) == bc
    assert choose(RMFlags(model=name), rm_recipe(RMFlags()), start) == rm
    # A model in files is known by its shape, and says its base step size in webgpt.json.
    folder = replace(start, settings=FolderSettings("policy", base_step_size=0.5, context_tokens=320))
    expected = replace(rm, base_step_size=0.5, length=320)
    assert choose(RMFlags(model="runs/bc/final"), rm_recipe(RMFlags()), folder) == expected


def test_the_papers_other_settings_are_the_flags_defaults() -> None:
    given = BCFlags()
    assert (given.beta1, given.beta2, given.ema_decay, given.held_out) == (0.9, 0.95, 0.99, 0.04)
    assert RMFlags().held_out == 0.25
    assert (given.dropout, given.weight_decay, given.warmup_steps, given.schedule) == (0.0, 0.0, 0, "constant")


def test_flags_come_before_everything() -> None:
    given = BCFlags(model="760m", base_step_size=1.0, multiplier=0.5, batch_size=4, epochs=2, length=100)
    start = Start(preset("760m"), None, TOKENIZER, FolderSettings("policy", base_step_size=0.1))
    assert choose(given, bc_recipe(given), start) == Chosen(1.0, 0.5, 4, 2, 100)


def test_a_model_that_says_no_step_size() -> None:
    start = Start(preset("tiny"), None, TOKENIZER, FolderSettings("policy"))
    with pytest.raises(UsageError, match=r"--base_step_size=… is needed"):
        choose(BCFlags(model="some/folder"), bc_recipe(BCFlags()), start)


def test_what_the_final_folder_says() -> None:
    chosen = Chosen(0.001, 0.1, 8, 2, 320)
    new = Start(preset("tiny"), None, TOKENIZER, None)
    assert folder_settings("policy", new, chosen) == FolderSettings("policy", 0.001, "plain", 3000, 320, 64, 160, 100)
    ours = FolderSettings("pretrained", 0.01, "plain", 900, 320, 48, 96, 30)
    again = folder_settings("reward_model", replace(new, settings=ours), chosen)
    assert again == FolderSettings("reward_model", 0.001, "plain", 900, 320, 48, 96, 30)


def test_rows_of_held_out_data() -> None:
    mesh = make_mesh(MeshConfig(data=2, fsdp=2, tensor=2))
    assert [held_out_rows(mesh, microbatch) for microbatch in (1, 4, 7, 40, 512)] == [4, 4, 4, 40, 64]


def test_flags_that_mean_nothing() -> None:
    given = TrainingFlags(model="m", data="a,b", workdir="w")
    given.check()
    assert given.files == [Path("a"), Path("b")]
    for change in ({"seed": -1}, {"patience": -1}, {"save_every": 0}, {"microbatches": 0}, {"held_out": -0.1}):
        with pytest.raises(UsageError, match=f"--{next(iter(change))} must"):
            replace(given, **change).check()


@pytest.mark.parametrize("head", ["logits", "scalar"])
def test_a_model_that_no_architecture_is_stays_in_our_format(head: Head, tmp_path: Path) -> None:
    config = preset("tiny", vocab_size=257, num_layers=1, embed_dim=72)  # 4 heads of 16
    tokenizer = tokenizer_from_folder(write_tokenizer(tmp_path / "tokenizer"))
    assert tokenizer is not None
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])
    state = create_train_state(config, make_optimizer(OptimizerConfig()), mesh, jax.random.key(0), head=head)
    average = jax.tree.map(lambda array: array + 0.5, state.ema_params)
    with Checkpointer(tmp_path / "run", CheckpointConfig(), {"model": asdict(config)}) as checkpointer:
        checkpointer.save(3, replace(state, ema_params=average), jax.random.key(0), {})
    settings = FolderSettings("policy" if head == "logits" else "reward_model", 0.001)
    for _ in range(2):  # again, over what is there
        start = Start(config, None, tokenizer, None)
        write_final(tmp_path / "final", tmp_path / "run", 3, start, head, settings)
    load: Any = load_pretrained if head == "logits" else load_reward_model
    model, loaded = load(tmp_path / "final")
    jax.tree.map(np.testing.assert_array_equal, parameters(model), average)
    assert loaded is not None
    assert read_settings(tmp_path / "final") == settings
    assert not list((tmp_path / "final").rglob("optimizer"))
    assert model(jnp.zeros((1, 2), jnp.int32)).shape[:2] == (1, 2)
