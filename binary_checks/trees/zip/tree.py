"""A zip archive as a tree: its central directory lists the members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeAlias

from binary_checks.errors import Unavailable
from binary_checks.model import (
    ObjectReader,
    Progress,
    ReadObject,
    TreeEntry,
    UnreadObject,
    Visited,
    VisitRequest,
    format_of_name,
)
from binary_checks.trees.batches import visit_all
from binary_checks.trees.file_bytes import PackageBytes, open_bytes
from binary_checks.trees.members import FIRST, WHOLE, MemberReader
from binary_checks.trees.zip.directory import Archive, ZipEntry, read_archive
from binary_checks.trees.zip.members import (
    expand_again,
    find_overlaps,
    read_head,
    read_small,
    read_stream,
    span_of,
    span_of_head,
)

_SUFFIXES = (".whl", ".zip")  # recognised whatever the file's first bytes are


def recognises(path: Path, head: bytes) -> bool:
    """Return whether the file begins with a member, or has the suffix of an archive."""
    return head.startswith(b"PK\3\4") or path.name.endswith(_SUFFIXES)


def open_tree(path: Path) -> ZipTree:
    """Open the file; its central directory is read on demand."""
    files = ExitStack()
    return ZipTree(files.enter_context(open_bytes(path)), files)


class ZipTree:
    """The members of a zip archive, decompressed in any order on several threads."""

    faults: tuple[str, ...] = ()

    def __init__(self, file: PackageBytes, files: ExitStack) -> None:
        self.path = file.path
        self._file = file
        self._files = files

    @cached_property
    def _archive(self) -> Archive:
        return read_archive(self._file)

    @cached_property
    def _by_name(self) -> dict[str, ZipEntry]:
        return {entry.name: entry for entry in self._archive.entries}

    @property
    def label(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._file.size

    @property
    def ambiguities(self) -> tuple[str, ...]:
        """Reasons why other tools may read the file as another archive."""
        return self._archive.ambiguities

    def entries(self) -> tuple[ZipEntry, ...]:
        """Return all members, in the order of the central directory."""
        return self._archive.entries

    def each_entry(self) -> Iterator[ZipEntry]:
        """Yield the same entries as `entries` returns."""
        return iter(self._archive.entries)

    def find(self, name: str) -> ZipEntry | None:
        """Return the last member with this name, or None if there is none."""
        return self._by_name.get(name)

    def heads(self, entries: Iterable[TreeEntry]) -> Iterator[bytes]:
        """Yield the first bytes of these members."""
        return self.beginnings(entries, FIRST)

    def beginnings(self, entries: Iterable[TreeEntry], length: int) -> Iterator[bytes]:
        """Yield the first ``length`` bytes of these members, or b"" for an unreadable member."""
        own = [*map(_own, entries)]
        self._file.expect(span_of_head(entry, length) for entry in own)
        return (read_head(self._file, entry, length) for entry in own)

    def visit(
        self, reader: ObjectReader, wanted: VisitRequest, progress: Progress | None = None
    ) -> list[Visited]:
        """Read every member once, the largest first."""
        entries, overlaps = self._archive.entries, find_overlaps(self._archive)
        members = MemberReader(self.label, reader, wanted)
        chosen: Sequence[int] = range(len(entries))
        if wanted.only is not None:
            only = {id(entry) for entry in wanted.only}
            chosen = [index for index in chosen if id(entries[index]) in only]
            self._file.expect(span_of(entries[index]) for index in chosen)

        def visit(number: int) -> Visited:
            index = chosen[number]
            return self._visit(members, entries[index], overlaps.get(index))

        visited = [entries[index] for index in chosen]
        members.expect(visited)
        return visit_all(visited, visit, progress)

    def _visit(self, members: MemberReader, entry: ZipEntry, refusal: str | None) -> Visited:
        if refusal is not None:
            return members.refuse(entry, refusal)
        limit = self._archive.limit_of(entry)
        if max(entry.size, entry.compressed_size) <= WHOLE:
            return members.take_whole(entry, *read_small(self._file, entry, limit))
        stream = partial(read_stream, self._file, entry, limit=limit)
        return members.take_stream(entry, stream)

    def pieces(self, entry: TreeEntry) -> Iterator[bytes]:
        """Decompress one member again. Raises BrokenDataError."""
        return expand_again(self._file, _own(entry))

    def contents(self, entries: Sequence[TreeEntry]) -> Iterator[tuple[TreeEntry, Iterator[bytes]]]:
        """Decompress these members again, in the given order."""
        return ((entry, self.pieces(entry)) for entry in entries)

    def close(self) -> None:
        """Close the file."""
        self._files.close()


def _own(entry: TreeEntry) -> ZipEntry:
    """Return the entry as a ZipEntry; this tree lists only entries of this class."""
    assert isinstance(entry, ZipEntry)
    return entry


# Partial reading: the directory, a few texts, and the first bytes of libraries.
#
# This takes a thousandth of a large package, and nothing else is read of a package that is not
# downloaded.

ReadHead: TypeAlias = Callable[[str, bytes, int], Sequence[ReadObject]]
"""Takes a path, the first bytes of the file and its size; returns the objects in it."""

_LIBRARY_HEAD = 1 << 10  # bytes of each library
_MOST_HEADS = 500  # libraries; each takes a request if they are far apart in the file
_MOST_TEXT = 4 << 20  # bytes of a text, compressed


class PartialTree(ZipTree):
    """A zip archive of which only requested contents are read.

    Visited members have no hash, and their objects contain only what their first bytes show.
    """

    def __init__(self, file: PackageBytes, files: ExitStack, look: ReadHead) -> None:
        super().__init__(file, files)
        self._look = look

    def visit(
        self, reader: ObjectReader, wanted: VisitRequest, progress: Progress | None = None
    ) -> list[Visited]:
        """Read only members whose contents are requested; list all others."""
        if wanted.only is not None:
            return super().visit(reader, wanted, progress)
        entries = self.entries()
        texts = [each for each in entries if each.name in wanted.texts]
        for text in texts:
            if text.compressed_size > _MOST_TEXT:
                reason = f"{text.compressed_size} bytes; at most {_MOST_TEXT} are read"
                raise Unavailable(f"{text.name} takes {reason} before the download")
        visited = super().visit(reader, replace(wanted, only=texts), progress)
        read = dict(zip(map(id, texts), visited, strict=True))
        objects, members = self._look_at_libraries(wanted), MemberReader(self.label, reader, wanted)
        return [
            read.get(id(each)) or members.refuse(each)._replace(objects=objects.get(id(each), ()))
            for each in entries
        ]

    def _look_at_libraries(self, wanted: VisitRequest) -> dict[int, tuple[ReadObject, ...]]:
        """Return the objects that each library's first bytes show, by the entry's ``id()``."""
        libraries = [each for each in self.entries() if each.size and format_of_name(each.name)]
        near, beyond = libraries[:_MOST_HEADS], libraries[_MOST_HEADS:]
        found: dict[int, tuple[ReadObject, ...]] = {}
        for entry, head in zip(near, self.beginnings(near, _LIBRARY_HEAD), strict=True):
            place, gap = wanted.place(entry.name), "its first bytes cannot be read"
            objects = tuple(self._look(place, head, entry.size)) if head else ()
            found[id(entry)] = objects if head else (_leave_unread(place, gap),)
        for entry in beyond:
            gap = f"only the first {_MOST_HEADS} libraries are looked at before a download"
            found[id(entry)] = (_leave_unread(wanted.place(entry.name), gap),)
        return found


def _leave_unread(path: str, reason: str) -> UnreadObject:
    form = format_of_name(path)
    assert form is not None
    return UnreadObject(path=path, format=form, reason=reason)
