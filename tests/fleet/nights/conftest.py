"""Fixtures for tests of nights."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.nights import cell_commands
from binary_checks.fleet.store import Store, open_store


@pytest.fixture(autouse=True)
def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without the libraries of the second opinion, whatever this one has."""
    monkeypatch.setattr(cell_commands, "has_libraries", lambda: False)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store in a folder, of a host whose GPUs nobody else uses."""
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    return open_store(str(tmp_path / "store"), make=True)
