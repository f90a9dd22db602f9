"""A store of each kind, including buckets of other providers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.store import bucket_store, open_store
from fixtures.fleet.azure_store import ACCOUNT, CONTAINER, AzureStore, find_azurite
from fixtures.fleet.faulty_proxy import FaultyProxy, put_before
from fixtures.fleet.google_store import BUCKET, GoogleStore, serve_google
from fixtures.fleet.object_store import BUCKET as S3_BUCKET


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


@pytest.fixture(params=["folder", "s3", "gs", "az"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def provider(scheme: str, request: pytest.FixtureRequest) -> Any:
    """The server of the bucket's provider."""
    return request.getfixturevalue({"s3": "server", "gs": "google", "az": "azure"}[scheme])


def set_all(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def url(
    scheme: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    if scheme == "folder":
        return str(tmp_path / "store")
    set_all(monkeypatch, request.getfixturevalue("provider").environment())
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    bucket = {"s3": S3_BUCKET, "gs": BUCKET, "az": CONTAINER}[scheme]
    return f"{scheme}://{bucket}/{secrets.token_hex(8)}/nights"


@pytest.fixture
def proxy(
    scheme: str, url: str, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyProxy]:
    """What stands before the server of a store from now on."""
    open_store(url, make=True)
    monkeypatch.setattr(bucket_store, "PAUSES", (0.01, 0.01, 0.01))
    with put_before(provider.endpoint) as proxy:
        below = f"/{ACCOUNT}" if scheme == "az" else ""
        set_all(monkeypatch, provider.environment(endpoint=f"{proxy.endpoint}{below}"))
        yield proxy
