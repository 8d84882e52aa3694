"""What all tests share: settings of JAX, read when a test first imports it, and the skipping of what needs it where it
is not installed. Nothing here imports JAX: most tests run without."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

# Parts whose tests need the extra `train`.
TRAIN_PARTS = {"models", "sampling", "training", "algorithms", "preflight", "rollout", "datasets", "evaluation"}
HAS_TRAIN = importlib.util.find_spec("jax") is not None and importlib.util.find_spec("flax") is not None

# Eight devices on any machine, no silent broadcasting between arrays of different ranks, and programs compiled without
# LLVM's optimisations: those of the tests compile for seconds and run for microseconds.
XLA_FLAGS = {"--xla_force_host_platform_device_count": 8, "--xla_backend_optimization_level": 0}
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
for flag, value in XLA_FLAGS.items():
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}={value}".strip()

# A shell's background job ignores Ctrl-C, and so would the commands that tests send it to.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _NeedsTrain(pytest.Module):
    """A test file that is not imported, and says why."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        pytest.skip("needs the extra train: pip install -e '.[train]'", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Test files of parts that train are skipped where JAX is not installed."""
    part = module_path.relative_to(Path(__file__).parent).parts[0]
    return None if HAS_TRAIN or part not in TRAIN_PARTS else _NeedsTrain.from_parent(parent, path=module_path)
