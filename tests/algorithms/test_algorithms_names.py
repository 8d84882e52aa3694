"""The package's names: each is there, and best-of-n's come without JAX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

from webgpt_jax import algorithms

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", algorithms.__all__)
def test_every_name_is_a_function(name: str) -> None:
    assert isinstance(getattr(algorithms, name), FunctionType)
    assert not (Path(algorithms.__file__).parent / f"{name}.py").exists()  # a module would take the function's place


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'ppo_loss_of_a_name'"):
        _ = algorithms.ppo_loss_of_a_name


def test_best_of_n_comes_without_jax() -> None:
    program = (
        "import sys; from webgpt_jax.algorithms import predicted_score, select_best; "
        "sys.exit('jax' in sys.modules or select_best([1.0, 2.0]) != 1)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
