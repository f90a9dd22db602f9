"""The work of the simulation grows with the package, and not with what it repeats."""

from __future__ import annotations

from binary_checks.loaders import simulate
from binary_checks.model import PeFile, Symbol, Symbols
from fixtures.linking import dll, library, link, needs, windows
from fixtures.values import pe_file, symbols, wheel

CHAIN = 600  # more than Python can nest


def test_a_function_may_be_passed_on_by_more_libraries_than_python_nests() -> None:
    chain: list[PeFile] = [
        dll(
            f"demo/lib{n}.dll", exports=Symbols([Symbol(name="work", forwarder=f"lib{n + 1}.work")])
        )
        for n in range(CHAIN)
    ]
    asked = Symbols([Symbol(name="work", library="lib0.dll")])
    module = pe_file(
        "demo/_native.cp311-win_amd64.pyd",
        exports=symbols("PyInit__native"),
        needed=needs("lib0.dll"),
        imports=asked,
    )
    end = dll(f"demo/lib{CHAIN}.dll", exports=symbols("work"))
    assert simulate(wheel(objects=[module, *chain, end]), windows()).unresolved == ()
    (lost,) = simulate(wheel(objects=[module, *chain]), windows()).unresolved
    assert (lost.name, lost.library) == ("work", "lib0.dll")


def test_of_a_search_path_that_repeats_itself_each_folder_is_searched_once() -> None:
    """All libraries lie in one folder, and their RPATHs are handed down."""
    found = link(
        library("demo/liba.so", "libb.so", rpath=("$ORIGIN", "$ORIGIN/libs")),
        library("demo/libb.so", "liblost.so", rpath=("$ORIGIN", "$ORIGIN/libs")),
    )
    (edge,) = (each for each in found.edges if each.needed == "liblost.so")
    assert edge.searched == ("demo", "demo/libs")
