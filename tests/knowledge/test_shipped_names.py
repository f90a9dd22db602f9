"""The distributions that ship a library are data, with a source for each row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binary_checks.knowledge import library_names
from binary_checks.knowledge.library_names import (
    fills_prefix,
    find_known_shippers,
    may_be_required,
    may_have,
)
from binary_checks.profile import read_toml

TABLES: dict[str, Any] = read_toml(
    Path(library_names.__file__).with_name("shipped_names.toml"), "tables"
)


def test_each_row_says_where_somebody_looked() -> None:
    rows = [row for table in TABLES.values() for row in table]
    assert all(row["source"].strip() for row in rows)
    assert all({"distributions", "libraries"} & row.keys() for row in rows)


@pytest.mark.parametrize(
    ("needed", "shipper"),
    [
        ("libc10.so", "torch"),
        ("@rpath/libtorch_cpu.dylib", "torch"),
        ("libarrow.so.2600", "pyarrow"),
        ("libQt6Core.so.6", "pyside6-essentials"),
        ("hdf5.dll", "h5py"),
    ],
)
def test_what_a_distribution_has_is_known_by_name(needed: str, shipper: str) -> None:
    every = ("torch", "pyarrow", "pyside6-essentials", "h5py", "numpy")
    assert find_known_shippers(needed, every) == (shipper,)


def test_some_have_nothing_else_for_others() -> None:
    assert not may_have("numpy", "libfoo.so")
    assert may_have("foo-libs", "libfoo.so")
    assert may_have("nvidia-cublas", "libcublas.so.13")
    assert not may_have("nvidia-cublas", "libfoo.so")


@pytest.mark.parametrize("needed", ["OpenCL.dll", "libEGL.so.1", "libX11-xcb.so.1"])
def test_what_drivers_and_systems_have_no_requirement_has(needed: str) -> None:
    assert not may_be_required(needed)
    assert may_be_required("libfoo.so.1")


def test_intel_s_wheels_fill_the_environment_s_lib() -> None:
    assert fills_prefix("intel-openmp")
    assert not fills_prefix("intelligence")
