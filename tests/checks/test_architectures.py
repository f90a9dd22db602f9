"""Objects and platform tags that disagree about the architecture are told, on every system."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks import hardening
from binary_checks.checks.linkage.needed_libraries import missing_library
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    DispensableObject,
    Finding,
    Format,
    Kind,
    Level,
    Linkage,
    MalformedObject,
    NotInspected,
    ObjectFile,
    Problem,
    Wheel,
)
from fixtures.linking import extension, library, link
from fixtures.values import elf_file, macho_file, only, pe_file, symbols, wheel


def _wheel(platform: str, *objects: ObjectFile) -> Wheel:
    return wheel(f"demo-1.0-py3-none-{platform}.whl", objects=objects)


def judge(package: Wheel, **fields: Any) -> list[Finding]:
    return list(hardening.wrong_architecture(package, Linkage(target="x", **fields)))


def test_an_object_of_another_architecture_is_told() -> None:
    package = _wheel(
        "manylinux_2_17_x86_64.manylinux2014_x86_64",
        elf_file("demo/a.so", architecture="aarch64"),
        elf_file("demo/b.so"),
    )
    assert judge(package) == [
        Problem(
            path="demo/a.so",
            sentence="is for aarch64, but the tags claim manylinux2014_x86_64, "
            "manylinux_2_17_x86_64",
            cause="code for aarch64",
        )
    ]


def test_a_library_is_missing_because_it_is_for_another_architecture() -> None:
    foreign = library("demo.libs/libdep-12345678.so.1", architecture="aarch64")
    module = extension("libdep-12345678.so.1", runpath=("$ORIGIN/../demo.libs",))
    package = wheel(objects=(module, foreign))
    missing = only(Problem, missing_library(link(module, foreign), package))
    wrong = only(Problem, judge(package))
    assert (wrong.path, wrong.level) == (foreign.path, Level.ERROR)
    assert missing.cause == wrong.cause == "code for aarch64"
    assert missing.consequence
    assert not missing.command


def test_a_tag_without_objects_is_told() -> None:
    package = _wheel("linux_armv7l.linux_x86_64", elf_file())
    assert judge(package) == [
        Problem(sentence="claims linux_armv7l, but has no object for that architecture")
    ]


@pytest.mark.parametrize(
    ("platform", "item"),
    [
        ("linux_x86_64", elf_file()),
        ("linux_armv6l", elf_file(architecture="armv7l")),
        ("musllinux_1_2_aarch64", elf_file(architecture="aarch64")),
        ("win_amd64", pe_file(architecture="x86_64")),
        ("win_arm64", pe_file(architecture="aarch64")),
        ("macosx_11_0_universal2", macho_file(architecture="aarch64")),
        ("manylinux_2_17_i686", elf_file(architecture="i686")),
        ("manylinux_2_17_ppc64le", elf_file(architecture="ppc64le")),
    ],
)
def test_an_object_that_the_tags_allow_is_quiet(platform: str, item: ObjectFile) -> None:
    assert judge(_wheel(platform, item)) == []


@pytest.mark.parametrize(
    ("platform", "item", "format_"),
    [
        ("macosx_11_0_arm64", elf_file("demo/_a.cpython-314-darwin.so"), "ELF"),
        ("macosx_11_0_arm64", elf_file("demo/_a.abi3.so"), "ELF"),
        ("linux_x86_64", macho_file("demo/_a.cpython-311-x86_64-linux-gnu.so"), "Mach-O"),
        ("win_amd64", elf_file("demo/_a.cp311-win_amd64.pyd"), "ELF"),
    ],
)
def test_an_extension_in_the_format_of_another_system_is_told(
    platform: str, item: ObjectFile, format_: str
) -> None:
    (problem,) = judge(_wheel(platform, item))

    assert problem == Problem(
        path=item.path, sentence=f"is an object of format {format_}, which {platform} cannot load"
    )


def test_objects_for_other_systems_beside_those_that_fit_are_quiet() -> None:
    both = (macho_file("demo/_a.abi3.so"), elf_file("demo/_a.cpython-311-x86_64-linux-gnu.so"))
    assert judge(_wheel("macosx_11_0_x86_64", *both)) == []
    ours = macho_file("demo/a.dylib", architecture="aarch64")
    assert judge(_wheel("macosx_11_0_arm64", ours, pe_file(architecture="i686"))) == []


@pytest.mark.parametrize("kind", [Kind.DEVICE, Kind.DEBUG, Kind.RELOCATABLE])
def test_what_is_never_loaded_has_no_wrong_architecture(kind: Kind) -> None:
    other = elf_file("demo/b.so", architecture="aarch64", kind=kind)
    assert judge(_wheel("linux_x86_64", elf_file(), other)) == []
    with pytest.raises(NotApplicable, match="no loadable object"):
        judge(_wheel("linux_x86_64", other))
    for item in (elf_file(architecture="aarch64"), pe_file(architecture="i686")):
        with pytest.raises(NotApplicable, match="no platform tag that names an architecture"):
            judge(_wheel("any", item))


def test_an_architecture_that_is_unknown_or_could_not_be_read_is_not_inspected() -> None:
    sentence = "the architecture of manylinux_2_17_sparc is unknown to this check"
    package = _wheel("linux_x86_64.manylinux_2_17_sparc", elf_file(architecture="aarch64"))
    assert judge(package) == [NotInspected(sentence=sentence)]
    broken = MalformedObject(path="demo/a.so", format=Format.PE, offset=64, reason="cut")
    assert judge(wheel(malformed=(broken,))) == [NotInspected(path="demo/a.so", sentence="cut")]


@pytest.mark.parametrize(
    ("platform", "path", "fields"),
    [
        ("win_amd64", "demo/clr/Demo.dll", {"architecture": "i686", "managed": True}),
        ("win_amd64", "demo/tool.exe", {"architecture": "i686", "kind": Kind.EXECUTABLE}),
        ("win_amd64", "demo/attach_x86.dll", {"architecture": "i686"}),
        ("win32", "demo/attach-amd64.dll", {"architecture": "x86_64"}),
        ("win_amd64", "demo/libportaudio32bit.dll", {"architecture": "i686"}),
        ("win_amd64", "demo/libportaudioarm64.dll", {"architecture": "aarch64"}),
        ("win_arm64", "demo.libs/msvcp140.dll", {"architecture": "arm64x"}),
    ],
)
def test_windows_takes_some_images_of_other_architectures(
    platform: str, path: str, fields: dict[str, Any]
) -> None:
    package = _wheel(platform, pe_file(path, **fields))
    assert judge(package) == []


def test_objects_that_are_all_for_other_systems_are_a_warning() -> None:
    library = elf_file("demo/lib_demo.so")
    problem = only(Problem, judge(_wheel("macosx_11_0_arm64", library)))
    assert problem.level is Level.WARNING
    sentence = "its objects are all of format ELF, which macosx_11_0_arm64 cannot load"
    assert (problem.path, problem.sentence) == ("", sentence)
    ours = macho_file("demo/a.dylib", architecture="aarch64")
    assert judge(_wheel("macosx_11_0_arm64", library, ours)) == []
    assert problem not in judge(_wheel("macosx_11_0_arm64.manylinux_2_17_x86_64", library))
    broken = MalformedObject(path="demo/b.so", format=Format.ELF, offset=0, reason="cut")
    unread = replace(_wheel("macosx_11_0_arm64", library), malformed=(broken,))
    assert only(NotInspected, judge(unread))


def test_a_module_named_for_another_platform_is_left_to_another_check() -> None:
    fits = pe_file("demo/_a.cp36-win_amd64.pyd", architecture="x86_64")
    named, other = (
        pe_file(
            f"demo/{name}.cp36-win32.pyd", architecture="i686", exports=symbols(f"PyInit_{name}")
        )
        for name in ("_a", "_b")
    )
    assert judge(_wheel("win_amd64", fits, named)) == []
    assert [each.path for each in judge(_wheel("win_amd64", fits, other))] == [other.path]
    renamed = pe_file("demo/_a.pyd", architecture="i686")
    assert [each.path for each in judge(_wheel("win_amd64", fits, renamed))] == [renamed.path]


def test_a_static_program_has_no_calling_convention_of_arm() -> None:
    program = elf_file("demo/zig", architecture="armel", kind=Kind.EXECUTABLE)
    assert judge(_wheel("manylinux_2_17_armv7l", program)) == []
    assert len(judge(_wheel("manylinux_2_17_x86_64", program))) == 1
    loading = replace(program, interpreter="/lib/ld-linux.so.3")
    assert len(judge(_wheel("manylinux_2_17_armv7l", loading))) == 1


def test_libraries_with_another_calling_convention_do_not_fit() -> None:
    library = elf_file("demo/a.so", architecture="riscv64_lp64")
    problem = only(Problem, judge(_wheel("manylinux_2_39_riscv64", library)))
    assert "is for riscv64_lp64, but the tags claim manylinux_2_39_riscv64" in problem.sentence
    program = replace(library, kind=Kind.EXECUTABLE)
    assert judge(_wheel("manylinux_2_39_riscv64", program)) == []


def test_an_object_that_no_import_reaches_and_a_copy_of_windows_own_are_a_warning() -> None:
    spare = DispensableObject(path="demo/a.so", reason="no import of the package reaches it")
    package = _wheel("linux_x86_64", elf_file("demo/a.so", architecture="i686"), elf_file())
    assert only(Problem, judge(package, dispensable=(spare,))).level is Level.WARNING
    copy = pe_file("demo/ucrtbase.dll", architecture="i686")
    assert only(Problem, judge(_wheel("win_amd64", copy))).level is Level.WARNING


@pytest.mark.parametrize(
    ("platform", "path", "architecture"),
    [
        ("win_amd64", "demo/helper.dll", "i686"),
        ("win_amd64", "demo/_x.cp311-win32.pyd", "i686"),
        ("win_amd64", "demo/helper.dll", "arm64ec"),
        ("win_amd64", "demo/helper.dll", "arm64x"),
        ("win_arm64", "demo/helper.dll", "x86_64"),
        ("win_arm64", "demo/proxy86.dll", "i686"),
    ],
)
def test_a_dll_for_another_architecture_is_told(
    platform: str, path: str, architecture: str
) -> None:
    library = pe_file(path, architecture=architecture, exports=symbols("PyInit__x"))
    (problem,) = judge(_wheel(platform, library))
    assert problem == Problem(
        path=path,
        sentence=f"is for {architecture}, but the tags claim {platform}",
        cause=f"code for {architecture}",
    )


def test_one_slice_that_fits_is_enough_and_a_file_may_be_named_for_intels_processes() -> None:
    both = [macho_file(architecture=name) for name in ("aarch64", "x86_64")]
    assert judge(_wheel("macosx_11_0_arm64", *both)) == []
    assert len(judge(_wheel("macosx_11_0_arm64", both[1]))) == 1
    named = macho_file("a_x86_64.dylib", architecture="x86_64")
    assert judge(_wheel("macosx_11_0_arm64", named)) == []


@pytest.mark.parametrize("platform", ["macosx_10_6_intel", "macosx_10_4_universal"])
def test_old_tags_of_macos_name_several_architectures(platform: str) -> None:
    assert judge(_wheel(platform, macho_file(architecture="x86_64"))) == []
