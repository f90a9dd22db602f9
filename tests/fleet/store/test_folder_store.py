"""A folder as a store: killed writers, full disks, folders and URLs that are no stores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import Store, open_store

POSIX = pytest.mark.skipif(os.name != "posix", reason="has no such files")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Store:
    return open_store(str(folder), make=True)


WRITER = """
import sys
from pathlib import Path
from binary_checks.fleet.store import open_store
store = open_store(sys.argv[1])
store.create("facts/aa/aa", Path(sys.argv[2]))
"""


@POSIX
def test_a_writer_that_is_killed_leaves_nothing_under_the_name(
    folder: Path, store: Store, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "endless")
    command = [sys.executable, "-c", WRITER, str(folder), str(tmp_path / "endless")]
    with (
        subprocess.Popen(command) as writer,
        (tmp_path / "endless").open("wb", buffering=0) as pipe,
    ):
        pipe.write(b"half of it")  # it reads now, and has its lock
        while not any(each.stat().st_size for each in folder.rglob("*.part")):
            pipe.write(b"x" * 4096)
        open_store(str(folder)).create("facts/bb/bb", b"b")
        assert list(folder.rglob("*.part")), "its writer lives"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert [each.name for each in store.names("facts/")] == ["facts/bb/bb"]
    assert open_store(str(folder)).create("facts/aa/aa", b"whole")
    assert not list(folder.rglob("*.part"))


def test_stores_that_are_opened_at_once_spare_each_others_writers(
    folder: Path, store: Store
) -> None:
    def write(number: int) -> bool:
        return open_store(str(folder)).create(f"facts/aa/{number}", b"x" * 10_000)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(write, range(300)))
    assert len([*store.names("facts/")]) == 300


def test_a_file_that_cannot_be_linked_is_renamed(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with ThreadPoolExecutor(16) as pool:
        won = [*pool.map(lambda each: store.create("facts/aa/aa", bytes([each])), range(16))]
    assert won.count(True) == 1
    assert store.read("facts/aa/aa") == bytes([won.index(True)])
    assert list(folder.rglob("*.part")) == []


def test_a_folder_of_other_things_or_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("chapter 1")
    with pytest.raises(StoreError, match="it contains other files"):
        open_store(str(tmp_path))
    with pytest.raises(StoreError, match=r"not empty: it contains thesis\.tex"):
        open_store(str(tmp_path), make=True)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]
    for make in (False, True):
        with pytest.raises(StoreError, match=r"thesis\.tex: cannot be listed: Not a directory"):
            open_store(str(tmp_path / "thesis.tex"), make=make)


def test_a_store_that_lost_its_mark_is_half_of_one_and_can_be_made_whole(
    folder: Path, store: Store
) -> None:
    store.create("night=2026-11-20/plan.json", b"plan")
    (folder / "store.json").unlink()
    with pytest.raises(StoreError, match="an incomplete store"):
        open_store(str(folder))
    assert open_store(str(folder), make=True).read("night=2026-11-20/plan.json") == b"plan"
    assert open_store(folder.as_uri()).read("night=2026-11-20/plan.json") == b"plan"


def test_a_store_whose_disk_is_gone_is_not_empty(folder: Path, store: Store) -> None:
    store.create("channels/release/numpy/numpy.whl.aa", b"")
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()
    for ask in (store.names, store.folders):
        with pytest.raises(StoreError, match="cannot be listed: the store no longer exists"):
            list(ask("channels/"))


@POSIX
def test_no_link_leads_out_of_a_store(folder: Path, store: Store, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "aa").write_text("secret")
    (folder / "facts").mkdir()
    (folder / "facts" / "aa").symlink_to(tmp_path / "outside")
    (folder / "facts" / "bb").symlink_to(tmp_path / "outside" / "aa")
    assert list(store.names("")) == [*store.names("store.json")]
    with pytest.raises(StoreError, match="a symbolic link leads to it"):
        store.read("facts/aa/aa")
    with pytest.raises(StoreError, match="a symbolic link leads to it"):
        store.create("facts/aa/new", b"")
    with pytest.raises(StoreError, match="cannot be read"):
        store.read("facts/bb")
    assert [each.name for each in (tmp_path / "outside").iterdir()] == ["aa"]


@POSIX
def test_what_is_no_regular_file_is_no_object(folder: Path, store: Store) -> None:
    (folder / "facts").mkdir()
    os.mkfifo(folder / "facts" / "pipe")
    with pytest.raises(StoreError, match="not a regular file"):
        store.read("facts/pipe")
    with pytest.raises(StoreError, match="a folder, a link or a special file"):
        store.create("facts/pipe", b"")
    assert list(store.names("facts/")) == []


ASK = """
import sys
from pathlib import Path
from binary_checks.errors import StoreError
from binary_checks.fleet.store import open_store
store = open_store(sys.argv[1])
try:
    store.create("facts/aa/aa", bytes(1_000_000))
except StoreError as error:
    print(error)
print([each.name for each in store.names("facts/")])
print(len([*Path(sys.argv[1]).rglob("*.part")]), "halves")
"""


@pytest.mark.parametrize(
    ("mounted", "reason", "left"),
    [
        (
            'cp "$1/store.json" "$1.mark" && mount -t tmpfs -o size=128k tmpfs "$1" && '
            'cp "$1.mark" "$1/store.json"',
            "No space left on device",
            [],
        ),
        (
            'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1"',
            "Read-only file system",
            ["facts/bb/bb"],
        ),
    ],
)
def test_a_full_or_read_only_disk_is_named_and_nothing_half_is_left_on_it(
    folder: Path, store: Store, mounted: str, reason: str, left: list[str]
) -> None:
    """In a name space of its own."""
    store.create("facts/bb/bb", b"b")
    script = f'({mounted}) 2>/dev/null || exit 77; exec "$2" -c "$3" "$1"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(folder), sys.executable, ASK]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare")
    if not ended.stdout and (ended.returncode == 77 or ended.stderr.startswith("unshare")):
        pytest.skip("nothing can be mounted here")
    assert not ended.stderr
    assert ended.stdout.splitlines() == [
        f"{folder}: facts/aa/aa: cannot be written: {reason}",
        str(left),
        "0 halves",
    ]


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (b"", "not the mark of a store, or truncated"),
        (b'{"id": "', "not the mark of a store, or truncated"),
        (
            b'{"schema": "binary-checks/store/2", "id": "1"}',
            "its schema is .*, not binary-checks/store/1",
        ),
        (b'{"schema": "binary-checks/store/1"}', "not the mark of a store, or truncated"),
        (b"[]", "not the mark of a store, or truncated"),
    ],
)
def test_a_broken_mark_is_no_store(tmp_path: Path, mark: bytes, reason: str) -> None:
    (tmp_path / "store.json").write_bytes(mark)
    with pytest.raises(StoreError, match=reason):
        open_store(str(tmp_path), make=True)


@pytest.mark.parametrize("url", ["", "ftp://host/x", "file://host/store", "file:store", "a\0b"])
def test_what_is_no_store_by_its_url_is_refused(url: str) -> None:
    with pytest.raises(ProfileError, match="--store"):
        open_store(url)
