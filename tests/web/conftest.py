"""A file on a loopback server, and a client that does not really wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.web.client import Client
from binary_checks.web.web_settings import WebSettings
from fixtures.package_index import PackageIndex, serve_index

CONTENT = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    with serve_index() as index:
        (tmp_path / "x.whl").write_bytes(CONTENT)
        index.folders["dl"] = tmp_path
        yield index


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def client(pauses: list[float]) -> Iterator[Client]:
    client = Client(WebSettings(timeout=5, retries=3), sleep=pauses.append)
    yield client
    client.close()
