"""A zip archive of which little is read: its directory, a few texts, and how its libraries begin.

That is a thousandth of a large package, and what can be had of one that is not downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeAlias

from binary_checks.errors import Unavailable
from binary_checks.model.objects import UnreadObject, format_of_name
from binary_checks.model.packages import Member
from binary_checks.model.protocols import ObjectReader, Progress, ReadObject, Visited, Wanted
from binary_checks.trees.file_bytes import PackageBytes
from binary_checks.trees.zip.directory import ZipEntry
from binary_checks.trees.zip.tree import ZipTree

ReadHead: TypeAlias = Callable[[str, bytes, int], Sequence[ReadObject]]
"""Takes a path, the first bytes of the file there and its size, and says which objects it holds."""

_HEAD = 1 << 10  # bytes of each library
_MOST_HEADS = 500  # libraries: each takes a request where they lie far from each other
_MOST_TEXT = 4 << 20  # bytes that a text takes in the archive


class GlimpsedTree(ZipTree):
    """A zip archive whose members are not read, but for the contents that are wanted.

    A visited member has no hash then, and its objects say what their first bytes tell.
    """

    def __init__(self, file: PackageBytes, files: ExitStack, look: ReadHead) -> None:
        super().__init__(file, files)
        self._look = look

    def visit(
        self, reader: ObjectReader, wanted: Wanted, progress: Progress | None = None
    ) -> list[Visited]:
        """Read those members alone that are wanted for their contents; all others are listed."""
        if wanted.only is not None:
            return super().visit(reader, wanted, progress)
        entries = self.entries()
        texts = [each for each in entries if each.name in wanted.kept]
        for text in texts:
            if text.compressed_size > _MOST_TEXT:
                reason = f"{text.compressed_size} bytes, more than {_MOST_TEXT} are not read"
                raise Unavailable(f"{text.name} takes {reason} before the download")
        visited = super().visit(reader, replace(wanted, only=texts), progress)
        read = dict(zip(map(id, texts), visited, strict=True))
        objects = self._look_at_libraries(wanted)
        return [
            read.get(id(each)) or Visited(_describe(each, wanted), objects.get(id(each), ()))
            for each in entries
        ]

    def _look_at_libraries(self, wanted: Wanted) -> dict[int, tuple[ReadObject, ...]]:
        """What the first bytes of each library tell, by the identity of its entry."""
        libraries = [each for each in self.entries() if each.size and format_of_name(each.name)]
        near, beyond = libraries[:_MOST_HEADS], libraries[_MOST_HEADS:]
        found: dict[int, tuple[ReadObject, ...]] = {}
        for entry, head in zip(near, self.beginnings(near, _HEAD), strict=True):
            place, gap = wanted.place(entry.name), "its first bytes cannot be read"
            told = tuple(self._look(place, head, entry.size)) if head else ()
            found[id(entry)] = told if head else (_leave_unread(place, gap),)
        for entry in beyond:
            gap = f"only the first {_MOST_HEADS} libraries are looked at before a download"
            found[id(entry)] = (_leave_unread(wanted.place(entry.name), gap),)
        return found


def _describe(entry: ZipEntry, wanted: Wanted) -> Member:
    return Member(
        path=wanted.place(entry.name),
        archive_name=entry.stored,
        size=entry.size,
        compressed_size=entry.compressed_size,
        mode=entry.mode,
        faults=entry.faults,
    )


def _leave_unread(path: str, reason: str) -> UnreadObject:
    form = format_of_name(path)
    assert form is not None
    return UnreadObject(path=path, format=form, reason=reason)
