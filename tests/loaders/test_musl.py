from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.linking import (
    EXTENSION,
    extension,
    library,
    link,
    resolutions,
    system_library,
    target,
)
from fixtures.values import symbols

MUSL = target(libc="musl", name="musllinux_1_2_x86_64, CPython 3.11")


@pytest.mark.parametrize("path", ["rpath", "runpath"])
def test_both_paths_reach_all_that_is_loaded_below(path: str) -> None:
    fields = {path: ("$ORIGIN/libs",)}
    linkage = link(
        extension("libmid.so", **fields),
        library("demo/libs/libmid.so", "libleaf.so", runpath=("$ORIGIN/nowhere",)),
        library("demo/libs/libleaf.so"),
        on=MUSL,
    )
    assert resolutions(linkage, "demo/libs/libmid.so") == {
        "libleaf.so": ("demo/libs/libleaf.so", path)
    }


@pytest.mark.parametrize("name", ["libc.so", "libpthread.so.0", "libm.so.6", "libc.so.6"])
def test_musl_takes_itself_for_the_parts_of_libc(name: str) -> None:
    linkage = link(extension(name), on=MUSL)
    assert resolutions(linkage) == {name: (f"system:{name}", "system")}


def test_symbols_of_what_musl_takes_itself_for_are_those_of_libc() -> None:
    data = {name: system_library(name, malloc="") for name in MUSL.libraries}
    on = replace(MUSL, library_data=data)
    linkage = link(extension("libc.musl?so", imports=symbols("malloc", "mem?py")), on=on)
    assert [item.name for item in linkage.unresolved] == ["mem?py"]
    assert linkage.unexplored == ()


def test_libcrypt_is_no_part_of_it() -> None:
    assert resolutions(link(extension("libcrypt.so.1"), on=MUSL))["libcrypt.so.1"][0] is None


def test_a_soname_alone_satisfies_nothing() -> None:
    linkage = link(
        extension("liba-1.so", "libb.so", runpath=("$ORIGIN",)),
        library("demo/liba-1.so", name="liba.so.1"),
        library("demo/libb.so", "liba.so.1"),
        on=MUSL,
    )
    assert resolutions(linkage, "demo/libb.so") == {"liba.so.1": (None, "missing")}


def test_an_unknown_token_voids_the_whole_path() -> None:
    linkage = link(
        extension("liba.so", runpath=("$ORIGIN", "$LIB")), library("demo/liba.so"), on=MUSL
    )
    assert resolutions(linkage, EXTENSION) == {"liba.so": (None, "missing")}


def test_the_first_file_of_the_name_is_taken_whatever_it_is() -> None:
    linkage = link(
        extension("liba.so", runpath=("$ORIGIN/x", "$ORIGIN/y")),
        library("demo/x/liba.so", architecture="aarch64"),
        library("demo/y/liba.so"),
        on=MUSL,
    )
    assert resolutions(linkage, EXTENSION) == {"liba.so": (None, "missing")}


@pytest.mark.parametrize("name", ["./liba.so", "/usr/lib/libc.so", "lib/libm.so.6"])
def test_a_name_with_a_slash_is_a_path_and_never_musl_itself(name: str) -> None:
    linkage = link(extension(name, runpath=("$ORIGIN",)), library("demo/liba.so"), on=MUSL)
    assert resolutions(linkage)[name][0] is None
