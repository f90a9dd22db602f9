"""The slices in a macOS wheel are its objects, and checks judge them."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.checks.hardening import wrong_architecture
from binary_checks.model import Linkage, MachOFile, Wheel
from binary_checks.packages import open_package
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_macho_sample


def _open(folder: Path, platform: str, sample: str) -> Wheel:
    path = build_wheel(
        folder,
        tags=(f"cp311-cp311-{platform}",),
        members={"demo/a.cpython-311-darwin.so": read_macho_sample(sample)},
    )
    wheel = open_package(path, objects)
    assert isinstance(wheel, Wheel)
    return wheel


def test_a_fat_member_is_one_object_a_slice(tmp_path: Path) -> None:
    wheel = _open(tmp_path, "macosx_10_9_universal2", "universal2.dylib")
    assert all(isinstance(item, MachOFile) for item in wheel.objects)
    assert [item.architecture for item in wheel.objects] == ["x86_64", "aarch64"]
    assert {wheel.layout.shorten(item.path) for item in wheel.objects} == {
        "demo/a.cpython-311-darwin.so"
    }


@pytest.mark.parametrize(
    ("platform", "sample"),
    [
        ("macosx_10_9_universal2", "universal2.dylib"),
        ("macosx_10_9_x86_64", "plain.dylib"),
        ("macosx_11_0_arm64", "signed_arm64.dylib"),
        ("macosx_10_9_x86_64.macosx_11_0_arm64", "universal2.dylib"),
    ],
)
def test_the_right_architecture_is_quiet(tmp_path: Path, platform: str, sample: str) -> None:
    assert (
        list(wrong_architecture(_open(tmp_path, platform, sample), Linkage(target=platform))) == []
    )


def test_the_wrong_architecture_is_a_problem(tmp_path: Path) -> None:
    wheel = _open(tmp_path, "macosx_11_0_arm64", "plain.dylib")
    (problem,) = wrong_architecture(wheel, Linkage(target="x"))
    assert "is for x86_64, but the tags claim macosx_11_0_arm64" in str(problem)


def test_a_large_member_keeps_all_that_is_signed(tmp_path: Path) -> None:
    padded = read_macho_sample("stale_signature_arm64.dylib") + bytes(600 << 10)
    path = build_wheel(tmp_path, members={"demo/a.so": padded})
    (found,) = open_package(path, objects).objects
    assert isinstance(found, MachOFile)
    assert "1 of 5 pages is wrong" in found.signature_faults[0]
