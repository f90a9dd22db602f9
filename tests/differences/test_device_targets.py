"""What differs between the GPUs that two builds have code for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binary_checks.model import (
    DeviceCode,
    DeviceContainers,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    ElfFile,
    Package,
)
from fixtures.values import elf_file, wheel
from tests.differences.builds import said


def gpu(*targets: tuple[DeviceKind, str]) -> Package:
    code = (DeviceCode(kind=k, architecture=a, count=1, bytes=1, compressed=0) for k, a in targets)
    return wheel(objects=(elf_file("demo/libdemo.so", name="libdemo.so", device_code=tuple(code)),))


def test_a_gpu_that_nothing_runs_on_any_more_is_a_break() -> None:
    sass, ptx = DeviceKind.SASS, DeviceKind.PTX
    old = gpu((sass, "sm_70"), (sass, "sm_90"))
    assert said(old, gpu((sass, "sm_90"))) == [
        "break gpu-architectures: demo/libdemo.so: lost code for sm_70: nothing runs on sm_70"
    ]
    assert said(old, gpu((ptx, "sm_60"), (sass, "sm_90")))[0] == (
        "change gpu-architectures: demo/libdemo.so: lost code for sm_70"
    )
    assert said(gpu((sass, "sm_80"), (sass, "sm_86")), gpu((sass, "sm_80"))) == [
        "change gpu-architectures: demo/libdemo.so: lost code for sm_86"
    ]
    assert said(old, old) == []


def outcome(old: Package, new: Package) -> str:
    """The severity of what is lost of the GPUs."""
    return next(
        (line.partition(" ")[0] for line in said(old, new) if ": lost code for " in line), ""
    )


@pytest.mark.parametrize(
    ("lost", "kept", "severity"),
    [
        ("sm_103", "sm_100f", "change"),  # a family's code runs on it
        ("sm_103", "sm_100a", "break"),  # code for one GPU does not
        ("sm_100", "sm_103f", "break"),
        ("sm_90", "sm_90a", "change"),
    ],
)
def test_code_of_a_family_runs_on_its_later_members(lost: str, kept: str, severity: str) -> None:
    sass = DeviceKind.SASS
    assert outcome(gpu((sass, lost), (sass, kept)), gpu((sass, kept))) == severity


def test_ptx_that_is_lost_leaves_later_gpus_without_code() -> None:
    sass, ptx = DeviceKind.SASS, DeviceKind.PTX
    old = gpu((sass, "sm_90"), (ptx, "sm_90"))
    assert said(old, gpu((sass, "sm_90"))) == [
        "break gpu-architectures: demo/libdemo.so: lost code for PTX for sm_90: nothing runs on "
        "later GPUs"
    ]
    assert outcome(old, gpu((sass, "sm_90"), (ptx, "sm_80"))) == "change"
    assert outcome(old, gpu((sass, "sm_90"), (sass, "sm_100"))) == "change"
    assert outcome(old, gpu((sass, "sm_80"), (sass, "sm_100"))) == "break"  # not on sm_90


@pytest.mark.parametrize(
    ("lost", "kept", "severity"),
    [
        ("gfx1101", "gfx11-generic", "change"),
        ("gfx942", "gfx9-4-generic", "change"),
        ("gfx942", "gfx9-generic", "break"),
        ("gfx908", "gfx9-generic", "break"),
        ("gfx1101", "gfx1100", "break"),
        ("gfx90a:xnack+", "gfx90a", "change"),
        ("gfx90a", "gfx90a:xnack-", "break"),
    ],
)
def test_amds_generic_code_runs_on_its_family(lost: str, kept: str, severity: str) -> None:
    amd = DeviceKind.AMDGPU
    assert outcome(gpu((amd, lost), (amd, kept)), gpu((amd, kept))) == severity


def test_code_that_no_driver_can_use_any_more_is_lost() -> None:
    old = gpu((DeviceKind.SASS, "sm_80"), (DeviceKind.SASS, "sm_90"))
    (library,) = old.objects
    assert isinstance(library, ElfFile)
    one, other = library.device_code
    codes = (one, replace(other, linking=DeviceLinking.UNUSABLE))
    new = wheel(objects=(replace(library, device_code=codes),))
    assert said(old, new) == [
        "break gpu-architectures: demo/libdemo.so: lost code for sm_90: nothing runs on sm_90"
    ]


def contain(*rows: tuple[str, int]) -> Package:
    """A library with machine code in containers: the targets, and how many containers have them."""
    groups = [
        (
            tuple(DeviceTarget(kind=DeviceKind.SASS, architecture=each) for each in row.split()),
            count,
        )
        for row, count in rows
    ]
    codes = {
        DeviceCode(kind=t.kind, architecture=t.architecture, count=1, bytes=1, compressed=0)
        for targets, _ in groups
        for t in targets
    }
    library = elf_file(
        "demo/libdemo.so",
        name="libdemo.so",
        device_code=tuple(sorted(codes)),
        device_containers=tuple(DeviceContainers(targets=t, count=count) for t, count in groups),
    )
    return wheel(objects=(library,))


EVEN = ("sm_80 sm_86 sm_90", 65)


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (
            (EVEN,),
            (("sm_80 sm_86 sm_90", 64), ("", 1)),  # emptied
            "break: sm_80, sm_86, sm_90",
        ),
        ((EVEN,), (("sm_80 sm_86 sm_90", 63), ("sm_80 sm_90", 2)), "change: sm_86"),
        ((EVEN,), (("sm_80 sm_86 sm_90", 64), ("sm_80 sm_86", 1)), "break: sm_90"),
        ((EVEN,), (EVEN, ("sm_90", 5)), ""),  # new source files for one GPU, such as CUTLASS's
        ((EVEN,), (("sm_80 sm_86 sm_90", 60),), ""),  # fewer source files
        ((EVEN, ("sm_90", 5)), (("sm_80 sm_86 sm_90", 60), ("sm_90", 5)), ""),
    ],
)
def test_code_that_some_containers_have_lost_is_told(
    old: tuple[tuple[str, int], ...], new: tuple[tuple[str, int], ...], lost: str
) -> None:
    severity, _, targets = lost.partition(": ")
    line = f"{severity} gpu-architectures: demo/libdemo.so: lost code for {targets}"
    line += " in some of its containers, each of which has the functions of one source file"
    found = [each for each in said(contain(*old), contain(*new)) if " lost code for " in each]
    assert found == ([line] if lost else [])
