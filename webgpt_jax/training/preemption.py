"""Leaving in good order when the machine is taken away: SIGTERM, or Ctrl-C, asks the loop to save and stop.

The training loop asks `requested()` between steps; where it is true, it saves and raises `SystemExit(PREEMPTED)`:

    with Preemption() as preemption, Checkpointer(...) as checkpointer:
        for step in ...:
            ...
            leaving = preemption.requested()
            if leaving or step % save_every == 0:
                checkpointer.save(step, state, rng, data_position)
            if leaving:
                raise SystemExit(PREEMPTED)  # the checkpointer's end waits for the save; its failure would be status 1

Exit statuses: `PREEMPTED` (75, the system's "temporary failure, try again") after the save, for a scheduler to start
the run again; 128 + the signal's number, at once and without a save, at a second signal.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any, Self

import jax
import numpy as np
from jax.experimental import multihost_utils

PREEMPTED = 75  # os.EX_TEMPFAIL, spelled out because schedulers are configured with the number

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LOG = logging.getLogger(__name__)


class Preemption:
    """Between its start and end the first SIGTERM or SIGINT is noted, and a second one ends the process at once.

    To be entered in the main thread, and after `jax.distributed.initialize`, which takes SIGTERM for itself.
    """

    def __init__(self) -> None:
        self._noted = False
        self._previous: dict[int, Any] = {}
        self._previous_wakeup = -1
        self._reader, self._writer = socket.socketpair()
        self._watcher = threading.Thread(target=self._watch, name="preemption", daemon=True)

    def __enter__(self) -> Self:
        self._writer.setblocking(False)
        self._watcher.start()
        self._previous_wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        self._writer.close()
        self._watcher.join()
        self._reader.close()

    def requested(self) -> bool:
        """Whether to save and leave now.

        In several processes a signal to one is a request to all, so that they save the same step. They agree by a
        collective operation, which waits for the step before: all of them must ask, after the same steps; where steps
        are short, not after each.
        """
        if jax.process_count() == 1:
            return self._noted
        return bool(np.any(multihost_utils.process_allgather(np.array(self._noted))))

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = True

    def _watch(self) -> None:
        """Counts signals in a thread of its own: Python runs no handler while the main thread is inside a long program
        of XLA, and a second signal must not wait for that."""
        signals = 0
        while received := self._reader.recv(1):
            if received[0] not in _SIGNALS:
                continue
            signals += 1
            if signals == 2:
                os._exit(128 + received[0])
            _LOG.warning(
                "%s: saving and leaving after this step; once more to leave at once", signal.Signals(received[0]).name
            )
