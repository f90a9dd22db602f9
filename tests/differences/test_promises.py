"""What a build promises, and what it needs of systems: broken, kept, and gained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binary_checks.errors import ProfileError
from binary_checks.model import (
    Aspect,
    BinaryConfiguration,
    Build,
    Claims,
    NeededVersion,
    NumpyBuild,
    Package,
    PythonClaim,
    SystemClaim,
)
from fixtures.values import elf_file, macho_file, pe_file, symbols, wheel
from tests.differences.builds import build, compared, only, said

LINUX = SystemClaim(
    name="manylinux_2_17_x86_64",
    system="linux",
    libc="glibc",
    minimum=(2, 17),
    architectures=("x86_64",),
)
MACOS = SystemClaim(
    name="macosx_11_0_arm64", system="macos", minimum=(11, 0), architectures=("aarch64",)
)
CP311 = PythonClaim(name="cp311-cp311", implementation="cpython", version=(3, 11), abi="cp311")


def promising(*systems: SystemClaim, pythons: tuple[PythonClaim, ...] = (CP311,)) -> Package:
    return wheel(claims=Claims(systems=systems, pythons=pythons))


NEWER = replace(LINUX, name="manylinux_2_28_x86_64", minimum=(2, 28))
PLAIN = replace(LINUX, name="linux_x86_64", minimum=None)
UNIVERSAL = replace(MACOS, architectures=("aarch64", "x86_64"))
ANY = SystemClaim(name="any", system="any")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            [LINUX],
            [NEWER],
            "break: is for linux x86_64 with glibc 2.28 and later, previously for 2.17",
        ),
        (
            [NEWER],
            [LINUX],
            "info: is for linux x86_64 with glibc 2.17 and later, previously for 2.28",
        ),
        ([LINUX], [LINUX, NEWER], ""),  # of several tags the oldest counts
        (
            [PLAIN, LINUX],  # a tag without a version promises every version
            [LINUX],
            "break: is for linux x86_64 with glibc 2.17 and later, previously for any version",
        ),
        (
            [LINUX],
            [LINUX, PLAIN],
            "info: is for linux x86_64 with glibc in any version, previously for 2.17",
        ),
        ([UNIVERSAL], [MACOS], "break: is no longer for macos x86_64"),
        # No Mac with Apple silicon has a macOS before 11.
        ([replace(MACOS, minimum=(10, 9))], [replace(MACOS, minimum=(10, 13))], ""),
        ([ANY], [LINUX], "break: is for manylinux_2_17_x86_64, previously for every system"),
    ],
)
def test_a_system_that_is_promised_no_more_is_a_break(
    old: list[SystemClaim], new: list[SystemClaim], line: str
) -> None:
    expected = [line.replace(": ", " promised-systems: ", 1)] if line else []
    assert said(promising(*old), promising(*new)) == expected


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (promising(MACOS), r"is for linux, .* for macos"),
        (promising(replace(LINUX, architectures=("aarch64",))), r"is for x86_64, .* for aarch64"),
        (wheel(name="another"), r"is of demo, .* of another: these are not two builds"),
    ],
)
def test_what_is_no_other_build_of_it_is_refused(new: Package, sentence: str) -> None:
    with pytest.raises(ProfileError, match=sentence):
        compared(promising(LINUX), new)


def claim_cpython(minor: int, abi: str) -> PythonClaim:
    name = f"cp3{minor}-{abi}"
    return PythonClaim(name=name, implementation="cpython", version=(3, minor), abi=abi)


CP312 = claim_cpython(12, "cp312")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ([CP311], [CP312], "break: is for CPython 3.12, previously for CPython 3.11"),
        (
            [CP311],
            [CP311, CP312],
            "info: is for CPython 3.11, CPython 3.12, previously for CPython 3.11",
        ),
        (  # the stable ABI covers the Pythons after its own
            [claim_cpython(11, "abi3")],
            [claim_cpython(9, "abi3")],
            "info: is for CPython 3.9 and later, previously for CPython 3.11 and later",
        ),
        (
            [claim_cpython(9, "abi3")],
            [claim_cpython(11, "abi3")],
            "break: is for CPython 3.11 and later, previously for CPython 3.9 and later",
        ),
        ([claim_cpython(12, "")], [CP312], ""),  # for the same Pythons, unless one has no GIL
        ([CP312], [claim_cpython(12, "")], ""),
        (
            [claim_cpython(13, "")],
            [claim_cpython(13, "cp313")],
            "break: is for CPython 3.13, previously for CPython 3.13 with or without the GIL",
        ),
    ],
)
def test_a_python_that_is_promised_no_more_is_a_break(
    old: list[PythonClaim], new: list[PythonClaim], line: str
) -> None:
    found = said(promising(LINUX, pythons=tuple(old)), promising(LINUX, pythons=tuple(new)))
    assert found == ([line.replace(": ", " promised-pythons: ", 1)] if line else [])


def test_requires_python_breaks_those_that_the_build_is_for() -> None:
    def requiring(text: str, *pythons: PythonClaim) -> Package:
        claims = Claims(systems=(LINUX,), pythons=pythons)
        return wheel(metadata=(("Requires-Python", text),), claims=claims)

    line = "requires-python: Requires-Python is '>=3.11', previously '>=3.9'"
    every = PythonClaim(name="py3-none", version=(3, 0))
    assert said(requiring(">=3.9", every), requiring(">=3.11", every)) == [f"break {line}"]
    assert said(requiring(">=3.9", CP311), requiring(">=3.11", CP311)) == [f"change {line}"]
    stable = replace(CP311, name="cp311-abi3", abi="abi3")
    assert said(requiring(">=3.9", stable), requiring(">=3.11", stable)) == [f"change {line}"]
    assert said(requiring(">=3.9.0", CP311), requiring(">=3.9", CP311)) == []


def test_a_newer_glibc_is_a_break_beyond_the_promise_alone() -> None:
    def needing(version: str) -> Package:
        need = NeededVersion(library="libc.so.6", version=version)
        return wheel(claims=Claims(systems=(LINUX,)), objects=(elf_file(symbol_versions=(need,)),))

    beyond = said(needing("GLIBC_2.5"), needing("GLIBC_2.27"))
    assert beyond == [
        "break system-versions: demo/_native.so: needs GLIBC_2.27, "
        "previously no object needed more "
        "than GLIBC_2.5"
    ]
    assert said(needing("GLIBC_2.5"), needing("GLIBC_2.17"))[0].startswith("info system-versions")
    assert said(needing("GLIBC_2.17"), needing("GLIBC_2.17")) == []


def test_a_newer_macos_that_objects_ask_for_is_a_break_beyond_the_promise_alone() -> None:
    def built(minimum: str) -> Package:
        item = macho_file(architecture="aarch64", minimum_os=minimum)
        return wheel(claims=Claims(systems=(MACOS,)), objects=(item,))

    assert said(built("11.0"), built("13.0")) == [
        "break lowest-macos: runs on macOS 13.0 and later, previously 11.0 (minos 13.0)"
    ]
    assert said(built("11.0"), built("11.0")) == []


def needing_numpy(*oldest: str, requires: str = "") -> Package:
    metadata = (("Requires-Dist", requires),) if requires else ()
    items = (
        elf_file(f"demo/{number}.so", numpy=NumpyBuild(api=1, oldest=each))
        for number, each in enumerate(oldest)
    )
    return wheel(objects=items, metadata=metadata)


def test_a_newer_numpy_counts_where_no_requirement_asks_for_it_and_all_objects_need_it() -> None:
    assert said(needing_numpy("1.20"), needing_numpy("1.23")) == [
        "change numpy-api: runs with NumPy 1.23 and later, previously 1.20"
    ]
    required = "numpy>=1.23"
    assert (
        said(needing_numpy("1.20", requires=required), needing_numpy("1.23", requires=required))
        == []
    )
    (line,) = said(needing_numpy("1.20"), needing_numpy("1.20", "2.0"))
    assert line.startswith("info libraries") or "numpy-api" not in line


def test_another_cuda_is_a_break() -> None:
    one, other, cpu = (
        BinaryConfiguration(accelerator=Aspect(value=value))
        for value in ("cuda 12.6", "cuda 13.0", "cpu")
    )
    lines = said(build(configuration=one), build(configuration=other))
    assert only(lines, "accelerator") == [
        "break accelerator: is built for cuda 13.0, previously for cuda 12.6"
    ]
    assert said(build(configuration=cpu), build(configuration=one)) == [
        "break accelerator: is built for cuda 12.6, previously for cpu"
    ]


def for_cuda(*versions: str, system: str = "linux") -> Build:
    value = ", ".join(f"cuda {version}".strip() for version in versions)
    claim = SystemClaim(name="t", system=system, architectures=("x86_64",))
    return build(
        wheel(claims=Claims(systems=(claim,))),
        configuration=BinaryConfiguration(accelerator=Aspect(value=value)),
    )


def test_a_cuda_that_needs_a_newer_driver_is_a_break_with_the_number() -> None:
    def lines(old: Build, new: Build) -> list[str]:
        return only(said(old, new), "nvidia-driver")

    assert lines(for_cuda("12.6"), for_cuda("13.0")) == [
        "break nvidia-driver: needs NVIDIA driver 580 or later, for CUDA 13.0; "
        "previously 525.60.13, for CUDA 12.6"
    ]
    windows = for_cuda("11.8", system="windows"), for_cuda("12", system="windows")
    assert lines(*windows) == [
        "break nvidia-driver: needs NVIDIA driver 528.33 or later, for CUDA 12; "
        "previously 452.39, for CUDA 11.8"
    ]
    assert lines(for_cuda("11", "12"), for_cuda("12")) == [
        "break nvidia-driver: needs NVIDIA driver 525.60.13 or later, for CUDA 12; "
        "previously 450.80.02, for CUDA 11"
    ]
    assert lines(for_cuda("10.1"), for_cuda("10.2"))[0].startswith("break nvidia-driver: needs")
    assert lines(for_cuda("13.0"), for_cuda("12.6"))[0].startswith("info nvidia-driver: needs")


def test_the_drivers_of_a_major_cuda_run_all_of_its_releases() -> None:
    for one, other in (("12.1", "12.9"), ("12", "12.8"), ("14.0", "14.1"), ("10.2", "10.2")):
        found = compared(for_cuda(one), for_cuda(other))
        assert not [line for line in found.lines if line.difference == "nvidia-driver"]
        assert not found.not_compared


def test_nvidias_own_libraries_tell_their_cuda_by_their_names() -> None:
    claims = Claims(systems=(LINUX,))
    cuda = BinaryConfiguration(accelerator=Aspect(value="cuda"))
    twelve, thirteen = (
        build(wheel(objects=(elf_file(path),), claims=claims), configuration=cuda)
        for path in ("nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cu13/lib/libcurand.so.10")
    )
    assert only(said(twelve, thirteen), "nvidia-driver") == [
        "break nvidia-driver: needs NVIDIA driver 580 or later, for CUDA 13; "
        "previously 525.60.13, for CUDA 12"
    ]


def test_a_driver_that_nobody_knows_is_not_compared() -> None:
    for one, other, reason in (
        ("12.6", "14.0", "the lowest driver of demo.whl, for CUDA 14.0, is not known"),
        ("", "12.6", "the CUDA version and driver of demo.whl are not known"),
        ("10", "11", "the lowest driver of demo.whl, for CUDA 10, is not known"),
    ):
        (gap,) = compared(for_cuda(one), for_cuda(other)).not_compared
        assert (gap.difference, gap.reason) == ("nvidia-driver", reason)
    cpu = build(configuration=BinaryConfiguration(accelerator=Aspect(value="cpu")))
    assert not compared(cpu, for_cuda("12.6")).not_compared


def test_a_newer_toolset_matters_where_its_runtime_is_needed() -> None:
    def linked(version: str, *needed: str) -> Package:
        from binary_checks.model import Dependency

        needs = tuple(Dependency(name=name) for name in needed)
        return wheel(objects=(pe_file(linker_version=version, needed=needs),))

    assert said(linked("14.29", "MSVCP140.dll"), linked("14.44", "MSVCP140.dll")) == [
        "change visual-cpp-runtime: needs the Visual C++ runtime 14.44 or later, previously 14.29"
    ]
    assert said(linked("14.29"), linked("14.44")) == []


def test_a_newer_function_of_the_stable_abi_is_a_break_beyond_the_promise() -> None:
    def asking(*names: str, abi: str = "abi3") -> Package:
        claim = PythonClaim(name="cp37", implementation="cpython", version=(3, 7), abi=abi)
        item = elf_file("demo/_native.abi3.so", imports=symbols(*names))
        return wheel(objects=(item,), claims=Claims(systems=(LINUX,), pythons=(claim,)))

    old, new = asking("PyList_New"), asking("PyList_New", "PyObject_CallNoArgs")
    assert said(old, new) == [
        "break stable-abi: imports PyObject_CallNoArgs, of Python 3.10 and later; "
        "previously nothing newer than 3.2"
    ]
    assert said(old, old) == []
    assert said(asking("PyList_New", abi="cp37"), asking("PyObject_CallNoArgs", abi="cp37")) == []


def test_a_newer_cpu_is_a_break() -> None:
    old, new = (wheel(objects=(elf_file(isa_level=level),)) for level in ("", "x86-64-v3"))
    assert said(old, new) == [
        "break cpu-level: demo/_native.so: needs a CPU of level x86-64-v3, previously x86-64"
    ]
    assert said(new, old)[0].startswith("info cpu-level")
