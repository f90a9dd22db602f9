"""Checks of Android's API levels fire on functions and relocations that are too new."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from binary_checks.checks.android import (
    function_newer_than_api_level,
    relocations_newer_than_api_level,
)
from binary_checks.checks.symbols import undefined_symbol
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.tags import read_claims
from binary_checks.loaders import simulate
from binary_checks.model import ElfFile, Linkage, Problem, TargetSystem
from binary_checks.systems import target_for
from fixtures.linking import needs
from fixtures.values import elf_file, symbols, wheel

NAME = "demo/_native.cpython-313-x86_64-linux-android.so"


def android(level: int) -> TargetSystem:
    claims = read_claims(parse_tag(f"cp313-cp313-android_{level}_x86_64"))
    return target_for(claims, frozenset())


def module(*needed: str, **fields: object) -> ElfFile:
    return elf_file(NAME, needed=needs(*needed), **fields)


def link(item: ElfFile, level: int) -> tuple[Linkage, TargetSystem]:
    package = wheel(f"demo-1.0-cp313-cp313-android_{level}_x86_64.whl", objects=(item,))
    return simulate(package, android(level)), android(level)


def test_a_function_of_a_newer_level_is_named_with_both_levels() -> None:
    item = module("libc.so", imports=symbols("malloc", "getrandom", "mseal"))
    (problem,) = function_newer_than_api_level(item, *link(item, 24))
    assert isinstance(problem, Problem)
    assert problem.sentence == (
        "needs getrandom, mseal, new in API level 36, while android_24_x86_64 promises API level 24"
    )
    assert list(function_newer_than_api_level(item, *link(item, 36))) == []


def test_functions_of_other_libraries_than_libc_have_levels_too() -> None:
    item = module("libandroid.so", imports=symbols("ALooper_wake", "ASharedMemory_create"))
    (problem,) = function_newer_than_api_level(item, *link(item, 24))
    assert isinstance(problem, Problem)
    assert "needs ASharedMemory_create, new in API level 26" in problem.sentence


@pytest.mark.parametrize(
    ("needed", "name", "lacking"),
    [
        ("libEGL.so", "eglInitialize", []),
        ("libEGL.so", "eglGoneForever", ["eglGoneForever"]),
        ("libnativewindow.so", "AHardwareBuffer_getNativeHandle", []),  # for apps or not, it exists
        ("libandroid.so", "__android_log_print", []),  # libandroid needs liblog
        ("libz.so", "__android_log_print", ["__android_log_print"]),
    ],
)
def test_functions_of_libraries_for_apps_are_known(
    needed: str, name: str, lacking: list[str]
) -> None:
    linkage, _ = link(module(needed, imports=symbols(name)), 26)
    assert [item.name for item in linkage.unresolved] == lacking


def test_data_that_are_older_than_the_tag_say_nothing() -> None:
    linkage, _ = link(module("libOpenSLES.so", imports=symbols("slNew")), 35)
    assert linkage.unresolved == ()
    assert [item.reason for item in linkage.unexplored] == ["libOpenSLES.so has no export data"]


def test_relative_relocations_need_level_30() -> None:
    item = module(relative_relocations=True)
    assert list(relocations_newer_than_api_level(item, android(24))) == [
        "has relocations in DT_RELR, which Android applies since API level 30"
    ]
    assert list(relocations_newer_than_api_level(item, android(30))) == []


def test_other_systems_have_no_api_level() -> None:
    with pytest.raises(NotApplicable, match="no tag is for Android"):
        list(relocations_newer_than_api_level(module(), TargetSystem(name="manylinux")))


def test_a_module_without_libpython_is_told_to_link_it() -> None:
    item = module("libc.so", imports=symbols("PyLong_FromLong"))
    package = wheel("demo-1.0-cp313-cp313-android_24_x86_64.whl", objects=(item,))
    (problem,) = undefined_symbol(simulate(package, android(24)), package)
    assert isinstance(problem, Problem)
    assert "uses PyLong_FromLong and does not need libpython3.x.so" in problem.sentence
