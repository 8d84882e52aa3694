"""Killed and preempted runs: what they leave behind, and that a run resumed goes on with the same bits."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from webgpt_jax.models.checkpoint_folder import complete_steps, read_record, restore_params
from webgpt_jax.training.preemption import PREEMPTED, Preemption

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # seconds; a limit for what hangs, on a machine however busy


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Programs compiled once for all the processes, each with one device."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("programs")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return {**os.environ, **cache, "XLA_FLAGS": ""}


@contextlib.contextmanager
def training(environment: dict[str, str], *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`tiny_run` as a process, which ends with the block at the latest."""
    command = [sys.executable, "-m", "tests.training.tiny_run", *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and errors."""
    _, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, errors


def losses(folder: Path, process: int = 0) -> list[str]:
    """The complete lines that a run has written."""
    path = Path(f"{folder}.{process}.txt")
    return path.read_text().split("\n")[:-1] if path.exists() else []


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, f"ended with status {process.returncode}: {process.communicate()[1]}"
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture(scope="module")
def undisturbed(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The losses of 40 updates that nothing interrupted."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    with training(environment, folder, 40, 40) as process:
        assert finish(process)[0] == 0
    lines = losses(folder)
    assert [line.split()[0] for line in lines] == [str(step) for step in range(1, 41)]
    return lines


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_at_random_moments(environment: dict[str, str], undisturbed: list[str], tmp_path: Path) -> None:
    folder, chance = tmp_path / "run", random.Random(0)
    halves = 0
    for kill in range(6):
        done = len(losses(folder))
        with training(environment, folder, 40) as process:
            if kill % 2:  # in the middle of a save
                wait_until(lambda: any(folder.glob("*.orbax-checkpoint-tmp*")), process)
            else:
                updates = chance.randint(1, 5)
                wait_until(lambda done=done, updates=updates: len(losses(folder)) >= done + updates, process)
                time.sleep(chance.uniform(0, 0.1))
            process.kill()
            assert finish(process)[0] == -signal.SIGKILL
        halves += any(folder.glob("*.orbax-checkpoint-tmp*"))
    assert halves
    with training(environment, folder, 40) as process:
        status, errors = finish(process)
    assert status == 0, errors
    found = losses(folder)
    assert found[-1] == undisturbed[-1]
    assert set(found) == set(undisturbed)  # each update was made, and whenever it was made its loss had these bits
    assert complete_steps(folder) == [39, 40]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_preempted_run_saves_and_leaves(
    environment: dict[str, str], undisturbed: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "run"
    with training(environment, folder, 10**6, 10**6) as process:
        wait_until(lambda: len(losses(folder)) >= 3, process)
        process.send_signal(number)
        status, errors = finish(process)
    assert status == PREEMPTED == 75, errors
    assert f"{number.name}: saving and leaving after this step" in errors
    (saved,) = complete_steps(folder)
    assert saved == len(losses(folder))  # the last update that was made
    with training(environment, folder, saved + 2, 10**6) as process:
        assert finish(process)[0] == 0
    found = losses(folder)
    assert len(found) == saved + 2
    assert found[:40] == undisturbed[: len(found)]


BUSY = """
import logging, jax
from webgpt_jax.training.preemption import Preemption
logging.basicConfig()
@jax.jit
def endless(number):
    return jax.lax.while_loop(lambda number: number >= 0, lambda number: (number + 1) % 1000, number)
with Preemption():
    print("ready", flush=True)
    endless(1).block_until_ready()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once_even_inside_a_long_program(number: signal.Signals) -> None:
    command = [sys.executable, "-c", BUSY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert "once more to leave at once" in process.stderr.readline()
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait(timeout=PATIENCE) == 128 + number
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_and_handlers_are_put_back(number: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    before = [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)]
    with caplog.at_level(logging.WARNING), Preemption() as preemption:
        assert not preemption.requested()
        os.kill(os.getpid(), number)
        assert preemption.requested()
    assert [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)] == before
    assert f"{number.name}: saving and leaving after this step" in caplog.text
    with Preemption() as preemption:  # another has noted nothing
        assert not preemption.requested()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def pair(
    environment: dict[str, str], folder: Path, steps: int, save_every: int
) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """Two processes that train together."""
    port = free_port()
    with (
        training(environment, folder, steps, save_every, 0, 2, port) as first,
        training(environment, folder, steps, save_every, 1, 2, port) as second,
    ):
        yield first, second


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_processes_write_one_checkpoint(environment: dict[str, str], tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    with pair(environment, whole, 8, 8) as both:
        for process in both:
            status, errors = finish(process)
            assert status == 0, errors
    expected = losses(whole)
    assert expected == losses(whole, 1)
    assert len(expected) == 8

    with pair(environment, folder, 10**6, 3) as both:  # killed once a save is whole, amid the steps after it
        wait_until(lambda: len(losses(folder)) >= 5 and bool(complete_steps(folder)), both[0])
        for process in both:
            process.kill()
    killed_after = complete_steps(folder)[-1]
    assert killed_after % 3 == 0
    positions = read_record(folder).data_positions
    assert len(positions) == 2
    assert positions[0] != positions[1]
    assert {path.name for path in (folder / str(killed_after) / "params").glob("ocdbt.process_*")} == {
        "ocdbt.process_0",
        "ocdbt.process_1",
    }

    with pair(environment, folder, 10**6, 10**6) as both:  # one of them is told to leave
        done = len(losses(folder))
        wait_until(lambda: len(losses(folder)) >= done + 6, both[0])  # from step 3 on at the earliest: past step 8
        both[1].send_signal(signal.SIGTERM)
        for process in both:
            status, errors = finish(process)
            assert status == PREEMPTED, errors
    latest = complete_steps(folder)[-1]
    assert losses(folder)[-1] == losses(folder, 1)[-1]
    assert losses(folder)[-1].split()[0] == str(latest)
    assert {line for line in losses(folder) if int(line.split()[0]) <= 8} == set(expected)

    restore_params(folder)  # one process reads what two wrote; the state needs both positions
    with training(environment, folder, latest + 1) as process:
        status, errors = finish(process)
    assert status == 1
    assert "was saved by 2 processes at different places in the data, and this run has 1" in errors
