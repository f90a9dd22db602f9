"""What only the profile knows of libraries: banned, required, and where they are looked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.expected import (
    absent_library,
    banned_export,
    banned_library,
    unexpected_search_path,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Dependency,
    Finding,
    Format,
    MalformedObject,
    NotInspected,
    ObjectFile,
    Problem,
)
from fixtures.values import elf_file, macho_file, only, pe_file, symbols, wheel

GOMP = {"ELF": ("demo/lib/libgomp*.so*",), "PE": ("demo/lib/libiomp5md.dll",)}
PATHS = {"demo/lib/*": ("RUNPATH $ORIGIN", "RPATH $ORIGIN/../nvidia:$ORIGIN"), "demo/bin/*": ("",)}


def needing(name: str) -> tuple[Dependency, ...]:
    return (Dependency(name=name),)


def test_a_banned_library_is_a_problem_where_it_is_needed_and_where_it_lies() -> None:
    brought = macho_file("demo/libopenblas.0.dylib", name="@rpath/libopenblas.0.dylib")
    user = macho_file("demo/x.so", needed=needing("@rpath/libOpenBLAS.0.dylib"))
    package = wheel(objects=[brought, user])
    assert list(banned_library(package, banned=("*openblas*.dylib",))) == [
        Problem(
            path="demo/libopenblas.0.dylib",
            sentence="is libopenblas.0.dylib: the profile bans *openblas*.dylib",
        ),
        Problem(
            path="demo/x.so",
            sentence="needs @rpath/libOpenBLAS.0.dylib: the profile bans *openblas*.dylib",
        ),
    ]
    elsewhere = wheel(objects=[elf_file(needed=needing("libopenblas.so.0"))])
    assert list(banned_library(elsewhere, banned=("*openblas*.dylib",))) == []


def test_a_banned_export_is_a_problem() -> None:
    library = elf_file(exports=symbols("_ZNSt10filesystem4copyEv", "demo", "_ZNSt10filesystemX"))
    assert list(banned_export(library, banned=("_ZNSt10filesystem*", "nothing"))) == [
        "exports 2 symbols that the profile bans: _ZNSt10filesystem4copyEv, _ZNSt10filesystemX"
    ]
    other = elf_file(exports=symbols("demo"), imports=symbols("_ZNSt10filesystem4copyEv"))
    assert list(banned_export(other, banned=("_ZNSt10filesystem*",))) == []
    assert list(banned_export(other)) != []


def test_an_object_that_was_not_read_was_not_inspected() -> None:
    broken = MalformedObject(path="demo/y.so", format=Format.ELF, offset=0, reason="cut")
    package = wheel(objects=[elf_file()], malformed=[broken])
    for found in (
        list(banned_library(package, banned=("x",))),
        list(absent_library(package, required={"ELF": ("demo/*",)})),
        list(unexpected_search_path(package, expected={"demo/*": ("",)})),
    ):
        assert found == [NotInspected(path="demo/y.so", sentence="cut")]
    elsewhere = wheel(objects=[elf_file()], malformed=[replace(broken, path="other/y.so")])
    assert list(unexpected_search_path(elsewhere, expected={"demo/*": ("",)})) == []


def test_a_required_library_that_is_absent_is_a_problem() -> None:
    assert list(absent_library(wheel(objects=[elf_file()]), required=GOMP)) == [
        Problem(
            sentence="ships no demo/lib/libgomp*.so*: the user's own is loaded, if there is one"
        )
    ]


def test_a_second_copy_is_a_problem() -> None:
    copies = [elf_file("demo/lib/libgomp-1a2b3c4d.so.1"), elf_file("demo/lib/libgomp.so.1")]
    assert list(absent_library(wheel(objects=copies), required=GOMP)) == [
        Problem(
            path="demo/lib/libgomp.so.1",
            sentence="is a second demo/lib/libgomp*.so*, after demo/lib/libgomp-1a2b3c4d.so.1",
        )
    ]


@pytest.mark.parametrize(
    "library", [elf_file("demo/lib/libgomp.so.1"), pe_file("demo/lib/libiomp5md.dll")]
)
def test_one_copy_is_quiet_and_each_format_has_its_own(library: ObjectFile) -> None:
    assert list(absent_library(wheel(objects=[library]), required=GOMP)) == []
    with pytest.raises(NotApplicable, match="nothing is required of Mach-O"):
        list(absent_library(wheel(objects=[macho_file()]), required=GOMP))
    misspelt = {**GOMP, "COFF": ("*",)}
    assert list(absent_library(wheel(objects=[library]), required=misspelt)) == [
        NotInspected(sentence="the option required has no format COFF")
    ]


def judge_path(*objects: ObjectFile) -> list[Finding]:
    return list(unexpected_search_path(wheel(objects=objects), expected=PATHS))


@pytest.mark.parametrize(
    ("fields", "has"),
    [
        ({"rpath": ("$ORIGIN",)}, "has RPATH $ORIGIN"),
        ({"runpath": ("$ORIGIN", "/opt")}, "has RUNPATH $ORIGIN:/opt"),
        ({"rpath": ("$ORIGIN", "$ORIGIN/../nvidia")}, "has RPATH $ORIGIN:$ORIGIN/../nvidia"),
        ({}, "has no search path"),
    ],
)
def test_another_search_path_is_a_problem(fields: dict[str, tuple[str, ...]], has: str) -> None:
    wanted = "RUNPATH $ORIGIN or RPATH $ORIGIN/../nvidia:$ORIGIN"
    assert judge_path(elf_file("demo/lib/libx.so", **fields)) == [
        Problem(path="demo/lib/libx.so", sentence=f"{has}, where {wanted} is expected")
    ]
    (tool,) = judge_path(elf_file("demo/bin/tool", rpath=("/opt",)))
    assert tool.sentence == "has RPATH /opt, where no search path is expected"


def test_the_expected_search_paths_are_quiet() -> None:
    cpu = elf_file("demo/lib/libx.so", runpath=("$ORIGIN",))
    gpu = elf_file("demo/lib/liby.so", rpath=("$ORIGIN/../nvidia", "$ORIGIN"))
    both = elf_file("demo/lib/libz.so", runpath=("$ORIGIN",), rpath=("/never/read",))
    assert judge_path(cpu, gpu, both, elf_file("demo/bin/tool"), elf_file("demo/z.so")) == []


def test_a_star_stands_for_anything() -> None:
    library = elf_file("demo/x.so", rpath=("$ORIGIN/../a", "$ORIGIN/../b", "$ORIGIN"))
    package = wheel(objects=[library])
    starred = {"demo/*": ("RPATH $ORIGIN/../a:*:$ORIGIN",)}
    assert list(unexpected_search_path(package, expected=starred)) == []
    assert list(unexpected_search_path(package, expected={"demo/*": ("RPATH $ORIGIN:*",)})) != []


def test_the_rpaths_of_a_mach_o_are_judged_too() -> None:
    library = macho_file("demo/lib/libx.dylib", rpaths=("@loader_path", "/opt"))
    expected = {"*.dylib": ("LC_RPATH @loader_path",)}
    assert list(unexpected_search_path(wheel(objects=[library]), expected=expected)) == [
        Problem(
            path="demo/lib/libx.dylib",
            sentence="has LC_RPATH @loader_path:/opt, where LC_RPATH @loader_path is expected",
        )
    ]


def test_globs_that_nothing_matches_are_no_pass() -> None:
    assert judge_path(elf_file("other/x.so")) == [
        NotInspected(sentence="no object matches demo/lib/* or demo/bin/*")
    ]
    with pytest.raises(NotApplicable, match="no object in a format that has search paths"):
        judge_path(pe_file())


@pytest.mark.parametrize("check", [banned_library, absent_library, unexpected_search_path])
def test_without_an_expectation_nothing_was_inspected(check: Any) -> None:
    assert only(NotInspected, check(wheel(objects=[elf_file()])))
    assert only(NotInspected, banned_export(elf_file()))
