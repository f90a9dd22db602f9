"""Relocatable GPU code counts for what a driver, or a device linker, makes of it."""

from __future__ import annotations

import pytest

from binary_checks.checks.cuda.device_code import (
    missing_gpu_architecture,
    no_forward_compatible_ptx,
    uneven_gpu_architectures,
    unexpected_gpu_architecture,
)
from binary_checks.model import (
    DeviceContainers,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    Kind,
    Package,
    StaticArchive,
)
from fixtures.values import elf_file, wheel
from tests.checks.test_cuda_device_code import PATH, sentences, targets


def linked_code(*relinkable: str, relocatable: str = "sm_80 sm_90 sm_100") -> Package:
    """A library linked for sm_80 alone, with a unit of relocatable code beside it."""
    found = (
        DeviceContainers(
            targets=targets("sm_80"),
            count=1,
            offset=100,
            linking=DeviceLinking.LINKED,
            relinkable=targets(" ".join(relinkable)),
        ),
        DeviceContainers(
            targets=targets(relocatable),
            count=3,
            first=1,
            offset=200,
            linking=DeviceLinking.RELINKABLE,
        ),
    )
    return wheel(objects=(elf_file(PATH, device_containers=found),))


def test_what_the_driver_can_link_counts_as_code() -> None:
    package = linked_code("sm_80", "sm_90", "ptx:sm_90")
    assert sentences(missing_gpu_architecture(package, expected=("sm_80", "sm_90"))) == []
    assert sentences(no_forward_compatible_ptx(package, required=True)) == []
    assert sentences(uneven_gpu_architectures(package)) == []


def test_relocatable_code_that_one_unit_lacks_does_not_count() -> None:
    package = linked_code("sm_80", "sm_90")
    assert sentences(missing_gpu_architecture(package, expected=("sm_100",))) == [
        "lacks sm_100 in 1 of 1 container, first at offset 100: on such GPUs that code fails, or "
        "code for another GPU runs; build it for sm_100"
    ]
    assert len(sentences(no_forward_compatible_ptx(package, required=True))) == 1


def test_relocatable_code_that_takes_space_is_unexpected_all_the_same() -> None:
    package = linked_code("sm_80", "sm_90")
    assert sentences(unexpected_gpu_architecture(package, allowed=("sm_80", "sm_90"))) == [
        "has sm_100 in 3 of 4 containers, first at offset 200, which the profile does not allow: "
        "it takes space and is untested; leave it out of the build"
    ]


def test_relocatable_code_that_was_never_linked_is_no_code() -> None:
    found = (DeviceContainers(targets=targets("sm_90"), count=2, linking=DeviceLinking.UNUSABLE),)
    package = wheel(objects=(elf_file(PATH, device_containers=found),))
    assert sentences(missing_gpu_architecture(package, expected=("sm_90",))) == [
        "has relocatable code in 2 of 2 containers, first at offset 0 that was never linked: no "
        "GPU runs it; link it with nvcc -dlink"
    ]


def test_relocatable_code_in_an_archive_counts_for_what_it_was_compiled() -> None:
    found = (
        DeviceContainers(
            targets=(*targets("sm_80"), DeviceTarget(kind=DeviceKind.LTO, architecture="sm_90")),
            count=1,
            linking=DeviceLinking.UNLINKED,
        ),
    )
    archive = StaticArchive(
        path=PATH, kind=Kind.RELOCATABLE, architecture="", device_containers=found
    )
    package = wheel(objects=(archive,))
    assert sentences(missing_gpu_architecture(package, expected=("sm_80", "sm_90"))) == []
    assert len(sentences(missing_gpu_architecture(package, expected=("sm_100",)))) == 1


def linked_units(*units: str) -> Package:
    """A library linked for sm_80 and sm_110 of such units of relocatable code."""
    linked = DeviceContainers(
        targets=targets("sm_80 sm_110"), count=1, offset=100, linking=DeviceLinking.LINKED
    )
    rest = tuple(
        DeviceContainers(
            targets=targets(text),
            count=1,
            first=at,
            offset=100 + 100 * at,
            linking=DeviceLinking.RELINKABLE,
        )
        for at, text in enumerate(units, 1)
    )
    return wheel(objects=(elf_file(PATH, device_containers=(linked, *rest)),))


def test_code_that_was_linked_without_one_of_its_units_is_uneven() -> None:
    # As torch 2.15.0's libtorch_nvshmem.so for aarch64, without NVSHMEM's own code for sm_110.
    assert sentences(
        uneven_gpu_architectures(linked_units("sm_80 sm_110", "sm_80 ptx:sm_120"))
    ) == [
        "was linked for sm_110 without the relocatable code in 1 of 2 containers, first at offset "
        "300, which has none for it: its functions are missing on such a GPU; build all for the "
        "same architectures"
    ]


@pytest.mark.parametrize("other", ["sm_80 sm_110", "sm_80 ptx:sm_90", "lto:sm_80"])
def test_units_that_can_be_linked_for_all_are_even(other: str) -> None:
    package = linked_units("sm_80 sm_110", other)
    assert sentences(uneven_gpu_architectures(package)) == []
