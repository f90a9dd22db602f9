"""Read the imports and exports of a Mach-O file; names are decoded only on demand.

Formats are defined in <mach-o/loader.h> (opcodes, export flags), <mach-o/fixup-chains.h> and
<mach-o/nlist.h>.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import NO_SYMBOLS, Dependency, Symbol, Symbols, SymbolTable
from binary_checks.objects.macho.header import (
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_SYMTAB,
    MH_TWOLEVEL,
    Command,
    Commands,
    MachHeader,
    Slice,
    decode,
)

# The encoding of numbers and names. Numbers in the export trie and in bind opcodes are unsigned
# LEB128. Compilers put an underscore before each name of C.

_MOST_BITS = 63  # shift of the tenth group of 7 bits, the last one in a number of 64 bits


def read_uleb(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it.

    Raises MalformedError for a number of more than 64 bits, IndexError at the end of the data.
    """
    byte = data[place]
    if byte < 0x80:
        return byte, place + 1
    value, shift = byte & 0x7F, 7
    while True:
        place += 1
        byte = data[place]
        if byte < 0x80:
            return value | byte << shift, place + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MOST_BITS:
            raise MalformedError("a number of more than 64 bits", place)


def join_names(names: Iterable[bytes]) -> bytes:
    """Join many names into one bytes object, with a NUL before and after each."""
    return b"\0".join((b"", *names, b""))


def decode_names(text: bytes) -> list[str]:
    """Return the names in the result of `join_names`, without the underscore of C."""
    return decode(text.replace(b"\0_", b"\0")[1:-1]).split("\0") if len(text) > 1 else []


def holds(text: bytes, name: str) -> bool:
    """Return whether a name is in the result of `join_names`."""
    return any(b"\0%b\0" % each in text for each in encode_name(name))


def encode_name(name: str) -> tuple[bytes, ...]:
    """Return the symbols that a name may have; assembler may omit the underscore of C."""
    plain = name.encode("utf-8", "backslashreplace")
    return (b"_" + plain,) if plain.startswith(b"_") else (b"_" + plain, plain)


@lru_cache(maxsize=4)  # successive libraries are asked for the same names
def encode_names(names: frozenset[str], *, plain: bool) -> list[bytes]:
    """Return the symbols that many names may have, sorted.

    Forms without the underscore of C are included only if ``plain`` is true.
    """
    spelled = ("_" + "\0_".join(names)).encode("utf-8", "backslashreplace").split(b"\0")
    if plain:
        spelled += [each[1:] for each in spelled if not each.startswith(b"__")]
    return sorted(spelled)


def library_of(name: bytes, ordinal: int, libraries: Mapping[int, str]) -> str:
    """Return the library with a two-level ordinal. Raises MalformedError if there is none."""
    try:
        return libraries[ordinal]
    except KeyError:
        raise MalformedError(
            f"{decode(name)} is bound to dylib {ordinal}, which does not exist"
        ) from None


# The export trie: names with a common prefix share the nodes of the prefix. A node has a ULEB size
# of its export information (0: no export), the information itself, a byte with the number of edges,
# and for each edge a NUL-terminated label and the ULEB offset of a child from the start of the
# trie.

WEAK_DEFINITION: Final = 0x4  # EXPORT_SYMBOL_FLAGS_WEAK_DEFINITION
REEXPORT: Final = 0x8  # EXPORT_SYMBOL_FLAGS_REEXPORT: an ordinal and a name follow
# EXPORT_SYMBOL_FLAGS_KIND_MASK; kinds are regular 0, thread-local 1, absolute 2
_KIND, _ABSOLUTE = 3, 2
_RESOLVER = 0x10  # EXPORT_SYMBOL_FLAGS_STUB_AND_RESOLVER: two addresses follow
_PLAIN = frozenset({0, 1, 2, 4, 5, 6})  # flags of exports that are followed only by an address

Export = tuple[bytes, int, int]
"""Name, flags, and the ordinal of the dylib that a re-export refers to (negative as in Bind)."""

_Way = tuple[int, bytes, int, int]
"""A node, the prefix that it stands for, and the first and last index of sorted names with that
prefix.
"""

_WORD = 0xFFFFFFFF  # dyld reads ordinals as signed integers of 32 bits
_SIGN = 0x80000000
_MOST_OF_NAMES = 1 << 28
"""Limit on the bytes of all names; the largest libraries have some ten million."""
_LONGEST = 64 * 1024
_REPETITION = 256
"""Limit on the bytes of all names, as a multiple of the trie's size; real tries stay below 40."""
_BEYOND = "the exports trie runs beyond its end"


def walk_trie(trie: bytes, factor: int = 1) -> Iterator[Export]:
    """Yield all exports. Raises MalformedError, or TooLarge if names exceed the limits.

    A second edge to a node may close a cycle, and no linker writes such an edge, so it is
    malformed.
    """
    if not trie:
        return
    visited = bytearray(len(trie))
    # Prefixes count, too, since the name of a node is copied for each edge.
    most, length = min(_REPETITION * len(trie), _MOST_OF_NAMES * factor), 0
    waiting = [(0, b"")]
    try:
        while waiting:
            place, name = waiting.pop()
            if visited[place]:
                raise MalformedError(f"two edges of the exports trie lead to its byte {place:#x}")
            visited[place] = 1
            size, place = read_uleb(trie, place)
            count = trie[place + size]
            length += (count + (size > 0)) * len(name)
            if length > most:
                reason = f"have more than {most} bytes together; no more are read"
                raise TooLarge(f"the names of the exports trie {reason}")
            if size:
                if len(name) > _LONGEST:
                    reason = f"has more than {_LONGEST} bytes; longer ones are not read"
                    raise TooLarge(f"a name of the exports trie {reason}")
                _require_whole(trie, place, size)
                yield _read_export(trie, place, name)
            elif not count and any(trie):
                reason = f"a node of the exports trie (at {place - 1:#x}) leads to no export"
                raise MalformedError(reason)
            place += size + 1
            for _ in range(count):
                end = trie.index(0, place)
                label = trie[place:end]
                child, place = read_uleb(trie, end + 1)
                waiting.append((child, name + label))
    except (IndexError, ValueError):
        raise MalformedError(_BEYOND) from None


def _require_whole(trie: bytes, place: int, size: int) -> None:
    """Raise MalformedError for an unknown kind of export, or a size that its node contradicts."""
    flags, end = trie[place], place + size
    is_number = size > 1 and trie[end - 1] < 0x80 and (size == 2 or trie[end - 2] >= 0x80)
    if size > 3:  # only the last byte may end the number
        is_number = is_number and min(trie[place + 1 : end - 2]) >= 0x80
    if is_number and flags in _PLAIN:  # the usual case
        return
    flags, at = read_uleb(trie, place)
    if flags & _KIND > _ABSOLUTE:
        raise MalformedError(f"an export of kind {flags & _KIND} (at {place:#x} of the trie)")
    _, at = read_uleb(trie, at)
    if flags & REEXPORT:
        at = trie.index(0, at) + 1
    elif flags & _RESOLVER:
        _, at = read_uleb(trie, at)
    if at != end:
        raise MalformedError(
            f"an export ends at {at:#x} of the trie, not at {end:#x} as its node states"
        )


def find_in_trie(trie: bytes, names: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the given names that the trie contains, each with its node; ``names`` must be sorted.

    Raises MalformedError for faults of the visited nodes.
    """
    waiting: list[_Way] = [(0, b"", 0, len(names))] if trie and names else []
    budget = len(trie)  # if each edge is visited only once, the edges have at most this many bytes
    try:
        while waiting:
            node, beginning, first, last = waiting.pop()
            size, place = read_uleb(trie, node)
            place += size
            count = trie[place]
            if size and names[first] == beginning:
                yield beginning, node
                first += 1
            if count and first < last:
                ways, end = _choose(trie, place, names, (node, beginning, first, last))
                waiting += ways
                budget -= end - place
                if budget < 0:
                    raise MalformedError("the exports trie has a cycle")
    except (IndexError, ValueError):
        raise MalformedError(_BEYOND) from None


def _choose(trie: bytes, place: int, names: Sequence[bytes], way: _Way) -> tuple[list[_Way], int]:
    """Return the edges that lead to some of the names, and the offset after the last edge read."""
    _, beginning, first, last = way
    ways: list[_Way] = []
    depth, start, left = len(beginning), first, last - first
    low, high = (names[first] + b"\1")[depth], (names[last - 1] + b"\1")[depth]
    count, place = trie[place], place + 1
    for _ in range(count):
        end = trie.index(0, place)
        if not low <= trie[place] <= high and place < end:
            place = end + 1
            while trie[place] >= 0x80:
                place += 1
            place += 1
            continue
        label = beginning + trie[place:end]
        child, place = read_uleb(trie, end + 1)
        if label == beginning:  # an empty label: the child stands for the same prefix
            ways.append((child, label, first, last))
            continue
        if start == last or not names[start].startswith(label):
            start = bisect_left(names, label, first, last)
            if start == last or not names[start].startswith(label):
                continue
        stop = start + 1
        if stop < last and names[stop].startswith(label):
            # A byte that does not occur in UTF-8.
            stop = bisect_left(names, label + b"\xff", stop, last)
        ways.append((child, label, start, stop))
        left -= stop - start
        if not left:
            break
        start = stop  # the next edge continues there if edges are sorted
    return ways, place


def read_export(trie: bytes, name: bytes, node: int) -> Export:
    """Return the export of a name at its node. Raises MalformedError."""
    try:
        _, place = read_uleb(trie, node)
        return _read_export(trie, place, name)
    except IndexError:
        raise MalformedError(_BEYOND) from None


def _read_export(trie: bytes, place: int, name: bytes) -> Export:
    """Return the export at an offset of the trie, after the size of its node."""
    flags = trie[place]
    if flags & ~WEAK_DEFINITION == 0:
        return name, flags, 0
    flags, place = read_uleb(trie, place)
    ordinal = read_uleb(trie, place)[0] & _WORD if flags & REEXPORT else 0
    # BIND_SPECIAL_DYLIB_FLAT_LOOKUP (-2) may be written in ten bytes (open3d 0.19.0).
    return name, flags, ordinal - _WORD - 1 if ordinal & _SIGN else ordinal


# Exports as a symbol table of the model.

_FEW_EXPORTS, _BYTES_PER_NAME = 8, 32
"""If more names were found (8, plus one for each 32 bytes of the trie), the complete trie is read,
which is faster than further lookups.
"""
_UNDERSCORE_FIRST = b"\0\1_"
"""Beginning of a trie whose names all begin with an underscore, as in C."""


class MachOExports(SymbolTable):
    """The exports of one object, read from its trie.

    A name is looked up as by dyld, without reading other parts of the trie. A malformed part is
    noticed only when it is visited; the check that asked for it then reports "not inspected". Call
    `verify` to read the complete trie beforehand.
    """

    def __init__(
        self, path: str, trie: bytes, libraries: Mapping[int, str], factor: int = 1
    ) -> None:
        self._path = path
        self._trie = trie
        self._libraries = libraries  # by ordinal
        self._text: bytes | None = None  # all names, if they have been read
        self._names: frozenset[str] | None = None
        self._factor = factor
        self._asked: set[str] = set()  # names looked up so far; below, only the found ones
        self._found: set[str] = set()

    def verify(self) -> None:
        """Read the complete trie. Raises MalformedError, or TooLarge if names exceed the limits."""
        names = []
        for name, _, ordinal in walk_trie(self._trie, self._factor):
            names.append(name)
            if ordinal:
                library_of(name, ordinal, self._libraries)
        self._text = join_names(names)

    @property
    def names(self) -> frozenset[str]:
        """Every name once."""
        if self._names is None:
            if self._text is None:
                try:
                    self.verify()
                except (MalformedError, Unavailable) as error:
                    raise self._cannot_look(error) from None
            self._names = frozenset(decode_names(self._text or b""))
        return self._names

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Return the given names that the trie contains."""
        wanted = frozenset(names)
        often = (_FEW_EXPORTS + len(self._found)) * _BYTES_PER_NAME > len(self._trie)
        # A backslash begins our own escapes.
        if often or self._text is not None or "\\" in "".join(wanted):
            return wanted & self.names
        unknown = wanted - self._asked
        if unknown:
            self._found.update(self._look_up(unknown))
            self._asked |= unknown
        return wanted & self._found

    def _look_up(self, names: frozenset[str]) -> list[str]:
        spelled = encode_names(names, plain=not self._trie.startswith(_UNDERSCORE_FIRST))
        try:
            return decode_names(join_names(name for name, _ in find_in_trie(self._trie, spelled)))
        except (MalformedError, Unavailable) as error:
            raise self._cannot_look(error) from None

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols with this name."""
        if "\\" in name:
            return tuple(symbol for symbol in self if symbol.name == name)
        found = find_in_trie(self._trie, sorted(encode_name(name)))
        return tuple(self._make_symbols(read_export(self._trie, *each) for each in found))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.among((name,)))

    def __iter__(self) -> Iterator[Symbol]:
        return self._make_symbols(walk_trie(self._trie, self._factor))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<exports trie of {len(self._trie)} bytes>"

    def _make_symbols(self, exports: Iterator[Export]) -> Iterator[Symbol]:
        try:
            for name, flags, ordinal in exports:
                library = library_of(name, ordinal, self._libraries) if ordinal else ""
                (text,) = decode_names(join_names((name,)))
                yield Symbol(name=text, library=library, weak=bool(flags & WEAK_DEFINITION))
        except (MalformedError, Unavailable) as error:
            raise self._cannot_look(error) from None

    def _cannot_look(self, error: MalformedError | Unavailable) -> Unavailable:
        reason = error.reason if isinstance(error, MalformedError) else error
        kind = TooLarge if isinstance(error, TooLarge) else Unavailable
        return kind(f"the exports of {self._path} are unknown: {reason}")


# Imports.

# Bind opcodes of LC_DYLD_INFO, and imports of LC_DYLD_CHAINED_FIXUPS.

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


# The symbol table (<mach-o/nlist.h>), for files that have neither chained fixups nor bind opcodes.

_MOST_SYMBOLS = 1 << 22  # entries of the symbol table
# N_STAB, N_PEXT, N_TYPE, N_EXT in n_type
_STAB, _PRIVATE, _TYPE, _EXTERNAL = 0xE0, 0x10, 0x0E, 0x01
_WEAK_REFERENCE, _WEAK_DEFINITION = 0x40, 0x80  # N_WEAK_REF and N_WEAK_DEF in n_desc
_EVERYWHERE = -2


class _Entry(NamedTuple):
    name: bytes
    defined: bool
    description: int  # n_desc


def read_nlist(source: Slice, header: MachHeader, command: Command) -> tuple[Binds, list[Export]]:
    """Read imports and exports from LC_SYMTAB, for files that lack dyld's tables.

    One such file is NULL.so of pyobjc_core 13.0.
    Raises MalformedError, or TooLarge if there are more symbols than the limit.
    """
    entries = list(_read_entries(source, header, command))
    two_level = header.flags & MH_TWOLEVEL
    binds = group_binds(
        (
            entry.name,
            _ordinal(entry.description) if two_level else _EVERYWHERE,
            bool(entry.description & _WEAK_REFERENCE),
        )
        for entry in entries
        if not entry.defined
    )
    exports = [
        (entry.name, WEAK_DEFINITION * bool(entry.description & _WEAK_DEFINITION), 0)
        for entry in entries
        if entry.defined
    ]
    return binds, exports


def _ordinal(description: int) -> int:
    """Return the ordinal in the high byte of n_desc; 0xFE and 0xFF are -2 and -1."""
    ordinal = description >> 8 & 0xFF
    return ordinal - 0x100 if ordinal >= 0xFE else ordinal


def _read_entries(source: Slice, header: MachHeader, command: Command) -> Iterator[_Entry]:
    """Yield the external symbols."""
    # symtab_command: symoff, nsyms, stroff, strsize
    start, count, names_start, names_size = command.unpack("4I")
    source.require_at_most(count, _MOST_SYMBOLS, "symbols")
    # nlist_64 or nlist: n_strx, n_type, n_sect, n_desc, n_value
    layout = header.struct("IBBHQ" if header.bits == 64 else "IBBHI")
    names = source.read(names_start, names_size)
    most, length = 4 * names_size + (1 << 20), 0  # names may overlap
    for place, kind, _, description, _ in layout.iter_unpack(
        source.read(start, count * layout.size)
    ):
        if kind & (_STAB | _PRIVATE) or not kind & _EXTERNAL:
            continue
        end = names.find(b"\0", place, place + _LONGEST)
        if end < 0 and place + _LONGEST < names_size:
            raise TooLarge(
                f"a symbol's name has more than {_LONGEST} bytes; longer ones are not read"
            )
        if end < 0:
            raise MalformedError("a symbol's name runs beyond the string table", names_start)
        length += end - place
        if length > most:
            reason = f"have more than {most} bytes together; no more are read"
            raise TooLarge(f"the names of its symbols {reason}")
        yield _Entry(names[place:end], bool(kind & _TYPE), description)


# Imports as a symbol table of the model: one bytes object of names for each library.

SELF = 0
EVERYWHERE = -2  # flat lookup, which ``-undefined dynamic_lookup`` makes for symbols of Python
WEAK_LOOKUP = -3  # one definition for the whole process, such as ``operator new``

_Group = tuple[str, bool]  # the library, and whether its symbols may be missing

_FEW = 4
"""For more names than these, all names are decoded."""


class MachOImports(SymbolTable):
    """The imports of one object.

    A symbol of weak lookup that the object defines itself does not count as an import.
    """

    def __init__(
        self, binds: Iterable[Binds], libraries: Mapping[int, str], exports: SymbolTable
    ) -> None:
        names: dict[tuple[int, bool], list[bytes]] = {}
        for (ordinal, weak), group in (item for table in binds for item in table.items()):
            if ordinal != SELF:
                library_of(group[0], ordinal, libraries)
                names.setdefault((ordinal, weak), []).extend(group)
        self._libraries = libraries  # by ordinal
        self._texts = {key: join_names(dict.fromkeys(group)) for key, group in names.items()}
        self._exports = exports

    @cached_property
    def _groups(self) -> Mapping[_Group, frozenset[str]]:
        """The names in each group; a symbol in two tables may be missing only if both allow it."""
        groups: dict[_Group, frozenset[str]] = {}
        for (ordinal, weak), text in self._texts.items():
            names = frozenset(decode_names(text))
            if ordinal == WEAK_LOOKUP:
                names -= self._exports.among(names)
            group = (self._libraries[ordinal], weak)
            groups[group] = groups[group] | names if group in groups else names
        for library, weak in groups:
            if weak:
                groups[library, weak] -= groups.get((library, False), frozenset())
        return {group: names for group, names in groups.items() if names}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name once."""
        return frozenset().union(*self._groups.values())

    @cached_property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, ""): Mach-O symbols have no versions."""
        found: dict[tuple[str, str], frozenset[str]] = {}
        for (library, _), names in self._groups.items():
            found[library, ""] = found.get((library, ""), frozenset()) | names
        return found

    @cached_property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """The names that must not be missing, by the library that must define them."""
        return {library: names for (library, weak), names in self._groups.items() if not weak}

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols with this name, one for each library."""
        return tuple(
            Symbol(name=name, library=library, weak=weak)
            for (library, weak), names in self._groups.items()
            if name in names
        )

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Return the given names that are imported; if they are few, do not decode all imports."""
        wanted = frozenset(names)
        return wanted & self.names if len(wanted) > _FEW else frozenset(filter(self._has, wanted))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._has(name)

    def _has(self, name: str) -> bool:
        asked = {ordinal for (ordinal, _), text in self._texts.items() if holds(text, name)}
        return bool(asked - {WEAK_LOOKUP}) or (bool(asked) and not self._exports.among((name,)))

    def __iter__(self) -> Iterator[Symbol]:
        for (library, weak), names in self._groups.items():
            for name in sorted(names):
                yield Symbol(name=name, library=library, weak=weak)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __repr__(self) -> str:
        return f"<{sum(text.count(0) - 1 for text in self._texts.values())} imports>"


# Imports and exports of a whole slice.

_MAIN_EXECUTABLE = -1
MAIN_EXECUTABLE = "@executable"
"""The library of an import that the main executable must define."""


def read_symbols(
    path: str,
    source: Slice,
    header: MachHeader,
    commands: Commands,
    needed: Sequence[Dependency],
) -> tuple[SymbolTable, SymbolTable]:
    """Return imports and exports; the export trie is not read yet. Raises MalformedError."""
    libraries = {number: item.name for number, item in enumerate(needed, 1)}
    libraries |= {_MAIN_EXECUTABLE: MAIN_EXECUTABLE, EVERYWHERE: "", WEAK_LOOKUP: ""}
    opcodes = commands.first(LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
    fixups = commands.first(LC_DYLD_CHAINED_FIXUPS)
    trie = commands.first(LC_DYLD_EXPORTS_TRIE)
    if fixups is None and trie is None and opcodes is None:
        return _read_symbol_table(source, header, commands, libraries)
    exports = _read_exports(path, source, opcodes, trie, libraries)
    binds = _read_binds(source, header, opcodes, fixups)
    return MachOImports(binds, libraries, exports), exports


def _read_exports(
    path: str,
    source: Slice,
    opcodes: Command | None,
    trie: Command | None,
    libraries: Mapping[int, str],
) -> SymbolTable:
    """Read the trie, which has a load command of its own or is part of LC_DYLD_INFO."""
    # dyld_info_command: offset and size of rebase, bind, weak bind, lazy bind and export tables
    start, size = opcodes.unpack("10I")[8:] if opcodes else (0, 0)
    if trie is not None:
        start, size = trie.unpack("II")
    if not size:
        return NO_SYMBOLS
    return MachOExports(path, source.read(start, size), libraries, source.factor)


def _read_binds(
    source: Slice, header: MachHeader, opcodes: Command | None, fixups: Command | None
) -> list[Binds]:
    """Return the symbols that a loader binds, from LC_DYLD_INFO and chained fixups."""
    found = []
    if opcodes is not None:
        # The weak table is not read: its symbols are also in other tables, or may be missing.
        _, _, eager, eager_size, _, _, lazy, lazy_size, *_ = opcodes.unpack("10I")
        found.append(read_opcodes(source.read(eager, eager_size), lazy=False))
        found.append(read_opcodes(source.read(lazy, lazy_size), lazy=True))
    if fixups is not None:
        table = source.read(*fixups.unpack("II"))
        found.append(read_chained_imports(table, header.byte_order))
    return found


def _read_symbol_table(
    source: Slice, header: MachHeader, commands: Commands, libraries: Mapping[int, str]
) -> tuple[SymbolTable, SymbolTable]:
    """Return imports and exports of a file that has LC_SYMTAB, but none of dyld's tables."""
    command = commands.first(LC_SYMTAB)
    if command is None:
        return NO_SYMBOLS, NO_SYMBOLS
    binds, found = read_nlist(source, header, command)
    names = decode_names(join_names(name for name, _, _ in found))
    weak = (bool(flags & WEAK_DEFINITION) for _, flags, _ in found)
    exports = Symbols(Symbol(name=n, weak=w) for n, w in zip(names, weak, strict=True))
    return MachOImports([binds], libraries, exports), exports
