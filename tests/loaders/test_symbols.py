from __future__ import annotations

from dataclasses import replace

import pytest

from binary_checks.model import Interpreter, NeededVersion, Symbol, Symbols, TargetSystem
from binary_checks.systems import target_for
from fixtures.linking import EXTENSION, extension, library, link, system_library, target
from fixtures.values import symbols, wheel


def needs(name: str, version: str = "", of: str = "") -> Symbols:
    return Symbols([Symbol(name=name, version=version, library=of)])


def test_libc_python_and_the_closure_define_symbols() -> None:
    linkage = link(
        extension(
            "liba.so",
            runpath=("$ORIGIN",),
            imports=symbols("malloc@GLIBC_2.2.5", "exp", "PyLong_FromLong", "a", "b"),
        ),
        library("demo/liba.so", "libb.so", runpath=("$ORIGIN",), exports=symbols("a")),
        library("demo/libb.so", exports=symbols("b")),
    )
    assert linkage.unresolved == linkage.unexplored == ()


def test_a_java_virtual_machine_has_the_functions_of_its_own_library() -> None:
    """As for pemja's pemja_core; a Python module must need libjvm.so, as nothing else loads it."""
    asks = symbols("JNI_GetCreatedJavaVMs", "JNI_Other")
    linkage = link(library("demo/core.so", imports=asks, exports=symbols("JNI_OnLoad")))
    assert [item.name for item in linkage.unresolved] == ["JNI_Other"]
    assert [(item.path, item.count, item.reason) for item in linkage.unexplored] == [
        ("demo/core.so", 1, "the Java virtual machine that loads the file has them")
    ]
    both = extension(imports=asks, exports=symbols("JNI_OnLoad", "PyInit__native"))
    neither = library("demo/core.so", imports=asks)
    for item in (both, neither):
        assert len(link(item).unresolved) == 2


def test_a_module_is_imported_by_the_python_of_its_name_whatever_the_tags_say() -> None:
    """The wheel of DALI is for any Python 3, with one module for each."""
    older = Interpreter(
        implementation="cpython",
        version=(3, 10),
        free_threaded=False,
        exports=frozenset({"_PyThreadState_UncheckedGet"}),
    )
    asks = symbols("_PyThreadState_UncheckedGet")
    linkage = link(
        library("demo/_c.cpython-310-x86_64-linux-gnu.so", "libpython3.10.so.1.0", imports=asks),
        library("demo/_c.cpython-311-x86_64-linux-gnu.so", imports=asks),
        library("demo/_c.cpython-314t-x86_64-linux-gnu.so", imports=symbols("_Py_DecRefShared")),
        on=target(interpreters={((3, 10), False): older}),
    )
    assert [(item.path, item.name) for item in linkage.unresolved] == [
        ("demo/_c.cpython-311-x86_64-linux-gnu.so", "_PyThreadState_UncheckedGet")
    ]
    assert [(item.path, item.reason) for item in linkage.unexplored] == [
        ("demo/_c.cpython-314t-x86_64-linux-gnu.so", "the exports of its Python are not known")
    ]
    assert [edge.resolved for edge in linkage.edges] == ["python:libpython3.10.so.1.0"]


def test_a_library_that_states_another_python_is_not_judged_by_the_target_s() -> None:
    """mssql_python 1.16.0 opens the file for its Python; pyiceberg 0.9.1 for PyPy has CPython's."""
    asks = symbols("_Py_IsFinalizing")
    newer = library("demo/_c.cp310-arm64.so", imports=asks)
    assert link(newer).unresolved == ()
    same = library("demo/_c.cp311-arm64.so", imports=asks)
    assert [item.path for item in link(same).unresolved] == ["demo/_c.cp311-arm64.so"]
    python = target().interpreter
    assert python is not None
    on_pypy = target(interpreter=replace(python, implementation="pypy"))
    assert link(same, on=on_pypy).unresolved == ()


def test_an_undefined_symbol_is_told_with_what_leads_to_it() -> None:
    linkage = link(
        extension("liba.so", runpath=("$ORIGIN",)),
        library("demo/liba.so", imports=symbols("gone")),
    )
    (item,) = linkage.unresolved
    assert (item.path, item.name, item.root, item.elsewhere) == (
        "demo/liba.so",
        "gone",
        EXTENSION,
        "",
    )


def promised_by(tag: str) -> TargetSystem:
    return target_for(wheel(f"demo-1.0-cp311-cp311-{tag}.whl").claims, frozenset())


CXX_CONSTRUCTOR = "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev"


@pytest.mark.parametrize(
    ("name", "needed", "tag", "since"),
    [
        # ld.so of glibc 2.31: undefined symbol: shm_open, also in Debian's Python 3.9
        ("shm_open", "libc.so.6", "manylinux_2_17_x86_64", "GLIBC_2.34 of libc.so.6, librt.so.1"),
        ("shm_open", "libc.so.6", "manylinux_2_17_ppc64le", "GLIBC_2.34 of libc.so.6, librt.so.1"),
        ("shm_open", "librt.so.1", "manylinux_2_17_x86_64", ""),
        ("shm_open", "librt.so.1", "manylinux_2_17_ppc64le", ""),
        ("pthread_create", "libpthread.so.0", "manylinux_2_17_ppc64le", ""),
        ("shm_open", "libc.so.6", "manylinux_2_34_x86_64", ""),
        ("dlopen", "libc.so.6", "manylinux_2_17_x86_64", ""),  # every CPython loads libdl.so.2
        ("fcntl", "libc.so.6", "manylinux_2_17_i686", ""),  # a newer node, but not moved
        ("reallocarray", "libc.so.6", "manylinux_2_17_x86_64", "GLIBC_2.26 of libc.so.6, "),
        ("reallocarray", "libc.so.6", "manylinux_2_26_x86_64", ""),
        ("reallocarray@GLIBC_2.26", "libc.so.6", "manylinux_2_17_x86_64", ""),
        (
            CXX_CONSTRUCTOR,
            "libstdc++.so.6",
            "manylinux_2_28_x86_64",
            "GLIBCXX_3.4.26 of libstdc++.so.6, ",
        ),
        (CXX_CONSTRUCTOR, "libstdc++.so.6", "manylinux_2_31_x86_64", ""),
        ("reallocarray", "libc.musl-x86_64.so.1", "musllinux_1_2_x86_64", ""),
    ],
)
def test_a_name_without_a_version_is_looked_up_in_the_promised_release(
    name: str, needed: str, tag: str, since: str
) -> None:
    system = promised_by(tag)
    subject = extension(needed, architecture=system.architectures[0], imports=symbols(name))
    unresolved = link(subject, on=system).unresolved
    found = [f"{item.since} of {item.library}, {item.before}" for item in unresolved]
    assert found == ([since] if since else [])


def test_a_package_may_have_its_own_copy_of_a_newer_function() -> None:
    linkage = link(
        extension("libcompat.so", runpath=("$ORIGIN",), imports=symbols("reallocarray")),
        library("demo/libcompat.so", exports=symbols("reallocarray")),
        on=promised_by("manylinux_2_17_x86_64"),
    )
    assert linkage.unresolved == ()


def test_a_required_package_may_define_a_newer_function() -> None:
    """torch's libraries export functions of newer releases of libstdc++ (torchaudio 2.11.0)."""
    subject = extension(
        "libc10.so", runpath=("$ORIGIN/../torch/lib",), imports=symbols("reallocarray")
    )
    torch = wheel(
        "torch-2.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        objects=[library("torch/lib/libc10.so", exports=symbols("reallocarray"))],
    )
    system = promised_by("manylinux_2_17_x86_64")
    assert link(subject, others=(torch,), on=system).unresolved == ()
    alone = link(subject, on=system)
    assert alone.unresolved == ()
    assert [(each.count, each.reason) for each in alone.unexplored] == [
        (1, "libc10.so is not found")
    ]


def test_a_weak_symbol_may_stay_undefined() -> None:
    weak = Symbols([Symbol(name="__gmon_start__", weak=True)])
    assert link(extension(imports=weak)).unresolved == ()


def test_a_symbol_of_the_user_of_a_library_is_in_its_scope() -> None:
    linkage = link(
        extension("liba.so", runpath=("$ORIGIN",), exports=symbols("callback")),
        library("demo/liba.so", imports=symbols("callback")),
    )
    assert linkage.unresolved == ()


def test_a_symbol_of_an_object_that_is_not_loaded_is_told_with_that_object() -> None:
    linkage = link(
        extension(imports=symbols("helper")), library("demo/libhelp.so", exports=symbols("helper"))
    )
    assert [item.elsewhere for item in linkage.unresolved] == ["demo/libhelp.so"]


def test_a_missing_library_leaves_symbols_unexplored() -> None:
    linkage = link(extension("libgone.so", imports=symbols("a", "b", "malloc")))
    assert linkage.unresolved == ()
    (item,) = linkage.unexplored
    assert (item.count, item.reason) == (2, "libgone.so is not found")


def test_what_only_the_users_driver_can_define_is_granted_to_it() -> None:
    names = symbols("cuInit", "cuCtxGetCurrent", "nvmlInit_v2", "cublasCreate_v2", "cuFileOpen")
    linkage = link(extension("libcuda.so.1", "libnvidia-ml.so.1", imports=names))
    assert linkage.unknown_exports == (("libcuda.so.1", 2), ("libnvidia-ml.so.1", 1))
    assert [item.name for item in linkage.unresolved] == ["cuFileOpen", "cublasCreate_v2"]
    assert linkage.unexplored == ()


def test_nothing_is_granted_to_a_driver_that_is_not_needed() -> None:
    linkage = link(extension(imports=symbols("cuInit", "nvmlInit_v2")))
    assert [item.name for item in linkage.unresolved] == ["cuInit", "nvmlInit_v2"]
    linkage = link(extension("libcuda.so.1", "libgone.so", imports=symbols("cuInit", "other")))
    assert (linkage.unknown_exports, linkage.unresolved) == ((("libcuda.so.1", 1),), ())
    assert [(i.count, i.reason) for i in linkage.unexplored] == [(1, "libgone.so is not found")]


def test_a_system_library_without_data_leaves_symbols_unexplored() -> None:
    system = target()
    system = replace(system, libraries=system.libraries | {"libGL.so.1"})
    linkage = link(extension("libGL.so.1", imports=symbols("glBegin")), on=system)
    assert [item.reason for item in linkage.unexplored] == ["libGL.so.1 has no export data"]


def test_without_data_about_the_interpreter_only_its_own_names_are_unexplored() -> None:
    linkage = link(extension(imports=symbols("PyNew_Api", "gone")), on=target(interpreter=None))
    assert [item.name for item in linkage.unresolved] == ["gone"]
    assert [item.count for item in linkage.unexplored] == [1]


def test_symbols_of_pythons_shape_may_be_a_librarys_own() -> None:
    linkage = link(
        extension("libshim.so", runpath=("$ORIGIN",), imports=symbols("PyRun_String")),
        library("demo/libshim.so", exports=symbols("PyRun_String")),
    )
    assert linkage.own_python_symbols == ((EXTENSION, ("PyRun_String",)),)


def versioned(version: str, *exports: str, defined: tuple[str, ...] = ("V1", "V2")) -> object:
    return link(
        extension(
            "liba.so.1",
            runpath=("$ORIGIN",),
            imports=needs("f", version, "liba.so.1"),
            symbol_versions=(NeededVersion(library="liba.so.1", version=version),),
        ),
        library(
            "demo/liba.so.1",
            name="liba.so.1",
            exports=symbols(*exports),
            defined_versions=defined,
        ),
    )


@pytest.mark.parametrize("exports", [("f@V2",), ("f@V1", "f@V2"), ("f",)])
def test_a_versioned_reference_takes_its_version_or_none(exports: tuple[str, ...]) -> None:
    assert versioned("V2", *exports).unresolved == ()  # type: ignore[attr-defined]


def test_a_versioned_reference_takes_no_other_version() -> None:
    (item,) = versioned("V2", "f@V1").unresolved  # type: ignore[attr-defined]
    assert (item.name, item.version, item.provider) == ("f", "V2", "demo/liba.so.1")


def test_a_weak_reference_may_ask_for_a_version_of_another_symbol() -> None:
    weak = Symbol(name="f", version="V2", library="liba.so.1", weak=True)
    linkage = link(
        extension(
            "liba.so.1",
            runpath=("$ORIGIN",),
            imports=Symbols((weak,)),
            symbol_versions=(NeededVersion(library="liba.so.1", version="V2"),),
        ),
        library("demo/liba.so.1", exports=symbols("f@V1"), defined_versions=("V1", "V2")),
    )
    assert linkage.unresolved == ()


def test_a_needed_version_that_the_library_lacks_is_missing() -> None:
    (item,) = versioned("V3", "f").missing_versions  # type: ignore[attr-defined]
    assert (item.version, item.provider, item.versioned) == ("V3", "demo/liba.so.1", True)


def test_a_library_without_any_version_makes_ld_so_abort() -> None:
    linkage = versioned("V2", "f", defined=())
    (item,) = linkage.missing_versions  # type: ignore[attr-defined]
    assert not item.versioned


def test_a_library_without_versions_serves_where_none_of_its_symbols_is_bound() -> None:
    linkage = versioned("V2", "other", defined=())
    assert linkage.missing_versions == ()  # type: ignore[attr-defined]


def test_a_library_of_the_system_whose_versions_are_not_known_lacks_none() -> None:
    needed = NeededVersion(library="libm.so.6", version="GLIBC_2.17")
    subject = extension("libm.so.6", symbol_versions=(needed,))
    linkage = link(subject, on=target(library_data={"libm.so.6": system_library("libm.so.6")}))
    assert linkage.missing_versions == ()


def test_a_version_that_no_release_of_the_system_has_is_told_once_for_all_its_symbols() -> None:
    needed = NeededVersion(library="libc.so.6", version="FORK_1.0")
    imports = needs("malloc", "FORK_1.0", "libc.so.6")
    linkage = link(extension("libc.so.6", imports=imports, symbol_versions=(needed,)))
    assert [item.version for item in linkage.missing_versions] == ["FORK_1.0"]
    assert linkage.unresolved == ()


def test_a_version_that_is_not_insisted_on_may_be_missing() -> None:
    weak = NeededVersion(library="libc.so.6", version="GLIBC_9", weak=True)
    assert link(extension("libc.so.6", symbol_versions=(weak,))).missing_versions == ()


def test_musl_knows_no_versions() -> None:
    linkage = link(
        extension(
            "liba.so.1",
            runpath=("$ORIGIN",),
            imports=needs("f", "V2", "liba.so.1"),
            symbol_versions=(NeededVersion(library="liba.so.1", version="V2"),),
        ),
        library("demo/liba.so.1", exports=symbols("f@V1"), defined_versions=("V1",)),
        on=target(libc="musl"),
    )
    assert linkage.unresolved == linkage.missing_versions == ()


@pytest.mark.parametrize(
    ("version", "undefined"), [("GLIBC_2.2.5", []), ("GLIBC_2.14", ["malloc"])]
)
def test_a_version_that_the_system_has_for_other_symbols_only(
    version: str, undefined: list[str]
) -> None:
    """A damaged DT_VERSYM has such versions; ld.so refuses them for undefined symbols."""
    versions = (NeededVersion(library="libc.so.6", version=version),)
    linkage = link(
        extension(
            "libc.so.6",
            imports=needs("malloc", version, "libc.so.6"),
            symbol_versions=versions,
        )
    )
    assert [item.name for item in linkage.unresolved] == undefined
    assert {item.provider for item in linkage.unresolved} <= {"system:libc.so.6"}


def test_a_name_that_the_system_never_had_is_undefined_even_beside_a_missing_library() -> None:
    """Only libc has its versions, so a missing library cannot define it either."""
    versions = (NeededVersion(library="libc.so.6", version="GLIBC_2.14"),)
    linkage = link(
        extension(
            "libc.so.6",
            "libgone.so",
            imports=needs("memcp?", "GLIBC_2.14", "libc.so.6"),
            symbol_versions=versions,
        )
    )
    assert [(item.name, item.provider) for item in linkage.unresolved] == [
        ("memcp?", "system:libc.so.6")
    ]


def test_a_symbol_that_only_one_of_two_processes_has_is_undefined_in_the_other() -> None:
    """The second object in a process gets the libf.so that is loaded already."""
    suffix = "cpython-311-x86_64-linux-gnu.so"
    linkage = link(
        library(f"demo/_a.{suffix}", "libf.so", "libx.so", rpath=("$ORIGIN/a", "$ORIGIN/lib")),
        library(f"demo/_b.{suffix}", "libf.so", "libx.so", rpath=("$ORIGIN/b", "$ORIGIN/lib")),
        library("demo/a/libf.so", name="libf.so", exports=symbols("f")),
        library("demo/b/libf.so", name="libf.so"),
        library("demo/lib/libx.so", "libf.so", name="libx.so", imports=needs("f")),
    )
    assert [(item.path, item.name, item.root) for item in linkage.unresolved] == [
        ("demo/lib/libx.so", "f", f"demo/_b.{suffix}")
    ]
