"""What the tests of nights have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store in a folder."""
    return open_store(str(tmp_path / "store"), make=True)
