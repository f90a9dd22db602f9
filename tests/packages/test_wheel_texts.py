"""The texts in dist-info are forged too: what they may cost is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import PackageError
from binary_checks.packages.distributions import read_record
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


def test_record_without_end_is_a_fault(tmp_path: Path) -> None:
    package = read_wheel(build_wheel(tmp_path, record=b" " * (33 << 20)))
    assert package.record_faults == ("it has 34603008 bytes; at most 33554432 are read",)
