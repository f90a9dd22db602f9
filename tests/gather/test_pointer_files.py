"""Pointers of git-lfs are found by their first line, and only if they have the size of one."""

from __future__ import annotations

from pathlib import Path

from binary_checks import examine
from binary_checks.model import PointerFiles
from fixtures.build_wheel import build_wheel

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"
)


def test_a_pointer_is_found(tmp_path: Path) -> None:
    members = {
        "demo/__init__.py": b"",
        "demo/model.bin": POINTER,
        "demo/model.txt": b"x" * len(POINTER),
        "demo/extended.bin": POINTER.replace(b"oid", b"ext-0-" + b"a" * 300 + b" sha256:aa\noid"),
        "demo/pointers.txt": POINTER * 2,
    }
    with examine(build_wheel(tmp_path, members=members), run=False) as facts:
        found = facts.get(PointerFiles)
    names = [path.rpartition("site-packages/")[2] for path in found.paths]
    assert names == ["demo/extended.bin", "demo/model.bin"]
    assert not found.unread
