"""Symbols of a Mach-O file are looked up as dyld does it, or read all at once."""

from __future__ import annotations

import pytest

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model import NO_SYMBOLS, Symbol, Symbols
from binary_checks.objects.macho.symbols import MachOExports, make_imports

LIBRARIES = {1: "/usr/lib/libSystem.B.dylib", -2: "", -3: ""}
_NODE = 16  # bytes of each node of the trie below


def _node(terminal: bytes = b"", **edges: int) -> bytes:
    found = b"".join(name.encode() + b"\0" + bytes([_NODE * to]) for name, to in edges.items())
    return (bytes([len(terminal)]) + terminal + bytes([len(edges)]) + found).ljust(_NODE, b"\0")


TRIE = (
    _node(_=1, start=5)
    + _node(add=2, a=3)
    + _node(terminal=b"\4\0")  # weak
    + _node(terminal=b"\0\0", b=4)
    + _node(terminal=b"\x08\1\0")  # re-exported from the first dylib
    + _node(terminal=b"\0\0")
    + bytes(4096)  # in a small trie all names would be read at once
)
BEYOND = b"\xff\x7f"  # a node's size that the trie cannot hold


def _exports(trie: bytes = TRIE) -> MachOExports:
    return MachOExports("demo/a.dylib", trie, LIBRARIES)


def test_names_are_looked_up_in_the_trie_alone() -> None:
    exports = _exports()
    asked = ("add", "ad", "adds", "a", "ab", "start", "", "z", "b\\xff")
    assert exports.among(asked[:-1]) == {"add", "a", "ab", "start"}
    assert exports.among(asked) == {"add", "a", "ab", "start"} == exports.names
    assert "ab" in exports and "b" not in exports
    assert exports.find("add") == (Symbol(name="add", weak=True),)
    assert exports.find("ab") == (Symbol(name="ab", library=LIBRARIES[1]),)
    assert exports == Symbols(symbol for name in asked for symbol in exports.find(name))


def test_what_is_found_in_the_trie_is_what_walks_by() -> None:
    every = list(_exports())
    assert [each.name for each in every] == ["start", "a", "ab", "add"]
    for symbol in every:
        assert _exports().find(symbol.name) == (symbol,)
    assert _exports().find("b") == ()


def test_the_edges_of_a_trie_need_not_be_in_order() -> None:
    """_oggpackB_write of libogg: its last edge has no label, and others begin as it ends."""
    trie = b"\0\1_write\0\x10".ljust(_NODE, b"\0")
    trie += b"\0\4init\0\x30c\0\x40trunc\0\x50\0\x60".ljust(2 * _NODE, b"\0")
    leaf = _node(terminal=b"\0\0")
    trie += leaf + _node(opy=7) + leaf + leaf + leaf
    every = {"write", "writeinit", "writecopy", "writetrunc"}
    assert _exports(trie).names == every
    for missing in every:
        asked = every - {missing} | {"writ", "writec", "writex", "writeinits"}
        assert _exports(trie + bytes(4096)).among(asked) == every - {missing}


def test_what_was_asked_before_is_remembered() -> None:
    exports = _exports()
    assert exports.among(("add", "b")) == {"add"}
    assert exports.among(("add", "ab", "b")) == {"add", "ab"}
    assert exports.among(("b", "a\0b")) == exports.among(()) == frozenset()


def test_a_name_may_end_with_an_edge_that_has_no_label() -> None:
    leaf = _node(terminal=b"\0\0")
    trie = _node(_init=1) + b"\0\2\0\x20_x\0\x30".ljust(_NODE, b"\0") + leaf + leaf
    assert _exports(trie).names == {"init", "init_x"}
    assert _exports(trie + bytes(4096)).among(("init", "init_x", "init_")) == {"init", "init_x"}


def test_a_fault_in_the_trie_is_met_where_names_lead_to_it() -> None:
    cut = TRIE[: 4 * _NODE] + BEYOND + TRIE[4 * _NODE + 2 :]
    assert _exports(cut).among(("add", "a")) == {"add", "a"}
    with pytest.raises(Unavailable, match=r"the exports of demo/a.dylib are unknown: .* its end"):
        _exports(cut).among(("ab",))
    with pytest.raises(Unavailable, match="are unknown"):
        assert not _exports(cut).find("ab")
    assert _exports(cut).find("start") == (Symbol(name="start"),)
    with pytest.raises(Unavailable, match="are unknown"):
        assert not _exports(cut).names
    with pytest.raises(MalformedError, match="runs beyond its end"):
        _exports(cut).verify()


def test_a_trie_may_end_within_what_it_says_of_a_name() -> None:
    cut = b"\0\1_a\0\6" + b"\1\x88\x80"
    with pytest.raises(Unavailable, match=r"are unknown: .* its end"):
        _exports(cut).find("a")


def test_a_trie_that_goes_round_is_left_soon() -> None:
    for trie in (b"\0\1\0\0", b"\0\1a\0\0", b"\0\2\0\0\0\0"):
        with pytest.raises(Unavailable, match="has a cycle"):
            _exports(trie + bytes(4096)).among(("a" * 9999, "b"))


def test_a_reexport_of_a_dylib_that_is_not_there_is_malformed() -> None:
    wrong = TRIE.replace(b"\x08\1", b"\x08\7")
    with pytest.raises(MalformedError, match="_ab is bound to dylib 7, which does not exist"):
        _exports(wrong).verify()
    with pytest.raises(Unavailable, match="dylib 7"):
        _exports(wrong).find("ab")


def test_imports_are_grouped_by_whom_they_are_asked_of() -> None:
    binds = [
        (b"_malloc", 1, True), (b"_malloc", 1, False), (b"_later", 1, True), (b"_later", -2, False),
        (b"_PyList_New", -2, False), (b"_mine", 0, False),
        (b"_add", -3, False), (b"__Znwm", -3, True),
    ]  # fmt: skip
    imports = make_imports(binds, LIBRARIES, _exports())
    assert imports.names == {"malloc", "later", "PyList_New", "_Znwm"}
    assert imports.strong == {LIBRARIES[1]: {"malloc"}, "": {"later", "PyList_New"}}
    assert {(each.library, each.version, each.name) for each in imports} == {
        (LIBRARIES[1], "", "malloc"), (LIBRARIES[1], "", "later"),
        ("", "", "later"), ("", "", "PyList_New"), ("", "", "_Znwm"),
    }  # fmt: skip
    assert len(imports) == len(list(imports)) == 5
    assert {symbol.weak for symbol in imports.find("later")} == {True, False}
    assert imports == Symbols(imports) != NO_SYMBOLS
    present = [name for name in ("malloc", "_Znwm", "add", "mine", "lloc") if name in imports]
    assert present == ["malloc", "_Znwm"]


def test_an_import_of_a_dylib_that_is_not_there_is_malformed() -> None:
    with pytest.raises(MalformedError, match="_far is bound to dylib 4, which does not exist"):
        make_imports([(b"_far", 4, False)], LIBRARIES, NO_SYMBOLS)
