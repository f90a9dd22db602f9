"""Read the imports and exports of a Mach-O file.

Imports are in bind opcodes or chained fixups, exports in a trie (<mach-o/loader.h>,
<mach-o/fixup-chains.h>); files without them have only the symbol table of <mach-o/nlist.h>.
Compilers put an underscore before each name of C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from struct import Struct
from typing import Final

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import NO_SYMBOLS, Dependency, Symbol, Symbols, SymbolTable
from binary_checks.objects.byte_source import FilePart
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
    decode,
)
from binary_checks.objects.symbol_groups import SymbolGroups

MAIN_EXECUTABLE: Final = "@executable"
"""The library of an import that the main executable must define."""
# BIND_SPECIAL_DYLIB_*: the file itself, the main executable, flat lookup (which ``-undefined
# dynamic_lookup`` makes for symbols of Python), and one definition for the whole process, such as
# ``operator new``. Ordinals of dylibs begin with 1.
_SELF, _MAIN, _FLAT, _WEAK = 0, -1, -2, -3

Bind = tuple[bytes, int, bool]
"""Symbol, ordinal of the library that must define it, and whether it may be missing."""


def read_symbols(
    path: str,
    source: FilePart,
    header: MachHeader,
    commands: Commands,
    needed: Sequence[Dependency],
) -> tuple[SymbolTable, SymbolTable]:
    """Return imports and exports; the export trie is not read yet. Raises MalformedError."""
    libraries = {number: item.name for number, item in enumerate(needed, 1)}
    libraries |= {_MAIN: MAIN_EXECUTABLE, _FLAT: "", _WEAK: ""}
    opcodes = commands.first(LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
    fixups = commands.first(LC_DYLD_CHAINED_FIXUPS)
    trie = commands.first(LC_DYLD_EXPORTS_TRIE)
    if not (opcodes or fixups or trie):
        table = commands.first(LC_SYMTAB)
        binds, exports = read_nlist(source, header, table) if table else ([], NO_SYMBOLS)
        return make_imports(binds, libraries, exports), exports
    # dyld_info_command: offset and size of rebase, bind, weak bind, lazy bind and export tables.
    # The weak table is not read: its symbols are also in other tables, or may be missing.
    fields = opcodes.unpack("10I") if opcodes else (0,) * 10
    binds = [
        *read_opcodes(source.read(*fields[2:4]), lazy=False),
        *read_opcodes(source.read(*fields[6:8]), lazy=True),
    ]
    if fixups:
        binds += read_chained_imports(source, fixups)
    place = trie.unpack("II") if trie else fields[8:]
    found = MachOExports(path, source.read(*place), libraries) if place[1] else NO_SYMBOLS
    return make_imports(binds, libraries, found), found


def make_imports(
    binds: Iterable[Bind], libraries: Mapping[int, str], exports: SymbolTable
) -> SymbolTable:
    """Return the imports. Raises MalformedError for an ordinal without a library.

    A symbol of weak lookup that the object defines itself is no import. A symbol in two tables may
    be missing only if both allow it.
    """
    merged: dict[tuple[bytes, str], bool] = {}
    anywhere: dict[bytes, bool] = {}  # by weak lookup
    for name, ordinal, weak in binds:
        plain = name.removeprefix(b"_")
        if ordinal == _WEAK:
            anywhere[plain] = weak and anywhere.get(plain, True)
        elif ordinal != _SELF:
            key = plain, _library_of(name, ordinal, libraries)
            merged[key] = weak and merged.get(key, True)
    own = exports.among(map(decode, anywhere))
    for plain, weak in anywhere.items():
        if decode(plain) not in own:
            merged[plain, ""] = weak and merged.get((plain, ""), True)
    groups: dict[tuple[str, bool], list[bytes]] = {}
    for (plain, library), weak in merged.items():
        groups.setdefault((library, weak), []).append(plain)
    return SymbolGroups(
        {
            Symbol(name="", library=library, weak=weak): names
            for (library, weak), names in groups.items()
        }
    )


def _spell(name: bytes) -> str:
    """Return a name without the underscore of C."""
    return decode(name.removeprefix(b"_"))


def _join(names: Iterable[bytes]) -> bytes:
    """Return names with a NUL before each, which are decoded faster at once."""
    return b"\0".join((b"", *names))


def _library_of(name: bytes, ordinal: int, libraries: Mapping[int, str]) -> str:
    if ordinal not in libraries:
        reason = f"{decode(name)} is bound to dylib {ordinal}, which does not exist"
        raise MalformedError(reason)
    return libraries[ordinal]


def _read_uleb(data: bytes, place: int) -> tuple[int, int]:
    """Return the unsigned LEB128 number at an offset, and the offset after it."""
    byte, place = data[place], place + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise MalformedError("a number of more than 64 bits", place)
        byte, place = data[place], place + 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, place


# The bind opcodes (BIND_OPCODE_*), whose low four bits are an operand.

_DONE, _ORDINAL, _ORDINAL_ULEB, _SPECIAL, _SYMBOL = 0x00, 0x10, 0x20, 0x30, 0x40
_WITHOUT_NUMBER = frozenset({0x50, 0x90, 0xB0})  # type; bind; bind and add a small address
_WITH_NUMBER = frozenset({0x60, 0x70, 0x80, 0xA0})  # addend, place; add; bind and add an address
_REPEAT = 0xC0  # bind several times: two numbers follow
_THREADED_TABLE, _THREADED_APPLY = 0xD0, 0xD1  # of arm64e; the first has a number
_BINDS = frozenset({0x90, 0xA0, 0xB0, 0xC0})


def read_opcodes(opcodes: bytes, *, lazy: bool) -> Iterator[Bind]:
    """Yield what a table of LC_DYLD_INFO binds. Raises MalformedError.

    In a lazy table BIND_OPCODE_DONE follows each symbol, in other tables it ends the table. Ordinal
    and symbol stay valid until they are set again; further binds of a symbol are not repeated.
    """
    name, ordinal, weak, fresh, place = b"", 0, False, False, 0
    try:
        while place < len(opcodes):
            byte = opcodes[place]
            opcode, operand, place = byte & 0xF0, byte & 0xF, place + 1
            if opcode in _BINDS:
                if fresh:
                    yield name, ordinal, weak
                fresh = False
            if opcode in _WITHOUT_NUMBER or byte == _THREADED_APPLY:
                continue
            if opcode in _WITH_NUMBER or byte == _THREADED_TABLE:
                _, place = _read_uleb(opcodes, place)
            elif opcode == _REPEAT:
                _, place = _read_uleb(opcodes, place)
                _, place = _read_uleb(opcodes, place)
            elif opcode == _SYMBOL:
                end = opcodes.index(0, place)
                name, weak, fresh, place = opcodes[place:end], bool(operand & 1), True, end + 1
            elif opcode in (_ORDINAL, _SPECIAL):  # special ordinals are negative
                ordinal = operand - 16 if opcode == _SPECIAL and operand else operand
                fresh = True
            elif opcode == _ORDINAL_ULEB:
                ordinal, place = _read_uleb(opcodes, place)
                fresh = True
            elif opcode != _DONE:
                raise MalformedError(f"bind opcode {byte:#04x}", place - 1)
            elif not lazy:
                return
    except (IndexError, ValueError):
        raise MalformedError("the bind opcodes run beyond their end") from None


# imports_format (DYLD_CHAINED_IMPORT, _ADDEND, _ADDEND64): layout of an import, bits of
# lib_ordinal, bits before name_offset; weak_import follows lib_ordinal.
_IMPORTS = {1: ("I", 8, 9), 2: ("I4x", 8, 9), 3: ("Q8x", 16, 32)}


def read_chained_imports(source: FilePart, command: Command) -> Iterator[Bind]:
    """Yield all imports of LC_DYLD_CHAINED_FIXUPS, because a loader looks up all of them."""
    table, byte_order = source.read(*command.unpack("II")), command.header.byte_order
    # dyld_chained_fixups_header: fixups_version, starts_offset, imports_offset, symbols_offset,
    # imports_count, imports_format, symbols_format (0: names are not compressed)
    head = Struct(f"{byte_order}7I")
    if len(table) < head.size:
        raise MalformedError("the chained fixups end within their header")
    version, starts, imports, names, count, form, packing = head.unpack_from(table)
    if version or form not in _IMPORTS or packing:
        claim = f"version {version}, imports of format {form}, names of format {packing}"
        raise MalformedError(f"chained fixups of {claim}")
    layout, bits, before = _IMPORTS[form]
    row = Struct(byte_order + layout)
    end = imports + count * row.size
    if max(starts + 4, names, end) > len(table):
        raise MalformedError(f"the chained fixups have {len(table):#x} bytes, too few")
    ordinals = (1 << bits) - 1
    for (packed,) in row.iter_unpack(table[imports:end]):
        start, ordinal = names + (packed >> before), packed & ordinals
        stop = table.find(0, start)
        if stop < 0:
            raise MalformedError("a name of the chained fixups runs beyond their end")
        source.charge_symbol(stop - start)
        # As in dyld, the highest 15 values are negative numbers: the special ordinals.
        ordinal -= ordinals + 1 if ordinal > ordinals - 15 else 0
        yield table[start:stop], ordinal, bool(packed >> bits & 1)


# The export trie. Names with a common prefix share the nodes of the prefix. A node has a ULEB size
# of its export (0: none), the export, a byte with the number of edges, and for each edge a
# NUL-terminated label and the ULEB offset of a child from the start of the trie.

_WEAK_DEFINITION = 0x4  # EXPORT_SYMBOL_FLAGS_WEAK_DEFINITION
_REEXPORT = 0x8  # EXPORT_SYMBOL_FLAGS_REEXPORT: an ordinal and a name follow
_UNUSUAL = 0x80 | _REEXPORT  # in the first byte of an export: more follows than an address
_WORD, _SIGN = 0xFFFFFFFF, 0x80000000  # dyld reads ordinals as signed integers of 32 bits
_REPETITION = 256  # most bytes of all names, as a multiple of the trie's size; real: below 40
_MOST_OF_NAMES = 1 << 28  # bytes of all names; the largest libraries have some ten million
_BEYOND = "the exports trie runs beyond its end"
_BYTES_PER_LOOKUP = 256  # if more names are looked up, reading the whole trie is faster


class MachOExports(SymbolTable):
    """The exports of one object; few names are looked up in its trie as by dyld.

    A malformed part of the trie is noticed only when it is visited; a check that asked for it then
    reports "not inspected". Call `verify` to visit all of it beforehand.
    """

    def __init__(self, path: str, trie: bytes, libraries: Mapping[int, str]) -> None:
        self._path = path
        self._trie = trie
        self._libraries = libraries  # by ordinal
        self._asked = 0  # names looked up so far
        self._text = b""  # all names, if they have been read

    def verify(self) -> None:
        """Visit every export. Raises MalformedError, or TooLarge if names exceed the limits."""
        names = []
        for name, place in self._each_export():
            if self._trie[place] & _UNUSUAL:
                self._make_symbol(name, place)
            names.append(name)
        self._text = _join(names)

    @contextmanager
    def _on_demand(self) -> Iterator[None]:
        """Let faults of the trie name the file, which the check that asks does not."""
        try:
            yield
        except (MalformedError, TooLarge) as error:
            reason = error.reason if isinstance(error, MalformedError) else error
            kind = TooLarge if isinstance(error, TooLarge) else Unavailable
            raise kind(f"the exports of {self._path} are unknown: {reason}") from None

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name once."""
        with self._on_demand():
            text = self._text or _join(name for name, _ in self._each_export())
            return frozenset(decode(text.replace(b"\0_", b"\0")).split("\0")[1:])

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Return the given names that the trie contains."""
        wanted = frozenset(names)
        self._asked += len(wanted)
        often = self._asked * _BYTES_PER_LOOKUP > len(self._trie)
        if often or self._text or "names" in self.__dict__:
            return wanted & self.names
        with self._on_demand():
            return frozenset(name for name in wanted if self._look_up(name))

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols with this name."""
        with self._on_demand():
            return tuple(self._make_symbol(*each) for each in self._look_up(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.among((name,)))

    def __iter__(self) -> Iterator[Symbol]:
        with self._on_demand():
            for each in self._each_export():
                yield self._make_symbol(*each)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<exports trie of {len(self._trie)} bytes>"

    def _make_symbol(self, name: bytes, place: int) -> Symbol:
        ordinal = 0
        try:
            flags, place = _read_uleb(self._trie, place)
            if flags & _REEXPORT:
                # BIND_SPECIAL_DYLIB_FLAT_LOOKUP (-2) may be written in ten bytes (open3d 0.19.0).
                ordinal = _read_uleb(self._trie, place)[0] & _WORD
                ordinal -= _WORD + 1 if ordinal & _SIGN else 0
        except IndexError:
            raise MalformedError(_BEYOND) from None
        library = _library_of(name, ordinal, self._libraries) if ordinal else ""
        return Symbol(name=_spell(name), library=library, weak=bool(flags & _WEAK_DEFINITION))

    def _look_up(self, name: str) -> list[tuple[bytes, int]]:
        """Return the symbols of a name, with the offsets of their exports."""
        plain = name.encode("utf-8", "backslashreplace")
        found = []
        for symbol in (b"_" + plain, *([] if plain.startswith(b"_") else [plain])):
            if place := self._descend(symbol):
                found.append((symbol, place))
        return found

    def _descend(self, symbol: bytes) -> int:
        """Return the offset of a symbol's export; 0 if the trie does not contain the symbol."""
        trie, node, begin, seen = self._trie, 0, 0, set[int]()
        try:
            while node not in seen:
                seen.add(node)
                size, place = _read_uleb(trie, node)
                count, at, longest = trie[place + size], place + size + 1, -1
                if begin == len(symbol) and size:
                    return place
                first = symbol[begin] if begin < len(symbol) else 0
                for _ in range(count):
                    end = trie.index(0, at)
                    # An edge may have no label (_oggpackB_write of libogg): the others come first.
                    if trie[at] in (0, first) and symbol.startswith(trie[at:end], begin):
                        if end - at > longest:
                            node, longest = _read_uleb(trie, end + 1)[0], end - at
                        if longest:
                            break
                    at = end + 1
                    while trie[at] >= 0x80:  # the number of the child
                        at += 1
                    at += 1
                if longest < 0:
                    return 0
                begin += longest
        except (IndexError, ValueError):
            raise MalformedError(_BEYOND) from None
        raise MalformedError("the exports trie has a cycle")

    def _each_export(self) -> Iterator[tuple[bytes, int]]:
        """Yield all symbols, with the offsets of their exports."""
        trie, waiting, visited = self._trie, [(0, b"")], bytearray(len(self._trie))
        left = min(_REPETITION * len(trie), _MOST_OF_NAMES)
        try:
            while waiting:
                node, name = waiting.pop()
                if visited[node]:
                    raise MalformedError(
                        f"two edges of the exports trie lead to its byte {node:#x}"
                    )
                visited[node] = 1
                size, place = trie[node], node + 1
                if size >= 0x80:
                    size, place = _read_uleb(trie, node)
                count = trie[place + size]
                if size:
                    yield name, place
                place += size + 1
                left -= (count + 1) * len(name)  # the name of a node is copied for each edge
                if left < 0:
                    raise TooLarge("the names of the exports trie are too long together")
                for _ in range(count):
                    end = trie.index(0, place)
                    child, after = _read_uleb(trie, end + 1)
                    waiting.append((child, name + trie[place:end]))
                    place = after
        except (IndexError, ValueError):
            raise MalformedError(_BEYOND) from None


# N_STAB, N_PEXT, N_TYPE, N_EXT in n_type; N_WEAK_REF and N_WEAK_DEF in n_desc
_STAB, _PRIVATE, _TYPE, _EXTERNAL = 0xE0, 0x10, 0x0E, 0x01
_WEAK_REFERENCE, _WEAK_DEFINED = 0x40, 0x80


def read_nlist(
    source: FilePart, header: MachHeader, command: Command
) -> tuple[list[Bind], Symbols]:
    """Read imports and exports from LC_SYMTAB (NULL.so of pyobjc_core 13.0 has nothing else)."""
    # symtab_command: symoff, nsyms, stroff, strsize
    start, count, names_at, names_size = command.unpack("4I")
    layout = header.struct("IBBHP")  # nlist: n_strx, n_type, n_sect, n_desc, n_value
    names = source.read(names_at, names_size)
    binds, exports = list[Bind](), list[Symbol]()
    table = source.read(start, count * layout.size)
    for place, kind, _, description, _ in layout.iter_unpack(table):
        if kind & (_STAB | _PRIVATE) or not kind & _EXTERNAL:
            continue
        end = names.find(0, place)
        if end < 0:
            raise MalformedError("a symbol's name runs beyond the string table", names_at)
        source.charge_symbol(end - place)
        if kind & _TYPE:
            weak = bool(description & _WEAK_DEFINED)
            exports.append(Symbol(name=_spell(names[place:end]), weak=weak))
        else:  # the ordinal is the high byte of n_desc; 0xFE and 0xFF are -2 and -1
            ordinal = description >> 8 if header.flags & MH_TWOLEVEL else _FLAT
            ordinal -= 0x100 if ordinal >= 0xFE else 0
            binds.append((names[place:end], ordinal, bool(description & _WEAK_REFERENCE)))
    return binds, Symbols(exports)
