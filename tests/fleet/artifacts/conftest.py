"""The desk of a release engineer, for tests that ask for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.store import open_store
from tests.fleet.artifacts.release_desk import Desk


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(
        folder=tmp_path, store=open_store(str(tmp_path / "store"), make=True), capsys=capsys
    )
