"""Joining several processes, one a host, into one training run: all of them before JAX is asked to, or a clear error.

`jax.distributed` ends a process outright, with a stack trace of its own, when another does not come. So the processes
first meet here: process 0 listens on the coordinator's port, the others report their numbers to it, and when all are
there each goes on to `jax.distributed`, which then takes the same port. Whoever is missing is named.

The port answers whoever reaches it, as JAX's own does: keep it inside the cluster's network.

Where a cluster tells its processes who they are (TPU pods, Slurm, Kubernetes), JAX asks it, and nothing is done here.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Container
from dataclasses import dataclass, field

import jax

HELLO = re.compile(r"webgpt process (?P<number>\d{1,9}) of (?P<count>\d{1,9})")
RETRY_SECONDS = 0.2  # between attempts to reach process 0, which may start last
LONGEST_LINE = 1024  # bytes of a message; a stranger on the port is cut off there


class DistributedError(RuntimeError):
    """The processes did not come together; the message says which are missing or disagree, and what to look at."""


@dataclass(frozen=True)
class DistributedConfig:
    """Which process this is, of how many, and how long they wait for each other."""

    num_processes: int = field(default=1, metadata={"help": "processes of the run; 0: as the cluster says"})
    process_id: int = field(default=0, metadata={"help": "this process's number, from 0"})
    coordinator_host: str = field(
        default="127.0.0.1", metadata={"help": "where all reach process 0: a name or address"}
    )
    coordinator_port: int = field(default=8476, metadata={"help": "free port of process 0's host"})
    initialization_timeout: int = field(default=300, metadata={"help": "seconds that processes wait for all to start"})
    heartbeat_timeout: int = field(default=100, metadata={"help": "seconds of silence after which one counts as dead"})
    shutdown_timeout: int = field(default=300, metadata={"help": "seconds that a finished one waits for the others"})

    def validate(self) -> None:
        """Raises `DistributedError` for settings that contradict each other or mean nothing."""
        if self.num_processes < 0:
            raise DistributedError(
                f"num_processes must be at least 1, or 0 for the cluster's, not {self.num_processes}"
            )
        if self.num_processes and not 0 <= self.process_id < self.num_processes:
            raise DistributedError(f"process_id must be from 0 to {self.num_processes - 1}, not {self.process_id}")
        if not 0 < self.coordinator_port < 65536:
            raise DistributedError(f"coordinator_port must be from 1 to 65535, not {self.coordinator_port}")
        for name in ("initialization_timeout", "heartbeat_timeout", "shutdown_timeout"):
            if getattr(self, name) < 1:
                raise DistributedError(f"{name} must be at least 1 second, not {getattr(self, name)}")

    @property
    def coordinator_address(self) -> str:
        """As `jax.distributed` wants it: "host:port"."""
        host = f"[{self.coordinator_host}]" if ":" in self.coordinator_host else self.coordinator_host
        return f"{host}:{self.coordinator_port}"


def initialize(config: DistributedConfig) -> None:
    """Joins this process to the run; must be called before JAX is asked for devices. With one process, does nothing.

    Afterwards `jax.devices()` has all processes' devices. One that dies later ends the others within
    `heartbeat_timeout`; they resume from the last checkpoint.

    Raises:
      DistributedError: a process is missing after `initialization_timeout`, two have one number, or they disagree on
        how many they are.
    """
    config.validate()
    if config.num_processes == 1:
        return
    if config.num_processes == 0:
        _join(config, None, None, None)
        return
    asyncio.run(_gather(config) if config.process_id == 0 else _report(config))
    _join(config, config.coordinator_address, config.num_processes, config.process_id)


def _join(config: DistributedConfig, address: str | None, count: int | None, number: int | None) -> None:
    """JAX's own joining; what is None it asks the cluster for."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        address,
        count,
        number,
        initialization_timeout=config.initialization_timeout,
        heartbeat_timeout_seconds=config.heartbeat_timeout,
        shutdown_timeout_seconds=config.shutdown_timeout,
    )


def shutdown() -> None:
    """Leaves the run, when all are done; does nothing with one process."""
    jax.distributed.shutdown()


async def _gather(config: DistributedConfig) -> None:
    """Process 0: waits until every other process has said its number, then tells them all to go on."""
    present: dict[int, asyncio.StreamWriter] = {}
    outcome: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()  # what is wrong, or nothing

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = HELLO.fullmatch(await _line(reader))
        if hello is None:  # not one of ours
            writer.close()
            return
        number, count = int(hello["number"]), int(hello["count"])
        problem = _contradiction(config, number, count, number in present)
        if problem is not None and not outcome.done():
            outcome.set_result(problem)
        if problem is not None or outcome.done():
            await _send(writer, f"error {problem or 'process 0 has given up'}")
            return
        present[number] = writer
        if len(present) == config.num_processes - 1:
            outcome.set_result(None)
        await _line(reader)  # returns when the process ends
        if not outcome.done():
            del present[number]
            writer.close()

    try:
        server = await asyncio.start_server(greet, None, config.coordinator_port, limit=LONGEST_LINE)
    except OSError as error:
        raise DistributedError(
            f"process 0 cannot listen on port {config.coordinator_port} ({error.strerror}): "
            "choose another coordinator_port"
        ) from None
    await asyncio.wait([outcome], timeout=config.initialization_timeout)
    server.close()
    problem = outcome.result() if outcome.done() else _missing(config, present)
    for writer in present.values():
        await _send(writer, "go" if problem is None else f"error {problem}")
    if problem is not None:
        raise DistributedError(problem)


def _contradiction(config: DistributedConfig, number: int, count: int, taken: bool) -> str | None:
    if count != config.num_processes:
        return f"process {number} was told of {count} processes, process 0 of {config.num_processes}"
    if taken or not 0 < number < count:
        return f"two processes were told that their process_id is {number}"
    return None


def _missing(config: DistributedConfig, present: Container[int]) -> str:
    missing = [number for number in range(1, config.num_processes) if number not in present]
    names = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
    return (
        f"after {config.initialization_timeout} s, {len(missing)} of {config.num_processes} processes are missing "
        f"({names}): see whether they run, and reach process 0 at {config.coordinator_address}"
    )


async def _report(config: DistributedConfig) -> None:
    """Any other process: says its number to process 0 until that tells it to go on."""
    deadline = time.monotonic() + config.initialization_timeout
    answer, reason = "", ""
    while not answer:
        try:
            answer, reason = await _ask(config, deadline), "it closed the connection"
        except TimeoutError:
            reason = "no answer"
        except OSError as error:
            reason = error.strerror or str(error)
        if not answer and time.monotonic() + RETRY_SECONDS > deadline:
            raise DistributedError(
                f"process {config.process_id} waited {config.initialization_timeout} s for process 0 at "
                f"{config.coordinator_address} ({reason}): see whether it runs there, and its port is open"
            )
        if not answer:
            await asyncio.sleep(RETRY_SECONDS)
    if answer != "go":
        raise DistributedError(f"process 0 at {config.coordinator_address}: {answer.removeprefix('error ')}")


async def _ask(config: DistributedConfig, deadline: float) -> str:
    """One attempt: process 0's answer, or nothing if it ended the connection without one."""
    async with asyncio.timeout(deadline - time.monotonic()):
        reader, writer = await asyncio.open_connection(
            config.coordinator_host, config.coordinator_port, limit=LONGEST_LINE
        )
        try:
            await _send(writer, f"webgpt process {config.process_id} of {config.num_processes}", close=False)
            return await _line(reader)
        finally:
            writer.close()


async def _send(writer: asyncio.StreamWriter, line: str, close: bool = True) -> None:
    """Says it to one that may be gone."""
    with contextlib.suppress(ConnectionError):
        writer.write(f"{line}\n".encode())
        await writer.drain()
    if close:
        writer.close()


async def _line(reader: asyncio.StreamReader) -> str:
    """The next line, without what is not printable; nothing at the end, or if it is too long."""
    try:
        line = await reader.readline()
    except (ConnectionError, ValueError):
        return ""
    return "".join(character for character in line.decode(errors="replace") if character.isprintable())
