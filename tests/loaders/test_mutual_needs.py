"""Objects that need each other are looked up once, however many processes load them."""

from __future__ import annotations

import pytest

from binary_checks.loaders import loader as loader_module
from binary_checks.model import ElfFile, Linkage
from fixtures.linking import library, link
from fixtures.values import symbols

SUFFIX = ".cpython-311-x86_64-linux-gnu.so"


def extension_named(name: str, *needed: str, exports: str = "", imports: str = "") -> ElfFile:
    return library(
        f"demo/{name}{SUFFIX}",
        *needed,
        name=f"{name}.so",
        runpath=("$ORIGIN",),
        exports=symbols(f"PyInit_{name}", *exports.split()),
        imports=symbols(*imports.split()),
    )


def mesh() -> Linkage:
    """Link three extensions with each other's libraries, all of which need each other."""
    names = ("a", "b", "c")
    return link(
        *(extension_named(f"ext_{name}", f"lib{name}.so", imports=f"in_{name}") for name in names),
        *(
            library(
                f"demo/lib{name}.so",
                *(f"lib{other}.so" for other in names if other != name),
                runpath=("$ORIGIN",),
                exports=symbols(f"in_{name}"),
                imports=symbols("in_a", "in_b", "in_c", f"gone_{name}"),
            )
            for name in names
        ),
    )


def test_an_edge_names_the_first_root_that_leads_to_it() -> None:
    assert {(edge.path, edge.root) for edge in mesh().edges} == {
        (f"demo/ext_a{SUFFIX}", f"demo/ext_a{SUFFIX}"),
        (f"demo/ext_b{SUFFIX}", f"demo/ext_b{SUFFIX}"),
        (f"demo/ext_c{SUFFIX}", f"demo/ext_c{SUFFIX}"),
        ("demo/liba.so", f"demo/ext_a{SUFFIX}"),
        ("demo/libb.so", f"demo/ext_a{SUFFIX}"),
        ("demo/libc.so", f"demo/ext_a{SUFFIX}"),
    }


def test_each_process_loads_them_in_an_order_of_its_own() -> None:
    closures = dict(mesh().closures)
    assert closures[f"demo/ext_c{SUFFIX}"] == (
        f"demo/ext_c{SUFFIX}", "demo/libc.so", "demo/liba.so", "demo/libb.so",
    )  # fmt: skip


def test_only_names_that_nobody_defines_are_unresolved() -> None:
    assert [(item.path, item.name) for item in mesh().unresolved] == [
        ("demo/liba.so", "gone_a"),
        ("demo/libb.so", "gone_b"),
        ("demo/libc.so", "gone_c"),
    ]


def test_more_names_than_are_told_apart_by_bits_come_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = mesh()
    monkeypatch.setattr(loader_module, "_BITS", 2)
    assert mesh() == usual


def test_what_another_root_has_loaded_before_is_no_part_of_what_a_library_finds_itself() -> None:
    lost = library("demo/lib/liblost.so", "libdeep.so", runpath=("$ORIGIN/nowhere",))
    linkage = link(
        extension_named("ext_a", "lib/liblost.so"),
        library(
            f"demo/ext_b{SUFFIX}",
            "libdeep.so",
            "liblost.so",
            runpath=("$ORIGIN/lib", "$ORIGIN/lib/deep"),
            exports=symbols("PyInit_ext_b"),
        ),
        library(
            f"demo/ext_c{SUFFIX}",
            "liblost.so",
            runpath=("$ORIGIN/lib",),
            exports=symbols("PyInit_ext_c"),
        ),
        lost,
        library("demo/lib/deep/libdeep.so", name="libdeep.so"),
    )
    (edge,) = (edge for edge in linkage.edges if edge.path == lost.path)
    assert (edge.resolved, edge.root) == (None, f"demo/ext_c{SUFFIX}")
    closures = dict(linkage.closures)
    assert closures[f"demo/ext_b{SUFFIX}"][1:] == ("demo/lib/deep/libdeep.so", lost.path)
    assert closures[f"demo/ext_c{SUFFIX}"][1:] == (lost.path,)


def test_a_name_stays_with_the_first_library_that_has_it() -> None:
    needed = ("libx.so", "$ORIGIN/sub/libx.so", "libz.so")
    linkage = link(
        library(f"demo/ext{SUFFIX}", *needed, runpath=("$ORIGIN", "$ORIGIN/sub")),
        library("demo/libx.so", name="libx.so"),
        library("demo/sub/libx.so", name="libx.so"),
        library("demo/sub/libz.so", "libx.so", name="libz.so", runpath=("$ORIGIN",)),
    )
    (edge,) = linkage.edges_of("demo/sub/libz.so", "x86_64")
    assert (edge.resolved, edge.shadowed) == ("demo/libx.so", "demo/sub/libx.so")
