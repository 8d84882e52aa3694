"""Processes that come together, those that do not, and strangers on the port."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
import pytest

from tests.training.processes import free_port, run_processes
from webgpt_jax.training.distributed import DistributedConfig, DistributedError, initialize


@pytest.fixture
def port() -> int:
    return free_port()


def config(port: int, count: int, number: int, timeout: int = 2) -> DistributedConfig:
    return DistributedConfig(
        num_processes=count, process_id=number, coordinator_port=port, initialization_timeout=timeout
    )


@contextmanager
def started(*configs: DistributedConfig) -> Iterator[list[str]]:
    """Processes, here threads, that join; what each failed with once the block is left. None may come to JAX's own."""
    failures: list[str] = []

    def join(settings: DistributedConfig) -> None:
        try:
            initialize(settings)
        except DistributedError as error:
            failures.append(str(error))

    threads = [threading.Thread(target=join, args=(settings,)) for settings in configs]
    for thread in threads:
        thread.start()
    yield failures
    for thread in threads:
        thread.join()


def connect(port: int) -> socket.socket:
    """A connection to process 0, which may not listen yet."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """In place of `jax.distributed`: what it would have been called with."""
    calls: list[tuple[object, ...]] = []

    def note(*arguments: object, **timeouts: int) -> None:
        calls.append((*arguments, timeouts))

    monkeypatch.setattr(jax.distributed, "initialize", note)
    return calls


def test_one_process_joins_nothing(joined: list[tuple[object, ...]]) -> None:
    initialize(DistributedConfig())
    assert joined == []
    assert jax.process_count() == 1


def test_a_cluster_is_asked_by_jax(joined: list[tuple[object, ...]]) -> None:
    initialize(DistributedConfig(num_processes=0, initialization_timeout=7, heartbeat_timeout=8, shutdown_timeout=9))
    timeouts = {"initialization_timeout": 7, "heartbeat_timeout_seconds": 8, "shutdown_timeout_seconds": 9}
    assert joined == [(None, None, None, timeouts)]


def test_processes_meet_and_go_on(port: int, joined: list[tuple[object, ...]]) -> None:
    with started(*(config(port, 3, number, timeout=60) for number in (2, 1, 0))) as failures:
        pass
    assert failures == []
    assert {call[:3] for call in joined} == {(f"127.0.0.1:{port}", 3, number) for number in range(3)}
    with socket.create_server(("127.0.0.1", port)):  # free again, for JAX's own
        pass


def test_missing_processes_are_named(port: int, joined: list[tuple[object, ...]]) -> None:
    with started(config(port, 4, 0), config(port, 4, 2, timeout=60)) as failures:
        pass
    own, told = sorted(failures)
    expected = (
        f"after 2 s, 2 of 4 processes are missing (1, 3): see whether they run, and reach process 0 at 127.0.0.1:{port}"
    )
    assert own == expected
    assert told == f"process 0 at 127.0.0.1:{port}: {expected}"
    assert joined == []


def test_process_0_missing(port: int) -> None:
    with pytest.raises(DistributedError, match=rf"process 1 waited 1 s for process 0 at 127\.0\.0\.1:{port} \(Connect"):
        initialize(config(port, 2, 1, timeout=1))


def test_something_silent_in_the_place_of_process_0(port: int) -> None:
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(DistributedError, match=r"process 1 waited 1 s for process 0 .* \(no answer\)"),
    ):
        initialize(config(port, 2, 1, timeout=1))


def test_a_host_of_no_name() -> None:
    settings = DistributedConfig(
        num_processes=2, process_id=1, coordinator_host="host.invalid", initialization_timeout=1
    )
    with pytest.raises(DistributedError, match=r"process 0 at host\.invalid:8476 \("):
        initialize(settings)


def test_two_of_one_number(port: int, joined: list[tuple[object, ...]]) -> None:
    with started(*(config(port, 3, number, timeout=60) for number in (0, 1, 1))) as failures:
        pass
    assert len(failures) == 3
    assert all("two processes were told that their process_id is 1" in failure for failure in failures)
    assert joined == []


def test_processes_that_disagree_on_how_many_they_are(port: int, joined: list[tuple[object, ...]]) -> None:
    with started(config(port, 3, 0, timeout=60), config(port, 2, 1, timeout=60)) as failures:
        pass
    assert len(failures) == 2
    assert all("process 1 was told of 2 processes, process 0 of 3" in failure for failure in failures)


def test_strangers_and_the_dead_do_not_count(port: int, joined: list[tuple[object, ...]]) -> None:
    with started(config(port, 3, 0, timeout=4)) as failures:
        silent = connect(port)
        for message in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\x00" * 5000, b"webgpt process x of 3\n", b"\n"):
            with connect(port) as stranger:
                stranger.sendall(message)
        with connect(port) as dead:
            dead.sendall(b"webgpt process 1 of 3\n")
    silent.close()
    assert len(failures) == 1
    assert "2 of 3 processes are missing (1, 2)" in failures[0]


def test_a_process_that_starts_again_is_welcome(port: int, joined: list[tuple[object, ...]]) -> None:
    with started(config(port, 3, 0, timeout=60)) as failures:
        with connect(port) as dead:
            dead.sendall(b"webgpt process 1 of 3\n")
            dead.shutdown(socket.SHUT_WR)
            assert dead.recv(1) == b""  # its end is noticed
        with started(config(port, 3, 1, timeout=60), config(port, 3, 2, timeout=60)) as others:
            pass
    assert failures + others == []
    assert len(joined) == 3


def test_a_port_that_is_taken(port: int) -> None:
    with (
        socket.create_server(("", port)),
        pytest.raises(DistributedError, match=rf"process 0 cannot listen on port {port} .* another coordinator_port"),
    ):
        initialize(config(port, 2, 0))


def test_an_ipv6_coordinator() -> None:
    assert DistributedConfig(coordinator_host="::1", coordinator_port=5).coordinator_address == "[::1]:5"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (DistributedConfig(num_processes=-1), "num_processes must be at least 1, or 0 for the cluster's, not -1"),
        (DistributedConfig(num_processes=2, process_id=2), "process_id must be from 0 to 1, not 2"),
        (DistributedConfig(coordinator_port=0), "coordinator_port must be from 1 to 65535, not 0"),
        (DistributedConfig(heartbeat_timeout=0), "heartbeat_timeout must be at least 1 second, not 0"),
    ],
)
def test_settings_that_mean_nothing(settings: DistributedConfig, message: str) -> None:
    with pytest.raises(DistributedError, match=re.escape(message)):
        initialize(settings)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_train_as_one() -> None:
    (alone,) = run_processes("tests.training.two_processes", 1)
    first, second = run_processes("tests.training.two_processes", 2)
    assert first == second
    np.testing.assert_allclose(first["losses"], alone["losses"], rtol=1e-5)
    np.testing.assert_allclose(first["weights"], alone["weights"], rtol=1e-5)
    assert len(set(first["losses"])) == 3
