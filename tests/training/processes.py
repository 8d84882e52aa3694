"""Runs of several processes on one machine: started together by their tests, joined by `join`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def run_processes(module: str, count: int, *arguments: object) -> list[Any]:
    """The JSON that each process of a run printed last; its arguments are these, the count, its number and a port."""
    port = free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, (*arguments, count, number, port))],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=280) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def join(count: int, number: int, port: int) -> None:
    """Makes this process one of a run of `count`, with four CPU devices in all. JAX must not have started."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={4 // count} --xla_backend_optimization_level=0"

    import jax

    from webgpt_jax.training.distributed import DistributedConfig, initialize

    initialize(
        DistributedConfig(
            num_processes=count,
            process_id=number,
            coordinator_port=port,
            initialization_timeout=60,
            heartbeat_timeout=30,
            shutdown_timeout=30,
        )
    )
    assert (jax.process_count(), len(jax.devices())) == (count, 4)
