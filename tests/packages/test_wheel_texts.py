"""The texts in dist-info are forged too: what they may cost is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import PackageError
from binary_checks.packages.distributions import read_record, read_texts
from binary_checks.trees.members import MAXIMUM_ENTRIES
from fixtures.build_wheel import build_wheel
from fixtures.environments import read_wheel


def test_no_more_rows_of_record_are_read_than_members() -> None:
    rows, faults = read_record(b",,\n" * (MAXIMUM_ENTRIES + 2))
    assert rows is not None
    assert len(rows) == MAXIMUM_ENTRIES
    assert faults == ("line 150001: only 150000 rows are read",)


def test_metadata_without_end_is_one_line(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, metadata=b"a: b\n" * 1_000_000)
    with pytest.raises(PackageError, match="METADATA cannot be read: it has 5000000 bytes"):
        read_wheel(path)


@pytest.mark.parametrize(
    ("text", "content", "effect"),
    [
        ("METADATA", "Metadata-Version: 2.1", "pip and uv do not find its first field"),
        ("WHEEL", "Wheel-Version: 1.0", "pip and uv do not find its first field"),
        ("entry_points.txt", "[console_scripts]", "uv refuses to install the wheel"),
    ],
)
def test_a_byte_order_mark_is_a_fault(text: str, content: str, effect: str) -> None:
    marked = f"\N{ZERO WIDTH NO-BREAK SPACE}{content}\n".encode()
    fault = f"it begins with a byte order mark: {effect}"
    assert read_texts({text: marked}).faults.get(text) == (fault,)
    assert read_texts({text: marked[3:]}).faults.get(text) == ()


def test_a_byte_order_mark_in_record_does_no_harm() -> None:
    assert read_record("\N{ZERO WIDTH NO-BREAK SPACE}a,,\n".encode())[1] == ()


def test_record_without_end_is_a_fault(tmp_path: Path) -> None:
    package = read_wheel(build_wheel(tmp_path, record=b" " * (33 << 20)))
    assert package.record_faults == ("it has 34603008 bytes; at most 33554432 are read",)
