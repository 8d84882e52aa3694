"""Recordings as a damaged disk or an attacker leaves them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from webgpt_jax.env import Page
from webgpt_jax.web.recording_answer import Failure, Results
from webgpt_jax.web.recording_file import Recording, Request


def change(path: Path, statement: str, *values: object) -> None:
    """Changes what a file holds, behind the back of whoever wrote it."""
    database = sqlite3.connect(path)
    database.execute(statement, values)
    database.commit()
    database.close()


def recorded(path: Path, request: Request, answer: Results | Page | Failure) -> None:
    with Recording(path) as recording:
        recording.keep(request, answer)
