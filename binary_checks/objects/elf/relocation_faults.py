"""Judges relocation records: kinds that no loader knows, places that it cannot write."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import compress
from typing import Final, NamedTuple

from binary_checks.objects.elf.dynamic import DT_RELACOUNT, DT_RELCOUNT, Dynamic
from binary_checks.objects.elf.memory import Memory, find_outside
from binary_checks.objects.elf.relocation_types import RelocationTypes
from binary_checks.objects.elf.relocations import Relocations, find_extremes
from binary_checks.objects.elf.symbol_table import SymbolColumns, join

STT_TLS: Final = 6
_WEAK: Final = bytes(binding == 2 for binding in range(256))  # STB_WEAK


class Doubt(str):
    """A sentence about something that later loaders may take."""

    __slots__ = ()


class Traits(NamedTuple):
    """What relocations must fit beside the memory that they write."""

    types: RelocationTypes
    symbols: SymbolColumns
    has_thread_storage: bool  # a PT_TLS
    is_program: bool


def judge_relocations(
    table: Relocations, relative: int, traits: Traits, memory: Memory
) -> Iterator[str]:
    """What a loader stops at in one table, of which the first records are relative."""
    if not table:
        return
    types, count = traits.types, len(traits.symbols)
    others = set(table.types[relative:])
    found = others | _find_types(table.types[:relative], types.relative)
    yield from _judge_types(table.name, found, traits)
    place = find_outside(memory.writable, table.offsets if 0 not in found else _places(table))
    if place is not None:
        yield f"has a relocation of {place:#x} in {table.name}, where nothing writable is loaded"
    named = table.symbols if _has_any(table.symbols[:relative]) else table.symbols[relative:]
    highest = max(named, default=0)
    if highest >= max(count, 1):
        yield f"has a relocation in {table.name} that asks for symbol {highest}, of {count}"
        return
    yield from _judge_symbols(table, relative, others, types)
    if found & types.thread:
        yield from _judge_thread(table, traits)
    if found & types.sizes:
        sized = compress(table.symbols, map(types.sizes.__contains__, table.types))
        unsure = join(traits.symbols.undefined, traits.symbols.bindings.translate(_WEAK))
        if any(map(unsure.__getitem__, sized)):
            yield f"has a relocation in {table.name} of the size of a symbol that may be missing"
    if types.indirect in found and table.addends is not None:
        called = [a for t, a in zip(table.types, table.addends, strict=True) if t == types.indirect]
        wrong = find_outside(memory.code, called)
        if wrong is not None:
            yield f"has a relocation in {table.name} that calls {wrong:#x}, where no code is"


def _find_types(numbers: array[int], promised: int) -> set[int]:
    """All of them: nearly always they are as DT_RELACOUNT has promised."""
    return {promised} if numbers and _is_all(promised, numbers) else set(numbers)


def _is_all(number: int, numbers: array[int]) -> bool:
    """Whether all are that number; at the speed of C."""
    return numbers == array(numbers.typecode, [number]) * len(numbers)


def _has_zero(numbers: array[int]) -> bool:
    """Whether one of them is 0; nearly always not so many bytes of 0 follow each other at all."""
    return bytes(numbers.itemsize) in numbers.tobytes() and 0 in numbers


def _has_any(numbers: array[int]) -> bool:
    """Whether one of them is not 0; at the speed of C."""
    content = numbers.tobytes()
    return content.count(0) < len(content)


def _judge_types(name: str, found: set[int], traits: Traits) -> Iterator[str]:
    types = traits.types
    for number in sorted(found - types.known)[:1]:
        if types.grows and max(types.known) < number < 2 * max(types.known):
            yield Doubt(f"relocations of type {number:#x} in {name} are newer than those known")
        else:
            yield f"has a relocation of type {number:#x} in {name}, which no loader knows"
    for number in sorted(found & types.programs)[:1]:
        if not traits.is_program:
            yield f"has a relocation of type {number:#x} in {name}, which is for programs alone"


def _judge_symbols(
    table: Relocations, relative: int, others: set[int], types: RelocationTypes
) -> Iterator[str]:
    """Relative ones have no symbol; what takes a symbol's address has one."""
    kinds, names = table.types[relative:], table.symbols[relative:]
    pairs = {(types.relative, True)} if _has_any(table.symbols[:relative]) else set()
    # Nearly always all relative ones come first, and all others have a symbol.
    if _has_zero(names) or not others.isdisjoint({types.relative, types.indirect}):
        pairs.update(zip(kinds, map(bool, names), strict=True))
    if not pairs.isdisjoint({(types.relative, True), (types.indirect, True)}):
        yield f"has a relative relocation in {table.name} that names a symbol"
    if any((number, False) in pairs for number in types.slots):
        yield f"has a relocation in {table.name} of a symbol's address that names no symbol"


def _places(table: Relocations) -> array[int]:
    """Where it writes; R_*_NONE, which is 0 everywhere, does nothing."""
    return array(table.offsets.typecode, compress(table.offsets, table.types))


def _judge_thread(table: Relocations, traits: Traits) -> Iterator[str]:
    chosen = map(traits.types.thread.__contains__, table.types)
    for symbol in set(compress(table.symbols, chosen)):
        if symbol and traits.symbols.types[symbol] != STT_TLS:
            yield (
                f"has a relocation in {table.name} that takes symbol {symbol} for thread-local, "
                "which it is not"
            )
            return
        if not symbol and not traits.has_thread_storage:
            yield f"has a relocation in {table.name} of its own PT_TLS, which it has not"
            return


def judge_relative_count(
    table: Relocations, dynamic: Dynamic, types: RelocationTypes
) -> Iterator[str]:
    """Those that DT_RELACOUNT promises to be relative, which loaders treat as such unseen."""
    name, tag = ("DT_RELACOUNT", DT_RELACOUNT) if types.addends else ("DT_RELCOUNT", DT_RELCOUNT)
    count = dynamic.value(tag)
    if count > len(table):
        yield f"has {name} {count}, and {table.name} has only {len(table)} records"
    elif count and not _is_all(types.relative, table.types[:count]):
        yield f"has {name} {count}, and not all of the first {count} records are relative"


def judge_packed(words: array[int], memory: Memory) -> Iterator[str]:
    """What a loader stops at in DT_RELR."""
    if words and words[0] & 1:
        yield "has a DT_RELR that begins with a bitmap, before any address"
        return
    place = find_outside(memory.writable, list(find_extremes(words, words.itemsize)))
    if place is not None:
        yield f"has a relocation of {place:#x} in DT_RELR, where nothing writable is loaded"
