"""Reads which symbols a Mach-O file binds: bind opcodes, or the imports of chained fixups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct

from binary_checks.errors import MalformedError
from binary_checks.objects.leb128 import read_uleb

Bind = tuple[bytes, int, bool]
"""A symbol that a loader looks up, of whom, and whether it may be missing.

The ordinal is of a dylib from 1; 0 self, -1 main executable, -2 everywhere, -3 weak lookup.
"""

_SET_ORDINAL, _SET_ORDINAL_ULEB, _SET_SPECIAL_ORDINAL = 0x10, 0x20, 0x30
_LAST_OPERATION = 0xD1
_WEAK_IMPORT = 1

_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_BINDING = rb"[\x90-\x9f\xb0-\xbf]|[\xa0-\xaf]%b|[\xc0-\xcf]%b%b" % ((_NUMBER,) * 3)
# What says where and how to bind: type, segment, addend; arm64e's threads, bound by 0x90 too.
_PLACING = rb"[\x50-\x5f\xd1]|[\x60-\x8f\xd0]" + _NUMBER
_DONE = rb"[\x00-\x0f]"


def _compile(placing: bytes) -> re.Pattern[bytes]:
    """A run of operations: an ordinal, a symbol, a bind, each of which may be left out."""
    return re.compile(
        rb"""
        (?:%(placing)b){0,99}
        (?: (?P<ordinal> [\x10-\x1f\x30-\x3f] | [\x20-\x2f]%(number)b) (?:%(placing)b){0,99} )?
        (?: (?P<symbol> [\x40-\x4f] [^\x00]*) \x00 (?:%(placing)b){0,99} )?
        (?P<bind> %(binding)b)?
        (?: %(binding)b | %(placing)b){0,99}
        """
        % {b"placing": placing, b"binding": _BINDING, b"number": _NUMBER},
        re.VERBOSE | re.DOTALL,
    )


_EAGER, _LAZY = _compile(_PLACING), _compile(_PLACING + rb"|" + _DONE)


def read_opcodes(opcodes: bytes, *, lazy: bool) -> Iterator[Bind]:
    """What a table of LC_DYLD_INFO binds. Raises MalformedError.

    A lazy table has an end behind every symbol, the others have one behind all. Ordinal and symbol
    stand until others take their place; a second bind of the same is no second symbol.
    """
    name, ordinal, weak, fresh = b"", 0, False, False
    match = (_LAZY if lazy else _EAGER).match
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
            ordinal, fresh = _read_ordinal(asked), True
        if symbol:
            name, weak, fresh = symbol[1:], bool(symbol[0] & _WEAK_IMPORT), True
        if bound and fresh:
            fresh = False
            yield name, ordinal, weak


def _find_fault(opcodes: bytes, place: int) -> MalformedError:
    if opcodes[place] > _LAST_OPERATION:
        return MalformedError(f"bind opcode {opcodes[place]:#04x}", place)
    return MalformedError("the bind opcodes run beyond their end")


def _read_ordinal(operation: bytes) -> int:
    kind, immediate = operation[0] & 0xF0, operation[0] & 0xF
    if kind == _SET_ORDINAL_ULEB:
        return read_uleb(operation, 1)[0]
    if kind == _SET_SPECIAL_ORDINAL and immediate:
        return immediate - 16  # a negative number of four bits
    return immediate


_IMPORTS = {1: ("I", 8, 9), 2: ("Ii", 8, 9), 3: ("QQ", 16, 32)}
"""By format: layout of an import, bits of its ordinal, bits before the place of its name."""


def read_chained_imports(table: bytes, byte_order: str) -> Iterator[Bind]:
    """Every import of LC_DYLD_CHAINED_FIXUPS: a loader looks up all of them.

    Raises MalformedError.
    """
    head = Struct(f"{byte_order}7I")
    if len(table) < head.size:
        raise MalformedError("the chained fixups end within their header")
    version, starts, imports, names, count, form, packing = head.unpack_from(table)
    if version != 0 or form not in _IMPORTS or packing != 0:
        claim = f"version {version}, imports of format {form}, names of format {packing}"
        raise MalformedError(f"chained fixups of {claim}")
    layout, bits, before = _IMPORTS[form]
    entry = Struct(byte_order + layout)
    end = imports + count * entry.size
    if max(starts + 4, names, end) > len(table):
        raise MalformedError(f"the chained fixups have {len(table):#x} bytes, too few")
    ordinals = (1 << bits) - 1
    budget = 4 * len(table)  # names may overlap; those of a real file do not
    for packed, *_ in entry.iter_unpack(table[imports:end]):
        start = names + (packed >> before)
        stop = table.find(0, start)
        budget -= stop - start
        if stop < 0 or budget < 0:
            raise MalformedError("a name of the chained fixups runs beyond their end")
        ordinal = packed & ordinals
        if ordinal > ordinals - 15:  # the last ones are negative
            ordinal -= ordinals + 1
        yield table[start:stop], ordinal, bool(packed >> bits & 1)
