"""A bucket as a store: failures of servers and connections, and their messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from binary_checks import files
from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import Store, bucket_store, open_store
from binary_checks.fleet.store import bucket_store as mirror
from binary_checks.fleet.store.bucket_settings import read_settings
from binary_checks.fleet.store.bucket_store import BucketStore
from fixtures.fleet.faulty_proxy import BUSY, SAFE_PATH, SLOW, FaultyProxy
from fixtures.fleet.object_store import ObjectStore
from tests.fleet.store.conftest import set_all

NAME = "night=2026-11-20/results/a.cpu1.json"


@pytest.fixture
def scheme() -> str:
    return "s3"


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
    with pytest.raises(StoreError, match=r"cannot be read: no timely answer from 127\.0\.0\.1:"):
        hasty.read(NAME)
    assert len(proxy.faults) == 8, "no further try"


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
        monkeypatch.setattr(mirror, name, value)
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
        BucketStore(read_settings("s3://bucket", {}))


def test_a_listing_without_end_is_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        store.create(f"facts/{number}.json", b"")
    monkeypatch.setattr(bucket_store, "MOST_LISTED", 3)
    with pytest.raises(StoreError, match=r"facts: more than 3 objects"):
        list(store.names("facts/"))
    monkeypatch.setattr(bucket_store, "MOST_LISTED", 4)
    assert len(list(store.names("facts/"))) == 4
