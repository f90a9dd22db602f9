"""Compressed tar archives as one tree; each pass over the members reads all of them.

A compressed tar archive can only be read from its start.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from binary_checks.errors import BrokenDataError, PackageError
from binary_checks.model import Member, ObjectReader, Progress, TreeEntry, Visited, VisitRequest
from binary_checks.trees.decompression import (
    Start,
    expand,
    find_bzip2,
    find_gzip,
    find_xz,
    find_zstandard,
)
from binary_checks.trees.file_bytes import PackageBytes, open_bytes
from binary_checks.trees.members import (
    FIRST,
    WHOLE,
    MemberReader,
    Streamed,
    join_head,
    stream_pieces,
)
from binary_checks.trees.tar import TarEntry, TarStream

_COMPRESSIONS: dict[bytes, Callable[[], Start]] = {
    b"BZh": find_bzip2,
    b"\x28\xb5\x2f\xfd": find_zstandard,
    b"\xfd7zXZ\0": find_xz,
    b"\x1f\x8b": find_gzip,
}
"""Compressions by the first bytes of a file."""
_SUFFIXES = {
    **dict.fromkeys((".tar.bz2", ".tbz2"), find_bzip2),
    **dict.fromkeys((".tar.zst", ".tzst"), find_zstandard),
    **dict.fromkeys((".tar.xz", ".txz"), find_xz),
    **dict.fromkeys((".tar.gz", ".tgz"), find_gzip),
}  # by suffix, used if the file's first bytes are unknown
_BLOCK = 64 << 10  # bytes of the file at a time


class Part(NamedTuple):
    """One compressed tar archive of a tree."""

    name: str  # "" if the file contains nothing else
    packed: Callable[[], Iterator[bytes]]
    # returns the decompressor, or raises GatherError if the decompressor is not installed
    start: Callable[[], Start]

    def open(self) -> TarStream:
        """Begin to read the archive from its start."""
        return TarStream(expand(self.packed(), self.start()))


def recognises(path: Path, head: bytes) -> bool:
    """Return whether the file begins like compressed data, or has the suffix of such an archive."""
    return head.startswith(tuple(_COMPRESSIONS)) or path.name.endswith(tuple(_SUFFIXES))


def open_tree(path: Path) -> TarTree:
    """Open the file; its members are read on demand."""
    files = ExitStack()
    file = files.enter_context(open_bytes(path))
    # by the first bytes, or by the file's name if the data are broken
    head = file.read(0, max(map(len, _COMPRESSIONS)))
    found = (find for magic, find in _COMPRESSIONS.items() if head.startswith(magic))
    named = (find for suffix, find in _SUFFIXES.items() if path.name.endswith(suffix))
    start = next(found, None) or next(named)
    return TarTree(file, files, [Part("", lambda: read_blocks(file), start)])


def read_blocks(file: PackageBytes, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a range of the file."""
    end = file.size if end is None else end
    for offset in range(start, end, _BLOCK):
        yield file.read(offset, min(_BLOCK, end - offset))


class TarTree:
    """The members of one or more compressed tar archives, in order."""

    def __init__(
        self,
        file: PackageBytes,
        files: ExitStack,
        parts: Sequence[Part],
        faults: tuple[str, ...] = (),
        ambiguities: tuple[str, ...] = (),
    ) -> None:
        """``ambiguities`` are ambiguities of the archive that contains the parts."""
        self.path = file.path
        self.size = file.size
        self._files = files
        self._parts = parts
        self._faults = faults
        self.ambiguities = ambiguities
        # entries and faults, after one pass over all members
        self._known: tuple[tuple[TarEntry, ...], tuple[str, ...]] | None = None

    @property
    def label(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults of the archives as a whole."""
        return (*self._faults, *self._learn()[1])

    def entries(self) -> tuple[TarEntry, ...]:
        """Return all members, in the order of the archives."""
        return self._learn()[0]

    def each_entry(self) -> Iterator[TarEntry]:
        """Yield all members while the file is streamed; the caller may stop before its end."""
        if self._known is not None:
            return iter(self._known[0])
        return (entry for entry, _ in self._stream())

    def find(self, name: str) -> TarEntry | None:
        """Return the last member with this name, or None if there is none."""
        return next((entry for entry in reversed(self.entries()) if entry.name == name), None)

    def heads(self, entries: Iterable[TreeEntry]) -> Iterator[bytes]:
        """Yield the first bytes of these members."""
        wanted = {id(entry) for entry in entries}
        return (
            next(join_head(content), b"")[:FIRST]
            for known, (_, content) in zip(self.entries(), self._stream(), strict=False)
            if id(known) in wanted
        )

    def visit(
        self, reader: ObjectReader, wanted: VisitRequest, progress: Progress | None = None
    ) -> list[Visited]:
        """Read every member once, while the file is streamed."""
        members, files = MemberReader(self.label, reader, wanted), dict[str, Member]()
        only = None if wanted.only is None else {id(entry) for entry in wanted.only}
        known = self.entries() if only is not None else ()
        visited = [
            _visit(members, files, entry, content)
            for number, (entry, content) in enumerate(self._stream(progress))
            if only is None or id(known[number]) in only
        ]
        return _judge_links(visited)

    def pieces(self, entry: TreeEntry) -> Iterator[bytes]:
        """Yield the bytes of one member; this reads all members before it again."""
        for _, content in self.contents((entry,)):
            yield from content
            return

    def contents(self, entries: Sequence[TreeEntry]) -> Iterator[tuple[TreeEntry, Iterator[bytes]]]:
        """Yield these members again, each with its content, in the order of the archives."""
        wanted = {id(entry) for entry in entries}
        for known, (_, content) in zip(self.entries(), self._stream(), strict=False):
            if id(known) in wanted:
                yield known, content

    def close(self) -> None:
        """Close the file."""
        self._files.close()

    def _learn(self) -> tuple[tuple[TarEntry, ...], tuple[str, ...]]:
        if self._known is None:
            for _ in self._stream():
                pass
        assert self._known is not None
        return self._known

    def _stream(
        self, progress: Progress | None = None
    ) -> Iterator[tuple[TarEntry, Iterator[bytes]]]:
        """Yield every member with its bytes, which must be read before the next one."""
        entries: list[TarEntry] = []
        faults: list[str] = []
        for number, part in enumerate(self._parts):
            stream = part.open()
            if progress is not None:
                progress(self.size * number // len(self._parts), self.size)
            try:
                for entry in stream:
                    entries.append(entry)
                    yield entry, self._read(part, stream)
            except BrokenDataError as error:
                raise self._give_up(part, error) from None
            faults += (f"{part.name}: {fault}" if part.name else fault for fault in stream.faults)
        self._known = self._known or (tuple(entries), tuple(faults))

    def _read(self, part: Part, stream: TarStream) -> Iterator[bytes]:
        try:
            yield from stream.content()
        except BrokenDataError as error:
            raise self._give_up(part, error) from None

    def _give_up(self, part: Part, error: BrokenDataError) -> PackageError:
        """Return the error for broken data. No member after the broken data can be found."""
        what = f"{part.name}: {error}" if part.name else str(error)
        return PackageError(f"{self.label}: {what}")


def _visit(
    members: MemberReader, files: dict[str, Member], entry: TarEntry, pieces: Iterator[bytes]
) -> Visited:
    """Read the current member of the stream, which cannot be rewound.

    ``files`` are the members so far, by name, to which hard links lead.
    """
    if entry.target:
        return _follow(members, files, entry)
    if entry.faults or not entry.is_file:
        return members.refuse(entry)
    if entry.size <= WHOLE:
        content = b"".join(pieces)
        outcome = Streamed(sha256(content).hexdigest())
        visited = members.take_whole(entry, content, outcome)
    else:
        visited = members.take_stream(entry, partial(stream_pieces, pieces))
    files[entry.name] = visited.member
    return visited


def _follow(members: MemberReader, files: Mapping[str, Member], entry: TarEntry) -> Visited:
    """Describe a link; a hard link also has the size and hash of the file that it names."""
    visited, target = members.refuse(entry), entry.target
    if entry.is_symlink:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), target))
        return visited._replace(member=replace(visited.member, target=target))
    other = files.get(target)
    if other is None:
        fault = f"it is a hard link to {target}, but no earlier member has this name"
        return members.refuse(entry, fault)
    member = replace(visited.member, target=other.path, size=other.size, sha256=other.sha256)
    return visited._replace(member=member)


def _judge_links(visited: list[Visited]) -> list[Visited]:
    """Add faults to links that lead out of the tree, and to members below a symbolic link."""
    faults: dict[int, str] = {}
    names = sorted((each.member.archive_name, index) for index, each in enumerate(visited))
    for index, each in enumerate(visited):
        member = each.member
        if not member.is_symlink or not member.target:
            continue
        if member.target.startswith(("/", "../")) or member.target == "..":
            faults[index] = f"it links to {member.target}, outside of the package"
        beginning = f"{member.archive_name}/"
        place = bisect_left(names, (beginning, -1))
        while place < len(names) and names[place][0].startswith(beginning):
            behind = f"its path leads through {member.archive_name}, which is a symbolic link"
            faults.setdefault(names[place][1], behind)
            place += 1
    return [
        each._replace(member=replace(each.member, faults=(*each.member.faults, faults[index])))
        if index in faults
        else each
        for index, each in enumerate(visited)
    ]
