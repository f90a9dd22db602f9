"""What a Mach-O file exports: the trie itself, walked as far as the names asked for lead."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Symbol, SymbolTable
from binary_checks.objects.macho.header import decode

# How the tables of a Mach-O file encode numbers and spell the names of symbols.
#
# Numbers of the export trie and of bind opcodes are unsigned LEB128; before each name of C stands
# an underscore.

_MOST_BITS = 63


def read_uleb(data: bytes, place: int) -> tuple[int, int]:
    """The number at that place, and where the next byte lies.

    Raises MalformedError for one of more than 64 bits, IndexError beyond the end of the data.
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
    """Keep many names as one piece of bytes, with a zero, which none has, around each."""
    return b"\0".join((b"", *names, b""))


def decode_names(text: bytes) -> list[str]:
    """The names in such a piece."""
    return decode(text.replace(b"\0_", b"\0")[1:-1]).split("\0") if len(text) > 1 else []


def holds(text: bytes, name: str) -> bool:
    """Whether a name is in such a piece."""
    return any(b"\0%b\0" % each in text for each in spell(name))


def spell(name: str) -> tuple[bytes, ...]:
    """How Mach-O may spell a name of C: assembler can do without the underscore."""
    plain = name.encode("utf-8", "backslashreplace")
    return (b"_" + plain,) if plain.startswith(b"_") else (b"_" + plain, plain)


@lru_cache(maxsize=4)  # one library after the other is asked for the same
def spell_all(names: frozenset[str], *, plain: bool) -> list[bytes]:
    """How Mach-O may spell many names, sorted; only if ``plain``, also without the underscore."""
    spelled = ("_" + "\0_".join(names)).encode("utf-8", "backslashreplace").split(b"\0")
    if plain:
        spelled += [each[1:] for each in spelled if not each.startswith(b"__")]
    return sorted(spelled)


def library_of(name: bytes, ordinal: int, libraries: Mapping[int, str]) -> str:
    """Whom a symbol is asked of. Raises MalformedError."""
    try:
        return libraries[ordinal]
    except KeyError:
        raise MalformedError(f"{decode(name)} is asked of dylib {ordinal}, there is none") from None


# The exports trie, in which names that begin alike share their beginning.

WEAK_DEFINITION: Final = 0x4
REEXPORT: Final = 0x8
_KIND, _ABSOLUTE = 3, 2  # regular, thread-local, absolute
_RESOLVER = 0x10
_PLAIN = frozenset({0, 1, 2, 4, 5, 6})  # flags of what has an address and nothing else

Export = tuple[bytes, int, int]
"""Name, flags, and the ordinal of the dylib that a re-export forwards to, negative as of binds."""

_Way = tuple[int, bytes, int, int]
"""A node, the name that it stands for, and which of some sorted names begin so: from, to."""

_WORD = 0xFFFFFFFF
_SIGN = 0x80000000
_MOST_OF_NAMES = 1 << 28
"""Bytes of all names together; those of the largest libraries have some ten million."""
_LONGEST = 64 * 1024
_REPETITION = 256
"""How often the trie's length all names may have; real ones stay below 40."""
_BEYOND = "the exports trie runs beyond its end"


def walk_trie(trie: bytes, factor: int = 1) -> Iterator[Export]:
    """Every export. Raises MalformedError, or TooLarge for names that explode.

    A node that two edges lead to may be part of a cycle, and no linker writes one.
    """
    if not trie:
        return
    visited = bytearray(len(trie))
    # Of all names and what they begin with: each edge copies the name of its node.
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
                reason = f"have more than {most} bytes together, no more are read"
                raise TooLarge(f"the names of the exports trie {reason}")
            if size:
                if len(name) > _LONGEST:
                    reason = f"has more than {_LONGEST} bytes, none so long is read"
                    raise TooLarge(f"a name of the exports trie {reason}")
                _demand_whole(trie, place, size)
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


def _demand_whole(trie: bytes, place: int, size: int) -> None:
    """Raise MalformedError for an export that is not as long as its node says, or of no kind."""
    flags, end = trie[place], place + size
    is_number = size > 1 and trie[end - 1] < 0x80 and (size == 2 or trie[end - 2] >= 0x80)
    if size > 3:  # no other byte may end the number
        is_number = is_number and min(trie[place + 1 : end - 2]) >= 0x80
    if is_number and flags in _PLAIN:  # nearly always
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
        raise MalformedError(f"an export ends at {at:#x} of the trie, not at {end:#x} as it says")


def find_in_trie(trie: bytes, names: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    """The names that it has, each with its node; they are given sorted.

    Raises MalformedError for what is wrong with the part that the names lead through.
    """
    waiting: list[_Way] = [(0, b"", 0, len(names))] if trie and names else []
    budget = len(trie)  # what is walked once has no more bytes than that
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
                    raise MalformedError("the exports trie goes round")
    except (IndexError, ValueError):
        raise MalformedError(_BEYOND) from None


def _choose(trie: bytes, place: int, names: Sequence[bytes], way: _Way) -> tuple[list[_Way], int]:
    """The edges at that place that lead on to some of the names, and where the last one ends."""
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
        if label == beginning:  # the name that the node stands for ends with this edge
            ways.append((child, label, first, last))
            continue
        if start == last or not names[start].startswith(label):
            start = bisect_left(names, label, first, last)
            if start == last or not names[start].startswith(label):
                continue
        stop = start + 1
        if stop < last and names[stop].startswith(label):
            stop = bisect_left(names, label + b"\xff", stop, last)  # no UTF-8 has that byte
        ways.append((child, label, start, stop))
        left -= stop - start
        if not left:
            break
        start = stop  # where the next edge leads, if they are in order
    return ways, place


def read_export(trie: bytes, name: bytes, node: int) -> Export:
    """What the trie says of a name at its node. Raises MalformedError."""
    try:
        _, place = read_uleb(trie, node)
        return _read_export(trie, place, name)
    except IndexError:
        raise MalformedError(_BEYOND) from None


def _read_export(trie: bytes, place: int, name: bytes) -> Export:
    flags = trie[place]
    if flags & ~WEAK_DEFINITION == 0:
        return name, flags, 0
    flags, place = read_uleb(trie, place)
    ordinal = read_uleb(trie, place)[0] & _WORD if flags & REEXPORT else 0
    # -2, looked up everywhere, is written in ten bytes (open3d 0.19.0).
    return name, flags, ordinal - _WORD - 1 if ordinal & _SIGN else ordinal


# What a Mach-O file exports, as the model has it.

_FEW, _BYTES_PER_NAME = 8, 32
"""Once a few and one name in so many bytes of a trie were found, all is read, which is quicker."""
_UNDERSCORE_FIRST = b"\0\1_"
"""How a trie begins in which every name begins with an underscore, as all of C do."""


class MachOExports(SymbolTable):
    """The exports of one object, as its trie has them.

    A name is looked up once, as dyld does it, and the other parts of the trie are not read. Where
    a part turns out to be malformed, the check that asked could not inspect it; `verify` reads all
    beforehand.
    """

    def __init__(
        self, path: str, trie: bytes, libraries: Mapping[int, str], factor: int = 1
    ) -> None:
        self._path = path
        self._trie = trie
        self._libraries = libraries  # by ordinal
        self._text: bytes | None = None  # all names, once they were read
        self._names: frozenset[str] | None = None
        self._factor = factor
        self._asked: set[str] = set()  # among all; of these it has
        self._found: set[str] = set()

    def verify(self) -> None:
        """Read the whole trie. Raises MalformedError, or TooLarge for names that explode."""
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
        """Those of the names that it has."""
        wanted = frozenset(names)
        often = (_FEW + len(self._found)) * _BYTES_PER_NAME > len(self._trie)
        if often or self._text is not None or "\\" in "".join(wanted):  # our escape
            return wanted & self.names
        unknown = wanted - self._asked
        if unknown:
            self._found.update(self._look_up(unknown))
            self._asked |= unknown
        return wanted & self._found

    def _look_up(self, names: frozenset[str]) -> list[str]:
        spelled = spell_all(names, plain=not self._trie.startswith(_UNDERSCORE_FIRST))
        try:
            return decode_names(join_names(name for name, _ in find_in_trie(self._trie, spelled)))
        except (MalformedError, Unavailable) as error:
            raise self._cannot_look(error) from None

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbol of that name."""
        if "\\" in name:
            return tuple(symbol for symbol in self if symbol.name == name)
        found = find_in_trie(self._trie, sorted(spell(name)))
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
        return kind(f"what {self._path} exports cannot be told: {reason}")
