"""Which objects of a package are reached, and why the package can do without the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.loaders.reach import UNREACHED, find_dispensable_objects
from binary_checks.model import (
    Claims,
    CodeNames,
    DispensableObject,
    ElfFile,
    Kind,
    ObjectFile,
    OpenedNames,
    Package,
    TargetSystem,
)
from fixtures.linking import EXTENSION, dll, library, link, target, windows
from fixtures.values import elf_file, symbols, wheel


def extension(*needed: str, **fields: Any) -> ElfFile:
    return library(EXTENSION, *needed, exports=symbols("PyInit__native"), **fields)


MODULE = extension()
PLUGIN = library("demo/plugins/libplugin.so", "libodbc.so.2")


def idle(*objects: ObjectFile, tried: tuple[str, ...] = (), **code: Any) -> dict[str, str]:
    """Return the objects that the package can do without, and why."""
    return {each.path: each.reason for each in _find(*objects, tried=tried, **code)}


def partly(*objects: ObjectFile, **code: Any) -> set[str]:
    """Return the objects among them whose own parts it may lack too."""
    return {each.path for each in _find(*objects, **code) if not each.complete}


def _find(
    *objects: ObjectFile,
    tried: tuple[str, ...] = (),
    on: TargetSystem | None = None,
    **code: Any,
) -> list[DispensableObject]:
    package: Package = wheel(objects=objects)
    names = CodeNames(**{key: _freeze(value) for key, value in code.items()})
    return list(find_dispensable_objects(package, link(*objects, on=on or target()), names, tried))


def _freeze(value: Any) -> Any:
    return frozenset(value) if isinstance(value, list) else value


def program(path: str, *needed: str, **fields: Any) -> ElfFile:
    return library(path, *needed, kind=Kind.EXECUTABLE, **fields)


def test_a_plugin_beside_extension_modules_is_not_reached() -> None:
    assert idle(MODULE, PLUGIN) == {PLUGIN.path: UNREACHED}


def test_a_library_for_the_other_c_library_beside_its_twin_is_not_needed() -> None:
    """scrapli opens the one for the C library that it runs on."""
    gnu, musl = (library(f"demo/libx-x86_64-linux-{libc}.so.0.0.6") for libc in ("gnu", "musl"))
    on_musl = target(name="musllinux_1_2_x86_64, CPython 3.11", libc="musl")
    named = frozenset({gnu.path, musl.path})
    assert {each.path for each in _find(MODULE, gnu, musl, on=on_musl, named=named)} == {gnu.path}
    assert {each.path for each in _find(MODULE, gnu, musl, named=named)} == {musl.path}
    assert _find(MODULE, gnu, on=on_musl, named=named) == []


def test_an_extension_module_and_all_that_it_needs_are_reached() -> None:
    inner = library("demo/libinner.so", "libmore.so", runpath=("$ORIGIN",))
    assert (
        idle(extension("libinner.so", runpath=("$ORIGIN",)), inner, library("demo/libmore.so"))
        == {}
    )


def test_a_library_that_code_names_is_reached() -> None:
    assert idle(MODULE, PLUGIN, named=[PLUGIN.path]) == {}


def test_of_a_package_without_code_that_loads_anything_all_is_reached() -> None:
    """Like packages of NVIDIA and Intel, whose libraries others open."""
    assert idle(library("nvidia/lib/libcublas.so.13"), library("nvidia/lib/libnvrtc.so.13")) == {}


def test_where_the_code_could_not_be_read_nothing_is_excused() -> None:
    assert idle(MODULE, PLUGIN, unread="it has more than 96 MiB") == {}


def test_one_of_several_that_code_chooses_by_a_computed_name_is_not_demanded() -> None:
    """Like bitsandbytes, by the version of CUDA; only libbitsandbytes_cpu.so is named in full."""
    cpu, cuda = library("demo/libdemo_cpu.so"), library("demo/libdemo_cuda118.so")
    both = [cpu.path, cuda.path]
    assert idle(cpu, cuda, named=[cpu.path], completed=both) == {cuda.path: UNREACHED}


def test_where_code_spells_out_no_library_of_a_folder_a_computed_name_means_them_all() -> None:
    assert idle(MODULE, PLUGIN, completed=[PLUGIN.path]) == {}
    assert idle(MODULE, PLUGIN) == {PLUGIN.path: UNREACHED}


def test_native_code_finds_out_whether_what_it_opens_by_name_loads() -> None:
    opener = extension(opened=OpenedNames(names=("libplugin.so",)))
    reason = "_native.cpython-311-x86_64-linux-gnu.so opens it by name, and handles a failure to "
    assert idle(opener, PLUGIN) == {PLUGIN.path: f"{reason}load it"}
    assert partly(opener, PLUGIN) == {PLUGIN.path}


def test_that_holds_in_a_package_of_libraries_too() -> None:
    """libtbb opens libtbbbind, which needs libhwloc."""
    tbb = library("demo/libtbb.so.12", opened=OpenedNames(names=("libtbbbind.so.3",)))
    bind = library("demo/libtbbbind.so.3", "libhwloc.so.15")
    assert partly(tbb, bind) == {bind.path}


def test_a_helper_for_other_programs_is_told_by_what_it_exports() -> None:
    proxy = library("demo/libproxy.so", exports=symbols("malloc", "free"))
    assert idle(library("demo/libtbb.so.12"), proxy) == {
        proxy.path: "it replaces malloc if a user preloads it"
    }
    assert idle(library("demo/libtbb.so.12", "libproxy.so"), proxy) == {}


def test_the_plugins_of_nvshmem_are_for_those_who_choose_them() -> None:
    """Its names are computed: nvshmem_transport_%s.so.6; most need what clusters have."""
    folder = "nvidia/nvshmem/lib"
    plugin = library(f"{folder}/nvshmem_bootstrap_mpi.so.3", "libmpi.so.40")
    assert idle(library(f"{folder}/libnvshmem_host.so.3"), plugin) == {
        plugin.path: "libnvshmem_host opens the plugin that its users choose"
    }


def test_a_folder_for_plugins_in_a_package_of_libraries_is_not_reached() -> None:
    """pyqt5_qt5 has no Python code, and Qt opens its plugins."""
    core = library("Qt5/lib/libQt5Core.so.5")
    plugin = library("Qt5/plugins/sqldrivers/libqsqlpsql.so", "libpq.so.5")
    assert idle(core, plugin) == {plugin.path: UNREACHED}


@pytest.mark.parametrize(("folder", "found"), [("engine-plugins", 1), ("engine_plugins", 0)])
def test_a_folder_with_a_hyphen_is_no_package_and_another_project_opens_its_plugins(
    folder: str, found: int
) -> None:
    """tensorflow opens tensorflow-plugins/libmetal_plugin.dylib of tensorflow_metal 1.2.0."""
    assert len(idle(library(f"{folder}/libplugin.so", "libengine.so.2"))) == found


def test_windows_preloads_nothing() -> None:
    crt = dll("demo/api-ms-win-crt-heap-l1-1-0.dll", exports=symbols("malloc"))
    assert not list(_find(crt, on=windows()))


def test_a_program_counts_that_users_or_code_start() -> None:
    assert idle(MODULE, program("demo/bin/tool")) == {"demo/bin/tool": UNREACHED}
    assert idle(MODULE, program("demo/bin/tool"), named=["demo/bin/tool"]) == {}
    assert idle(program("demo/bin/tool")) == {}


def test_what_lies_outside_of_site_packages_is_for_others_and_counts() -> None:
    lib, tool = library("../../../lib/libx.so.1"), program("../../../bin/tool")
    assert idle(MODULE, lib, tool) == {}


def test_a_needed_library_for_another_architecture_counts() -> None:
    """No loader takes it, and the module that needs it lacks a library."""
    foreign = library("demo.libs/libdep-12345678.so.1", architecture="aarch64")
    module = extension("libdep-12345678.so.1", runpath=("$ORIGIN/../demo.libs",))
    assert idle(module, foreign) == {}
    assert idle(MODULE, foreign) == {foreign.path: UNREACHED}


def test_no_import_reaches_a_module_outside_of_site_packages() -> None:
    """delvewheel does not repair the modules in .data/data, either."""
    stray = library("../../../_stray.so", "libx.so.1", exports=symbols("PyInit__stray"))
    assert idle(MODULE, stray) == {stray.path: UNREACHED}
    assert idle(stray) == {stray.path: UNREACHED}
    assert idle(MODULE, stray, named=[stray.path]) == {}


def test_a_program_that_code_starts_with_a_search_path_may_lack_one() -> None:
    tool = program("demo/bin/tool", "libx.so")
    assert idle(MODULE, tool, named=[tool.path], guided=[tool.path]) == {
        tool.path: "the package's own code starts it with a search path in its environment"
    }


def test_so_may_a_plugin_that_code_names_to_such_a_program() -> None:
    tool = program("demo/bin/tool")
    both = [tool.path, PLUGIN.path]
    assert PLUGIN.path in idle(MODULE, tool, PLUGIN, named=both, guided=[tool.path])
    assert idle(MODULE, tool, PLUGIN, named=both) == {}


def test_a_module_whose_import_may_fail_may_lack_what_was_never_in_the_package() -> None:
    core = library("demo/_core.abi3.so", exports=symbols("PyInit__core"))
    found = idle(MODULE, core, tried=(MODULE.path,))
    assert found == {MODULE.path: "the package continues without it"}


def test_a_package_cannot_do_without_its_only_module_though_its_import_may_fail() -> None:
    assert idle(MODULE, tried=(MODULE.path,)) == {}


def test_what_only_an_extra_requires_is_there_for_those_who_ask_for_it() -> None:
    """Like gstreamer for kivy's gstplayer."""
    module = extension("libgstreamer-1.0.so.0", "libglib-2.0.so.0")
    requires = ("kivy-deps.gstreamer~=0.3; extra == 'media'",)
    package = replace(wheel(objects=(module,)), claims=Claims(requirements=requires))
    (found,) = find_dispensable_objects(package, link(module), CodeNames())
    assert found == DispensableObject(
        path=module.path,
        reason="an extra of the package requires kivy-deps-gstreamer for it",
        cause="extras",
        complete=False,
    )
    always = replace(package, claims=Claims(requirements=("kivy-deps.gstreamer",)))
    assert list(find_dispensable_objects(always, link(module), CodeNames())) == []


def test_where_no_extra_is_called_like_the_library_several_are_named() -> None:
    """cuBLAS comes with nvidia-cudnn-cu13, which an extra of onnxruntime-gpu requires."""
    provider = library("demo/libprovider.so", "libcublas.so.13")
    names = ("nvidia-curand", "nvidia-cufft", "nvidia-cudnn-cu13")
    requires = tuple(f"{name}; extra == 'cuda'" for name in names)
    objects = (MODULE, provider)
    package = replace(wheel(objects=objects), claims=Claims(requirements=requires))
    (found,) = find_dispensable_objects(package, link(*objects), CodeNames())
    assert found.reason == (
        "extras of the package require nvidia-cudnn-cu13, nvidia-cufft and 1 more for it"
    )


def test_what_no_loader_takes_is_no_matter_of_reach() -> None:
    assert idle(MODULE, elf_file("demo/x.o", kind=Kind.RELOCATABLE)) == {}


def test_a_library_is_not_needed_where_another_file_of_its_name_lacks_nothing() -> None:
    """hdf5extension.pyd of tables needs libblosc2.dll, loaded from tables.libs before."""
    module = dll("demo/_a.pyd", "libb.dll", exports=symbols("PyInit__a"))
    broken, copy = dll("demo/libb.dll", "lz4.dll"), dll("demo.libs/libb.dll")
    named = [broken.path, copy.path]
    (found,) = _find(module, broken, copy, on=windows(), named=named)
    reason = "demo.libs/libb.dll has the same name, and finds all its libraries"
    assert found == DispensableObject(path=broken.path, reason=reason, complete=False)
    assert _find(module, broken, on=windows(), named=named) == []
    lacking = replace(copy, needed=broken.needed)
    assert _find(module, broken, lacking, on=windows(), named=named) == []
