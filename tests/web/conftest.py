"""A folder of pages and the cache of its index."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where indexes are kept in this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> Path:
    """A small corpus, whose index is kept in `cache`."""
    folder = tmp_path / "My Corpus"
    (folder / "birds").mkdir(parents=True)
    (folder / "index.html").write_text('<title>Start</title>Welcome. <a href="birds/crow.html">Crows</a>')
    (folder / "birds/crow.html").write_text(
        '<title>Gifts from crows</title>Crows bring gifts. <a href="../notes%20%231.txt#top">Notes</a>'
        ' <a href="http://example.com/">Elsewhere</a>'
    )
    (folder / "notes #1.txt").write_text("Ravens like shiny things.")
    (folder / "locked.pdf").write_bytes(b"%PDF-locked")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / ".secret.txt").write_text("password")
    return folder
