"""Judges dynamic symbols as a loader meets them: asked of others, or code that is called."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from typing import Final

from binary_checks.objects.elf_memory import Memory, find_outside
from binary_checks.objects.elf_relocations import column
from binary_checks.objects.elf_symbol_columns import ENTRY_SIZE

_STV_INTERNAL, _STV_HIDDEN = 1, 2
_BINDINGS: Final = frozenset({0, 1, 2, 10})  # STB_LOCAL, _GLOBAL, _WEAK, _GNU_UNIQUE
_TYPES: Final = frozenset({0, 1, 2, 5, 6, 10})  # of what a lookup finds: do_lookup_x of glibc
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_FUNCTION: Final = bytes(info & 15 in (_STT_FUNC, _STT_GNU_IFUNC) for info in range(256))
_SHN_LORESERVE: Final = 0xFF00


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
        name = name_at(strings, symbols.names[index]).decode("utf-8", "backslashreplace")
        yield f"has the function {name} at {wrong:#x}, where no code is"


def judge_symbols(symbols: SymbolColumns, strings: bytes, *, is_program: bool) -> Iterator[str]:
    """Entries of DT_SYMTAB by which a loader finds nothing, or the wrong thing."""
    if symbols.names[0] or symbols.bindings[0] or symbols.sections[0] or symbols.values[0]:
        yield "has a symbol number 0 that is not empty: relocations without a symbol name it"
    kinds = set(zip(symbols.bindings[1:], symbols.types[1:], strict=True))
    if any(binding not in _BINDINGS for binding, _ in kinds):
        yield "has a dynamic symbol whose binding no loader knows"
    elif any(binding and kind not in _TYPES for binding, kind in kinds):
        yield "has a dynamic symbol of a type that no lookup finds"
    for index in range(1, len(symbols)):
        section, binding = symbols.sections[index], symbols.bindings[index]
        if binding and not strings[symbols.names[index]]:
            yield f"has a dynamic symbol without a name (number {index}), which no lookup finds"
            return
        if not section and (fault := _judge_undefined(symbols, index, is_program=is_program)):
            name = name_at(strings, symbols.names[index]).decode("utf-8", "backslashreplace")
            yield f"needs {name} of others, and its entry in DT_SYMTAB {fault}"
            return


def _judge_undefined(symbols: SymbolColumns, index: int, *, is_program: bool) -> str:
    """Why a loader takes a symbol for its own that it has not; "" where it does not."""
    if not symbols.bindings[index]:
        return "is local" if symbols.names[index] else ""
    if symbols.visibilities[index] & 3 in (_STV_INTERNAL, _STV_HIDDEN):
        return "is hidden"
    # A program's may have the address of its own stub, at which all others then find it.
    return "" if is_program or not symbols.values[index] else "has an address"


def name_at(strings: bytes, offset: int) -> bytes:
    """The string that begins there."""
    return strings[offset : strings.index(b"\0", offset)]
