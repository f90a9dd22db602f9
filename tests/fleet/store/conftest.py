"""A store of each kind, including buckets of other providers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.fleet.azure_store import CONTAINER, AzureStore, find_azurite
from fixtures.fleet.google_store import BUCKET, GoogleStore, serve_google
from fixtures.fleet.object_store import BUCKET as S3_BUCKET

KINDS = ["folder", "s3", "gs", "az"]


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureStore]:
    if find_azurite() is None:
        pytest.skip("needs obstore and azurite (npm install -g azurite)")
    server = AzureStore(tmp_path_factory.mktemp("azurite"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def google() -> Iterator[GoogleStore]:
    pytest.importorskip("obstore")
    with serve_google() as server:
        yield server


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return str(tmp_path / "store")
    fixture, bucket = {
        "s3": ("server", S3_BUCKET),
        "gs": ("google", BUCKET),
        "az": ("azure", CONTAINER),
    }[request.param]
    for name, value in request.getfixturevalue(fixture).environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    return f"{request.param}://{bucket}/{secrets.token_hex(8)}/nights"
