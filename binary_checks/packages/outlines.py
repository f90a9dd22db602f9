"""Reads as much of an archive as its directory, a few texts and the heads of its libraries.

That is a thousandth of a large package, and what can be had of one that is not downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from binary_checks.errors import Unavailable
from binary_checks.model.objects import UnreadObject, format_of_name
from binary_checks.model.packages import Member
from binary_checks.model.protocols import (
    ObjectReader,
    ReadObject,
    Tree,
    TreeEntry,
    Visited,
    Wanted,
)

ReadHead: TypeAlias = Callable[[str, bytes, int], Sequence[ReadObject]]
"""Takes a path, the first bytes of the file there and its size, and says which objects it holds."""

_HEAD = 1 << 10  # bytes of each library
_MOST_HEADS = 300  # libraries: each takes a request where they lie far from each other
_MOST_TEXT = 4 << 20  # bytes that a text takes in the archive


class PartTree(Tree, Protocol):
    """A tree of which a part can be read without the rest."""

    def beginnings(self, entries: Iterable[TreeEntry], length: int) -> Iterator[bytes]:
        """As many of the first bytes of those members; b"" of one that cannot be read."""


def survey(tree: PartTree, reader: ObjectReader, wanted: Wanted, look: ReadHead) -> list[Visited]:
    """Visit the members that are wanted for their contents, and look how libraries begin."""
    entries = tree.entries()
    texts = [each for each in entries if each.name in wanted.kept]
    for text in texts:
        if text.compressed_size > _MOST_TEXT:
            reason = f"{text.compressed_size} bytes, more than {_MOST_TEXT} are not read"
            raise Unavailable(f"{text.name} takes {reason} before the download")
    visited = tree.visit(reader, replace(wanted, only=texts))
    read = dict(zip(map(id, texts), visited, strict=True))
    libraries = [each for each in entries if each.size and format_of_name(each.name)]
    near = libraries[:_MOST_HEADS]
    heads = dict(zip(map(id, near), tree.beginnings(near, _HEAD), strict=True))
    beyond = {id(each) for each in libraries[_MOST_HEADS:]}
    found = []
    for entry in entries:
        member = _describe(entry, wanted)
        objects: Sequence[ReadObject] = ()
        if head := heads.get(id(entry)):
            objects = look(member.path, head, entry.size)
        elif id(entry) in beyond or id(entry) in heads:
            objects = (_leave_unread(member, beyond=id(entry) in beyond),)
        found.append(read.get(id(entry)) or Visited(member, tuple(objects)))
    return found


def _describe(entry: TreeEntry, wanted: Wanted) -> Member:
    return Member(
        path=wanted.place(entry.name),
        archive_name=entry.stored,
        size=entry.size,
        compressed_size=entry.compressed_size,
        mode=entry.mode,
        faults=entry.faults,
    )


def _leave_unread(member: Member, *, beyond: bool) -> UnreadObject:
    form = format_of_name(member.path)
    assert form is not None
    more = f"only the first {_MOST_HEADS} libraries are looked at before a download"
    reason = more if beyond else "its first bytes cannot be read"
    return UnreadObject(path=member.path, format=form, reason=reason)
