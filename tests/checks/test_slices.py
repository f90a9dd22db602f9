"""Universal binaries whose halves are missing or disagree are found, healthy ones left alone."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks import macos as slices
from binary_checks.errors import NotApplicable
from binary_checks.model import Dependency, Kind, MachOFile, Note, Symbol, Symbols, Wheel
from fixtures.values import macho_file, say, symbols, wheel

UNIVERSAL = "demo-1.0-cp311-cp311-macosx_10_9_universal2.whl"


def _universal(path: str = "demo/_native.cpython-311-darwin.so", **fields: Any) -> list[MachOFile]:
    return [
        macho_file(path, architecture=architecture, **fields)
        for architecture in ("x86_64", "aarch64")
    ]


def _needing(*names: str) -> tuple[Dependency, ...]:
    return tuple(Dependency(name=name) for name in names)


def _missing(library: MachOFile, *others: MachOFile, tags: str = UNIVERSAL) -> list[Any]:
    package = wheel(tags, objects=(library, *others))
    return list(slices.missing_slice(library, package))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "has code for x86_64 only, but the tags promise arm64"),
        (
            {"architecture": "aarch64", "path": "unicorn/lib/libunicorn.2.dylib"},
            "has code for arm64 only, but the tags promise x86_64",
        ),
        (
            {"path": "../../../bin/demo", "kind": Kind.EXECUTABLE},
            "has code for x86_64 only, but the tags promise arm64",
        ),
        (
            {"path": "demo/_native/arm64.cpython-311-darwin.so"},
            "has code for x86_64 only, but the tags promise arm64",
        ),
    ],
)
def test_a_file_with_code_for_one_architecture_is_told(
    fields: dict[str, Any], sentence: str
) -> None:
    assert say(_missing(macho_file(**fields))) == [sentence]


def test_two_tags_promise_as_much_as_universal2() -> None:
    both = "demo-1.0-cp311-cp311-macosx_10_9_x86_64.macosx_11_0_arm64.whl"
    assert len(_missing(macho_file(), tags=both)) == 1
    with pytest.raises(NotApplicable):
        _missing(macho_file(), tags="demo-1.0-cp311-cp311-macosx_10_9_x86_64.whl")


def test_a_library_that_the_other_architecture_needs_is_told() -> None:
    library = macho_file("demo/.dylibs/libx.dylib", architecture="x86_64")
    users = _universal(needed=_needing("@loader_path/.dylibs/libx.dylib"))
    assert len(_missing(library, *users)) == 1


@pytest.mark.parametrize(
    "library",
    [
        macho_file("demo/.dylibs/libx.dylib"),  # needed by code for its own architecture alone
        macho_file("demo/attach_x86_64.dylib"),
        macho_file("demo/x.o", kind=Kind.RELOCATABLE),
    ],
)
def test_a_thin_file_that_is_enough_is_quiet(library: MachOFile) -> None:
    intel, arm64 = _universal()
    user = macho_file(intel.path, needed=_needing("@loader_path/.dylibs/libx.dylib"))
    assert _missing(library, user, arm64) == []


def test_a_whole_universal_file_is_quiet() -> None:
    intel, arm64 = _universal()
    assert _missing(intel, arm64) == []
    capable = macho_file(architecture="x86_64h")
    assert _missing(capable, arm64) == []


def _differing(intel: dict[str, Any], arm64: dict[str, Any], *others: MachOFile) -> list[Any]:
    library = macho_file(architecture="aarch64", **arm64)
    package = wheel(UNIVERSAL, objects=(macho_file(**intel), library, *others))
    return [found for item in (library, *others) for found in slices.slices_differ(item, package)]


def test_a_half_that_lacks_what_the_other_defines_is_told() -> None:
    intel = {"exports": symbols("PyInit__native", "dbadata")}
    arm64 = {"exports": symbols("PyInit__native"), "imports": symbols("dbadata", "PyErr_Occurred")}
    assert say(_differing(intel, arm64)) == [
        "its arm64 code looks elsewhere for dbadata, which its x86_64 code defines itself"
    ]
    weak_in_both = {**arm64, "exports": symbols("PyInit__native", "dbadata")}
    assert _differing(intel, weak_in_both) == []
    asked_of_a_library = Symbols((Symbol(name="dbadata", library="@rpath/libsybdb.dylib"),))
    assert _differing(intel, {**arm64, "imports": asked_of_a_library}) == []


def test_a_half_without_the_init_function_is_told() -> None:
    assert say(_differing({"exports": symbols("PyInit__native")}, {})) == [
        "its x86_64 code defines PyInit__native, but its arm64 code does not"
    ]


def test_bundled_libraries_that_one_half_needs_are_told() -> None:
    libssl = "@loader_path/.dylibs/libssl.1.1.dylib"
    system = "/usr/lib/libSystem.B.dylib"
    assert say(_differing({"needed": _needing(libssl, system)}, {"needed": _needing(system)})) == [
        f"only its x86_64 code needs {libssl}"
    ]
    each = _differing({"needed": _needing("@rpath/a.3")}, {"needed": _needing("@rpath/a.5")})
    assert [type(found) for found in each] == [Note, Note]


def test_install_names_count_where_something_needs_them() -> None:
    intel, arm64 = {"name": "@rpath/libx.1.dylib"}, {"name": "@rpath/libx.2.dylib"}
    user = macho_file("demo/b.so", needed=_needing("@rpath/libx.1.dylib"))
    assert _differing(intel, arm64) == []
    assert say(_differing(intel, arm64, user)) == [
        "its arm64 code has the install name @rpath/libx.2.dylib, its x86_64 "
        "code @rpath/libx.1.dylib"
    ]
    moved = _differing(intel, {"name": "/opt/homebrew/lib/libx.1.dylib"}, user)
    assert [type(found) for found in moved] == [Note]


def test_search_paths_that_differ_are_noted_where_they_are_used() -> None:
    needed = _needing("@rpath/libx.dylib")
    arm64 = {"rpaths": ("/opt/arm64-builds/lib", "@loader_path/"), "needed": needed}
    assert _differing({"rpaths": ("@loader_path",), "needed": needed}, arm64) == []
    noted = _differing({"rpaths": ("@loader_path/..",), "needed": needed}, arm64)
    assert [type(found) for found in noted] == [Note]


def test_halves_that_are_alike_and_healthy_differences_are_quiet() -> None:
    same = {"exports": symbols("PyInit__native"), "needed": _needing("@rpath/libx.dylib")}
    assert _differing(same, same) == []
    simd = {**same, "exports": symbols("PyInit__native", "add_avx2", "_ZTI4Base")}
    assert _differing(simd, same) == []


def test_a_thin_file_and_what_no_loader_loads_have_nothing_to_compare() -> None:
    arm64 = macho_file(architecture="aarch64")
    package: Wheel = wheel(UNIVERSAL, objects=(arm64,))
    assert list(slices.slices_differ(arm64, package)) == []
    assert _differing({"kind": Kind.DEBUG, "name": "a"}, {"kind": Kind.DEBUG}) == []
