"""Checkpoints: what comes back, what is kept, and that nothing is lost or altered without an error."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from tests.training.tiny_run import CONFIG, MODEL, OPTIMIZER, Tokens, abstract, new_state, sharded, update
from webgpt_jax.models import forward
from webgpt_jax.models.checkpoint_folder import (
    MARKER,
    CheckpointError,
    complete_steps,
    is_checkpoint,
    read_config,
    read_record,
    restore_params,
)
from webgpt_jax.models.checksums import checksums
from webgpt_jax.training.checkpoint import CheckpointConfig, Checkpointer, Restored
from webgpt_jax.training.sharding import MeshConfig, make_mesh, parameter_shardings
from webgpt_jax.training.train_state import TrainState, abstract_train_state, create_train_state

ROOT = Path(__file__).resolve().parents[2]
KEEP = CheckpointConfig()
KEY = jax.random.key(5)


def mesh(rows: int, columns: int = 1) -> Mesh:
    return Mesh(np.array(jax.devices()[: rows * columns]).reshape(rows, columns), ("fsdp", "tensor"))


def run(folder: Path, config: CheckpointConfig = KEEP, settings: Mapping[str, Any] = CONFIG) -> Checkpointer:
    return Checkpointer(folder, config, settings)


def assert_same(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one checkpoint, of step 3: to be copied before it is changed."""
    folder = tmp_path_factory.mktemp("saved") / "run"
    with run(folder) as checkpointer:
        checkpointer.save(3, new_state(), KEY, {"next": 7}, {"loss": 0.5})
    return folder


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def restored(folder: Path, like: TrainState | None = None, step: int | None = None) -> Restored:
    with run(folder) as checkpointer:
        return checkpointer.restore(new_state() if like is None else like, step)


def test_all_of_it_comes_back(saved: Path) -> None:
    found = restored(saved)
    assert_same(found.state, new_state())
    assert isinstance(found.state, TrainState)
    assert jax.random.key_impl(found.rng) == jax.random.key_impl(KEY)
    assert (jax.random.key_data(found.rng) == jax.random.key_data(KEY)).all()
    assert (found.data_position, found.step, found.config["optimizer"]) == (
        {"next": 7},
        3,
        {"learning_rate": 0.01, "decay": 0.1},
    )
    assert json.loads((saved / MARKER).read_text())["config"]["model"]["mlp_dim"] == 64
    assert read_record(saved).metrics == {"loss": 0.5}


@pytest.mark.parametrize("key", [jax.random.PRNGKey(3), jax.random.key(3, impl="rbg"), jax.random.split(KEY, 2)])
def test_any_kind_of_key_comes_back(tmp_path: Path, key: jax.Array) -> None:
    with run(tmp_path) as checkpointer:
        checkpointer.save(1, new_state(), key, None)
        found = checkpointer.restore(new_state()).rng
    assert found.dtype == key.dtype
    assert found.shape == key.shape
    same = jax.random.key_data(found) == jax.random.key_data(key) if key.dtype != jnp.uint32 else found == key
    assert same.all()


def test_small_types_and_no_average_come_back(tmp_path: Path) -> None:
    state = dataclasses.replace(new_state(ema=False), opt_state={"mask": jnp.array([True, False]), "empty": ()})
    half = jax.tree.map(lambda array: array.astype(jnp.bfloat16), state.params)
    state = dataclasses.replace(state, params=half)
    with run(tmp_path) as checkpointer:
        checkpointer.save(1, state, KEY, None)
        assert_same(checkpointer.restore(abstract(state)).state, state)


def test_the_run_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    def train(state: TrainState, rng: jax.Array, tokens: Tokens, steps: range, saver: Checkpointer | None) -> list[str]:
        losses = []
        for step in steps:
            rng, key = jax.random.split(rng)
            state, loss = update(state, jnp.asarray(tokens.next()), key)
            losses.append(float(loss).hex())
            if step == 3 and saver is not None:
                saver.save(step, state, rng, tokens.position)  # the next update donates these arrays
        return losses

    start, rng = new_state(), jax.random.key(7)
    with run(tmp_path) as checkpointer:
        expected = train(start, rng, Tokens(0), range(1, 9), checkpointer)
    with run(tmp_path) as checkpointer:
        found = checkpointer.restore(abstract(new_state()))
    tokens = Tokens(1)
    tokens.position = found.data_position
    assert train(found.state, found.rng, tokens, range(4, 9), None) == expected[3:]
    assert len(set(expected)) == 8


@pytest.mark.parametrize("shape", [(1, 1), (8, 1), (2, 4)])
def test_restored_onto_another_mesh(tmp_path: Path, shape: tuple[int, int]) -> None:
    state = sharded(new_state(), mesh(4))
    with run(tmp_path) as checkpointer:
        checkpointer.save(1, state, KEY, None)
    like = abstract(sharded(new_state(), mesh(*shape)))
    found = restored(tmp_path, like).state
    assert_same(found, state)
    for array, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(like), strict=True):
        assert array.sharding == wanted.sharding
        for shard in array.addressable_shards:
            assert shard.data.shape == wanted.sharding.shard_shape(wanted.shape)
    parts = {shard.data.nbytes for shard in found.params["embedding"].addressable_shards}
    assert parts == {found.params["embedding"].nbytes // (shape[0] * shape[1])}


def test_no_device_is_given_more_than_its_part(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    like = abstract(sharded(new_state(), mesh(8)))
    placed: list[tuple[int, ...]] = []
    original = jax.device_put

    def watched(value: Any, *arguments: Any, **options: Any) -> Any:
        placed.extend(np.shape(leaf) for leaf in jax.tree.leaves(value))
        return original(value, *arguments, **options)

    monkeypatch.setattr(jax, "device_put", watched)
    found = restored(saved, like)
    assert found.state.params["embedding"].shape == (48, 32)
    assert (48, 4) in placed
    assert (48, 32) not in placed


def test_newest_and_best_are_kept_at_once(tmp_path: Path) -> None:
    config = CheckpointConfig(keep_last=2, keep_best=2, best_metric="loss", best_mode="min")
    losses = [0.1, 0.9, float("nan"), 0.2, 0.8, 0.7, 0.6]
    state = new_state(ema=False)
    with run(tmp_path, config) as checkpointer:
        for step, loss in enumerate(losses[:4]):
            checkpointer.save(step, state, KEY, None, {"loss": loss, "other": 1.0})
    assert complete_steps(tmp_path) == [0, 2, 3]
    with run(tmp_path, config) as checkpointer:  # what is best is known again
        checkpointer.restore(state)
        for step, loss in enumerate(losses[4:], start=4):
            checkpointer.save(step, state, KEY, None, {"loss": loss})
        checkpointer.save(7, state, KEY, None)
        checkpointer.wait()
        assert checkpointer.steps() == [0, 3, 6, 7]
        with pytest.raises(ValueError, match="have no loss"):
            checkpointer.save(8, state, KEY, None, {"accuracy": 0.1})


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (CheckpointConfig(keep_last=0), "keep_last must be at least 1"),
        (CheckpointConfig(keep_best=-1), "keep_best must not be negative"),
        (CheckpointConfig(keep_best=1), "go together"),
        (CheckpointConfig(best_metric="loss"), "go together"),
        (CheckpointConfig(best_mode="least"), "'least' is none of min, max"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_mean_nothing_are_refused(tmp_path: Path, config: CheckpointConfig, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        run(tmp_path, config)


def test_latest_and_given_steps(tmp_path: Path) -> None:
    with run(tmp_path / "run") as checkpointer:
        assert checkpointer.latest_step() is None
        with pytest.raises(CheckpointError, match="holds no complete checkpoint"):
            checkpointer.restore(new_state())
        for step in (2, 5):
            state = dataclasses.replace(new_state(), step=jnp.array(step, jnp.int32))
            checkpointer.save(step, state, KEY, step * 10)
        checkpointer.wait()
        assert checkpointer.latest_step() == 5
        assert checkpointer.restore(new_state()).data_position == 50
        assert int(checkpointer.restore(new_state(), step=2).state.step) == 2
        with pytest.raises(CheckpointError, match=r"no checkpoint of step 3; it holds 2, 5"):
            checkpointer.restore(new_state(), step=3)
        with pytest.raises(CheckpointError, match="step 5 is not after step 5"):
            checkpointer.save(5, new_state(), KEY, None)


def test_another_run_is_not_mixed_in(copied: Path) -> None:
    with run(copied) as checkpointer, pytest.raises(CheckpointError, match="holds a run already, up to step 3"):
        checkpointer.save(9, new_state(), KEY, None)
    assert complete_steps(copied) == [3]


# Parameters alone


def test_parameters_alone(saved: Path) -> None:
    config, params = restore_params(saved, ema=False)
    assert config == MODEL == read_config(saved)
    assert_same(params, new_state().params)
    _, average = restore_params(saved)
    assert_same(average, new_state().ema_params)
    assert_same(restore_params(saved / "3", ema=True)[1], average)
    hidden = forward(config, params, jnp.arange(10)[None])
    assert (hidden == forward(MODEL, new_state().params, jnp.arange(10)[None])).all()


def test_parameters_alone_need_nothing_else_of_the_checkpoint(copied: Path) -> None:
    for unneeded in ("optimizer", "ema_params"):
        shutil.rmtree(copied / "3" / unneeded)
    assert_same(restore_params(copied, ema=False)[1], new_state().params)
    with pytest.raises(CheckpointError, match="is damaged"):
        restore_params(copied, ema=True)


def test_parameters_onto_a_mesh(saved: Path) -> None:
    sharding = NamedSharding(mesh(8), PartitionSpec())
    _, params = restore_params(saved, shardings=sharding)
    assert {array.sharding for array in jax.tree.leaves(params)} == {sharding}
    split = NamedSharding(mesh(8), PartitionSpec("fsdp"))
    _, params = restore_params(saved, shardings=lambda config: {"embedding": split} if config == MODEL else {})
    assert params["embedding"].sharding == split
    assert params["position_embedding"].sharding == SingleDeviceSharding(jax.devices()[0])


def test_where_no_average_is_kept(tmp_path: Path) -> None:
    with run(tmp_path) as checkpointer:
        checkpointer.save(1, new_state(ema=False), KEY, None)
    assert_same(restore_params(tmp_path)[1], new_state().params)
    with pytest.raises(CheckpointError, match="no moving average"):
        restore_params(tmp_path, ema=True)


def test_what_is_a_folder_of_checkpoints(saved: Path, tmp_path: Path) -> None:
    assert is_checkpoint(saved)
    assert is_checkpoint(str(saved / "3"))
    assert not is_checkpoint(tmp_path)
    assert not is_checkpoint(tmp_path / "nowhere")
    assert not is_checkpoint(saved / "3" / "params")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=f"it has no {MARKER}"):
        restore_params(tmp_path)
    with pytest.raises(CheckpointError, match="there is no such folder"):
        restore_params(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="no checkpoint of step 4; it holds 3"):
        restore_params(saved, step=4)


# Of another model or run


def with_params(**parts: Any) -> TrainState:
    """The state with other parts of its parameters; None takes one away."""
    params = {name: part for name, part in {**new_state().params, **parts}.items() if part is not None}
    return dataclasses.replace(new_state(), params=params)


def narrow_blocks() -> dict[str, Any]:
    blocks = new_state().params["blocks"]
    return {**blocks, "attention": {**blocks["attention"], "out_bias": jnp.zeros((2, 16))}}


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (
            lambda: with_params(blocks=narrow_blocks()),
            r"its params/blocks/attention/out_bias has shape \(2, 32\), this run's has \(2, 16\)",
        ),
        (lambda: with_params(scalar_head=jnp.zeros(())), "it has no params/scalar_head, which this run has"),
        (lambda: with_params(final_norm=None), "it has params/final_norm/bias, which this run has not"),
        (
            lambda: with_params(embedding=jnp.zeros((48, 32), jnp.bfloat16)),
            "its params/embedding has type float32, this run's has bfloat16",
        ),
        (lambda: new_state(ema=False), "it has ema_params/blocks/.*, which this run has not"),
        (
            lambda: dataclasses.replace(new_state(), opt_state=()),
            "it has optimizer/state/0/count, which this run has not",
        ),
    ],
)
def test_another_model_is_an_error_that_names_the_parameter(
    saved: Path, other: Callable[[], TrainState], complaint: str
) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        restored(saved, other())


def test_other_settings_are_an_error_unless_they_may_change(copied: Path) -> None:
    faster = {**CONFIG, "optimizer": {"learning_rate": 0.02, "decay": 0.1}}
    with run(copied, settings=faster) as checkpointer:
        with pytest.raises(CheckpointError, match=r"optimizer\.learning_rate was 0\.01, now it is 0\.02"):
            checkpointer.restore(new_state())
        with pytest.raises(CheckpointError, match="holds a run already"):
            checkpointer.save(4, new_state(), KEY, None)
    for allowed in ("optimizer", "optimizer.learning_rate"):
        with run(copied, CheckpointConfig(may_change=(allowed,)), faster) as checkpointer:
            assert checkpointer.restore(new_state()).step == 3
    part_of_a_name = CheckpointConfig(may_change=("optimizer.learning",))
    with run(copied, part_of_a_name, faster) as checkpointer, pytest.raises(CheckpointError, match="learning_rate"):
        checkpointer.restore(new_state())
    turned = {**CONFIG, "model": {**CONFIG["model"], "rotary_theta": 5.0}}  # no shape tells
    with run(copied, settings=turned) as checkpointer, pytest.raises(CheckpointError, match=r"model\.rotary_theta"):
        checkpointer.restore(new_state())


def test_settings_that_describe_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match='no "model"'):
        run(tmp_path, settings={"optimizer": {}})
    with pytest.raises(CheckpointError, match="unexpected keyword argument 'width'"):
        run(tmp_path, settings={"model": {**CONFIG["model"], "width": 3}})
    assert not any(tmp_path.iterdir())


# Damage


def altered(path: Path, change: str) -> None:
    data = bytearray(path.read_bytes())
    if change == "flipped":
        data[len(data) // 2] ^= 16
    elif change == "cut short":
        del data[len(data) // 2 :]
    else:
        data.clear()
    path.write_bytes(data)


def files_of(folder: Path) -> Iterator[Path]:
    """The files that hold the arrays and the record, those of the first tree for all trees."""
    yield from sorted((folder / "3" / "params").rglob("d/*"))
    yield from (folder / "3" / name for name in ("record/metadata", "params/_METADATA", "params/manifest.ocdbt"))


# After an error Orbax leaves futures that nobody awaits.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("change", ["flipped", "cut short", "empty", "gone"])
def test_damaged_files_never_pass_for_whole_ones(saved: Path, tmp_path: Path, change: str) -> None:
    complaints: list[str] = []
    for number, original in enumerate(files_of(saved)):
        folder = Path(shutil.copytree(saved, tmp_path / str(number)))
        path = folder / original.relative_to(saved)
        if change == "gone":
            path.unlink()
        else:
            altered(path, change)
        try:
            found = restored(folder)
        except CheckpointError as error:
            complaints.append(str(error))
        else:  # a file that restoring does without
            assert_same(found.state, new_state())
    gc.collect()  # now and not at the end of all tests: Orbax's futures tell of their errors when they go
    assert len(complaints) >= 4
    for complaint in complaints:
        assert complaint.startswith(f"the checkpoint {tmp_path}")
        assert "\n" not in complaint


def test_values_that_are_not_those_saved_are_noticed(copied: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    changed = dataclasses.replace(
        new_state(), params=jax.tree.map(lambda array: array.at[(0,) * array.ndim].add(1e-6), new_state().params)
    )
    with run(other) as checkpointer:
        checkpointer.save(3, changed, KEY, None)
    shutil.rmtree(copied / "3" / "params")
    shutil.copytree(other / "3" / "params", copied / "3" / "params")
    with pytest.raises(CheckpointError, match="the checksum of params/blocks/attention/out differs"):
        restored(copied)
    with pytest.raises(CheckpointError, match="the checksum of params/"):
        restore_params(copied, ema=False)


def test_a_changed_record_is_noticed(copied: Path) -> None:
    path = copied / "3" / "record" / "metadata"
    text = path.read_text()
    assert '"next": 7' in text
    path.write_text(text.replace('"next": 7', '"next": 8'))
    with pytest.raises(CheckpointError, match="its record is damaged: the digest differs"):
        restored(copied)
    path.write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(CheckpointError, match="its format is 2, this program reads 1"):
        restored(copied)
    path.write_text("[]")
    with pytest.raises(CheckpointError, match="its record is damaged"):
        restored(copied)


def test_a_damaged_checkpoint_does_not_keep_others_from_use(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = CheckpointConfig(keep_best=1, best_metric="loss")
    with run(copied, config) as checkpointer:
        checkpointer.restore(new_state())
        checkpointer.save(4, new_state(), KEY, None, {"loss": 0.1})
    altered(copied / "4" / "record" / "metadata", "cut short")
    with run(copied, config) as checkpointer:
        with pytest.raises(CheckpointError, match=r"4 is damaged.*restore another step"):
            checkpointer.restore(new_state())
        assert checkpointer.restore(new_state(), step=3).step == 3
    assert "it does not count as one of the best" in caplog.text


def test_half_written_saves_are_told_of_and_ignored(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    half = copied / "9.orbax-checkpoint-tmp"
    shutil.copytree(copied / "3", half)
    assert complete_steps(copied) == [3]
    assert restore_params(copied)[0] == MODEL
    with caplog.at_level(logging.WARNING), run(copied) as checkpointer:
        assert checkpointer.latest_step() == 3
        assert checkpointer.restore(new_state()).step == 3
    assert "saves that were cut short: 9.orbax-checkpoint-tmp" in caplog.text
    assert not half.exists()


# Saves that fail


FULL_DISK = """
import pathlib, resource, signal, sys
from tests.training.test_checkpoint import KEY, complete_steps, new_state, run
from webgpt_jax.training.checkpoint import CheckpointError
folder, moment = pathlib.Path(sys.argv[1]), sys.argv[2]
state = new_state()
checkpointer = run(folder)
checkpointer.save(1, state, KEY, None)
checkpointer.wait()
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))  # as a disk that is full
try:
    checkpointer.save(2, state, KEY, None)
except CheckpointError as error:
    sys.exit(f"at once: {error}")
arguments = {"save": (3, state, KEY, None), "wait": (), "close": ()}
try:
    getattr(checkpointer, moment)(*arguments[moment])
except CheckpointError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("steps", complete_steps(folder))
if moment == "wait":
    checkpointer.save(4, state, KEY, None)
    checkpointer.close()
    print("then", complete_steps(folder))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["save", "wait", "close"])
def test_a_full_disk_is_an_error_at_the_next_moment(tmp_path: Path, moment: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "run"), moment], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0].startswith(f"the checkpoint of step 2 could not be saved in {tmp_path / 'run'}: ")
    assert lines[1] == "steps [1]"
    if moment == "wait":  # with room again, the run goes on
        assert lines[2] == "then [1, 4]"


def test_folders_that_cannot_be_used(tmp_path: Path, saved: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(CheckpointError, match="cannot be used for checkpoints"):
            run(folder)
    foreign = tmp_path / "foreign"
    shutil.copytree(saved, foreign)
    (foreign / MARKER).unlink()
    with pytest.raises(CheckpointError, match="holds checkpoints of another program"):
        run(foreign)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CheckpointError, match="cannot be used for checkpoints: PermissionError"):
        run(tmp_path / "run")


def test_a_folder_that_goes_away(copied: Path) -> None:
    checkpointer = run(copied)
    checkpointer.restore(new_state())
    shutil.rmtree(copied)
    copied.write_text("in its place")
    with pytest.raises(CheckpointError):
        checkpointer.save(4, new_state(), KEY, None)


def test_a_position_that_is_no_json_is_refused(tmp_path: Path) -> None:
    with run(tmp_path) as checkpointer:
        with pytest.raises(TypeError):
            checkpointer.save(1, new_state(), KEY, {1, 2})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not JSON compliant"):
            checkpointer.save(1, new_state(), KEY, float("nan"))
        assert checkpointer.latest_step() is None


# Checksums


def reference_checksum(words: list[int]) -> int:
    """The same in Python's whole numbers."""
    total = 0
    for place, word in enumerate(words):
        mixed = (word ^ (place * 0x9E3779B1 % 2**32)) * 0x85EBCA6B % 2**32
        mixed = (mixed ^ (mixed >> 15)) * 0xC2B2AE35 % 2**32
        total += mixed ^ (mixed >> 13)
    return total % 2**32


def test_checksums_are_those_of_the_slow_one() -> None:
    wide = np.arange(64, dtype=np.float32).reshape(4, 16) * 0.37
    arrays = {
        "float32": jnp.asarray(wide),
        "split": jax.device_put(wide, NamedSharding(mesh(4), PartitionSpec(None, "fsdp"))),
        "bfloat16": jnp.asarray(wide, jnp.bfloat16),
        "bool": jnp.array([True, False, True]),
        "int32": jnp.array(-5),
    }
    expected = {
        "float32": wide.view(np.uint32).ravel().tolist(),
        "split": wide.view(np.uint32).ravel().tolist(),
        "bfloat16": np.asarray(arrays["bfloat16"]).view(np.uint16).ravel().tolist(),
        "bool": [1, 0, 1],
        "int32": [2**32 - 5],
    }
    assert checksums(arrays) == {name: reference_checksum(words) for name, words in expected.items()}


def test_every_flipped_bit_and_every_swap_changes_the_checksum() -> None:
    values = np.zeros(16, np.uint32)
    changed = [values]
    for place in range(16):
        for bit in range(32):
            flipped = values.copy()
            flipped[place] ^= np.uint32(1 << bit)
            changed.append(flipped)
    found = [checksums({"array": jnp.asarray(array)})["array"] for array in changed]
    assert len(set(found)) == 513


# With the states and meshes that training makes


def test_a_training_state_goes_to_another_mesh_and_starts_another_model(tmp_path: Path) -> None:
    before = make_mesh(MeshConfig(data=1, fsdp=4, tensor=2))
    after = make_mesh(MeshConfig(data=1, fsdp=1, tensor=4), jax.devices()[:4])
    state = create_train_state(MODEL, OPTIMIZER, before, KEY)
    with run(tmp_path) as checkpointer:
        checkpointer.save(1, state, KEY, None)
    like = abstract_train_state(MODEL, OPTIMIZER, after)
    found = restored(tmp_path, like).state
    assert_same(found, state)
    assert jax.tree.map(lambda array: array.sharding, found) == jax.tree.map(lambda array: array.sharding, like)
    config, params = restore_params(tmp_path, shardings=lambda config: parameter_shardings(after, config), ema=False)
    assert config == MODEL
    assert_same(params, state.params)
    assert jax.tree.map(lambda array: array.sharding, params) == jax.tree.map(lambda array: array.sharding, like.params)
