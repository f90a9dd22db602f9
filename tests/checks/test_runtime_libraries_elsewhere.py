"""On Windows and macOS too, what is loaded is compared by the names that the system compares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.runtime import loaded_libraries_differ
from binary_checks.knowledge.loaded_files import Deviation
from binary_checks.model import (
    Edge,
    ExtensionReport,
    Finding,
    Format,
    Linkage,
    Note,
    Problem,
    Rule,
)
from fixtures.values import macho_file, pe_file, wheel

ROOT, DEP = "demo/_a.pyd", "demo.libs/Dep.dll"
TWIN = "demo/b/_b.pyd"
PYTHON = "C:/Python311/python311.dll"
SLICES = ("x86_64", "aarch64")


def on_windows(mapped: tuple[str, ...], *edges: Edge, **fields: Any) -> list[Finding]:
    closure = (ROOT, *(e.resolved for e in edges if e.resolved and ":" not in e.resolved))
    usual = {"roots": (ROOT,), "closures": ((ROOT, closure),), "edges": edges}
    linkage = Linkage(target="win_amd64", format=Format.PE, **{**usual, **fields})
    report = ExtensionReport(python="CPython 3.11.9", libraries=mapped)
    package = wheel(objects=[pe_file(ROOT), pe_file(DEP)])
    return list(loaded_libraries_differ(report, linkage, package))


def edge(needed: str, resolved: str | None, **fields: Any) -> Edge:
    usual = {"path": ROOT, "architecture": "x86_64", "root": ROOT}
    return Edge(**{**usual, **fields, "needed": needed, "resolved": resolved})


@pytest.mark.parametrize(
    ("needed", "resolved", "file", "rule"),
    [
        ("dep.dll", DEP, "demo.libs/dep.DLL", Rule.SIBLING),
        ("python311.dll", "python:python311.dll", PYTHON, Rule.PYTHON),
        ("VCRUNTIME140.dll", "python:vcruntime140.dll", "C:/P/VCRUNTIME140.dll", Rule.PYTHON),
        ("WS2_32.dll", "system:ws2_32.dll", "C:/Windows/System32/WS2_32.dll", Rule.SYSTEM),
        ("api-ms-win-crt-a-l1-1-0.dll", "system:api-ms-win-crt-a-l1-1-0.dll", "", Rule.API_SET),
    ],
)
def test_loaded_libraries_differ_is_quiet_on_names_that_windows_takes_for_the_same(
    needed: str, resolved: str, file: str, rule: Rule
) -> None:
    assert on_windows((ROOT.upper(), file), edge(needed, resolved, rule=rule)) == []


def test_loaded_libraries_differ_fires_when_windows_took_its_own_file() -> None:
    other = "C:/Windows/System32/dep.dll"
    sentence = f"should load {DEP}, but the process did not; it has {other}"
    assert on_windows((ROOT, other), edge("dep.dll", DEP)) == [
        Problem(path=ROOT, sentence=sentence)
    ]


def test_a_missing_dll_that_this_windows_has_is_noted() -> None:
    other = "C:/Windows/System32/zlib1.dll"
    sentence = "finds zlib1.dll on this system, which not all users have"
    assert on_windows((ROOT, other), edge("zlib1.dll", None)) == [
        Note(path=ROOT, sentence=sentence)
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"needed": "MSVCP140.dll"},  # a check of its own speaks of it
        {"needed": "new.dll", "partly": "Windows 11"},
        {"needed": "odd.dll", "unknown": "code decides"},
    ],
)
def test_loaded_libraries_differ_is_quiet_about_what_some_systems_have(
    fields: dict[str, str],
) -> None:
    needed = fields["needed"]
    other = f"C:/Windows/System32/{needed.lower()}"
    assert on_windows((ROOT, other), edge(**{**fields, "resolved": None})) == []


def test_loaded_libraries_differ_is_quiet_about_uncalled_libraries_and_earlier_namesakes() -> None:
    first, own = edge("dep.dll", DEP), "demo/b/dep.dll"
    assert on_windows((ROOT,), replace(first, delayed=True)) == []
    second = edge("dep.dll", own, path=TWIN, root=TWIN)
    closures = ((ROOT, (ROOT, DEP)), (TWIN, (TWIN, own)))
    assert on_windows((ROOT, TWIN, DEP), first, second, closures=closures) == []


def on_macos(mapped: tuple[str, ...], *edges: Edge) -> list[Finding]:
    closures = (("a.so", ("a.so",)),)
    linkage = Linkage(
        target="macosx_11_0", format=Format.MACHO, roots=("a.so",), closures=closures, edges=edges
    )
    report = ExtensionReport(python="CPython", architecture="aarch64", libraries=mapped)
    package = wheel(objects=[macho_file("a.so", architecture=each) for each in SLICES])
    return list(loaded_libraries_differ(report, linkage, package))


def need(architecture: str, needed: str, resolved: str) -> Edge:
    return Edge(
        path="a.so", root="a.so", architecture=architecture, needed=needed, resolved=resolved
    )


def test_loaded_libraries_differ_is_quiet_about_names_of_old_and_idle_slices() -> None:
    old = "/usr/lib/libz.dylib"
    assert on_macos(("a.so",), need("aarch64", old, f"system:{old}")) == []
    name = "/usr/lib/libSystem.B.dylib"
    other, own = need("x86_64", "@rpath/libx.dylib", "libx.dylib"), need("aarch64", name, name)
    assert on_macos(("a.so", name), other, own) == []


def test_it_is_noted_when_macos_gave_way_to_another_library() -> None:
    name = "/usr/lib/libz.1.dylib"
    found = on_macos(("a.so", "demo/libz.1.dylib"), need("aarch64", name, f"system:{name}"))
    sentence = f"should load system:{name}, but the process did not; it has demo/libz.1.dylib"
    assert found == [
        Deviation(path="a.so", sentence=f"the simulation expected otherwise: {sentence}")
    ]
