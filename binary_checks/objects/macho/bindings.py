"""What dyld binds: bind opcodes of LC_DYLD_INFO, imports of LC_DYLD_CHAINED_FIXUPS.

Formats are defined in <mach-o/loader.h> and <mach-o/fixup-chains.h>.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import accumulate
from struct import Struct

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.macho.symbol_names import (
    read_uleb,
)

Bind = tuple[bytes, int, bool]
"""Symbol, ordinal of the library that must define it, and whether it may be missing.

Ordinals of dylibs begin with 1. Special ones (BIND_SPECIAL_DYLIB_*): 0 is the file itself, -1 the
main executable, -2 flat lookup, -3 weak lookup.
"""
Binds = Mapping[tuple[int, bool], list[bytes]]
"""(ordinal, whether the symbols may be missing) -> symbols."""


def group_binds(binds: Iterable[Bind]) -> Binds:
    """Group symbols by ordinal and by whether they may be missing."""
    groups: dict[tuple[int, bool], list[bytes]] = defaultdict(list)
    for name, ordinal, weak in binds:
        groups[ordinal, weak].append(name)
    return groups


# BIND_OPCODE_SET_DYLIB_ORDINAL_IMM, BIND_OPCODE_SET_DYLIB_SPECIAL_IMM,
# BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM; operands are in the low four bits
_SET_ORDINAL, _SET_SPECIAL_ORDINAL, _SET_SYMBOL = 0x10, 0x30, 0x40
_LAST_OPERATION = 0xD1  # BIND_SUBOPCODE_THREADED_APPLY, the highest
_WEAK_IMPORT = 1  # BIND_SYMBOL_FLAGS_WEAK_IMPORT
_IMMEDIATE = {_SET_ORDINAL | number: number for number in range(16)}
_IMMEDIATE |= {_SET_SPECIAL_ORDINAL | number & 0xF: number for number in range(-15, 1)}
"""Ordinals encoded in the low four bits of an opcode; there, special ordinals are negative."""

_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"  # ULEB128 of up to ten bytes
# BIND_OPCODE_DO_BIND, _ADD_ADDR_IMM_SCALED; _ADD_ADDR_ULEB; _ULEB_TIMES_SKIPPING_ULEB
_BINDING = rb"[\x90-\x9f\xb0-\xbf]|[\xa0-\xaf]%b|[\xc0-\xcf]%b%b" % ((_NUMBER,) * 3)
# Opcodes for the place and kind of a bind: type, addend, segment and offset. BIND_OPCODE_THREADED
# (0xD0, 0xD1) is only for arm64e, which also binds symbols by 0x90.
_PLACING = rb"[\x50-\x5f\xd1]|[\x60-\x8f\xd0]" + _NUMBER
_DONE = rb"[\x00-\x0f]"  # BIND_OPCODE_DONE
_ORDINAL = rb"(?: [\x10-\x1f\x30-\x3f] | [\x20-\x2f]" + _NUMBER + rb")"
_SYMBOL = rb"[\x40-\x4f] [^\x00]*"
_PARTS = {b"ordinal": _ORDINAL, b"symbol": _SYMBOL, b"binding": _BINDING, b"number": _NUMBER}

_ANY_RUN = rb"""
    (?:%(placing)b){0,99}
    (?: (?P<ordinal> %(ordinal)b) (?:%(placing)b){0,99} )?
    (?: (?P<symbol> %(symbol)b) \x00 (?:%(placing)b){0,99} )?
    (?P<bind> %(binding)b)?
    (?: %(binding)b | %(placing)b){0,99}
"""
"""A run of opcodes: an ordinal, a symbol, and a bind, each optional."""
# A simpler run, as linkers write it: a symbol, with or without a new ordinal, and its binds; or
# further binds. The last alternative matches everything else.
_USUAL_RUN = rb"""
    (?:%(placing)b){0,99} (%(ordinal)b? %(symbol)b) \x00
    (?:%(placing)b){0,99} (?:%(binding)b) (?: %(binding)b | %(placing)b){0,99}
    | (?: %(binding)b | %(placing)b){1,99}
    | .+
"""
_USUAL_LAZY_RUN = (
    rb"(?:[\x70-\x7f]%(number)b)? (%(ordinal)b? %(symbol)b) \x00 [\x90-\x9f] \x00* | .+"
)
# A symbol that no real table contains; it cannot complete a truncated number.
_MARK = b"\x40" + b"\xff" * 10
_MOST_AT_ONCE = 1 << 22  # bytes


@cache
def _compile(run: bytes, placing: bytes = _PLACING) -> re.Pattern[bytes]:
    return re.compile(run % {**_PARTS, b"placing": placing}, re.VERBOSE | re.DOTALL)


def read_opcodes(opcodes: bytes, *, lazy: bool) -> Binds:
    """Return the symbols that a table of LC_DYLD_INFO binds. Raises MalformedError.

    In a lazy table BIND_OPCODE_DONE follows each symbol, in other tables it ends the table. Ordinal
    and symbol stay valid until they are set again; further binds of the same symbol are not
    repeated.
    """
    if len(opcodes) < _MOST_AT_ONCE:
        usual_run = _compile(_USUAL_LAZY_RUN if lazy else _USUAL_RUN)
        runs = usual_run.findall(opcodes.rstrip(b"\0") + _MARK + b"\0\x90")
        if runs.pop() == _MARK:  # all opcodes before the mark are usual ones
            return _group_runs(runs)
    return group_binds(_step_through(opcodes, lazy=lazy))


def _group_runs(runs: Iterable[bytes]) -> Binds:
    """Group the symbols of runs of opcodes; an ordinal is valid for all following symbols."""
    groups: dict[tuple[int, bool], list[bytes]] = defaultdict(list)
    ordinal = 0
    for run in filter(None, runs):
        start = 0
        if run[0] in _IMMEDIATE:
            ordinal, start = _IMMEDIATE[run[0]], 1
        elif run[0] < _SET_SYMBOL:
            ordinal, start = read_uleb(run, 1)
        groups[ordinal, run[start] & _WEAK_IMPORT > 0].append(run[start + 1 :])
    return groups


def _step_through(opcodes: bytes, *, lazy: bool) -> Iterator[Bind]:
    """Yield binds opcode by opcode, for tables that linkers do not usually write."""
    match = _compile(_ANY_RUN, _PLACING + rb"|" + _DONE if lazy else _PLACING).match
    name, ordinal, weak, fresh = b"", 0, False, False
    place, end = 0, len(opcodes)
    while place < end:
        run = match(opcodes, place)
        if run is None or run.end() == place:
            if opcodes[place] < _SET_ORDINAL and not lazy:
                return
            raise _find_fault(opcodes, place)
        place = run.end()
        asked, symbol, bound = run.groups()
        if asked:
            immediate = _IMMEDIATE.get(asked[0])
            ordinal = read_uleb(asked, 1)[0] if immediate is None else immediate
            fresh = True
        if symbol:
            name, weak, fresh = symbol[1:], bool(symbol[0] & _WEAK_IMPORT), True
        if bound and fresh:
            fresh = False
            yield name, ordinal, weak


def _find_fault(opcodes: bytes, place: int) -> MalformedError:
    """Return the error for an opcode that no run matches."""
    if opcodes[place] > _LAST_OPERATION:
        return MalformedError(f"bind opcode {opcodes[place]:#04x}", place)
    return MalformedError("the bind opcodes run beyond their end")


_NATIVE = "<" if sys.byteorder == "little" else ">"
_IMPORTS = {1: ("I", 1, 8, 9), 2: ("I", 2, 8, 9), 3: ("Q", 2, 16, 32)}
"""By imports_format (DYLD_CHAINED_IMPORT, _ADDEND, _ADDEND64): type of a word, words per import,
bits of lib_ordinal, bits before name_offset.
"""


def read_chained_imports(table: bytes, byte_order: str) -> Binds:
    """Return all imports of LC_DYLD_CHAINED_FIXUPS, because a loader looks up all of them.

    Raises MalformedError, or TooLarge if names exceed the limits.
    """
    # dyld_chained_fixups_header: fixups_version, starts_offset, imports_offset, symbols_offset,
    # imports_count, imports_format, symbols_format (0: names are not compressed)
    head = Struct(f"{byte_order}7I")
    if len(table) < head.size:
        raise MalformedError("the chained fixups end within their header")
    version, starts, imports, names, count, form, packing = head.unpack_from(table)
    if version != 0 or form not in _IMPORTS or packing != 0:
        claim = f"version {version}, imports of format {form}, names of format {packing}"
        raise MalformedError(f"chained fixups of {claim}")
    word, words, bits, before = _IMPORTS[form]
    entries = array(word)
    end = imports + count * words * entries.itemsize
    if max(starts + 4, names, end) > len(table):
        raise MalformedError(f"the chained fixups have {len(table):#x} bytes, too few")
    entries.frombytes(table[imports:end])
    if byte_order != _NATIVE:
        entries.byteswap()
    found: dict[int, list[bytes]] = defaultdict(list)
    flags = (1 << bits + 1) - 1  # lib_ordinal and weak_import
    for packed, name in zip(
        entries[::words], _read_names(table, names, entries[::words], before), strict=True
    ):
        found[packed & flags].append(name)
    return {_unpack(key, bits): group for key, group in found.items()}


def _unpack(key: int, bits: int) -> tuple[int, bool]:
    """Return ordinal and weak_import from the low bits of an import."""
    ordinals = (1 << bits) - 1
    ordinal = key & ordinals
    # As in dyld, lib_ordinal above 0xF0 (or 0xFFF0, if it has 16 bits) is a negative number: -1, -2
    # and -3 are BIND_SPECIAL_DYLIB_MAIN_EXECUTABLE, _FLAT_LOOKUP and _WEAK_LOOKUP.
    if ordinal > ordinals - 15:
        ordinal -= ordinals + 1
    return ordinal, bool(key >> bits)


def _read_names(table: bytes, names: int, entries: array[int], before: int) -> Iterable[bytes]:
    """Return the name of each import. Linkers write names in the order of imports, without gaps."""
    if 0 < len(entries) < _MOST_AT_ONCE >> 3:
        starts = [packed >> before for packed in entries]
        found = table[names + starts[0] :].split(b"\0", len(starts))[:-1]
        behind = accumulate((len(name) + 1 for name in found[:-1]), initial=starts[0])
        if found and starts == list(behind):
            return found
    return _find_names(table, (names + (packed >> before) for packed in entries))


def _find_names(table: bytes, starts: Iterable[int]) -> Iterator[bytes]:
    """Yield the name at each offset, and limit their total length."""
    most, length = 4 * len(table), 0  # names may overlap, but in real files they do not
    for start in starts:
        stop = table.find(0, start)
        if stop < 0:
            raise MalformedError("a name of the chained fixups runs beyond their end")
        length += stop - start
        if length > most:
            reason = f"have more than {most} bytes together; no more are read"
            raise TooLarge(f"the names of the chained fixups {reason}")
        yield table[start:stop]
