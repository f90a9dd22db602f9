"""Universal binaries whose halves are missing or disagree are found, healthy ones left alone."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks import macos as slices
from binary_checks.errors import NotApplicable
from binary_checks.model import Dependency, Kind, MachOFile
from fixtures.values import macho_file, say, wheel

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
    ("fields", "only", "lacking"),
    [
        ({}, "x86_64", "arm64"),
        ({"architecture": "aarch64", "path": "unicorn/lib/libunicorn.2.dylib"}, "arm64", "x86_64"),
        ({"path": "../../../bin/demo", "kind": Kind.EXECUTABLE}, "x86_64", "arm64"),
        ({"path": "demo/_native/arm64.cpython-311-darwin.so"}, "x86_64", "arm64"),
    ],
)
def test_a_file_with_code_for_one_architecture_is_told(
    fields: dict[str, Any], only: str, lacking: str
) -> None:
    sentence = f"has code for {only} only, but the tags promise {lacking}"
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
        macho_file("demo/bin/tool-intel", kind=Kind.EXECUTABLE),
        macho_file("demo/bin/tool-arm64", kind=Kind.EXECUTABLE, architecture="aarch64"),
        macho_file("demo/x.o", kind=Kind.RELOCATABLE),
    ],
)
def test_a_thin_file_that_is_enough_is_quiet(library: MachOFile) -> None:
    intel, arm64 = _universal()
    user = macho_file(intel.path, needed=_needing("@loader_path/.dylibs/libx.dylib"))
    assert _missing(library, user, arm64) == []
    assert _missing(intel, arm64) == []  # a whole universal file
    assert _missing(macho_file(architecture="x86_64h"), arm64) == []
