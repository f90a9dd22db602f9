"""Checks of Android's API levels fire on functions and relocations that are too new."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.tags import parse_tag

from binary_checks.checks.android import (
    function_newer_than_api_level,
    loader_feature_newer_than_api_level,
    no_section_headers,
)
from binary_checks.checks.symbols import undefined_symbol
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.tags import read_claims
from binary_checks.loaders import simulate
from binary_checks.model import ElfFile, Linkage, Problem, TargetSystem
from binary_checks.systems import target_for
from fixtures.linking import needs
from fixtures.values import elf_file, only, symbols, wheel

NAME = "demo/_native.cpython-313-x86_64-linux-android.so"


def android(level: int) -> TargetSystem:
    claims = read_claims(parse_tag(f"cp313-cp313-android_{level}_x86_64"))
    return target_for(claims, frozenset())


def module(*needed: str, **fields: Any) -> ElfFile:
    return elf_file(NAME, needed=needs(*needed), **fields)


def link(item: ElfFile, level: int) -> tuple[Linkage, TargetSystem]:
    package = wheel(f"demo-1.0-cp313-cp313-android_{level}_x86_64.whl", objects=(item,))
    return simulate(package, android(level)), android(level)


def test_a_function_of_a_newer_level_is_named_with_both_levels() -> None:
    item = module("libc.so", imports=symbols("malloc", "getrandom", "mseal"))
    problem = only(Problem, function_newer_than_api_level(item, *link(item, 24)))
    assert problem.sentence == (
        "needs getrandom, mseal, new in API level 36, while android_24_x86_64 promises API level 24"
    )
    assert list(function_newer_than_api_level(item, *link(item, 36))) == []
    other = module("libandroid.so", imports=symbols("ALooper_wake", "ASharedMemory_create"))
    problem = only(Problem, function_newer_than_api_level(other, *link(other, 24)))
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


@pytest.mark.parametrize(
    ("fields", "sentence", "since"),
    [
        ({"relative_relocations": True}, "has relative relocations (DT_RELR)", 30),
        ({"android_relocations": ("relative",)}, "has relative relocations (DT_ANDROID_RELR)", 28),
        (
            {"android_relocations": ("packed",)},
            "has packed relocations (DT_ANDROID_REL and RELA)",
            23,
        ),
        ({"sysv_hash": False}, "has a hash table of the GNU format alone (DT_GNU_HASH)", 23),
        ({"tls_size": 8}, "has thread-local variables of ELF (PT_TLS)", 29),
    ],
)
def test_features_of_the_loader_need_an_api_level(
    fields: dict[str, Any], sentence: str, since: int
) -> None:
    item = module(**fields)
    problem = only(Problem, loader_feature_newer_than_api_level(item, *link(item, since - 1)))
    assert problem.sentence == (
        f"{sentence}, which Android supports since API level {since}, while "
        f"android_{since - 1}_x86_64 promises API level {since - 1}"
    )
    assert list(loader_feature_newer_than_api_level(item, *link(item, since))) == []


def test_a_runpath_that_finds_a_library_needs_level_24() -> None:
    found, unused = elf_file("demo/liba.so"), module("libc.so", runpath=("$ORIGIN",))
    item = module("liba.so", runpath=("$ORIGIN",))
    package = wheel("demo-1.0-cp313-cp313-android_21_x86_64.whl", objects=(item, found))
    judged = item, simulate(package, android(21)), android(21)
    problem = only(Problem, loader_feature_newer_than_api_level(*judged))
    assert problem.sentence.startswith("finds a library by DT_RUNPATH")
    assert list(loader_feature_newer_than_api_level(unused, *link(unused, 21))) == []


def test_android_wants_section_headers() -> None:
    assert list(no_section_headers(module(section_headers=False), android(24))) == [
        "has no section headers: Android's loader refuses it"
    ]
    assert list(no_section_headers(module(), android(24))) == []
    with pytest.raises(NotApplicable, match="no tag is for Android"):
        list(no_section_headers(module(), TargetSystem(name="manylinux")))


def test_a_module_without_libpython_is_told_to_link_it() -> None:
    item = module("libc.so", imports=symbols("PyLong_FromLong"))
    package = wheel("demo-1.0-cp313-cp313-android_24_x86_64.whl", objects=(item,))
    problem = only(Problem, undefined_symbol(simulate(package, android(24)), package))
    assert "uses PyLong_FromLong and does not need libpython3.x.so" in problem.sentence
