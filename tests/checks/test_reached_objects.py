"""Faults of objects that a package can do without are warnings, and say why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binary_checks.checks.hardening import isa_level_over_baseline
from binary_checks.checks.linkage.needed_libraries import load_order_dependent, missing_library
from binary_checks.checks.symbols import undefined_symbol
from binary_checks.checks.windows import unbundled_runtime
from binary_checks.loaders import simulate
from binary_checks.model import (
    Claims,
    DispensableObject,
    Finding,
    Level,
    Linkage,
    NotInspected,
    Problem,
)
from fixtures.linking import dll, extension, library, link, windows
from fixtures.values import elf_file, only, symbols, wheel

MODULE = extension()
PLUGIN = "demo/plugins/libplugin.so"
GRAFTED = f"hdf5-{'1a' * 16}.dll"
FOR_WINDOWS = "demo-1.0-cp311-cp311-win_amd64.whl"
REASON = "no import of the package reaches it"


def idle(linkage: Linkage, path: str = PLUGIN, *, complete: bool = True) -> Linkage:
    return replace(
        linkage, dispensable=(DispensableObject(path=path, reason=REASON, complete=complete),)
    )


def lack(needed: str, *, complete: bool = True) -> Problem:
    objects = (MODULE, library(PLUGIN, needed))
    linkage = idle(link(*objects), complete=complete)
    return only(Problem, missing_library(linkage, wheel(objects=objects)))


def level(*findings: Finding) -> list[Level]:
    return [each.level for each in findings if isinstance(each, Problem)]


def test_a_plugin_that_no_import_reaches_may_lack_a_library() -> None:
    found = lack("libmimerapi.so")
    assert found.level is Level.WARNING
    assert found.sentence.endswith("this file does not load; no import of the package reaches it")


@pytest.mark.parametrize(
    "needed",
    [
        # Qt's platforms/libqxcb.so is opened by a name that no string spells out.
        *("libxcb-cursor.so.0", "libX11-xcb.so.1", "libxkbcommon.so.0"),
        "libmimerapi-1a2b3c4d.so",  # a repair tool renamed it: it was there, and is lost
    ],
)
def test_a_plugin_that_shows_windows_or_lost_a_library_may_not(needed: str) -> None:
    assert lack(needed).level is Level.ERROR


@pytest.mark.parametrize(("needed", "expected"), [("hdf5.dll", "warning"), (GRAFTED, "error")])
def test_where_names_get_a_hash_the_place_alone_says_nothing(needed: str, expected: str) -> None:
    """netcdf4.libs is searched for its plugins too, for DLLs that never were in it."""
    plugin = dll("demo/plugins/__nch5blosc.dll", needed)
    package = wheel(objects=(dll("demo/_a.pyd"), plugin), dll_directories=("demo.libs",))
    linkage = idle(simulate(package, windows()), plugin.path)
    (found,) = missing_library(linkage, package)
    assert linkage.edges[0].searched == ("demo/plugins", "demo.libs")
    assert level(found) == [Level(expected)]


def test_of_an_object_that_is_tried_only_a_foreign_library_may_lack() -> None:
    assert lack("libtbb.so.12", complete=False).level is Level.WARNING
    objects = (MODULE, library(PLUGIN, "libown.so"), library("demo/lib/libown.so"))
    package = wheel(objects=objects)
    assert level(*load_order_dependent(idle(link(*objects), complete=False), package)) == [
        Level.ERROR
    ]
    assert level(*load_order_dependent(idle(link(*objects)), package)) == [Level.WARNING]


@pytest.mark.parametrize(
    "needed", ["libtorch.so", "libc10_cuda.so", "libtensorflow_framework.so.2"]
)
def test_a_framework_that_is_not_required_is_there_for_those_who_use_that_part(needed: str) -> None:
    """As in torchao and open3d; for all who need it the import says that it is not there."""
    module = extension(needed)
    found = only(Problem, missing_library(link(module), wheel(objects=(module,))))
    assert found.level is Level.WARNING
    assert found.sentence.endswith(", which the package does not require")


def test_what_a_repair_tool_put_into_a_folder_and_a_frameworks_own_libraries_are_errors() -> None:
    """delocate keeps the names: pillow_heif's @loader_path/.dylibs/libheif.1.dylib."""
    objects = (MODULE, library(PLUGIN, "libmimerapi.so", runpath=("$ORIGIN/../.dylibs",)))
    lacking = missing_library(idle(link(*objects)), wheel(objects=objects))
    assert only(Problem, lacking).level is Level.ERROR
    objects = (library("lib/libtorch.so", "libtorch_cpu.so"), library("lib/libc10.so"))
    lacking = missing_library(link(*objects), wheel(objects=objects))
    assert only(Problem, lacking).level is Level.ERROR


def test_a_package_may_look_for_dlls_where_only_its_code_knows() -> None:
    module = dll("demo/_pg.pyd", "libpq.dll")
    for code, wanted in (((), Level.ERROR), (("demo/core.py",), Level.WARNING)):
        package = wheel(FOR_WINDOWS, objects=(module,), loading_code=code)
        found = only(Problem, missing_library(simulate(package, windows()), package))
        assert found.level is wanted
        told = found.sentence.endswith(
            "; demo/core.py decides at run time where DLLs are looked for"
        )
        assert told is bool(code)


def test_what_torch_has_loaded_counts_with_it() -> None:
    for needed, levels in ((("libcudart.so.13",), ["error"]), (("libtorch.so",), ["warning"])):
        module = extension("libcudart.so.13", *needed[:1])
        found = missing_library(link(module), wheel(objects=(module,)))
        assert {each.value for each in level(*found)} == set(levels)


def test_other_faults_of_such_an_object_warn_too() -> None:
    plugin = library(PLUGIN, imports=symbols("lost"))
    linkage, package = link(MODULE, plugin), wheel(objects=(MODULE, plugin))
    assert level(*undefined_symbol(linkage, package)) == [Level.ERROR]
    assert level(*undefined_symbol(idle(linkage), package)) == [Level.WARNING]
    newer = elf_file(PLUGIN, isa_level="x86-64-v3")
    assert level(*isa_level_over_baseline(newer, idle(linkage))) == [Level.WARNING]


def test_a_runtime_that_an_import_needs_too_is_an_error() -> None:
    tool, module = dll("demo/tool.dll", "MSVCP140.dll"), dll("demo/_a.pyd", "MSVCP140.dll")
    alone = idle(link(tool, on=windows()), tool.path)
    assert level(*unbundled_runtime(wheel(FOR_WINDOWS, objects=(tool,)), alone)) == [Level.WARNING]
    both = idle(link(tool, module, on=windows()), tool.path)
    found = only(Problem, unbundled_runtime(wheel(FOR_WINDOWS, objects=(module, tool)), both))
    assert (found.path, found.level) == (module.path, Level.ERROR)
    folder = wheel(FOR_WINDOWS, objects=(module, tool), claims=Claims(partial=True))
    assert only(NotInspected, unbundled_runtime(folder, both))


def test_the_import_does_not_fail_for_what_the_package_goes_on_without() -> None:
    """debugpy injects attach_amd64.dll into other processes, and lets its own go on without it."""
    attach = dll("demo/attach_amd64.dll", "MSVCP140.dll")
    package = wheel(FOR_WINDOWS, objects=(dll("demo/_a.pyd"), attach))
    linkage = idle(simulate(package, windows()), attach.path, complete=False)
    found = only(Problem, unbundled_runtime(package, linkage))
    assert found.level is Level.WARNING
    assert "ships: this file does not load if the Visual C++" in found.sentence
    needed = only(Problem, unbundled_runtime(package, simulate(package, windows())))
    assert needed.level is Level.ERROR
    assert "ships: the import fails if the Visual C++" in needed.sentence
