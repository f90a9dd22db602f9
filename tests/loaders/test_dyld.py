from __future__ import annotations

from typing import Any

import pytest

from binary_checks.model import Kind, Linkage, MachOFile, ObjectFile, Symbol, Symbols, TargetSystem
from fixtures.linking import dylib, link, macos, needs, resolutions, system_library
from fixtures.values import macho_file, symbols, wheel

MODULE = "demo/_native.cpython-311-darwin.so"


def module(*needed: str, **fields: Any) -> MachOFile:
    usual: dict[str, Any] = {"architecture": "aarch64", "needed": needs(*needed)}
    return macho_file(MODULE, exports=symbols("PyInit__native"), **{**usual, **fields})


def load(*objects: ObjectFile, on: TargetSystem | None = None) -> Linkage:
    return link(*objects, on=on or macos())


def asks(library: str, *names: str, weak: bool = False) -> Symbols:
    return Symbols(Symbol(name=name, library=library, weak=weak) for name in names)


def test_loader_path_is_the_directory_of_who_asks() -> None:
    linkage = load(
        module("@loader_path/.dylibs/liba.dylib"),
        dylib("demo/.dylibs/liba.dylib", "@loader_path/libb.dylib"),
        dylib("demo/.dylibs/libb.dylib"),
    )
    assert resolutions(linkage) == {
        "@loader_path/.dylibs/liba.dylib": ("demo/.dylibs/liba.dylib", "loader-path"),
        "@loader_path/libb.dylib": ("demo/.dylibs/libb.dylib", "loader-path"),
    }


def test_one_name_below_loader_path_is_two_files_in_two_directories() -> None:
    linkage = load(
        module("@loader_path/libz.dylib", "@loader_path/sub/liba.dylib"),
        dylib("demo/libz.dylib", name="/x/libz.dylib"),
        dylib("demo/sub/liba.dylib", "@loader_path/libz.dylib"),
        dylib("demo/sub/libz.dylib", name="/y/libz.dylib"),
    )
    assert resolutions(linkage, "demo/sub/liba.dylib") == {
        "@loader_path/libz.dylib": ("demo/sub/libz.dylib", "loader-path")
    }


def test_run_paths_of_the_whole_load_chain_stand_for_rpath() -> None:
    linkage = load(
        module("@rpath/liba.dylib", rpaths=("@loader_path/lib",)),
        dylib("demo/lib/liba.dylib", "@rpath/libb.dylib"),
        dylib("demo/lib/libb.dylib"),
    )
    assert resolutions(linkage, "demo/lib/liba.dylib") == {
        "@rpath/libb.dylib": ("demo/lib/libb.dylib", "rpath")
    }


@pytest.mark.parametrize("path", ["/usr/lib", "/usr/lib/"])
def test_an_absolute_run_path_leads_to_the_systems_libraries(path: str) -> None:
    linkage = load(module("@rpath/libc++.1.dylib", rpaths=(path,)))
    assert resolutions(linkage) == {
        "@rpath/libc++.1.dylib": ("system:/usr/lib/libc++.1.dylib", "system")
    }


def test_a_run_path_of_one_image_serves_nobody_beside_it() -> None:
    linkage = load(
        module("@loader_path/liba.dylib", "@loader_path/libc.dylib"),
        dylib("demo/liba.dylib", rpaths=("@loader_path/lib",), name="a"),
        dylib("demo/libc.dylib", "@rpath/libb.dylib", name="c"),
        dylib("demo/lib/libb.dylib"),
    )
    assert resolutions(linkage, "demo/libc.dylib") == {"@rpath/libb.dylib": (None, "missing")}


def test_an_image_that_is_loaded_under_its_install_name_is_taken_again() -> None:
    linkage = load(
        module("@loader_path/lib/libb.dylib", "@loader_path/liba.dylib"),
        dylib("demo/lib/libb.dylib"),
        dylib("demo/liba.dylib", "@rpath/libb.dylib", name="a"),
    )
    assert resolutions(linkage, "demo/liba.dylib") == {
        "@rpath/libb.dylib": ("demo/lib/libb.dylib", "loaded")
    }


def test_the_systems_libraries_are_on_no_disk() -> None:
    linkage = load(module("/usr/lib/libSystem.B.dylib", "/usr/lib/libnew.dylib"))
    assert resolutions(linkage) == {
        "/usr/lib/libSystem.B.dylib": ("system:/usr/lib/libSystem.B.dylib", "system"),
        "/usr/lib/libnew.dylib": (None, "missing"),
    }
    assert [edge.unknown for edge in linkage.edges] == [
        "",
        "no list of the system's libraries has it",
    ]


def test_a_library_that_some_macos_lack_is_told_with_those_that_have_it() -> None:
    partly = {"/usr/lib/libnew.dylib": "macOS 13 and later"}
    linkage = load(module("/usr/lib/libnew.dylib"), on=macos(partly=partly))
    (edge,) = linkage.edges
    assert (edge.resolved, edge.partly, edge.unknown) == (None, "macOS 13 and later", "")


@pytest.mark.parametrize("name", ["/opt/homebrew/lib/libx.dylib", "libx.dylib", "lib/libx.dylib"])
def test_other_peoples_paths_and_the_current_directory_are_nothing(name: str) -> None:
    linkage = load(module(name), dylib("demo/lib/libx.dylib"))
    assert resolutions(linkage)[name] == (None, "missing")


def test_executable_path_is_pythons_for_a_module_and_its_own_for_a_program() -> None:
    program = macho_file(
        "demo/bin/tool",
        kind=Kind.EXECUTABLE,
        architecture="aarch64",
        needed=needs("@executable_path/../lib/libx.dylib"),
    )
    needed = "@executable_path/../lib/libx.dylib"
    linkage = load(module(needed), program, dylib("demo/lib/libx.dylib"))
    assert resolutions(linkage, program.path) == {
        needed: ("demo/lib/libx.dylib", "executable-path")
    }
    assert resolutions(linkage, MODULE) == {needed: (None, "missing")}


def test_a_weak_library_may_be_missing_and_so_may_what_is_asked_of_it() -> None:
    absent = "@rpath/libmaybe.dylib"
    linkage = load(module(needed=needs(absent, weak=True), imports=asks(absent, "maybe")))
    (edge,) = linkage.edges
    assert (edge.resolved, edge.weak) == (None, True)
    assert linkage.unresolved == linkage.unexplored == ()


def test_a_symbol_in_another_dylib_than_the_named_one_is_not_found() -> None:
    linkage = load(
        module(
            "@loader_path/liba.dylib",
            "@loader_path/libb.dylib",
            imports=asks("@loader_path/liba.dylib", "wanted", "a"),
        ),
        dylib("demo/liba.dylib", exports=symbols("a")),
        dylib("demo/libb.dylib", exports=symbols("wanted")),
    )
    (item,) = linkage.unresolved
    assert (item.name, item.library, item.elsewhere) == (
        "wanted",
        "@loader_path/liba.dylib",
        "demo/libb.dylib",
    )


def test_reexported_libraries_answer_for_the_one_that_was_asked() -> None:
    linkage = load(
        module("@loader_path/liba.dylib", imports=asks("@loader_path/liba.dylib", "b", "malloc")),
        dylib(
            "demo/liba.dylib",
            needed=needs("@loader_path/libb.dylib", "/usr/lib/libSystem.B.dylib", reexported=True),
        ),
        dylib("demo/libb.dylib", exports=symbols("b")),
    )
    assert linkage.unresolved == linkage.unknown_exports == ()


def test_needs_that_are_not_reexported_do_not_answer_and_hide_no_others() -> None:
    lib = dylib(
        "demo/liba.dylib",
        needed=(
            *needs("@loader_path/libb.dylib"),
            *needs("@loader_path/libc.dylib", reexported=True),
        ),
    )
    linkage = load(
        module("@loader_path/liba.dylib", imports=asks("@loader_path/liba.dylib", "b", "c")),
        lib,
        dylib("demo/libb.dylib", exports=symbols("b")),
        dylib("demo/libc.dylib", exports=symbols("c")),
    )
    assert [item.name for item in linkage.unresolved] == ["b"]


def test_a_system_library_of_unknown_exports_is_taken_at_its_word_and_counted() -> None:
    cxx, c = "/usr/lib/libc++.1.dylib", "/usr/lib/libSystem.B.dylib"
    asked = Symbols((*asks(cxx, "_Znwm", "_ZdlPv"), *asks(c, "malloc", "gone")))
    linkage = load(module(cxx, c, imports=asked))
    assert linkage.unknown_exports == ((cxx, 2),)
    assert [item.name for item in linkage.unresolved] == ["gone"]


def test_flat_names_are_pythons_or_of_anything_that_is_loaded() -> None:
    linkage = load(
        module(
            "@loader_path/liba.dylib",
            "/usr/lib/libSystem.B.dylib",
            imports=asks("", "PyLong_FromLong", "a", "malloc", "gone"),
        ),
        dylib("demo/liba.dylib", exports=symbols("a")),
    )
    assert [item.name for item in linkage.unresolved] == ["gone"]


def test_some_names_tell_whose_they_are_where_exports_are_not_known() -> None:
    objc = "/usr/lib/libobjc.A.dylib"
    system = macos(libraries=frozenset({objc}), library_data={})
    linkage = load(module(objc, imports=asks("", "objc_msgSend")), on=system)
    assert linkage.unresolved == linkage.unexplored == ()
    lost = load(module(objc, imports=asks("", "gone")), on=system)
    assert [item.name for item in lost.unresolved] == ["gone"]


ZLIB = "/usr/lib/libz.1.dylib"
KERBEROS = "/System/Library/Frameworks/Kerberos.framework/Versions/A/Kerberos"


def test_a_linker_would_have_bound_a_flat_name_to_the_needed_library_that_defines_it() -> None:
    on = macos(libraries=frozenset({ZLIB}), library_data={})
    lost = load(module(ZLIB, imports=asks("", "gone")), on=on)
    assert [item.name for item in lost.unresolved] == ["gone"]
    assert lost.unexplored == ()


@pytest.mark.parametrize(
    ("objects", "unseen"),
    [
        # it loads other libraries, in which a flat name may be
        ([module(KERBEROS, imports=asks("", "gone"))], KERBEROS),
        # its names are bound to no library at all
        ([module(ZLIB, imports=asks("", "gone"), two_level_namespace=False)], ZLIB),
        # another object needs the library, whose names the linker did not know
        (
            [
                module("@loader_path/liba.dylib", imports=asks("", "gone")),
                dylib("demo/liba.dylib", ZLIB),
            ],
            ZLIB,
        ),
    ],
)
def test_flat_names_may_be_in_libraries_whose_names_a_linker_did_not_know(
    objects: list[MachOFile], unseen: str
) -> None:
    on = macos(libraries=frozenset({ZLIB, KERBEROS}), library_data={})
    unknown = load(*objects, on=on)
    assert [item.reason for item in unknown.unexplored] == [f"{unseen} has no export data"]
    assert unknown.unresolved == ()


def test_both_slices_of_a_universal_wheel_are_loaded_each_with_its_own() -> None:
    slices = (
        module("@loader_path/liba.dylib", imports=asks("@loader_path/liba.dylib", "a")),
        module(
            "@loader_path/liba.dylib",
            imports=asks("@loader_path/liba.dylib", "a"),
            architecture="x86_64",
        ),
        dylib("demo/liba.dylib", exports=symbols("a")),
        dylib("demo/liba.dylib", architecture="x86_64"),
    )
    linkage = load(*slices, on=macos(architectures=("x86_64", "aarch64")))
    assert [(edge.architecture, edge.resolved) for edge in linkage.edges] == [
        ("aarch64", "demo/liba.dylib"),
        ("x86_64", "demo/liba.dylib"),
    ]
    assert [item.architecture for item in linkage.unresolved] == ["x86_64"]


def test_a_wheel_of_another_format_has_nothing_that_macos_loads() -> None:
    assert link(on=macos()).closures == ()
    assert wheel().objects == ()


CXX = "/usr/lib/libc++.1.dylib"


@pytest.mark.parametrize("sdk", ["", "10.9", "10.16", "12.3"])
@pytest.mark.parametrize(
    "needed", ["@rpath/libc++.1.dylib", "@loader_path/../libc++.1.dylib", "@rpath/x/libc++.1.dylib"]
)
def test_images_of_old_sdks_fall_back_to_usr_lib(sdk: str, needed: str) -> None:
    linkage = load(module(needed, rpaths=("@loader_path/lib",), sdk=sdk))
    assert resolutions(linkage) == {needed: (f"system:{CXX}", "fallback")}


@pytest.mark.parametrize("sdk", ["14.0", "15.2"])
def test_images_of_newer_sdks_fall_back_to_nothing(sdk: str) -> None:
    linkage = load(module("@rpath/libc++.1.dylib", rpaths=("@loader_path/lib",), sdk=sdk))
    assert resolutions(linkage) == {"@rpath/libc++.1.dylib": (None, "missing")}
    assert linkage.edges[0].unknown == ""


def test_of_the_sdk_of_macos_13_nobody_knows_whether_it_falls_back() -> None:
    (edge,) = load(module("@rpath/libc++.1.dylib", sdk="13.3")).edges
    assert edge.unknown == f"it is uncertain whether dyld falls back to {CXX} for SDK 13.3"


def test_it_is_the_sdk_of_the_image_that_asks() -> None:
    objects = (
        module("@loader_path/liba.dylib", sdk="15.0"),
        dylib("demo/liba.dylib", "@rpath/libc++.1.dylib", sdk="11.0"),
    )
    assert load(*objects).edges_of("demo/liba.dylib", "aarch64")[0].resolved == f"system:{CXX}"


def test_what_the_system_does_not_have_is_missing_for_old_images_too() -> None:
    linkage = load(module("@rpath/libother.dylib", sdk="10.9"))
    assert resolutions(linkage) == {"@rpath/libother.dylib": (None, "missing")}


def test_the_package_s_own_library_comes_before_the_fallback() -> None:
    needed = "@rpath/libc++.1.dylib"
    objects = (module(needed, rpaths=("@loader_path",), sdk="10.9"), dylib("demo/libc++.1.dylib"))
    assert resolutions(load(*objects), MODULE) == {needed: ("demo/libc++.1.dylib", "rpath")}


def test_only_newer_systems_may_have_what_an_old_image_falls_back_to() -> None:
    partly = {"/usr/lib/libnew.dylib": "macOS 13 and later"}
    (edge,) = load(module("@rpath/libnew.dylib", sdk="11.0"), on=macos(partly=partly)).edges
    assert (edge.resolved, edge.partly) == (None, "macOS 13 and later")


def test_frameworks_fall_back_to_the_systems() -> None:
    place = "/System/Library/Frameworks/AppKit.framework/Versions/C/AppKit"
    needed = "@rpath/AppKit.framework/Versions/C/AppKit"
    on = macos(libraries=frozenset({place}), library_data={})
    linkage = load(module(needed, sdk="11.0"), on=on)
    assert resolutions(linkage) == {needed: (f"system:{place}", "fallback")}


def test_python_has_what_a_module_asks_of_the_program_and_a_library_what_it_asks_of_itself() -> (
    None
):
    lib = dylib(
        "demo/liba.dylib", exports=symbols("f"), imports=asks("@rpath/liba.dylib", "f", "g")
    )
    asked = asks("@executable", "PyLong_FromLong", "PyGone")
    linkage = load(module("@loader_path/liba.dylib", imports=asked), lib)
    assert [(item.path, item.name) for item in linkage.unresolved] == [
        (MODULE, "PyGone"),
        ("demo/liba.dylib", "g"),
    ]


def test_libraries_that_reexport_each_other_are_asked_once_each() -> None:
    linkage = load(
        module("@loader_path/liba.dylib", imports=asks("@loader_path/liba.dylib", "gone")),
        dylib("demo/liba.dylib", needed=needs("@loader_path/libb.dylib", reexported=True)),
        dylib("demo/libb.dylib", needed=needs("@loader_path/liba.dylib", reexported=True)),
    )
    assert [item.name for item in linkage.unresolved] == ["gone"]


def test_without_data_about_the_interpreter_only_flat_names_of_its_own_are_unexplored() -> None:
    asked = asks("", "PyLong_FromLong", "gone")
    linkage = load(module("/usr/lib/libSystem.B.dylib", imports=asked), on=macos(interpreter=None))
    assert [item.name for item in linkage.unresolved] == ["gone"]
    assert [(item.count, item.reason) for item in linkage.unexplored] == [
        (1, "the exports of its Python are not known")
    ]


def test_every_python_has_loaded_the_cxx_library() -> None:
    """CoreFoundation loads ICU, and ICU libc++: flat names of C++ are found (samplerate 0.2.4)."""
    names = ("_Znwm", "gone")
    cxx = "/usr/lib/libc++.1.dylib"
    on = macos(library_data={cxx: system_library(cxx, _Znwm="")})
    module = dylib("demo/_native.cpython-311-darwin.so", imports=asks("", *names))
    assert [item.name for item in link(module, on=on).unresolved] == ["gone"]


def test_names_of_cxx_are_in_its_library_on_a_macos_newer_than_the_data() -> None:
    """hogql_parser 1.3.88 for macOS 15: its names of C++ are flat, as other images define them."""
    cxx = "/usr/lib/libc++.1.dylib"
    names = ("_Znwm", "_ZTISt12length_error", "gone")
    module = dylib(
        "demo/_native.cpython-311-darwin.so", needed=needs(cxx), imports=asks("", *names)
    )
    linkage = link(module, on=macos(libraries=frozenset({cxx})))
    assert [item.name for item in linkage.unresolved] == ["gone"]
