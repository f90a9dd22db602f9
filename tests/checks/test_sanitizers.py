"""Objects that were built with a sanitizer are named as such, whatever fails because of it."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.linkage.sanitizers import built_for_coverage, built_with_sanitizer
from binary_checks.checks.runtime import extension_fails_to_load, import_fails
from binary_checks.model import (
    CodeNames,
    Dependency,
    DispensableObject,
    Edge,
    Ending,
    ExtensionReport,
    ImportReport,
    JudgedProjects,
    Level,
    Linkage,
    Problem,
    Step,
)
from fixtures.values import elf_file, only, wheel

NATIVE = "demo/_core.cpython-311-x86_64-linux-gnu.so"
TAG = "manylinux_2_28_x86_64"
WITHOUT = Linkage(target=TAG)
ALONE = JudgedProjects()


def needing(name: str) -> object:
    return elf_file(path=NATIVE, needed=(Dependency(name="libc.so.6"), Dependency(name=name)))


def bundled(name: str) -> Linkage:
    edge = Edge(path=NATIVE, architecture="x86_64", needed=name, resolved=f"demo.libs/{name}")
    return Linkage(target=TAG, edges=(edge,))


@pytest.mark.parametrize(
    ("name", "sanitizer", "option"),
    [
        ("libasan.so.8", "AddressSanitizer", "address"),
        ("libasan-1f2e3d4c.so.8.0.0", "AddressSanitizer", "address"),
        ("libclang_rt.asan-x86_64.so", "AddressSanitizer", "address"),
        ("libclang_rt.asan.so", "AddressSanitizer", "address"),
        ("@rpath/libclang_rt.asan_osx_dynamic.dylib", "AddressSanitizer", "address"),
        ("clang_rt.asan_dynamic-x86_64.dll", "AddressSanitizer", "address"),
        ("libclang_rt.hwasan-aarch64.so", "Hardware-assisted AddressSanitizer", "hwaddress"),
        ("libtsan.so.2", "ThreadSanitizer", "thread"),
        ("libubsan.so.1", "UndefinedBehaviorSanitizer", "undefined"),
        ("libclang_rt.ubsan_standalone-x86_64.so", "UndefinedBehaviorSanitizer", "undefined"),
    ],
)
def test_built_with_sanitizer_fires(name: str, sanitizer: str, option: str) -> None:
    (problem,) = built_with_sanitizer(needing(name), WITHOUT)

    assert problem == Problem(
        path=NATIVE,
        sentence=f"needs {name}, the runtime of {sanitizer}: it is a build for tests; build it "
        f"again without -fsanitize={option}",
        cause=f"library {name.rpartition('/')[2]}",
    )


@pytest.mark.parametrize("name", ["libasan1.so", "libgasan.so.8", "libubsanity.so", "libm.so.6"])
def test_built_with_sanitizer_is_quiet_about_other_libraries(name: str) -> None:
    assert list(built_with_sanitizer(needing(name), WITHOUT)) == []


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("libasan.so.8", Level.ERROR),
        ("libtsan.so.2", Level.ERROR),
        ("libubsan.so.1", Level.WARNING),
    ],
)
def test_a_bundled_runtime_helps_only_where_it_may_be_loaded_late(name: str, level: Level) -> None:
    (problem,) = built_with_sanitizer(needing(name), bundled(name))
    assert problem.level is level


def test_a_process_that_the_sanitizer_ends_has_its_cause() -> None:
    package = wheel(objects=(needing("libasan.so.8"),))
    ended = Step(name="demo", outcome=Ending.EXITED, detail="exit status 1")
    imports = ImportReport(python="CPython 3.11.7", steps=(ended,))
    loads = ExtensionReport(
        python="CPython 3.11.7",
        steps=(Step(name=NATIVE, outcome=Ending.EXITED, detail="exit status 1"),),
    )

    for found in (
        import_fails(imports, package, WITHOUT, ALONE),
        extension_fails_to_load(loads, imports, WITHOUT, package, CodeNames()),
    ):
        problem = only(Problem, found)
        assert (problem.cause, problem.consequence) == ("library libasan.so.8", True)


REFUSAL = "/lib/x86_64-linux-gnu/libtsan.so.2: cannot allocate memory in static TLS block"


@pytest.mark.parametrize(
    ("name", "end", "caused"),
    [
        # glibc refuses ThreadSanitizer's runtime, which asks for too much static TLS
        ("libtsan.so.2", {"outcome": Ending.LOADER_ERROR, "detail": REFUSAL}, True),
        ("libubsan.so.1", {"outcome": Ending.EXITED, "detail": "exit status 1"}, False),
    ],
)
def test_a_runtime_is_the_cause_of_what_it_may_cause_alone(
    name: str, end: dict[str, Any], caused: bool
) -> None:
    report = ImportReport(python="CPython 3.11.7", steps=(Step(name="demo", **end),))
    problem = only(Problem, import_fails(report, wheel(objects=(needing(name),)), WITHOUT, ALONE))
    assert (problem.cause == f"library {name}") is caused


@pytest.mark.parametrize(
    ("texts", "runtime"),
    [
        (("GCOV_PREFIX_STRIP",), "libgcov"),
        (("GCOV_PREFIX_STRIP", "LLVM Profile Error: Failed to %s"), "LLVM profile runtime"),
    ],
)
def test_built_for_coverage_fires(texts: tuple[str, ...], runtime: str) -> None:
    problem = only(Problem, built_for_coverage(elf_file(path=NATIVE, texts=texts), WITHOUT))
    assert problem.level is Level.ERROR
    assert problem.sentence.startswith(f"contains {runtime}: it counts what it executes")


def test_an_object_that_no_import_reaches_only_warns() -> None:
    idle = Linkage(target=TAG, dispensable=(DispensableObject(path=NATIVE, reason="idle"),))
    covered = elf_file(path=NATIVE, texts=("GCOV_PREFIX_STRIP",))
    assert only(Problem, built_for_coverage(covered, idle)).level is Level.WARNING
    assert only(Problem, built_with_sanitizer(needing("libasan.so.8"), idle)).level is Level.WARNING


def test_built_for_coverage_is_quiet_about_compilers() -> None:
    """libclang contains the name of the variable, and what it writes into instrumented code."""
    texts = ("LLVM_PROFILE_FILE", "GCC: (GNU) 14.2.1", "writes GCOV_PREFIX_STRIP")
    assert list(built_for_coverage(elf_file(path=NATIVE, texts=texts), WITHOUT)) == []
