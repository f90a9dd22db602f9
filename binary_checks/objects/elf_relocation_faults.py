"""Judges relocation records: kinds that no loader knows, places that it cannot write."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Final

from binary_checks.objects.elf_dynamic import DT_RELACOUNT, DT_RELCOUNT, Dynamic
from binary_checks.objects.elf_memory import Memory, find_outside
from binary_checks.objects.elf_relocation_types import RelocationTypes
from binary_checks.objects.elf_relocations import Relocations, find_extremes

STT_TLS: Final = 6


def judge_relocations(
    table: Relocations,
    types: RelocationTypes,
    memory: Memory,
    symbol_types: Sequence[int],
    *,
    has_thread_storage: bool,
) -> Iterator[str]:
    """What a loader stops at in one table. The types are those of all dynamic symbols."""
    if not table:
        return
    found = set(table.types)
    for number in sorted(found - types.known)[:1]:
        yield f"has a relocation of type {number:#x} in {table.name}, which no loader knows"
    place = find_outside(memory.writable, _places(table))
    if place is not None:
        yield f"has a relocation of {place:#x} in {table.name}, where nothing writable is loaded"
    if max(table.symbols) >= max(len(symbol_types), 1):
        yield (
            f"has a relocation in {table.name} that asks for symbol {max(table.symbols)}, "
            f"of {len(symbol_types)}"
        )
    elif found & types.thread:
        yield from _judge_thread(table, types, symbol_types, has_thread_storage)
    if types.indirect in found and table.addends is not None:
        called = [a for t, a in zip(table.types, table.addends, strict=True) if t == types.indirect]
        wrong = find_outside(memory.code, called)
        if wrong is not None:
            yield f"has a relocation in {table.name} that calls {wrong:#x}, where no code is"


def _places(table: Relocations) -> array[int]:
    """Where it writes; R_*_NONE, which is 0 everywhere, does nothing."""
    if 0 not in table.types:
        return table.offsets
    return array(table.offsets.typecode, compress(table.offsets, table.types))


def _judge_thread(
    table: Relocations,
    types: RelocationTypes,
    symbol_types: Sequence[int],
    has_thread_storage: bool,
) -> Iterator[str]:
    chosen = [kind in types.thread for kind in table.types]
    for symbol in set(compress(table.symbols, chosen)):
        if symbol and symbol_types[symbol] != STT_TLS:
            yield (
                f"has a relocation in {table.name} that takes symbol {symbol} for thread-local, "
                "which it is not"
            )
            return
        if not symbol and not has_thread_storage:
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
    elif count and set(table.types[:count]) != {types.relative}:
        yield f"has {name} {count}, and not all of the first {count} records are relative"


def judge_packed(words: array[int], memory: Memory) -> Iterator[str]:
    """What a loader stops at in DT_RELR."""
    if words and words[0] & 1:
        yield "has a DT_RELR that begins with a bitmap, before any address"
        return
    place = find_outside(memory.writable, list(find_extremes(words, words.itemsize)))
    if place is not None:
        yield f"has a relocation of {place:#x} in DT_RELR, where nothing writable is loaded"
