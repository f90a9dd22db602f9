"""The lowest true platform tag of a package follows from the needs of its objects."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.knowledge.tags import LowestTag, find_lowest_tags, round_up
from binary_checks.model import (
    Dependency,
    Edge,
    ElfFile,
    Kind,
    Linkage,
    MachOFile,
    NeededVersion,
    Symbol,
    Symbols,
)
from fixtures.values import elf_file, macho_file, wheel


def needing(*needs: str, path: str = "demo/_native.so", **fields: Any) -> ElfFile:
    """Return an object that needs ``libc.so.6@GLIBC_2.17`` and the like, or only a library."""
    pairs = [need.partition("@") for need in needs]
    return elf_file(
        path,
        needed=tuple(dict.fromkeys(Dependency(name=name) for name, _, _ in pairs)),
        symbol_versions=tuple(
            NeededVersion(library=name, version=version) for name, _, version in pairs if version
        ),
        **fields,
    )


def lowest(*objects: ElfFile | MachOFile, linkage: Linkage | None = None) -> list[LowestTag]:
    return list(find_lowest_tags(wheel(objects=objects), linkage))


@pytest.mark.parametrize(
    ("needs", "tag", "reasons"),
    [
        (["libc.so.6@GLIBC_2.2.5"], "manylinux_2_5_x86_64", []),
        (["libc.so.6@GLIBC_2.6"], "manylinux_2_12_x86_64", ["GLIBC_2.6 of libc.so.6"]),
        (
            ["libc.so.6@GLIBC_2.14", "libc.so.6@GLIBC_2.17"],
            "manylinux_2_17_x86_64",
            ["GLIBC_2.17 of libc.so.6"],  # which implies the other
        ),
        (
            ["libc.so.6@GLIBC_2.4", "libstdc++.so.6@GLIBCXX_3.4.21"],
            "manylinux_2_24_x86_64",
            ["GLIBCXX_3.4.21 of libstdc++.so.6"],
        ),
        (["libc.so.6@GLIBC_2.29"], "manylinux_2_31_x86_64", ["GLIBC_2.29 of libc.so.6"]),
        (["libc.so.6@GLIBC_2.4", "libz.so.1"], "manylinux_2_5_x86_64", []),
    ],
)
def test_the_lowest_policy_that_allows_all(needs: list[str], tag: str, reasons: list[str]) -> None:
    (found,) = lowest(needing(*needs))
    assert found.tag == tag
    assert [reason.need for reason in found.reasons] == reasons


@pytest.mark.parametrize(
    ("suffix", "tags"),
    [
        ("cpython-312-x86_64-linux-gnu", ["manylinux_2_5_x86_64"]),
        ("cpython-312-x86_64-linux-musl", ["musllinux_1_1_x86_64"]),
        # Pythons before 3.11 use this suffix on musl, too
        ("cpython-310-x86_64-linux-gnu", ["manylinux_2_5_x86_64", "musllinux_1_1_x86_64"]),
        ("abi3", ["manylinux_2_5_x86_64", "musllinux_1_1_x86_64"]),
    ],
)
def test_the_suffix_of_a_module_that_needs_no_libc_tells_which_it_is_for(
    suffix: str, tags: list[str]
) -> None:
    """The modules that auditwheel is tested on need no library at all."""
    assert [found.tag for found in lowest(elf_file(f"demo/_native.{suffix}.so"))] == tags


def test_a_library_that_no_policy_has_leaves_no_tag_and_says_what_else_holds() -> None:
    (found,) = lowest(needing("libc.so.6@GLIBC_2.17", "libcuda.so.1@CUDA_1"))
    assert (found.version, found.tag) == (None, "")
    assert [reason.need for reason in found.reasons] == ["libcuda.so.1"]
    assert found.otherwise_tag == "manylinux_2_17_x86_64"


def test_versions_that_no_policy_has_leave_no_tag_at_all() -> None:
    (found,) = lowest(needing("libc.so.6@GLIBC_2.99"))
    assert (found.tag, found.otherwise_tag) == ("", "")


def test_libraries_of_the_package_and_of_python_are_none_of_the_system() -> None:
    bundled = needing("libc.so.6@GLIBC_2.4", path="demo.libs/libx-1.so", name="libx.so.1")
    module = needing("libx.so.1@X_9", "libx-1.so", "libpython3.11.so.1.0", "libc.so.6@GLIBC_2.3")
    (found,) = lowest(bundled, module)
    assert found.tag == "manylinux_2_5_x86_64"


def test_what_a_required_distribution_may_have_is_not_asked_of_the_system() -> None:
    module = needing("libc.so.6@GLIBC_2.4", "libtorch.so@T_1")
    about = {"path": module.path, "architecture": "x86_64"}
    edges = (
        Edge(needed="libc.so.6", resolved="system:libc.so.6", **about),
        Edge(needed="libtorch.so", may_come_with=("torch",), **about),
    )
    assert [each.tag for each in lowest(module, linkage=Linkage(target="", edges=edges))] == [
        "manylinux_2_5_x86_64"
    ]


def test_a_weak_version_and_a_weak_forbidden_symbol_are_no_need() -> None:
    weak = (NeededVersion(library="libc.so.6", version="GLIBC_2.34", weak=True),)
    imports = Symbols([Symbol(name="__cxa_thread_atexit_impl", weak=True)])
    module = elf_file(needed=(Dependency(name="libc.so.6"),), symbol_versions=weak, imports=imports)
    assert [each.tag for each in lowest(module)] == ["manylinux_2_5_x86_64"]


def test_objects_that_no_loader_takes_do_not_count() -> None:
    debug = needing("libc.so.6@GLIBC_2.34", kind=Kind.DEBUG)
    assert lowest(debug) == []


@pytest.mark.parametrize("library", ["libc.musl-x86_64.so.1", "libc.so"])
def test_musl_is_told_by_its_own_library(library: str) -> None:
    assert [each.tag for each in lowest(needing(library))] == ["musllinux_1_1_x86_64"]


def test_of_musl_only_functions_of_64_bit_time_tell_its_version() -> None:
    imports = Symbols([Symbol(name="stat"), Symbol(name="__stat_time64")])
    (found,) = lowest(needing("libc.musl-armv7.so.1", imports=imports, architecture="armv7l"))
    assert found.tag == "musllinux_1_2_armv7l"
    assert [reason.need for reason in found.reasons] == ["__stat_time64 of musl 1.2"]


def test_an_object_that_needs_no_libc_fits_both() -> None:
    tags = [each.tag for each in lowest(elf_file("demo/_native.so"))]
    assert tags == ["manylinux_2_5_x86_64", "musllinux_1_1_x86_64"]


def test_each_architecture_has_its_own() -> None:
    arm = needing("libc.so.6@GLIBC_2.28", path="demo/arm.so", architecture="aarch64")
    tags = [each.tag for each in lowest(needing("libc.so.6@GLIBC_2.4"), arm)]
    assert tags == ["manylinux_2_28_aarch64", "manylinux_2_5_x86_64"]


def test_macos_is_the_newest_that_a_slice_is_built_for() -> None:
    old = macho_file("demo/a.so", minimum_os="10.9")
    new = macho_file("demo/b.so", minimum_os="10.13")
    (found,) = lowest(old, new)
    assert found.tag == "macosx_10_13_x86_64"
    assert [(each.path, each.need) for each in found.reasons] == [("demo/b.so", "minos 10.13")]


def test_macos_since_11_is_known_by_its_first_number() -> None:
    (found,) = lowest(macho_file(minimum_os="12.3", architecture="aarch64"))
    assert found.tag == "macosx_12_0_arm64"


def test_no_macos_before_11_runs_on_arm64() -> None:
    (found,) = lowest(macho_file(minimum_os="10.9", architecture="aarch64"))
    assert (found.tag, found.reasons) == ("macosx_11_0_arm64", ())


def test_a_symbol_that_is_newer_than_the_object_says_raises_it() -> None:
    system = "/usr/lib/libSystem.B.dylib"
    newer = macho_file(
        minimum_os="10.9",
        needed=(Dependency(name=system),),
        imports=Symbols([Symbol(name="aligned_alloc", library=system)]),
    )
    (found,) = lowest(newer)
    assert found.tag == "macosx_10_15_x86_64"
    assert [each.need for each in found.reasons] == [f"aligned_alloc of {system}"]


@pytest.mark.parametrize(
    ("macos", "tag"),
    [((10, 13), (10, 13)), ((13, 0), (13, 0)), ((11, 3), (12, 0)), ((15, 4), (26, 0))],
)
def test_a_tag_that_promises_a_later_release_names_the_next_macos(
    macos: tuple[int, int], tag: tuple[int, int]
) -> None:
    assert round_up(macos) == tag


def test_a_symbol_of_a_later_release_raises_the_tag_to_the_next_macos() -> None:
    library = "/usr/lib/libc++.1.dylib"
    to_chars = Symbols([Symbol(name="_ZNSt3__18to_charsEPcS0_d", library=library)])
    (found,) = lowest(macho_file(minimum_os="11.0", architecture="aarch64", imports=to_chars))
    assert found.tag == "macosx_14_0_arm64"


def test_an_object_for_another_apple_system_does_not_count() -> None:
    assert lowest(macho_file(platforms=("ios",), minimum_os="13.0")) == []
