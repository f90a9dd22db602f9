"""Judges hash tables by looking names up in them, as a loader does for every other object."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress, islice
from typing import Final

from binary_checks.objects.elf.hash_tables import GnuHash, SysvHash
from binary_checks.objects.elf.symbol_faults import name_at
from binary_checks.objects.elf.symbol_table import SymbolColumns, join

_ALL: Final = 100  # names that are all looked up in a hash table
_LOOKED_UP: Final = 20
"""Names that are looked up in a larger one, evenly from all of them."""
_NOT_LOCAL: Final = bytes(map(bool, range(256)))
_INIT: Final = b"\0PyInit"  # what CPython looks up itself, also PyInitU_


def judge_lookups(
    symbols: SymbolColumns, strings: bytes, table: GnuHash | SysvHash
) -> Iterator[str]:
    """Exported names that the hash table does not lead to, so that nobody finds them."""
    faults = list(table.faults())
    yield from faults
    if faults:
        return
    # GNU ld writes a first symbol of 1 where nothing is hashed at all.
    hashed = table.first if isinstance(table, GnuHash) and any(table.buckets) else len(symbols)
    for index in _choose(symbols, strings, hashed):
        name = name_at(strings, symbols.names[index])
        if not table.finds(name, index):
            text = name.decode("utf-8", "backslashreplace")
            yield f"exports {text}, which a lookup in its hash table does not find"
            return


def _choose(symbols: SymbolColumns, strings: bytes, hashed: int) -> Iterator[int]:
    """Which symbols are looked up: those that a table must have, PyInit_* always."""
    must = join(symbols.defined, symbols.bindings.translate(_NOT_LOCAL))[:hashed]
    must = must.ljust(len(symbols), b"\1")
    exported, count = compress(range(len(symbols)), must), must.count(1)
    yield from exported if count <= _ALL else islice(exported, 0, None, count // _LOOKED_UP)
    if count > _ALL:
        start = strings.find(_INIT)
        while start >= 0:
            if start + 1 in symbols.names:
                yield symbols.names.index(start + 1)
            start = strings.find(_INIT, start + 1)
