"""Buckets of every provider: answers of servers, and our messages."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import bucket_store, file_prefix, open_store
from binary_checks.fleet.store.bucket_settings import read_settings
from fixtures.fleet.faulty_proxy import BUSY, LOST, SAFE_PATH, FaultyProxy
from fixtures.fleet.object_store import KEYS
from tests.fleet.store.conftest import set_all

PATIENT = bucket_store.PAUSES
NAME = "night=2026-11-20/results/a.cpu1.json"


@pytest.fixture(params=["s3", "gs", "az"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("fault", [BUSY, SAFE_PATH, LOST])
def test_a_put_is_made_again_and_is_its_writers(url: str, proxy: FaultyProxy, fault: str) -> None:
    store = open_store(url)
    proxy.faults = [("PUT", fault), ("PUT", fault)]
    assert store.create(NAME, b"mine")
    assert proxy.faults == []
    assert store.read(NAME) == b"mine"
    proxy.faults = [("PUT", SAFE_PATH)]
    assert not store.create(NAME, b"another's")
    assert store.read(NAME) == b"mine"


def test_what_is_busy_for_good_is_said_to_be_in_one_line(url: str, proxy: FaultyProxy) -> None:
    store = open_store(url)
    proxy.faults = [("PUT", BUSY)] * 100
    with pytest.raises(StoreError) as raised:
        store.create(NAME, b"mine")
    assert str(raised.value) == f"{url}: {NAME}: cannot be written: the server answers 503"
    assert len(proxy.faults) == 96, "once, and after each pause"
    proxy.faults = [("GET", BUSY)] * 100
    with pytest.raises(StoreError, match="night=: cannot be listed: the server answers 503"):
        list(store.names("night="))
    with pytest.raises(StoreError, match=r"a\.cpu1\.json: cannot be read: the server answers 503"):
        store.read(NAME)
    assert sum(PATIENT) / 2 > 5, "seconds in which a server may be started again"


def test_where_nobody_listens_the_server_is_named(
    scheme: str, url: str, proxy: FaultyProxy
) -> None:
    proxy.shutdown()
    proxy.server_close()
    named = rf"127\.0\.0\.1:{proxy.server_address[1]}"
    if scheme == "gs":
        named = "Google Cloud Storage"
    with pytest.raises(StoreError, match=rf"cannot be read: no connection to {named}"):
        open_store(url)


def test_a_bucket_that_is_not_there_is_no_empty_store(
    scheme: str, url: str, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scheme == "s3":  # other users may not know which buckets there are
        set_all(monkeypatch, provider.environment("admin"))
    for make in (False, True):
        with pytest.raises(StoreError, match=r"404 \w+: there is no such bucket"):
            open_store(f"{scheme}://elsewhere/nights", make=make)


def test_a_large_artifact_is_put_in_parts(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_store, "_PART", 5 << 20)
    store = open_store(url, make=True)
    content = secrets.token_bytes(1 << 20) * 12
    (tmp_path / "a.whl").write_bytes(content)
    name = f"{file_prefix('demo', 'a' * 64)}a.whl"
    assert store.create(name, tmp_path / "a.whl")
    assert not store.create(name, tmp_path / "a.whl")
    assert b"".join(store.pieces(name)) == content


@pytest.mark.parametrize(
    ("scheme", "variable", "code"),
    [
        ("s3", "AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"),
        ("s3", "AWS_ACCESS_KEY_ID", "InvalidAccessKey"),
        ("az", "AZURE_STORAGE_ACCOUNT_KEY", "AuthorizationFailure"),
    ],
    indirect=["scheme"],
)
def test_a_wrong_key_is_no_empty_store_and_is_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch, variable: str, code: str
) -> None:
    open_store(url, make=True)
    monkeypatch.setenv(variable, "aHVudGVyMmh1bnRlcjI=")
    monkeypatch.setattr(bucket_store.time, "sleep", None)  # it is not asked again
    with pytest.raises(StoreError, match=f"the server answers 403 {code}") as found:
        open_store(url, make=True)
    for secret in ("aHVudGVyM", *KEYS["writer"]):
        assert secret not in str(found.value)


@pytest.mark.parametrize("scheme", ["az"], indirect=True)
def test_a_key_that_is_none_is_told_apart_from_the_server(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "hunter2!")
    with pytest.raises(ProfileError, match=r"its AZURE_\* variables are wrong") as found:
        open_store(url)
    assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    ("url", "environ", "reason"),
    [
        ("s3://", {}, "not a valid bucket"),
        ("s3:///prefix", {}, "not a valid bucket"),
        ("s3://bucket/../x", {}, "not a bucket and a prefix"),
        ("s3://key:hunter2@bucket/x", {}, "credentials in AWS_ACCESS_KEY_ID"),
        ("s3://bucket/x?token=hunter2", {}, "credentials in AWS_ACCESS_KEY_ID"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "set AWS_ALLOW_HTTP=true"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "https://u:hunter2@h"}, "without credentials"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "ftp://host"}, "not an http:// or https://"),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "https://host:x"}, "not an http:// or https://"),
        ("gs://", {}, "not a valid bucket and prefix, as in gs://"),
        ("az://key:hunter2@results/x", {}, "credentials in AZURE_STORAGE_ACCOUNT_NAME"),
        ("gs://results/x?token=hunter2", {}, "credentials in GOOGLE_APPLICATION_CREDENTIALS"),
        (
            "az://results",
            {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:9"},
            "AZURE_STORAGE_ENDPOINT: .* set AZURE_ALLOW_HTTP=true",
        ),
        ("az://results", {"AZURE_ENDPOINT": "https://u:hunter2@h"}, "without credentials"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused_without_repeating_secrets(
    url: str, environ: dict[str, str], reason: str
) -> None:
    with pytest.raises(ProfileError, match=reason) as raised:
        read_settings(url, environ)
    assert "hunter2" not in str(raised.value)
    settings = read_settings("s3://bucket/a/b/", {"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert (settings.url, settings.prefix) == ("s3://bucket/a/b", "a/b")
