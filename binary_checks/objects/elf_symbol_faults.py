"""Judges dynamic symbols as a loader meets them: asked of others, or code that is called."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import compress
from operator import not_
from typing import Final

from binary_checks.objects.elf_memory import Memory, find_outside
from binary_checks.objects.elf_relocations import column
from binary_checks.objects.elf_symbol_columns import ENTRY_SIZE, HIDDEN

_ZERO: Final = bytes(number == 0 for number in range(256))
_UNSEEN: Final = bytes(other & 3 in (1, 2) for other in range(256))  # STV_INTERNAL, STV_HIDDEN
_BINDINGS: Final = frozenset({0, 1, 2, 10})  # STB_LOCAL, _GLOBAL, _WEAK, _GNU_UNIQUE
_TYPES: Final = frozenset({0, 1, 2, 5, 6, 10})  # of what a lookup finds: do_lookup_x of glibc
_BINDING_OF: Final = bytes(info >> 4 for info in range(256))
_TYPE_OF: Final = bytes(info & 15 for info in range(256))
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_FUNCTION: Final = bytes(info & 15 in (_STT_FUNC, _STT_GNU_IFUNC) for info in range(256))
_SHN_LORESERVE: Final = 0xFF00


class SymbolColumns:
    """The columns of DT_SYMTAB that a loader follows; a large library has a million symbols."""

    __slots__ = (
        "bindings",
        "defined",
        "information",
        "names",
        "sections",
        "types",
        "undefined",
        "values",
        "views",
    )

    def __init__(self, table: bytes, bits: int, byte_order: str) -> None:
        wide, size = bits == 64, ENTRY_SIZE[bits]
        self.names = column("I", table, byte_order)[:: size // 4]
        information = table[4 if wide else 12 :: size]
        self.information = information
        self.bindings = information.translate(_BINDING_OF)
        self.types = information.translate(_TYPE_OF)
        self.views = table[5 if wide else 13 :: size]  # st_other, with the visibility
        self.sections = column("H", table, byte_order)[3 if wide else 7 :: size // 2]
        words = column("Q" if wide else "I", table, byte_order)
        self.values = words[1 :: size // (8 if wide else 4)]
        self.undefined = bytes(map(not_, self.sections))  # 1 for each that is
        self.defined = self.undefined.translate(_ZERO)

    def __len__(self) -> int:
        return len(self.names)


def join(*masks: bytes) -> bytes:
    """1 wherever all masks, of 0 and 1, have it; at the speed of C."""
    first, *others = masks
    joined = int.from_bytes(first, "little")
    for mask in others:
        joined &= int.from_bytes(mask, "little")
    return joined.to_bytes(len(first), "little")


def judge_values(symbols: SymbolColumns, strings: bytes, memory: Memory) -> Iterator[str]:
    """Functions that it defines where no code is."""
    functions = join(symbols.types.translate(_FUNCTION), symbols.defined)
    if max(symbols.sections) >= _SHN_LORESERVE:
        ordinary = bytes(section < _SHN_LORESERVE for section in symbols.sections)
        functions = join(functions, ordinary)
    wrong = find_outside(memory.code, list(compress(symbols.values, functions)))
    if wrong is not None:
        index = symbols.values.index(wrong)
        name = name_at(strings, symbols.names[index]).decode("utf-8", "backslashreplace")
        yield f"has the function {name} at {wrong:#x}, where no code is"


def judge_symbols(symbols: SymbolColumns, strings: bytes, *, is_program: bool) -> Iterator[str]:
    """Entries of DT_SYMTAB by which a loader finds nothing, or the wrong thing."""
    if symbols.names[0] or symbols.bindings[0] or symbols.sections[0] or symbols.values[0]:
        yield "has a symbol number 0 that is not empty: relocations without a symbol name it"
    kinds = {(each >> 4, each & 15) for each in set(symbols.information[1:])}
    if any(binding not in _BINDINGS for binding, _ in kinds):
        yield "has a dynamic symbol whose binding no loader knows"
    elif any(binding and kind not in _TYPES for binding, kind in kinds):
        yield "has a dynamic symbol of a type that no lookup finds"
    named = list(compress(symbols.names, symbols.bindings))
    if max(named, default=0) >= len(strings):
        yield "has a dynamic symbol whose name lies outside of DT_STRTAB"
    elif 0 in map(strings.__getitem__, named):
        yield "has a dynamic symbol without a name, which no lookup finds"
    for mask, fault in _find_undefined(symbols, is_program=is_program):
        index = join(symbols.undefined, mask).find(1)
        if index >= 0:
            name = name_at(strings, symbols.names[index]).decode("utf-8", "backslashreplace")
            yield f"needs {name} of others, and its entry in DT_SYMTAB {fault}"


def _find_undefined(symbols: SymbolColumns, *, is_program: bool) -> Iterator[tuple[bytes, str]]:
    """Why a loader takes symbols for its own that it has not, and which."""
    if symbols.bindings.find(0, 1) >= 0:
        named = bytes(map(bool, symbols.names))
        yield join(symbols.bindings.translate(_ZERO), named), "is local"
    yield symbols.views.translate(_UNSEEN), "is hidden"
    # A program's may have the address of its own stub, at which all others then find it.
    if not is_program and any(compress(symbols.values, symbols.undefined)):
        yield bytes(map(bool, symbols.values)), "has an address"


def judge_versions(
    symbols: SymbolColumns, strings: bytes, indices: array[int], own: frozenset[int]
) -> Iterator[str]:
    """Symbols that it asks of others in a version that only it defines."""
    for number in own & {index & ~HIDDEN for index in compress(indices, symbols.undefined)}:
        place = next(
            i for i, u in enumerate(symbols.undefined) if u and indices[i] & ~HIDDEN == number
        )
        name = name_at(strings, symbols.names[place]).decode("utf-8", "backslashreplace")
        yield f"needs {name} of others in a version that it defines itself: no loader finds it"


def name_at(strings: bytes, offset: int) -> bytes:
    """The string that begins there."""
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)]
