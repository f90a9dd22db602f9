"""Buckets of every provider: failures of servers and connections, copies, and our messages."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binary_checks import files
from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import Store, bucket_store, file_prefix, open_store
from binary_checks.fleet.store.bucket_settings import read_settings
from fixtures.fleet.faulty_proxy import BUSY, LOST, SAFE_PATH, SLOW, FaultyProxy
from fixtures.fleet.object_store import KEYS, ObjectStore
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


@pytest.mark.parametrize("fault", [BUSY, SAFE_PATH])
def test_reading_and_listing_are_tried_again(url: str, proxy: FaultyProxy, fault: str) -> None:
    store = open_store(url)
    store.create(NAME, b"mine")
    asked: list[tuple[Callable[[], object], object]] = [
        (lambda: store.read(NAME), b"mine"),
        (lambda: [each.name for each in store.names("night=")], [NAME]),
        (lambda: list(store.folders("night=")), ["night=2026-11-20/"]),
    ]
    for ask, wanted in asked:
        proxy.faults = [("GET", fault)]
        assert ask() == wanted
        assert proxy.faults == []


def test_a_server_that_does_not_answer_in_time_is_asked_again(
    url: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_store, "_SLOWEST", {"timeout": "400ms"})
    hasty = open_store(url)
    proxy.faults = [("PUT", SLOW)]
    assert hasty.create(NAME, b"mine")
    proxy.faults = [("GET", SLOW)] * 9
    monkeypatch.setattr(bucket_store, "_PATIENCE", 0.0)
    with pytest.raises(StoreError, match=r"cannot be read: no timely answer from "):
        hasty.read(NAME)
    assert len(proxy.faults) == 8, "no further try"


@pytest.mark.parametrize("scheme", ["s3"], indirect=True)
def test_who_may_only_read_is_told_so(
    store: Store, server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(NAME, b"mine")
    set_all(monkeypatch, server.environment("reader"))
    reader = open_store(store.url)
    assert reader.read(NAME) == b"mine"
    for ask in (lambda: reader.create("facts/aa/aa", b""), lambda: reader.delete(NAME)):
        with pytest.raises(StoreError, match="AccessDenied"):
            ask()
    assert store.read(NAME) == b"mine"


def test_a_prefix_with_other_things_is_no_store(store: Store) -> None:
    store.create("thesis/chapter-1.tex", b"")
    above = store.url.rpartition("/")[0]
    with pytest.raises(StoreError, match="not a store, and not empty"):
        open_store(above, make=True)


def test_a_copy_is_kept_and_is_not_that_of_an_earlier_store(url: str, proxy: FaultyProxy) -> None:
    behind = open_store(url)
    name = "night=2026-11-20/cells.parquet"
    behind.create(name, b"first")
    for _ in range(2):
        with behind.local(name) as path:
            assert path.read_bytes() == b"first"
    proxy.asked.clear()
    with behind.local(name) as path:
        assert path.read_bytes() == b"first"
    assert proxy.asked == []
    for each in ("store.json", name):
        behind.delete(each)
    again = open_store(behind.url, make=True)
    again.create(name, b"second")
    with again.local(name) as path:
        assert path.read_bytes() == b"second"


def test_copies_make_room_for_each_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "IN_USE", -1.0)
    for name, value in (("_MOST", 25), ("_OFTEN", 1)):
        monkeypatch.setattr(bucket_store, name, value)
    for number in range(5):
        store.create(f"facts/{number}", b"x" * 10)
        with store.local(f"facts/{number}") as path:
            assert path.read_bytes() == b"x" * 10
    kept = sorted(path.name for path in (tmp_path / "cache").rglob("facts/*"))
    assert kept == ["2", "3", "4"], "room is made before the next is added"
    for folder in path.parents[: len(path.relative_to(tmp_path).parts) - 1]:
        assert folder.stat().st_mode & 0o077 == 0, "they are for nobody else"


def test_an_extra_that_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ProfileError, match=r"pip install 'binary-checks\[fleet\]'"):
        bucket_store.BucketStore(read_settings("s3://bucket", {}))


def test_a_listing_without_end_is_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        store.create(f"facts/{number}.json", b"")
    monkeypatch.setattr(bucket_store, "MOST_LISTED", 3)
    with pytest.raises(StoreError, match=r"facts: more than 3 objects"):
        list(store.names("facts/"))
    monkeypatch.setattr(bucket_store, "MOST_LISTED", 4)
    assert len(list(store.names("facts/"))) == 4


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
