"""Grouped symbols answer as a table of the same symbols does."""

from __future__ import annotations

from binary_checks.model import Symbol, Symbols
from binary_checks.objects.symbol_groups import SymbolGroups

GROUPS = {
    Symbol(name="", library="liba.so", version="A_1"): (b"add", b"both", b"caf\xc3\xa9"),
    Symbol(name="", library="liba.so", version="A_2", weak=True): (b"both", b"\xff_odd"),
    Symbol(name="", library="libb.so", version="A_1"): (b"last",),
}
PLAIN = Symbols(
    Symbol(name=name, library=library, version=version, weak=weak)
    for library, version, weak, names in (
        ("liba.so", "A_1", False, ("add", "both", "café")),
        ("liba.so", "A_2", True, ("both", "\\xff_odd")),
        ("libb.so", "A_1", False, ("last",)),
    )
    for name in names
)


def test_groups_have_the_symbols_of_a_plain_table() -> None:
    groups = SymbolGroups(GROUPS)
    assert (groups, len(groups), repr(groups)) == (PLAIN, len(PLAIN), repr(PLAIN))
    assert (groups.names, groups.strong) == (PLAIN.names, PLAIN.strong)
    assert sorted(groups.each_name()) == sorted(symbol.name for symbol in PLAIN)
    for name in (*PLAIN.names, "ad", "dd", ""):
        assert groups.find(name) == PLAIN.find(name)


def test_few_names_are_found_without_decoding_all() -> None:
    for names in ([each] for each in (*PLAIN.names, "ad", "dd", "", "\\xff", "_odd")):
        assert SymbolGroups(GROUPS).among(names) == PLAIN.among(names)
    assert SymbolGroups(GROUPS).among(map(str, range(20))) == frozenset()
    assert not SymbolGroups({}).among(("",))
    assert SymbolGroups(GROUPS).may_mention("dd")
    assert not SymbolGroups(GROUPS).may_mention("gone")


def test_names_are_decoded_and_indexed_where_that_is_faster() -> None:
    groups = {
        Symbol(name="", version=str(size)): [b"%d" % number for number in range(size)]
        for size in (1023, 1024)
    }
    asked, found = SymbolGroups(groups), SymbolGroups(groups)
    assert asked.among(map(str, range(8))) == set(map(str, range(8)))
    assert "names" not in vars(asked)
    assert asked.among(map(str, range(9))) == set(map(str, range(9)))
    assert "names" in vars(asked)
    assert {each.version for each in found.find("5")} == {"1023", "1024"}
    assert [like.version for like in found._large] == ["1024"]
    assert [like.version for like in found._small["5"]] == ["1023"]
    assert found.among(("5",)) == {"5"} <= vars(found)["names"]
