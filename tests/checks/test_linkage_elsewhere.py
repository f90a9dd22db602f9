from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.linkage.needed_libraries import (
    libpython_linked,
    load_order_dependent,
    missing_delayed_library,
    missing_library,
    missing_search_directory,
)
from binary_checks.checks.symbols import undefined_symbol
from binary_checks.errors import NotApplicable
from binary_checks.loaders import simulate
from binary_checks.model import (
    Finding,
    Kind,
    MachOFile,
    Note,
    NotInspected,
    Problem,
    Symbol,
    Symbols,
)
from fixtures.linking import dll, dylib, link, macos, needs, windows
from fixtures.values import macho_file, member, only, pe_file, symbols, wheel

MAC = "demo/_native.cpython-311-darwin.so"
WIN = "demo/_native.cp311-win_amd64.pyd"


def mac(*needed: str, **fields: Any) -> MachOFile:
    return macho_file(MAC, architecture="aarch64", **{"needed": needs(*needed), **fields})


def win(*needed: str, **fields: Any) -> Any:
    return pe_file(WIN, exports=symbols("PyInit__native"), **{"needed": needs(*needed), **fields})


def judge(check: Any, *objects: Any, on: Any = None, **fields: Any) -> list[Finding]:
    package = wheel(objects=objects, **fields)
    system = on or (macos() if isinstance(objects[0], MachOFile) else windows())
    return list(check(link(*objects, on=system), package))


def test_a_dylib_that_nobody_brings_is_missing() -> None:
    assert judge(missing_library, mac("@rpath/libx.dylib", rpaths=("@loader_path/lib",))) == [
        Problem(
            path=MAC,
            sentence="needs @rpath/libx.dylib, which neither the package nor macosx_11_0_arm64 "
            "provides (searched demo/lib/): where users lack it, this file does not load",
            cause="library libx.dylib",
        )
    ]


def test_a_system_library_of_later_systems_is_told_with_them() -> None:
    system = macos(partly={"/usr/lib/libnew.dylib": "macOS 13 and later"})
    assert judge(missing_library, mac("/usr/lib/libnew.dylib"), on=system) == [
        Problem(
            path=MAC,
            sentence="needs /usr/lib/libnew.dylib, which only macOS 13 and later have, but the "
            "tag says macosx_11_0_arm64: elsewhere this file does not load",
            cause="library libnew.dylib",
        )
    ]


def test_weak_needs_and_other_peoples_paths_are_not_missing_here() -> None:
    assert judge(missing_library, mac("/opt/homebrew/lib/libx.dylib")) == []
    assert judge(missing_library, mac(needed=needs("@rpath/libx.dylib", weak=True))) == []
    unlisted = mac("/usr/lib/libodd.dylib")  # no list has this library of the system
    assert only(NotInspected, judge(missing_library, unlisted))


def test_a_dll_that_nobody_brings_is_missing() -> None:
    assert judge(missing_library, win("gone.dll")) == [
        Problem(
            path=WIN,
            sentence="needs gone.dll, which neither the package nor win_amd64 provides (searched "
            "demo/): where users lack it, this file does not load",
            cause="library gone.dll",
        )
    ]


@pytest.mark.parametrize("name", ["python39.dll", "MSVCP140.dll", "ucrtbased.dll", "KERNEL32.dll"])
def test_windows_own_and_what_has_a_check_of_its_own_is_not_missing(name: str) -> None:
    assert judge(missing_library, win(name)) == []


def test_a_delayed_library_that_is_nowhere_fails_at_the_first_call() -> None:
    module = win(needed=needs("gone.dll", delayed=True))
    assert judge(missing_library, module) == []
    finding = only(Problem, judge(missing_delayed_library, module))
    assert finding.sentence.startswith("needs gone.dll, which neither the package nor win_amd64")


def test_a_function_that_a_delayed_library_lacks_fails_at_the_first_call() -> None:
    imports = Symbols([Symbol(name="gone", library="a.dll")])
    module = win(needed=needs("a.dll", delayed=True), imports=imports)
    bundled = dll("demo/a.dll", exports=symbols("there"))
    sentence = "calls gone of a.dll, which does not have it: the first call ends the process"
    assert judge(missing_delayed_library, module, bundled) == [Problem(path=WIN, sentence=sentence)]
    assert judge(undefined_symbol, module, bundled) == []


def test_drivers_libraries_and_those_of_the_package_may_be_delayed() -> None:
    delayed = win(needed=needs("nvcuda.dll", "KERNEL32.dll", "a.dll", delayed=True))
    assert judge(missing_delayed_library, delayed, dll("demo/lib/a.dll")) == []
    with pytest.raises(NotApplicable, match="no library is loaded at the first call"):
        judge(missing_delayed_library, win("KERNEL32.dll"))


def test_a_module_does_not_find_a_bundled_dll_whose_folder_nothing_adds() -> None:
    assert judge(missing_library, win("a.dll"), dll("demo.libs/a.dll")) == [
        Problem(
            path=WIN,
            sentence="needs a.dll and does not find it (searched demo/): demo.libs/a.dll is in the "
            "package, but no search path leads there: this file does not load",
            cause="no search path to demo.libs",
        )
    ]
    assert judge(load_order_dependent, win("a.dll"), dll("demo.libs/a.dll")) == []


def test_a_module_that_does_not_find_a_dll_of_the_package_depends_on_load_order() -> None:
    assert judge(load_order_dependent, win("a.dll"), dll("demo/bin/a.dll")) == [
        Problem(
            path=WIN,
            sentence="needs a.dll and does not find it (searched demo/): demo/bin/a.dll is in the "
            "package, but the search does not lead there; it loads only once something else has "
            "loaded it",
            cause="no search path to demo/bin",
            consequence=True,
        )
    ]
    plugin = dll("demo/plugins/p.dll", "a.dll")  # opened by a process that has its libraries
    assert only(Note, judge(load_order_dependent, plugin, dll("demo/bin/a.dll")))


def test_code_that_decides_at_run_time_is_told_as_the_reason() -> None:
    module, bundled = win("a.dll"), dll("demo.libs/a.dll")
    package = wheel(objects=[module, bundled], loading_code=("demo/__init__.py",))
    linkage = simulate(package, windows())
    assert list(load_order_dependent(linkage, package)) == []
    assert list(missing_library(linkage, package)) == [
        NotInspected(
            path=WIN,
            sentence="needs a.dll: demo/__init__.py decides at run time where DLLs are looked for",
        )
    ]


def test_a_program_whose_libraries_path_may_lead_to_is_noted() -> None:
    tool = dll("demo/tools/tool.exe", "core.dll", kind=Kind.EXECUTABLE)
    (finding,) = judge(missing_library, tool, dll("demo/bin/core.dll"))
    assert finding == Note(
        path=tool.path,
        sentence="needs core.dll (searched demo/tools/): it starts only where PATH leads to "
        "demo/bin/core.dll",
    )


def test_what_a_required_distribution_may_bring_is_not_inspected() -> None:
    package = wheel(objects=[win("torch_cpu.dll", "c10.dll")], members=[member("demo/__init__.py")])
    linkage = simulate(package, windows(), requirements=("torch",))
    gap = only(NotInspected, missing_library(linkage, package))
    assert "torch_cpu.dll" in gap.sentence
    assert "c10.dll" in gap.sentence
    linkage = simulate(package, windows(), requirements=("numpy",))
    (problem,) = missing_library(linkage, package)  # both are parts of torch
    assert isinstance(problem, Problem)
    assert set(problem.facts) == {"torch_cpu.dll", "c10.dll"}
    assert problem.cause == "requirement torch"


def test_a_dylib_found_only_as_loaded_depends_on_load_order() -> None:
    module = mac("@loader_path/lib/libb.dylib", "@loader_path/liba.dylib")
    others = dylib("demo/lib/libb.dylib"), dylib("demo/liba.dylib", "@rpath/libb.dylib", name="a")
    assert only(Problem, judge(load_order_dependent, module, *others)).path == "demo/liba.dylib"


def test_pythons_framework_must_not_be_needed_and_pythons_dll_must() -> None:
    framework = "/Library/Frameworks/Python.framework/Versions/3.11/Python"
    assert only(Problem, judge(libpython_linked, mac(framework)))
    with pytest.raises(NotApplicable, match="on Windows every extension module needs"):
        judge(libpython_linked, win("python311.dll"))
    with pytest.raises(NotApplicable, match="on Windows, objects name no directories"):
        judge(missing_search_directory, win("a.dll"))


def test_a_library_that_lacks_what_it_is_asked_for_is_told_with_who_has_it() -> None:
    imports = Symbols([Symbol(name="wanted", library="a.dll")])
    others = dll("demo/a.dll"), dll("demo/b.dll", exports=symbols("wanted"))
    assert judge(undefined_symbol, win("a.dll", imports=imports), *others) == [
        Problem(
            path=WIN,
            sentence="imports wanted from a.dll, which does not have it; demo/b.dll does: the file "
            "does not load; ship the library that it was linked with",
            cause="version of a.dll",
        )
    ]


def test_what_was_taken_for_granted_is_noted() -> None:
    imports = Symbols([Symbol(name=name, library="KERNEL32.dll") for name in ("Sleep", "Beep")])
    (finding,) = judge(undefined_symbol, win("KERNEL32.dll", imports=imports))
    assert finding == Note(
        sentence="2 symbols of system libraries whose exports are unknown were assumed to exist "
        "(KERNEL32.dll)"
    )
