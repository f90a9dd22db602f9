"""Android's loader looks into DT_RUNPATH alone, and for Python only where it is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binary_checks.model import SystemLibrary
from fixtures.linking import EXTENSION, extension, library, link, resolutions, target
from fixtures.values import symbols

LIBC = SystemLibrary(
    soname="libc.so", symbols={"malloc": frozenset({"21.0"})}, versions=frozenset()
)
ANDROID = replace(
    target(),
    name="android_24_x86_64, CPython 3.11",
    system="android",
    libc="bionic",
    minimum_os=(24, 0),
    libraries=frozenset({"libc.so", "libm.so"}),
    library_data={"libc.so": LIBC},
)


def test_a_runpath_is_searched_and_an_rpath_is_not() -> None:
    for path, rule in (("runpath", ("demo/liba.so", "runpath")), ("rpath", (None, "missing"))):
        fields = {path: ("$ORIGIN",)}
        linkage = link(extension("liba.so", **fields), library("demo/liba.so"), on=ANDROID)
        assert resolutions(linkage, EXTENSION) == {"liba.so": rule}, path


def test_a_runpath_is_not_handed_down() -> None:
    linkage = link(
        extension("liba.so", runpath=("$ORIGIN",)),
        library("demo/liba.so", "libb.so"),
        library("demo/libb.so"),
        on=ANDROID,
    )
    assert resolutions(linkage, "demo/liba.so") == {"libb.so": (None, "missing")}


def test_only_libraries_for_apps_are_there() -> None:
    linkage = link(extension("libc.so", "libssl.so"), on=ANDROID)
    assert resolutions(linkage) == {
        "libc.so": ("system:libc.so", "system"),
        "libssl.so": (None, "missing"),
    }


@pytest.mark.parametrize(
    ("needed", "lacking"),
    [
        (("libc.so", "libpython3.11.so"), []),
        (("libc.so",), ["PyLong_FromLong"]),
        (("libpython3.11.so",), ["malloc"]),
    ],
)
def test_functions_come_from_needed_libraries_alone(
    needed: tuple[str, ...], lacking: list[str]
) -> None:
    module = extension(*needed, imports=symbols("PyLong_FromLong", "malloc"))
    assert [item.name for item in link(module, on=ANDROID).unresolved] == lacking
