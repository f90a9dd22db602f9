"""Judges hash tables by looking names up in them, as a loader does for every other object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from binary_checks.objects.elf_hash_tables import GnuHash, SysvHash
from binary_checks.objects.elf_symbol_faults import SymbolColumns, name_at

_LOOKED_UP: Final = 20
"""Names that are looked up in the hash table; of more, so many evenly from all of them."""
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
    nonlocal_ = symbols.bindings.translate(_NOT_LOCAL)
    must = bytes(min(hashed, len(symbols))).ljust(len(symbols), b"\1")
    exported = sorted({*symbols.choose(symbols.defined, nonlocal_), *symbols.choose(must)})
    yield from exported[:: len(exported) // _LOOKED_UP + 1]
    if len(exported) > _LOOKED_UP:
        start = strings.find(_INIT)
        while start >= 0:
            if start + 1 in symbols.names:
                yield symbols.names.index(start + 1)
            start = strings.find(_INIT, start + 1)
