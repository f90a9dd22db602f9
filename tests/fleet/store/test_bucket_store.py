"""A bucket as a store: failures of servers and connections, and their messages."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binary_checks import files
from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import Store, bucket_store, open_store
from binary_checks.fleet.store import bucket_store as mirror
from binary_checks.fleet.store.bucket_settings import read_settings
from binary_checks.fleet.store.bucket_store import BucketStore
from fixtures.fleet.faulty_proxy import BUSY, SAFE_PATH, SLOW, FaultyProxy, put_before
from fixtures.fleet.object_store import BUCKET, KEYS, ObjectStore

PATIENT = bucket_store.PAUSES
NAME = "night=2026-11-20/results/a.cpu1.json"


@pytest.fixture
def url(server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    become(monkeypatch, server, "writer")
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bucket_store, "PAUSES", (0.01, 0.01, 0.01))
    return f"s3://{BUCKET}/{secrets.token_hex(8)}"


def become(monkeypatch: pytest.MonkeyPatch, server: ObjectStore, who: str, at: str = "") -> None:
    for name, value in server.environment(who, at).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url, make=True)


@pytest.fixture
def proxy(server: ObjectStore) -> Iterator[FaultyProxy]:
    with put_before(server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def behind(
    proxy: FaultyProxy, store: Store, server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> Store:
    """The store as it is reached through the proxy."""
    become(monkeypatch, server, "writer", proxy.endpoint)
    return open_store(store.url)


@pytest.mark.parametrize("fault", [BUSY, SAFE_PATH])
def test_reading_and_listing_are_tried_again(behind: Store, proxy: FaultyProxy, fault: str) -> None:
    behind.create(NAME, b"mine")
    asked: list[tuple[Callable[[], object], object]] = [
        (lambda: behind.read(NAME), b"mine"),
        (lambda: [each.name for each in behind.names("night=")], [NAME]),
        (lambda: list(behind.folders("night=")), ["night=2026-11-20/"]),
    ]
    for ask, wanted in asked:
        proxy.faults = [("GET", fault)]
        assert ask() == wanted
        assert proxy.faults == []


def test_a_server_that_does_not_answer_in_time_is_asked_again(
    store: Store, proxy: FaultyProxy, server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_store, "_SLOWEST", {"timeout": "400ms"})
    become(monkeypatch, server, "writer", proxy.endpoint)
    hasty = open_store(store.url)
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
    become(monkeypatch, server, "reader")
    reader = open_store(store.url)
    assert reader.read(NAME) == b"mine"
    for ask in (lambda: reader.create("facts/aa/aa", b""), lambda: reader.delete(NAME)):
        with pytest.raises(StoreError, match="AccessDenied"):
            ask()
    assert store.read(NAME) == b"mine"


@pytest.mark.parametrize(
    ("variable", "code"),
    [("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"), ("AWS_ACCESS_KEY_ID", "InvalidAccessKey")],
)
def test_a_wrong_key_is_no_empty_store_and_is_not_repeated(
    store: Store, monkeypatch: pytest.MonkeyPatch, variable: str, code: str
) -> None:
    monkeypatch.setenv(variable, "hunter2hunter2")
    with pytest.raises(StoreError, match=f"cannot be read: the server answers 403 {code}") as found:
        open_store(store.url, make=True)
    for secret in ("hunter2", *KEYS["writer"]):
        assert secret not in str(found.value)


def test_a_prefix_with_other_things_is_no_store(store: Store) -> None:
    store.create("thesis/chapter-1.tex", b"")
    above = store.url.rpartition("/")[0]
    with pytest.raises(StoreError, match="not a store, and not empty"):
        open_store(above, make=True)


def test_a_copy_is_kept_and_is_not_that_of_an_earlier_store(
    behind: Store, proxy: FaultyProxy
) -> None:
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


def test_copies_are_for_nobody_else(store: Store, tmp_path: Path) -> None:
    store.create(NAME, b"mine")
    with store.local(NAME) as path:
        for folder in path.parents:
            if folder == tmp_path:
                break
            assert folder.stat().st_mode & 0o077 == 0


WRITER = """
import sys
from binary_checks.fleet.store import open_store
store = open_store(sys.argv[1])
for number in range(400):
    name = f"night=2026-11-20/results/c{number}.cpu1.json"
    print(int(store.create(name, str(number).encode() * 2000)), flush=True)
"""


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_is_written_to_loses_nothing(
    server: ObjectStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_store, "PAUSES", PATIENT)
    store = open_store(url, make=True)
    command = [sys.executable, "-c", WRITER, store.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        written: list[bytes] = []
        for kill_after in (40, 160):
            while len(written) < kill_after:
                written.append(writer.stdout.readline())
            server.kill()
            for each in _read_half_visible(server, store):
                raise AssertionError(each)
        written += writer.stdout.readlines()
    assert (writer.returncode, written) == (0, [b"1\n"] * 400)
    assert len(list(store.names("night=2026-11-20/results/"))) == 400
    for number in range(400):
        name = f"night=2026-11-20/results/c{number}.cpu1.json"
        assert store.read(name) == str(number).encode() * 2000, name


def _read_half_visible(server: ObjectStore, store: Store) -> Iterator[str]:
    """Start it again; what is there by then and not whole."""
    time.sleep(0.2)
    server.start()
    for each in store.names("night=2026-11-20/results/"):
        number = each.name.rpartition("/c")[2].partition(".")[0]
        if store.read(each.name) != number.encode() * 2000:
            yield each.name


def test_settings_show_no_secret() -> None:
    settings = read_settings("s3://bucket/a/b/", {"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert (settings.url, settings.prefix) == ("s3://bucket/a/b", "a/b")


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
