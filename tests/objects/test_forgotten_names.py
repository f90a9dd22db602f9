"""Symbol tables drop their names if there are too many, without visible effect."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest

from binary_checks.model import ElfFile
from binary_checks.objects import read_objects
from binary_checks.objects.elf import symbols as elf_symbols
from binary_checks.trees.kept_bytes import MemorySource
from fixtures.build_elf import ElfSymbol, build_elf


def library(*names: str) -> ElfFile:
    content = build_elf(exports=[*map(ElfSymbol, names)])
    (found,) = read_objects("demo.so", MemorySource(content))
    assert isinstance(found, ElfFile)
    return found


def test_the_oldest_forgets_and_reads_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf_symbols, "_KEPT", 3)
    one, two = library("a", "b"), library("c", "d")
    first = one.exports.names
    assert one.exports.names is first
    assert two.exports.names == {"c", "d"}
    assert one.exports.names is not first
    assert one.exports.names == first == {"a", "b"}
    assert [symbol.name for symbol in two.exports.find("d")] == ["d"]
    assert sorted(symbol.name for symbol in one.exports) == ["a", "b"]
    assert one.exports.by_version == {("", ""): {"a", "b"}}


def test_a_table_with_more_than_all_may_keep_has_its_names_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elf_symbols, "_KEPT", 1)
    assert library("a", "b", "c").exports.names == {"a", "b", "c"}


def test_of_such_a_table_names_are_read_one_by_one_and_none_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elf_symbols, "_KEPT", 1)
    exports = library("a", "b", "c").exports
    assert list(exports.each_name()) == ["a", "b", "c"]
    assert exports.among(["c", "a", "missing"]) == {"a", "c"}
    assert exports.among([]) == frozenset()
    assert exports.names is exports.names
    assert exports.among({"b"}) == {"b"}


def test_names_are_made_once_however_many_libraries_ask_for_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elf_symbols, "_KEPT", 2)
    made: list[int] = []
    decode_names = elf_symbols.DynamicSymbols.decode_names

    def counted(self: elf_symbols.DynamicSymbols, indices: array[int]) -> Iterator[list[str]]:
        made.append(len(indices))
        return decode_names(self, indices)

    monkeypatch.setattr(elf_symbols.DynamicSymbols, "decode_names", counted)
    exports = library("a", "b", "c").exports
    for _ in range(9):
        assert exports.among({"a", "c", "d"}) == {"a", "c"}
        assert [each.name for each in exports.find("b")] == ["b"]
        assert "c" in exports
        assert "d" not in exports
    assert made == [3]


def test_a_name_is_not_taken_for_another_with_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf_symbols, "_KEPT", 1)
    monkeypatch.setattr(elf_symbols, "hash", len, raising=False)
    exports = library("a", "b", "long").exports
    assert exports.among({"a", "b", "c", "long", "gone"}) == {"a", "b", "long"}
    assert exports.find("c") == ()
