"""Walks the exports trie, in which names that begin alike share their beginning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from binary_checks.errors import MalformedError
from binary_checks.objects.leb128 import read_uleb

WEAK_DEFINITION: Final = 0x4
REEXPORT: Final = 0x8

Export = tuple[bytes, int, int]
"""Name, flags, and the ordinal of the dylib that a re-export forwards to, negative as of binds."""

_WORD = 0xFFFFFFFF
_SIGN = 0x80000000
_MOST_OF_NAMES = 1 << 28
"""Bytes of all names together; those of the largest libraries have some ten million."""
_LONGEST = 64 * 1024
_REPETITION = 256
"""How often the trie's length all names may have; real ones stay below 20."""
_BEYOND = "the exports trie runs beyond its end"


def walk_trie(trie: bytes) -> Iterator[Export]:
    """Every export. Raises MalformedError.

    A node that two edges lead to may be part of a cycle, and no linker writes one.
    """
    if not trie:
        return
    visited = bytearray(len(trie))
    budget = min(_REPETITION * len(trie), _MOST_OF_NAMES)
    waiting = [(0, b"")]
    try:
        while waiting:
            place, name = waiting.pop()
            if visited[place]:
                raise MalformedError(f"two edges of the exports trie lead to its byte {place:#x}")
            visited[place] = 1
            size, place = read_uleb(trie, place)
            if size:
                budget -= len(name)
                if budget < 0 or len(name) > _LONGEST:
                    raise MalformedError("the names of the exports trie explode")
                yield _read_export(trie, place, name)
                place += size
            count = trie[place]
            place += 1
            for _ in range(count):
                end = trie.index(0, place)
                label = trie[place:end]
                child, place = read_uleb(trie, end + 1)
                waiting.append((child, name + label))
    except (IndexError, ValueError):
        raise MalformedError(_BEYOND) from None


def find_in_trie(trie: bytes, names: Sequence[bytes]) -> Iterator[Export]:
    """The exports among the names, which are sorted and not the trie's: others are passed by.

    Raises MalformedError for what is wrong with the part that the names lead through.
    """
    waiting = [(0, 0, 0, len(names))] if trie and names else []
    budget = len(trie)  # what is walked once has no more edges than that
    try:
        while waiting:
            # A node, the length of the name it stands for, and which names begin with that.
            place, depth, first, last = waiting.pop()
            size, place = read_uleb(trie, place)
            name = names[first]
            if size and len(name) == depth:  # without a size it may end an edge without a label
                yield _read_export(trie, place, name)
                first += 1
            place += size
            count = trie[place]
            place += 1
            for _ in range(count if first < last else 0):
                end = trie.index(0, place)
                budget -= end - place + 1
                if budget < 0:
                    raise MalformedError("the exports trie goes round")
                beginning = name[:depth] + trie[place:end]
                child, place = read_uleb(trie, end + 1)
                start = bisect_left(names, beginning, first, last)
                stop = bisect_left(names, beginning + b"\xff", start, last)
                if start < stop:  # no UTF-8 has that byte: all of these begin so
                    waiting.append((child, len(beginning), start, stop))
    except (IndexError, ValueError):
        raise MalformedError(_BEYOND) from None


def _read_export(trie: bytes, place: int, name: bytes) -> Export:
    flags = trie[place]
    if flags & ~WEAK_DEFINITION == 0:
        return name, flags, 0
    flags, place = read_uleb(trie, place)
    ordinal = read_uleb(trie, place)[0] & _WORD if flags & REEXPORT else 0
    # -2, looked up everywhere, is written in ten bytes (open3d 0.19.0).
    return name, flags, ordinal - _WORD - 1 if ordinal & _SIGN else ordinal
