"""The export trie of a Mach-O file (<mach-o/loader.h>), and the symbol table made of it.

Names with a common prefix share the nodes of the prefix. A node has a ULEB size of its export
information (0: no export), the information itself, a byte with the number of edges, and for each
edge a NUL-terminated label and the ULEB offset of a child from the start of the trie.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Symbol, SymbolTable
from binary_checks.objects.macho.symbol_names import (
    LONGEST_NAME,
    decode_names,
    encode_name,
    encode_names,
    join_names,
    library_of,
    read_uleb,
)

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
                if len(name) > LONGEST_NAME:
                    reason = f"has more than {LONGEST_NAME} bytes; longer ones are not read"
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
