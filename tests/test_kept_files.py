"""Files are written whole, and caches remove their oldest files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from binary_checks.files import remove_oldest, replace_file_when_complete


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_bytes(b"old")
    with pytest.raises(KeyError), replace_file_when_complete(path) as file:
        file.write(b"half of the new")
        raise KeyError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    for name, old, wanted in (("kept", 0o640, 0o640), ("new", None, 0o644)):
        path = tmp_path / name
        if old is not None:
            path.touch()
            path.chmod(old)
        with replace_file_when_complete(path, 0o644) as file:
            file.write(b"x")
        assert path.stat().st_mode & 0o777 == wanted


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    now = time.time()
    for name, age in (("folder", 9000), ("older", 8000), ("newer", 7000), ("just now", 0)):
        path = tmp_path / name
        if name == "folder":
            path.mkdir()
            (path / "a.whl").write_bytes(b"x" * 10)
        else:
            path.write_bytes(b"x" * 10)
        os.utime(path, (now - age, now - age))
    remove_oldest(tmp_path.iterdir(), 25)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["just now", "newer"]
    remove_oldest(tmp_path.iterdir(), 0)
    assert [path.name for path in tmp_path.iterdir()] == ["just now"]
