"""Walks the exports trie, in which names that begin alike share their beginning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.macho.encoding import read_uleb

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
