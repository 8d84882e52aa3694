"""Shares of the data, halved three times."""

from __future__ import annotations

import shutil
from fractions import Fraction

from experiments.training_run import Trained

SHARES = (0.125, 0.25, 0.5, 1.0)


def name_of(share: float) -> str:
    """As it is written in a figure: 1/8 … 1."""
    return str(Fraction(share))


def folder_of(share: float, seed: int) -> str:
    """As it is written in the name of a folder."""
    return f"{name_of(share).replace('/', '-')}-seed{seed}"


def without_checkpoints(trained: Trained) -> Trained:
    """A finished training of a point, of which the final model alone is kept: there are dozens of them."""
    shutil.rmtree(trained.final.parent / "checkpoints", ignore_errors=True)
    return trained
