"""Walks the exports trie, in which names that begin alike share their beginning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.leb128 import read_uleb

WEAK_DEFINITION: Final = 0x4
REEXPORT: Final = 0x8

_WORD = 0xFFFFFFFF
_SIGN = 0x80000000
_MOST_OF_NAMES = 1 << 28
"""Bytes of all names together; those of the largest libraries have some ten million."""
_LONGEST = 64 * 1024
_REPETITION = 256
"""How often the trie's length all names may have; real ones stay below 20."""


class Export(NamedTuple):
    """One terminal node."""

    name: bytes
    flags: int
    ordinal: int  # of the dylib that a re-export forwards to, negative as of binds; else 0


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
            _read_edges(trie, place, name, waiting)
    except (IndexError, ValueError):
        raise MalformedError("the exports trie runs beyond its end") from None


def _read_export(trie: bytes, place: int, name: bytes) -> Export:
    flags, place = read_uleb(trie, place)
    ordinal = read_uleb(trie, place)[0] & _WORD if flags & REEXPORT else 0
    # -2, looked up everywhere, is written in ten bytes (open3d 0.19.0).
    return Export(name, flags, ordinal - _WORD - 1 if ordinal & _SIGN else ordinal)


def _read_edges(trie: bytes, place: int, name: bytes, waiting: list[tuple[int, bytes]]) -> None:
    """Put the children of a node on the list of those that wait."""
    count = trie[place]
    place += 1
    for _ in range(count):
        end = trie.index(b"\0", place)
        label = trie[place:end]
        child, place = read_uleb(trie, end + 1)
        waiting.append((child, name + label))
