"""GPU code is judged container by container: one source file built for fewer is seen."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.cuda.device_code import (
    corrupt_device_code,
    malformed_device_code,
    missing_gpu_architecture,
    no_forward_compatible_ptx,
    uneven_gpu_architectures,
    unexpected_gpu_architecture,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    DeviceContainers,
    DeviceDetails,
    DeviceFault,
    DeviceFile,
    DeviceKind,
    DeviceTarget,
    Finding,
    Format,
    Kind,
    MalformedObject,
    NotInspected,
    Package,
    Problem,
    StaticArchive,
)
from fixtures.values import elf_file, only, pe_file, wheel

PATH = "demo/libdemo.so"
FAULT = DeviceFault(offset=640, reason="bytes that are neither a container nor padding")
LINALG = (("sm_75 sm_80 sm_90", 1), ("sm_80 sm_90", 32))  # as torch 2.15.0's libtorch_cuda_linalg


def targets(text: str) -> tuple[DeviceTarget, ...]:
    """``sm_90`` is machine code; ``ptx:sm_90`` names its kind."""
    pairs = (word.rpartition(":") for word in text.split())
    return tuple(
        DeviceTarget(kind=DeviceKind(kind or "sass"), architecture=name) for kind, _, name in pairs
    )


def containers(*rows: tuple[str, int], reason: str = "") -> tuple[DeviceContainers, ...]:
    """Sets of targets, each with how many containers have it; 100 bytes each, in that order."""
    made: list[DeviceContainers] = []
    for text, count in rows:
        at = sum(each.count for each in made)
        made.append(
            DeviceContainers(
                targets=targets(text), count=count, first=at, offset=100 * at, reason=reason
            )
        )
    return tuple(made)


def package(*rows: tuple[str, int], path: str = PATH, reason: str = "", **more: Any) -> Package:
    found = containers(*rows, reason=reason)
    return wheel(objects=(elf_file(path, device_containers=found, **more),))


def sentences(findings: Any) -> list[str]:
    found: list[Finding] = list(findings)
    assert all(isinstance(finding, Problem) and finding.path == PATH for finding in found)
    return [finding.sentence for finding in found if isinstance(finding, Problem)]


def test_one_source_file_built_for_fewer_is_seen_and_named() -> None:
    assert sentences(missing_gpu_architecture(package(*LINALG), expected=("sm_75", "sm_90"))) == [
        "lacks sm_75 in 32 of 33 containers, first at offset 100: on such GPUs that code "
        "fails, or code for another GPU runs; build it for sm_75"
    ]
    assert not list(missing_gpu_architecture(package(*LINALG), expected=("sm_80", "sm_90")))
    (group,) = containers(("sm_90", 1))
    found = (DeviceContainers(targets=group.targets, count=1, offset=640, member="gemm.o"),)
    built = wheel(objects=(elf_file(PATH, device_containers=found),))
    (sentence,) = sentences(missing_gpu_architecture(built, expected=("sm_75",)))
    assert sentence.startswith("lacks sm_75 in 1 of 1 container, first in gemm.o at offset 640: on")


@pytest.mark.parametrize(
    ("found", "expected", "enough"),
    [
        ("sm_90a", "sm_90", True),  # a GPU of 9.0 runs it
        ("sm_100f", "sm_100", True),
        ("sm_90", "sm_90a", False),
        ("sm_100f", "sm_100a", False),
        ("sm_100?", "sm_100a", True),  # nobody can tell
        ("sm_100?", "sm_100", True),
        ("sm_100?", "sm_10", False),
        ("sm_80", "sm_86", False),
        ("ptx:sm_90", "sm_90", False),
        ("ptx:sm_90", "compute_90", True),
        ("sm_90", "compute_90", False),
        ("sm_90", "9.0", False),  # a slip in the profile is no pass
    ],
)
def test_what_counts_as_an_expected_architecture(found: str, expected: str, enough: bool) -> None:
    judged = list(missing_gpu_architecture(package((found, 1)), expected=(expected,)))
    assert bool(judged) is not enough


@pytest.mark.parametrize("left_out", ["amdgpu:gfx90a", "lto:sm_80", "amdgpu:gfx90a lto:sm_80"])
def test_containers_without_code_for_nvidia_s_driver_are_left_out(left_out: str) -> None:
    both = package(("sm_90", 2), (left_out, 5))
    assert not list(missing_gpu_architecture(both, expected=("sm_90",)))
    with pytest.raises(NotApplicable, match=r"NVIDIA's GPUs$"):
        list(missing_gpu_architecture(package((left_out, 5)), expected=("sm_90",)))


def test_loose_cubins_are_for_one_architecture_each() -> None:
    loose = package(("sm_100f", 1), architecture="cuda")
    with pytest.raises(NotApplicable):
        list(missing_gpu_architecture(loose, expected=("sm_90",)))
    assert list(unexpected_gpu_architecture(loose, allowed=("sm_90",)))


@pytest.mark.parametrize("make", [pe_file, StaticArchive, DeviceFile])
def test_every_kind_of_file_with_device_code_is_judged(make: Any) -> None:
    fields = {"kind": Kind.DEVICE, "architecture": "cuda", "size": 9} if make is not pe_file else {}
    item = make(path=PATH, device_containers=containers(("sm_80", 1)), **fields)
    found = missing_gpu_architecture(wheel(objects=(item,)), expected=("sm_90",))
    assert "lacks sm_90 in 1 of 1 container, first" in sentences(found)[0]


def test_exempt_libraries_and_those_of_which_the_profile_expects_nothing_are_not_judged() -> None:
    exempt, built = ("demo/lib*.so",), package(*LINALG)
    for judged, why in (
        (missing_gpu_architecture(built), "expects no GPU architecture"),
        (unexpected_gpu_architecture(built), "allows every GPU architecture"),
        (no_forward_compatible_ptx(built), "requires no PTX"),
        (missing_gpu_architecture(built, expected=("sm_75",), exempt=exempt), "not exempt"),
        (unexpected_gpu_architecture(built, allowed=("sm_75",), exempt=exempt), "not exempt"),
        (no_forward_compatible_ptx(built, required=True, exempt=exempt), "not exempt"),
        (uneven_gpu_architectures(built, exempt=exempt), "not exempt"),
    ):
        with pytest.raises(NotApplicable, match=why):
            list(judged)


def test_a_container_of_which_not_all_is_known_neither_fails_nor_passes() -> None:
    doubtful = package(("sm_80 unknown:", 2), reason="entries of an unknown kind or version")
    gap = "2 containers, first at offset 0: entries of an unknown kind or version"
    unknown = [NotInspected(path=PATH, sentence=gap)]
    assert list(missing_gpu_architecture(doubtful, expected=("sm_90",))) == unknown
    assert list(missing_gpu_architecture(doubtful, expected=("sm_80",))) == []
    assert list(unexpected_gpu_architecture(doubtful, allowed=("sm_80",))) == unknown
    assert list(no_forward_compatible_ptx(doubtful, required=True)) == unknown
    assert list(uneven_gpu_architectures(doubtful)) == unknown


KNOWN = containers(("sm_90 ptx:sm_90", 1))
HEADS = "no more than 262144 heads of device code are read from a file"
SETS = "no more than 1024 sets of targets are distinguished"


@pytest.mark.parametrize(
    ("found", "gap"),
    [
        (
            containers(("unknown:", 2), reason="a container of version 7"),
            "2 containers, first at offset 0: a container of version 7",
        ),
        (
            (*KNOWN, DeviceContainers(count=0, first=1, offset=4096, reason=HEADS)),
            f"code after offset 4096 was not read: {HEADS}",
        ),
        (
            (*KNOWN, DeviceContainers(count=9, first=1024, offset=4096, reason=SETS)),
            f"9 containers, first at offset 4096: {SETS}",
        ),
    ],
    ids=["unknown version", "not read whole", "too many sets"],
)
def test_code_that_is_not_known_passes_no_check_and_is_no_fault_of_the_package(
    found: tuple[DeviceContainers, ...], gap: str
) -> None:
    built = wheel(objects=(elf_file(PATH, device_containers=found),))
    assert judge_all(built) == [NotInspected(path=PATH, sentence=gap)] * 5


def test_a_compressed_bundle_for_amd_says_nothing_of_nvidia() -> None:
    reason = "not read: a bundle of code for AMD's GPUs, compressed as a whole (zstd)"
    both = (*containers(("sm_90 ptx:sm_90", 1)), *containers(("amdgpu:", 2), reason=reason))
    assert judge_all(wheel(objects=(elf_file(PATH, device_containers=both),))) == []
    with pytest.raises(NotApplicable, match="no library with code for NVIDIA's GPUs"):
        judge_all(wheel(objects=(elf_file(PATH, device_containers=both[1:]),)))


def judge_all(built: Package) -> list[Finding]:
    return [
        *missing_gpu_architecture(built, expected=("sm_90",)),
        *unexpected_gpu_architecture(built, allowed=("sm_90",)),
        *no_forward_compatible_ptx(built, required=True),
        *uneven_gpu_architectures(built),
        *malformed_device_code(built),
    ]


def test_an_architecture_that_nobody_asked_for_is_told() -> None:
    built = package(("sm_75 sm_90a ptx:sm_90", 1), ("sm_90a ptx:sm_90", 3))
    assert sentences(unexpected_gpu_architecture(built, allowed=("sm_90",))) == [
        "has sm_75 in 1 of 4 containers, first at offset 0, which the profile does not allow: it "
        "takes space and is untested; leave it out of the build"
    ]
    assert not list(unexpected_gpu_architecture(built, allowed=("sm_75", "sm_90")))


@pytest.mark.parametrize(
    ("found", "allowed", "permitted"),
    [
        ("sm_90", "sm_90a", False),
        ("sm_90", "compute_90", False),
        ("ptx:sm_90", "compute_90", True),
        ("sm_120?", "sm_120a", True),
        ("sm_120?", "sm_90", False),
        ("sm_90 amdgpu:gfx90a lto:sm_80", "sm_90", True),
    ],
)
def test_what_an_allowed_architecture_permits(found: str, allowed: str, permitted: bool) -> None:
    judged = list(unexpected_gpu_architecture(package((found, 1)), allowed=(allowed,)))
    assert bool(judged) is not permitted


def test_a_library_without_ptx_for_its_newest_is_told() -> None:
    built = package(("sm_90 sm_120 ptx:sm_120", 6), ("sm_90 sm_120", 1))  # as bitsandbytes
    assert sentences(no_forward_compatible_ptx(built, required=True)) == [
        "lacks PTX for sm_120, its newest architecture without a suffix, in 1 of 7 containers, "
        "first at offset 600: a later GPU has no code there, or only slower code from older PTX; "
        "add -gencode arch=compute_120,code=compute_120"
    ]


def test_unread_parts_of_containers_with_the_newest_ptx_hide_nothing() -> None:
    """What was not read of a container cannot take its PTX away."""
    whole = package(("sm_120 ptx:sm_120", 1), reason="not read to its end")
    assert [type(each) for each in no_forward_compatible_ptx(whole, required=True)] == []
    older = package(("sm_120 ptx:sm_90", 1), reason="not read to its end")
    found = [type(each) for each in no_forward_compatible_ptx(older, required=True)]
    assert NotInspected in found


@pytest.mark.parametrize(
    ("found", "enough"),
    [
        ("sm_120 ptx:sm_120", True),
        ("sm_120a ptx:sm_120?", True),
        ("sm_120 ptx:sm_120f", False),
        ("sm_90 ptx:sm_90a", False),
        ("sm_90 sm_120f ptx:sm_100", True),  # as cupy: later GPUs take it
        ("sm_100f", False),
        ("sm_90 sm_100 ptx:sm_90", False),
        ("sm_80 ptx:sm_90", True),
    ],
)
def test_which_ptx_later_gpus_take(found: str, enough: bool) -> None:
    judged = list(no_forward_compatible_ptx(package((found, 1)), required=True))
    assert bool(judged) is not enough


def test_contradictions_of_device_code_are_told_and_unread_files_are_a_gap() -> None:
    built = package(("sm_90", 1), device_faults=(FAULT,))
    assert sentences(malformed_device_code(built)) == [
        "has broken device code at offset 640: bytes that are neither a container nor padding; "
        "the GPU runtime may find no kernel in it"
    ]
    assert sentences(malformed_device_code(package(device_faults=(FAULT,))))
    assert not list(malformed_device_code(package(("sm_90", 1))))
    with pytest.raises(NotApplicable, match="no device code"):
        list(malformed_device_code(wheel(objects=(elf_file(),))))
    item = MalformedObject(path=PATH, format=Format.ELF, offset=0, reason="cut off")
    unread = wheel(malformed=(item,))
    gap = [NotInspected(path=PATH, sentence="cut off")]
    assert list(malformed_device_code(unread)) == gap
    assert list(corrupt_device_code(unread, DeviceDetails())) == gap
    assert list(missing_gpu_architecture(unread, expected=("sm_90",))) == gap
    broken = package(("sm_90", 1), device_faults=(FAULT,))  # behind it nothing passes
    found = only(NotInspected, missing_gpu_architecture(broken, expected=("sm_90",)))
    assert found.sentence.startswith("code after offset 640 may be missing: bytes that are")


def test_source_files_built_for_different_architectures_are_told() -> None:
    assert sentences(uneven_gpu_architectures(package(*LINALG))) == [
        "has sm_75 in 1 of 33 containers; the others lack it, first at offset 100: on such a "
        "GPU they fail, or run code for another GPU; build all for the same architectures"
    ]
    assert not uneven_gpu_architectures.enabled
    alike = package(("sm_90 sm_100f ptx:sm_100", 4), ("sm_90a sm_100?", 2))
    assert not list(uneven_gpu_architectures(alike))


def test_a_container_without_code_is_told_among_others_with_code() -> None:
    built = package(("sm_80 ptx:sm_90", 64), ("", 1))
    assert sentences(malformed_device_code(built)) == [
        "has no code in 1 of 65 containers, first at offset 6400: no GPU runs the functions of "
        "that source file; look for a tool that removed it since it was compiled"
    ]
    (uneven,) = sentences(uneven_gpu_architectures(built))
    assert uneven.startswith(
        "has sm_80 in 64 of 65 containers; the others lack it, first at offset"
    )
    (missing,) = sentences(missing_gpu_architecture(built, expected=("sm_80",)))
    assert missing.startswith("lacks sm_80 in 1 of 65 containers")
    assert not list(malformed_device_code(package(("sm_80", 64), ("ptx:sm_90", 1))))
    unread = package(("sm_80", 64), ("", 1), reason="a container of version 2")
    assert all(isinstance(finding, NotInspected) for finding in malformed_device_code(unread))
