"""Finds the sections of a COFF object (``.obj``), which has no signature of its own."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from binary_checks.objects.limits import LimitedSource

_FILE = Struct("<HHIIIHH")  # machine, sections, time, symbols: offset and count, optional, flags
_BIG = Struct("<HHHHI16s16xIII")  # 0, 0xFFFF, version, machine, time, class, sections, symbols (2)
_BIG_CLASS = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
_SECTION = Struct("<8s8xII16x")
_MACHINES = frozenset({0x014C, 0x8664, 0xAA64})
_SYMBOL_SIZE, _BIG_SYMBOL_SIZE = 18, 20
_MOST_SECTIONS = 1 << 17
_LONGEST_NAME = 64


def find_coff_sections(source: LimitedSource) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of each section; nothing for what is no COFF object.

    Raises MalformedError where they lie beyond the end, TooLarge for too many.
    """
    if source.size < _FILE.size:
        return
    machine, count, _, symbols, symbol_count, optional, _ = _FILE.unpack(source.read(0, _FILE.size))
    start, symbol_size = _FILE.size + optional, _SYMBOL_SIZE
    if machine == 0 and count == 0xFFFF and source.size >= _BIG.size:
        *_, kind, count, symbols, symbol_count = _BIG.unpack(source.read(0, _BIG.size))
        start, symbol_size = _BIG.size, _BIG_SYMBOL_SIZE
        if kind != _BIG_CLASS:  # the short form of an import library's members
            return
    elif machine not in _MACHINES:
        return
    if start + count * _SECTION.size <= source.size:  # else the source says so
        source.refuse_more(count, _MOST_SECTIONS, "sections")
    table = source.read(start, count * _SECTION.size)
    strings = symbols + symbol_count * symbol_size
    for name, size, offset in _SECTION.iter_unpack(table):
        if size and offset:
            yield _spell(source, name.rstrip(b"\0"), strings), offset, size


def _spell(source: LimitedSource, name: bytes, strings: int) -> str:
    """A name of more than 8 bytes stands in the string table, at the offset ``/123``."""
    if name.startswith(b"/") and name[1:].isdigit():
        start = strings + int(name[1:])
        length = min(_LONGEST_NAME, source.size - start)
        name = source.read(start, length).partition(b"\0")[0]
    return name.decode("latin-1")
