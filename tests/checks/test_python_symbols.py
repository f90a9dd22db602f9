from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.python_abi import unstable_symbol
from binary_checks.model import (
    Edge,
    Format,
    Interpreter,
    Linkage,
    NotInspected,
    ObjectFile,
    PeFile,
    Problem,
    Symbol,
    Symbols,
    TargetSystem,
)
from fixtures.values import macho_file, only, pe_file, wheel

PATH = "demo/_native.abi3.so"
SYSTEM = TargetSystem(
    name="",
    interpreter=Interpreter(
        implementation="cpython",
        version=(3, 8),
        free_threaded=False,
        exports=frozenset({"PyRun_String", "PyLong_FromLong"}),
    ),
)


def asks(*names: str, of: str = "") -> Symbols:
    return Symbols(Symbol(name=name, library=of) for name in names)


def judge_on(platform: str, *objects: Any, linkage: Linkage | None = None) -> list[object]:
    system = replace(SYSTEM, name=f"{platform}, CPython 3.8")
    container = Format.PE if platform.startswith("win") else Format.MACHO
    linkage = linkage or Linkage(target=system.name, format=container)
    package = wheel(f"demo-1.0-cp38-abi3-{platform}.whl", objects=objects)
    return list(unstable_symbol(package, linkage, system))


@pytest.mark.parametrize("dll", ["python3.dll", "PYTHON311.dll", "libpython3.11.dll"])
def test_windows_names_python_for_each_of_its_symbols(dll: str) -> None:
    for name in ("PyRun_String", "_PyNewIn_3_99"):  # whether the judged Python has it or not
        finding = only(Problem, judge_on("win_amd64", pe_file(imports=asks(name, of=dll))))
        assert finding.sentence.startswith(f"uses {name}, not in the stable ABI")


def test_windows_own_part_of_the_stable_abi_and_its_variables_are_fine() -> None:
    used = asks("PyErr_SetFromWindowsErr", "PyExc_OSError", "_Py_NoneStruct", of="python3.dll")
    assert judge_on("win_amd64", pe_file("demo/_native.pyd", imports=used)) == []


@pytest.mark.parametrize(
    "subject",
    [
        pe_file(imports=asks("PyRun_String", of="shiboken6.abi3.dll")),
        macho_file(imports=asks("PyRun_String", of="@rpath/libshiboken6.abi3.6.11.dylib")),
    ],
)
def test_what_is_asked_of_another_library_by_its_name_is_not_pythons(subject: ObjectFile) -> None:
    platform = "win_amd64" if isinstance(subject, PeFile) else "macosx_11_0_arm64"
    assert judge_on(platform, subject) == []


@pytest.mark.parametrize(
    "python",
    [
        "",
        "@executable",
        "/Library/Frameworks/Python.framework/Versions/3.11/Python",
        "@rpath/libpython3.11.dylib",
    ],
)
def test_macos_looks_everywhere_or_names_the_program_or_a_framework(python: str) -> None:
    subject = macho_file(imports=asks("PyRun_String", of=python))
    assert [type(item) for item in judge_on("macosx_11_0_arm64", subject)] == [Problem]


def test_on_macos_a_flat_symbol_may_be_a_librarys_that_is_loaded_too() -> None:
    subject = macho_file(PATH, imports=asks("PyRun_String"))
    linkage = Linkage(
        target="macosx_11_0_arm64",
        format=Format.MACHO,
        own_python_symbols=((PATH, ("PyRun_String",)),),
    )
    assert judge_on("macosx_11_0_arm64", subject, linkage=linkage) == []


@pytest.mark.parametrize(("partly", "found"), [("", NotInspected), ("macOS 13 and later", Problem)])
def test_a_missing_library_raises_doubt_unless_it_is_the_systems(
    partly: str, found: type[object]
) -> None:
    edge = Edge(path=PATH, architecture="aarch64", needed="/usr/lib/libz.1.dylib", partly=partly)
    linkage = Linkage(
        target="macosx_11_0_arm64",
        format=Format.MACHO,
        edges=(edge,),
        closures=((PATH, (PATH,)),),
    )
    subject = macho_file(PATH, imports=asks("PyRun_String"))
    findings = judge_on("macosx_11_0_arm64", subject, linkage=linkage)
    assert [type(item) for item in findings] == [found]


def test_a_fault_that_both_halves_of_a_universal_binary_have_is_told_once() -> None:
    halves = [
        macho_file(PATH, architecture=name, imports=asks("PyRun_String", "PyModule_AddType"))
        for name in ("x86_64", "aarch64")
    ]
    assert len(judge_on("macosx_11_0_universal2", *halves)) == 2


def test_a_symbol_that_may_be_missing_is_not_needed() -> None:
    weak = Symbols([Symbol(name="PyRun_String", weak=True)])
    assert judge_on("macosx_11_0_arm64", macho_file(imports=weak)) == []
