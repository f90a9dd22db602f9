"""Reads which symbols a Mach-O file binds: bind opcodes, or the imports of chained fixups."""

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
from binary_checks.objects.macho.encoding import read_uleb

Bind = tuple[bytes, int, bool]
"""A symbol that a loader looks up, of whom, and whether it may be missing.

The ordinal is of a dylib from 1; 0 self, -1 main executable, -2 everywhere, -3 weak lookup.
"""
Binds = Mapping[tuple[int, bool], list[bytes]]
"""The symbols by the other two."""


def group_binds(binds: Iterable[Bind]) -> Binds:
    """Put together what is asked of the same."""
    groups: dict[tuple[int, bool], list[bytes]] = defaultdict(list)
    for name, ordinal, weak in binds:
        groups[ordinal, weak].append(name)
    return groups


_SET_ORDINAL, _SET_SPECIAL_ORDINAL, _SET_SYMBOL = 0x10, 0x30, 0x40
_LAST_OPERATION = 0xD1
_WEAK_IMPORT = 1
_IMMEDIATE = {_SET_ORDINAL | number: number for number in range(16)}
_IMMEDIATE |= {_SET_SPECIAL_ORDINAL | number & 0xF: number for number in range(-15, 1)}
"""The ordinals by the operation that has them in itself, negative ones in four bits."""

_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_BINDING = rb"[\x90-\x9f\xb0-\xbf]|[\xa0-\xaf]%b|[\xc0-\xcf]%b%b" % ((_NUMBER,) * 3)
# What says where and how to bind: type, segment, addend; arm64e's threads, bound by 0x90 too.
_PLACING = rb"[\x50-\x5f\xd1]|[\x60-\x8f\xd0]" + _NUMBER
_DONE = rb"[\x00-\x0f]"
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
"""A run of operations: an ordinal, a symbol, a bind, each of which may be left out."""
# What is simpler to match, as linkers write it: a symbol, behind its ordinal or that of the symbol
# before, and its binds; only more of these; where neither is next, all the rest.
_USUAL_RUN = rb"""
    (?:%(placing)b){0,99} (%(ordinal)b? %(symbol)b) \x00
    (?:%(placing)b){0,99} (?:%(binding)b) (?: %(binding)b | %(placing)b){0,99}
    | (?: %(binding)b | %(placing)b){1,99}
    | .+
"""
_USUAL_LAZY_RUN = (
    rb"(?:[\x70-\x7f]%(number)b)? (%(ordinal)b? %(symbol)b) \x00 [\x90-\x9f] \x00* | .+"
)
_MARK = b"\x40" + b"\xff" * 10  # a symbol that no table has, nor is it part of a cut number
_MOST_AT_ONCE = 1 << 22  # bytes


@cache
def _compile(run: bytes, placing: bytes = _PLACING) -> re.Pattern[bytes]:
    return re.compile(run % {**_PARTS, b"placing": placing}, re.VERBOSE | re.DOTALL)


def read_opcodes(opcodes: bytes, *, lazy: bool) -> Binds:
    """What a table of LC_DYLD_INFO binds. Raises MalformedError.

    A lazy table has an end behind every symbol, the others have one behind all. Ordinal and symbol
    stand until others take their place; a second bind of the same is no second symbol.
    """
    if len(opcodes) < _MOST_AT_ONCE:
        usual_run = _compile(_USUAL_LAZY_RUN if lazy else _USUAL_RUN)
        runs = usual_run.findall(opcodes.rstrip(b"\0") + _MARK + b"\0\x90")
        if runs.pop() == _MARK:  # all before it is as usual
            return _group_runs(runs)
    return group_binds(_step_through(opcodes, lazy=lazy))


def _group_runs(runs: Iterable[bytes]) -> Binds:
    """Group symbols, some of them behind an ordinal, which stands for those that follow."""
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
    if opcodes[place] > _LAST_OPERATION:
        return MalformedError(f"bind opcode {opcodes[place]:#04x}", place)
    return MalformedError("the bind opcodes run beyond their end")


_NATIVE = "<" if sys.byteorder == "little" else ">"
_IMPORTS = {1: ("I", 1, 8, 9), 2: ("I", 2, 8, 9), 3: ("Q", 2, 16, 32)}
"""By format: words of an import, how many, bits of its ordinal, bits before its name's place."""


def read_chained_imports(table: bytes, byte_order: str) -> Binds:
    """Every import of LC_DYLD_CHAINED_FIXUPS: a loader looks up all of them.

    Raises MalformedError, or TooLarge for names that explode.
    """
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
    flags = (1 << bits + 1) - 1  # the ordinal, and whether it may be missing
    for packed, name in zip(
        entries[::words], _read_names(table, names, entries[::words], before), strict=True
    ):
        found[packed & flags].append(name)
    return {_unpack(key, bits): group for key, group in found.items()}


def _unpack(key: int, bits: int) -> tuple[int, bool]:
    ordinals = (1 << bits) - 1
    ordinal = key & ordinals
    if ordinal > ordinals - 15:  # the last ones are negative
        ordinal -= ordinals + 1
    return ordinal, bool(key >> bits)


def _read_names(table: bytes, names: int, entries: array[int], before: int) -> Iterable[bytes]:
    """The name of each import. Linkers write them in the same order, one behind the other."""
    if 0 < len(entries) < _MOST_AT_ONCE >> 3:
        starts = [packed >> before for packed in entries]
        found = table[names + starts[0] :].split(b"\0", len(starts))[:-1]
        behind = accumulate((len(name) + 1 for name in found[:-1]), initial=starts[0])
        if found and starts == list(behind):
            return found
    return _find_names(table, (names + (packed >> before) for packed in entries))


def _find_names(table: bytes, starts: Iterable[int]) -> Iterator[bytes]:
    most, length = 4 * len(table), 0  # names may overlap; those of a real file do not
    for start in starts:
        stop = table.find(0, start)
        if stop < 0:
            raise MalformedError("a name of the chained fixups runs beyond their end")
        length += stop - start
        if length > most:
            reason = f"have more than {most} bytes together, no more are read"
            raise TooLarge(f"the names of the chained fixups {reason}")
        yield table[start:stop]
