"""Judges dynamic symbols as a loader meets them: asked of others, or called."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import compress
from typing import Final

from binary_checks.objects.elf.memory import Memory, find_outside
from binary_checks.objects.elf.symbol_columns import HIDDEN
from binary_checks.objects.elf.symbol_table import SymbolColumns, find_zeros, join

_ZERO: Final = bytes(number == 0 for number in range(256))
_UNSEEN: Final = bytes(other & 3 in (1, 2) for other in range(256))  # STV_INTERNAL, STV_HIDDEN
_BINDINGS: Final = frozenset({0, 1, 2, 10})  # STB_LOCAL, _GLOBAL, _WEAK, _GNU_UNIQUE
_TYPES: Final = frozenset({0, 1, 2, 5, 6, 10})  # of what a lookup finds: do_lookup_x of glibc
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_FUNCTION: Final = bytes(info & 15 in (_STT_FUNC, _STT_GNU_IFUNC) for info in range(256))


def judge_values(symbols: SymbolColumns, strings: bytes, memory: Memory) -> Iterator[str]:
    """Functions that it defines where no code is."""
    functions = join(symbols.information.translate(_FUNCTION), symbols.in_sections())
    places = array(symbols.values.typecode, compress(symbols.values, functions))
    wrong = find_outside(memory.code, places)
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
    try:
        if 0 in map(strings.__getitem__, compress(symbols.names, symbols.bindings)):
            yield "has a dynamic symbol without a name, which no lookup finds"
    except IndexError:
        yield "has a dynamic symbol whose name lies outside of DT_STRTAB"
    for mask, fault in _find_undefined(symbols, is_program=is_program):
        index = join(symbols.undefined, mask).find(1)
        if index >= 0:
            name = name_at(strings, symbols.names[index]).decode("utf-8", "backslashreplace")
            yield f"needs {name} of others, and its entry in DT_SYMTAB {fault}"


def _find_undefined(symbols: SymbolColumns, *, is_program: bool) -> Iterator[tuple[bytes, str]]:
    """Why a loader takes symbols for its own that it has not, and which."""
    if symbols.bindings.find(0, 1) >= 0:
        named = find_zeros(symbols.names).translate(_ZERO)
        yield join(symbols.bindings.translate(_ZERO), named), "is local"
    yield symbols.views.translate(_UNSEEN), "is hidden"
    # A program's may have the address of its own stub, at which all others then find it.
    if not is_program and any(compress(symbols.values, symbols.undefined)):
        yield find_zeros(symbols.values).translate(_ZERO), "has an address"


def judge_versions(
    symbols: SymbolColumns, strings: bytes, indices: array[int], own: frozenset[int]
) -> Iterator[str]:
    """Symbols that it asks of others in a version that only it defines."""
    asked = {index & ~HIDDEN for index in set(compress(indices, symbols.undefined))}
    for number in own & asked:
        place = next(
            i for i, u in enumerate(symbols.undefined) if u and indices[i] & ~HIDDEN == number
        )
        name = name_at(strings, symbols.names[place]).decode("utf-8", "backslashreplace")
        yield f"needs {name} of others in a version that it defines itself: no loader finds it"


def name_at(strings: bytes, offset: int) -> bytes:
    """The string that begins there."""
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)]
