"""What problems come from is spelled once, and the same for every check."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.linkage.needed_libraries import load_order_dependent, missing_library
from binary_checks.checks.linkage.search_paths import absolute_search_path
from binary_checks.checks.macos import minimum_os_above_tag, needed_outside_system
from binary_checks.checks.symbols import symbol_newer_than_tag
from binary_checks.model import (
    CheckResult,
    Directories,
    Edge,
    Layout,
    Level,
    Linkage,
    MachOFile,
    Outcome,
    Problem,
    Symbol,
    Symbols,
    UnresolvedSymbol,
    Wheel,
)
from binary_checks.reports.faults import Fault, fold
from binary_checks.wording.problem_lines import of_need, of_refusal, of_symbols
from fixtures.linking import dylib, link, macos, needs, system_library
from fixtures.values import macho_file, wheel

NAME = "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl"
MODULE = "demo/_native.cpython-311-darwin.so"


def edge(**fields: Any) -> Edge:
    return Edge(**{"path": "demo/a.so", "architecture": "", "needed": "libx.so.1", **fields})


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({}, "library libx.so.1"),
        ({"needed": "@rpath/libx.dylib"}, "library libx.dylib"),
        ({"searched": ("demo.libs",)}, "lost folder demo.libs"),
        ({"searched": ("demo/.dylibs",)}, "lost folder demo/.dylibs"),
        ({"searched": ("demo/lib", "kept.libs")}, "library libx.so.1"),
        ({"elsewhere": ("demo/lib/libx.so.1",)}, "no search path to demo/lib"),
        ({"elsewhere": ("libx.so.1",)}, "no search path to ."),
        ({"resolved": "demo/lib/libx.so.1"}, "no search path to demo/lib"),
        (
            {"elsewhere": ("Qt/lib/QtCore.framework/Versions/A/QtCore",)},
            "no search path to Qt/lib",
        ),
    ],
)
def test_a_need_that_is_not_met_has_a_cause(fields: dict[str, Any], cause: str) -> None:
    known = Directories(["kept.libs/liby.so"])
    assert of_need(edge(**fields), lambda: known, Layout()) == cause


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("ImportError: libx.so.1: cannot open shared object file: No such file", "libx.so.1"),
        ("Error loading shared library libx.so.1: No such file or directory (needed", "libx.so.1"),
        ("Library not loaded: @rpath/libx.dylib\n  Referenced from: a.so", "libx.dylib"),
    ],
)
def test_a_loader_names_the_library_that_it_did_not_find(message: str, cause: str) -> None:
    assert of_refusal(message, Linkage(target="x"), wheel()) == f"library {cause}"


def test_another_message_has_no_cause() -> None:
    assert of_refusal("KeyError: 1", Linkage(target="x"), wheel()) == ""


@pytest.mark.parametrize(
    "message",
    [
        "ImportError: /x/demo/a.so: undefined symbol: second",
        "dlopen(/x/demo/a.so, 2): Symbol not found: _second\n  Referenced from: /x/demo/a.so",
    ],
)
def test_a_loader_names_one_of_the_symbols_that_are_undefined(message: str) -> None:
    lost = [UnresolvedSymbol(path="demo/a.so", name=name) for name in ("first", "second")]
    linkage = Linkage(target="x", unresolved=tuple(lost))
    assert of_symbols(lost, linkage) == "undefined symbol first"
    assert of_refusal(message, linkage, wheel()) == "undefined symbol first"
    assert of_refusal(message, Linkage(target="x"), wheel()) == ""


def faults(*objects: MachOFile, checks: tuple[Any, ...], on: Any = None) -> tuple[Fault, ...]:
    """What reports show of these checks, in the order in which they run."""
    target = on or macos()
    package = wheel(NAME, objects=objects)
    linkage = link(*objects, on=target)
    given = {Linkage: linkage, Wheel: package, type(target): target}
    return fold(run(check, package, objects, given) for check in checks)


def run(check: Any, package: Wheel, objects: tuple[MachOFile, ...], given: Any) -> CheckResult:
    def find(kinds: tuple[type, ...]) -> Any:
        return next(value for kind, value in given.items() if issubclass(kind, kinds))

    subjects = objects if check.judges_objects else [find(check.subjects)]
    evidence = [find(kinds) for kinds in check.facts[1:]]
    found = [each for subject in subjects for each in check(subject, *evidence)]
    problems = [each for each in found if isinstance(each, Problem)]
    return CheckResult(
        check=check.id,
        family=check.family,
        outcome=Outcome.FAILED,
        inspected=1,
        problems=tuple(each for each in problems if each.level is Level.ERROR),
        warnings=tuple(each for each in problems if each.level is Level.WARNING),
    )


HOMEBREW = (missing_library, absolute_search_path, needed_outside_system)


def test_a_library_of_homebrew_that_is_found_by_its_path_alone_is_one_line() -> None:
    module = macho_file(
        MODULE,
        architecture="aarch64",
        needed=needs("@rpath/libomp.dylib"),
        rpaths=("/opt/homebrew/opt/libomp/lib",),
    )
    (fault,) = faults(module, checks=HOMEBREW)
    assert fault.shown.check == "missing-library"
    assert fault.also() == "absolute-search-path"
    assert fault.level is Level.ERROR


def test_a_library_of_homebrew_that_many_need_is_one_line() -> None:
    path = "/opt/homebrew/opt/unixodbc/lib/libodbc.2.dylib"
    one, two = (
        macho_file(
            f"demo/_{name}.cpython-311-darwin.so", architecture="aarch64", needed=needs(path)
        )
        for name in "ab"
    )
    three = dylib("demo/libc.dylib", "@rpath/libodbc.2.dylib", rpaths=("/opt/homebrew/lib",))
    (fault,) = faults(one, two, three, checks=HOMEBREW)
    assert {fault.shown.check, *(each.check for each in fault.folded)} == {
        "missing-library",
        "needed-outside-system",
        "absolute-search-path",
    }
    assert fault.level is Level.ERROR


def test_two_libraries_are_two_lines() -> None:
    module = macho_file(
        MODULE, architecture="aarch64", needed=needs("@rpath/liba.dylib", "@rpath/libb.dylib")
    )
    assert len(faults(module, checks=HOMEBREW)) == 2


def test_code_for_a_newer_macos_is_one_line_led_by_what_fails() -> None:
    libcxx = "/usr/lib/libc++.1.dylib"
    on = macos(library_data={libcxx: system_library(libcxx, to_chars="13.3")})
    module = macho_file(
        MODULE,
        architecture="aarch64",
        minimum_os="13.3",
        imports=Symbols([Symbol(name="to_chars", library=libcxx)]),
    )
    (fault,) = faults(module, checks=(minimum_os_above_tag, symbol_newer_than_tag), on=on)
    assert fault.shown.check == "symbol-newer-than-tag"
    assert fault.also() == "minimum-os-above-tag"


def test_libraries_that_no_search_leads_to_are_one_line() -> None:
    module = macho_file(
        MODULE, architecture="aarch64", needed=needs("@rpath/liba.dylib", "@rpath/libb.dylib")
    )
    libraries = [dylib(f"demo/.dylibs/lib{name}.dylib") for name in "ab"]
    (fault,) = faults(module, *libraries, checks=(load_order_dependent, missing_library))
    assert fault.shown.group.sentence == (
        "needs @rpath/liba.dylib, @rpath/libb.dylib and does not find them (it has no search "
        "path): demo/.dylibs/liba.dylib, demo/.dylibs/libb.dylib are in the package, but no search "
        "path leads there: this file does not load"
    )
    libraries = [dylib(f"demo/lib/lib{name}.dylib") for name in "ab"]
    (fault,) = faults(module, *libraries, checks=(load_order_dependent, missing_library))
    assert fault.shown.group.sentence == (
        "needs @rpath/liba.dylib, @rpath/libb.dylib and does not find them (it has no search "
        "path): demo/lib/liba.dylib, demo/lib/libb.dylib are in the package, but the search does "
        "not lead there; it loads only once something else has loaded them"
    )
