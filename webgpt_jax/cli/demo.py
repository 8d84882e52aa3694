"""`webgpt demo`: the demo of the checkout that this package runs from."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import webgpt_jax
from webgpt_jax.cli import CommandError

NEEDED = ("jax", "flax", "optax", "orbax.checkpoint", "tokenizers", "safetensors", "matplotlib")


def usage() -> str:
    return "\n".join(
        [
            "usage: webgpt demo [flags]",
            "",
            "The paper's main line in minutes, on a synthetic web: behaviour cloning, a reward model, the best of 16",
            "answers to held-out questions, figures 5 and 8. Prints a table of what was measured and, last, the path",
            "of a page to read. It is experiments/demo.py of a checkout; make demo also installs what it takes.",
            "",
            "For its flags: python -m experiments.demo --help",
        ]
    )


def run(arguments: Sequence[str]) -> int:
    checkout = Path(webgpt_jax.__file__).resolve().parents[1]
    if not (checkout / "experiments" / "demo.py").is_file():
        raise CommandError(
            "the demo comes with a checkout of the repository, which this installation is none of: get one and say make"
            " demo there"
        )
    missing = [name for name in NEEDED if not _is_installed(name)]
    if missing:
        raise CommandError(f"the demo needs {', '.join(missing)}: pip install -e '.[train,studies]', or make demo")
    path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    sys.stdout.flush()
    command = [sys.executable, "-P", "-m", "experiments.demo", *arguments]
    # In this process's place, so that Ctrl-C reaches the training alone, which saves before it leaves.
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
