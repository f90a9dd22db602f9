from __future__ import annotations

from itertools import pairwise

import pytest

from binary_checks.knowledge.cuda import (
    cuda_of_ptx,
    driver_of_toolkit,
    find_copies,
    lowest_driver,
    oldest_driver_of_ptx,
)
from binary_checks.knowledge.library_names import DRIVER_LIBRARIES
from binary_checks.model import read_numbers
from fixtures.values import elf_file


@pytest.mark.parametrize(
    ("version", "cuda", "linux", "windows"),
    [
        ("7.8", "11.8", "520.61.05", "520.06"),
        ("8.5", "12.5", "555.42.02", "555.85"),  # 12.6 writes it, too
        ("8.6", "12.7", "565", "565"),
        ("8.8", "12.9", "575.51.03", "576.02"),
        ("9.1", "13.1", "590.44.01", "590"),
        ("9.5", "13.5", "", ""),
        ("10.0", "", "", ""),
        ("", "", "", ""),
    ],
)
def test_ptx_is_compiled_by_the_driver_of_its_toolkit_and_later_ones(
    version: str, cuda: str, linux: str, windows: str
) -> None:
    assert cuda_of_ptx(version) == cuda
    assert oldest_driver_of_ptx(version, "linux") == linux
    assert oldest_driver_of_ptx(version, "windows") == windows
    assert oldest_driver_of_ptx(version, "macos") == ""


def test_machine_code_runs_on_older_drivers_than_ptx_of_the_same_toolkit() -> None:
    for minor in range(1, 10):
        of_major = lowest_driver(f"12.{minor}", "linux")
        assert of_major == "525.60.13"
        assert read_numbers(driver_of_toolkit(f"12.{minor}", "linux")) > read_numbers(of_major)


def test_each_toolkit_of_a_major_version_has_a_newer_driver_than_the_one_before() -> None:
    for system in ("linux", "windows"):
        for major, last in (("11", 8), ("12", 9), ("13", 3)):
            drivers = [driver_of_toolkit(f"{major}.{minor}", system) for minor in range(last + 1)]
            assert all(
                read_numbers(later) > read_numbers(each) for each, later in pairwise(drivers)
            )


def test_a_part_that_no_version_has_ends_one() -> None:
    assert read_numbers("12.123456789.1234567890.1") == (12, 123456789)


def test_a_package_without_the_drivers_libraries_has_no_copy_of_them() -> None:
    own, other = elf_file("demo/libcuda.so.1"), elf_file("demo/libdemo.so")
    assert not find_copies((other,), DRIVER_LIBRARIES)
    assert [copy.name for copy in find_copies((other, own), DRIVER_LIBRARIES)] == ["libcuda.so.1"]
