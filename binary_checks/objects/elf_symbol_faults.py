"""Judges dynamic symbols as a loader meets them: found by name, and code where they are called."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from typing import Final

from binary_checks.objects.elf_hash_tables import GnuHash, SysvHash
from binary_checks.objects.elf_memory import Memory, find_outside
from binary_checks.objects.elf_relocations import column
from binary_checks.objects.elf_symbol_columns import ENTRY_SIZE

_STB_GLOBAL: Final = 1
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_FUNCTION: Final = bytes(info & 15 in (_STT_FUNC, _STT_GNU_IFUNC) for info in range(256))
_SHN_LORESERVE: Final = 0xFF00
_LOOKED_UP: Final = 1000
"""Names that are looked up in the hash table; of more, so many evenly from all of them."""
_INIT: Final = b"\0PyInit"  # what CPython looks up itself, also PyInitU_


class SymbolColumns:
    """The columns of DT_SYMTAB that a loader follows."""

    __slots__ = ("bindings", "names", "sections", "types", "values", "visibilities")

    def __init__(self, table: bytes, bits: int, byte_order: str) -> None:
        wide, size = bits == 64, ENTRY_SIZE[bits]
        self.names = column("I", table, byte_order)[:: size // 4]
        information = table[4 if wide else 12 :: size]
        self.bindings = information.translate(bytes(info >> 4 for info in range(256)))
        self.types = information.translate(bytes(info & 15 for info in range(256)))
        self.visibilities = table[5 if wide else 13 :: size]
        self.sections = column("H", table, byte_order)[3 if wide else 7 :: size // 2]
        words = column("Q" if wide else "I", table, byte_order)
        self.values = words[1 :: size // (8 if wide else 4)]

    def __len__(self) -> int:
        return len(self.names)


def judge_values(symbols: SymbolColumns, strings: bytes, memory: Memory) -> Iterator[str]:
    """Functions that it defines where no code is."""
    functions = symbols.types.translate(_FUNCTION)
    rows = compress(zip(symbols.values, symbols.sections, strict=True), functions)
    addresses = [value for value, section in rows if 0 < section < _SHN_LORESERVE]
    wrong = find_outside(memory.code, addresses)
    if wrong is not None:
        index = symbols.values.index(wrong)
        name = _name_at(strings, symbols.names[index]).decode("utf-8", "backslashreplace")
        yield f"has the function {name} at {wrong:#x}, where no code is"


def judge_imports(symbols: SymbolColumns, strings: bytes) -> Iterator[str]:
    """Symbols that it asks others for, and that have no name."""
    for index, section in enumerate(symbols.sections):
        asked = not section and symbols.bindings[index] == _STB_GLOBAL
        if asked and not strings[symbols.names[index]]:
            yield f"needs a symbol without a name (number {index}), which no library has"
            return


def judge_lookups(
    symbols: SymbolColumns, strings: bytes, table: GnuHash | SysvHash
) -> Iterator[str]:
    """Exported names that the hash table does not lead to, so that nobody finds them."""
    faults = list(table.faults())
    yield from faults
    if faults:
        return
    for index in _choose(symbols, strings):
        name = _name_at(strings, symbols.names[index])
        if not table.finds(name, index):
            text = name.decode("utf-8", "backslashreplace")
            yield f"exports {text}, which a lookup in its hash table does not find"
            return


def _choose(symbols: SymbolColumns, strings: bytes) -> Iterator[int]:
    """Which exported symbols are looked up: PyInit_* always."""
    exported = [
        index
        for index, section in enumerate(symbols.sections)
        if section and symbols.bindings[index] and symbols.names[index]
    ]
    yield from exported[:: len(exported) // _LOOKED_UP + 1]
    if len(exported) > _LOOKED_UP:
        start = strings.find(_INIT)
        while start >= 0:
            if start + 1 in symbols.names:
                yield symbols.names.index(start + 1)
            start = strings.find(_INIT, start + 1)


def _name_at(strings: bytes, offset: int) -> bytes:
    return strings[offset : strings.index(b"\0", offset)]
