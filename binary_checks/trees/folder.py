"""Files on disk as a tree: a whole folder, one file, or the files that a list names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from binary_checks.errors import PackageError
from binary_checks.model import ObjectReader, Progress, TreeEntry, Visited, VisitRequest
from binary_checks.trees.batches import visit_all
from binary_checks.trees.file_bytes import FileBytes, open_bytes
from binary_checks.trees.kept_bytes import check_extent
from binary_checks.trees.members import (
    FIRST,
    MAXIMUM_ENTRIES,
    WHOLE,
    MemberReader,
    Streamed,
    stream_pieces,
)
from binary_checks.watchdog import ask

_BLOCK = 1 << 20


class FileEntry(NamedTuple):
    """A file; if it cannot be read, its faults say why."""

    name: str  # relative to the root, as listed
    # relative to the root, or else to the enclosing folder `within`; never leads out of `within`
    stored: str
    path: Path = Path()
    size: int = 0
    mode: int = 0o644  # st_mode
    faults: tuple[str, ...] = ()
    target: str = ""  # for a link inside the folder, the name that it leads to

    @property
    def compressed_size(self) -> int:
        """The file's size, since the file is not compressed."""
        return self.size


def recognises(path: Path, head: bytes) -> bool:
    """Return whether the path is a folder."""
    del head
    return path.is_dir()


def open_tree(path: Path) -> FolderTree:
    """Return a tree of all files in the folder."""
    return WholeFolder(path, root=path, within=path, label=f"{path.name}/")


class FolderTree:
    """Files with names relative to a root; files outside of ``within`` are refused.

    Links are followed: if a list names a link, the linked file is read.
    """

    def __init__(
        self, path: Path, *, root: Path, within: Path, label: str = "", listed_by: str = ""
    ) -> None:
        """Provide the files below ``root``, or elsewhere below ``within``.

        ``listed_by`` names, in messages, the file that lists these files, if there is one.
        """
        self.path = path
        self.label = label or path.name
        self.faults: tuple[str, ...] = ()
        self.ambiguities: tuple[str, ...] = ()
        self._root = root
        self._within = within
        self._listed_by = listed_by
        self._entries: list[FileEntry] | None = None

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(entry.size for entry in self.entries())

    def entries(self) -> Sequence[FileEntry]:
        """Return every file and link in the folder, sorted by name. Raises PackageError.

        The folder is listed only once, so that all readers see the same state.
        """
        if self._entries is None:
            self._entries = self._list()
        return self._entries

    def _list(self) -> list[FileEntry]:
        names: list[str] = []
        for folder, folders, files in os.walk(self._root, onerror=self._refuse):
            links = [name for name in folders if Path(folder, name).is_symlink()]
            names += (Path(folder, name).relative_to(self._root).as_posix() for name in files)
            names += (Path(folder, name).relative_to(self._root).as_posix() for name in links)
            if len(names) > MAXIMUM_ENTRIES:
                raise PackageError(
                    f"{self.label}: more than {MAXIMUM_ENTRIES} files in it are not read"
                )
        return [self.find(name) for name in sorted(names)]

    def each_entry(self) -> Iterator[FileEntry]:
        """Yield the same entries as `entries` returns."""
        return iter(self.entries())

    def _refuse(self, error: OSError) -> None:
        path = Path(error.filename or self._root)
        where = path.relative_to(self._root).as_posix() if path != self._root else "it"
        raise PackageError(f"{self.label}: {where} cannot be listed: {error.strerror}") from None

    def find(self, name: str) -> FileEntry:
        """Return the entry of a name; if the file cannot be read, the entry's faults say why."""
        path = None if "\0" in name else self._follow(name)
        if path is None:
            outside = "it is outside the environment and was not inspected"
            return FileEntry(name, name, faults=(outside,))
        try:
            found = path.stat()
        except OSError as error:
            return FileEntry(
                name, name, faults=(self._describe_file(f"it is not there: {error.strerror}"),)
            )
        if not stat.S_ISREG(found.st_mode):
            return FileEntry(name, name, faults=(self._describe_file("it is not a regular file"),))
        base = self._root if path.is_relative_to(self._root) else self._within
        real = path.relative_to(base).as_posix()
        return FileEntry(name, real, path, found.st_size, found.st_mode)

    def _describe_file(self, what: str) -> str:
        return f"{self._listed_by} names it, and {what}" if self._listed_by else what

    def _follow(self, name: str) -> Path | None:
        path = Path(os.path.normpath(self._root / name))
        inside = path.is_relative_to(self._root) or path.is_relative_to(self._within)
        return path if inside else None

    def heads(self, entries: Iterable[TreeEntry]) -> Iterator[bytes]:
        """Yield the first bytes of these files."""
        for entry in map(_own, entries):
            try:
                with open_bytes(entry.path) as file:
                    yield file.read(0, FIRST)
            except PackageError:
                yield b""

    def visit(
        self, reader: ObjectReader, wanted: VisitRequest, progress: Progress | None = None
    ) -> list[Visited]:
        """Read every file once, on several threads."""
        members = MemberReader(self.label, reader, wanted)
        entries = list(map(_own, self.entries() if wanted.only is None else wanted.only))
        members.expect(entries)

        def visit(index: int) -> Visited:
            entry = entries[index]
            if entry.faults or entry.target:
                return _describe_link(members.refuse(entry), entry.target)
            try:
                with open_bytes(entry.path) as file:
                    if wanted.hashed and entry.size <= WHOLE:
                        content = file.read(0, entry.size)
                        ask(len(content))
                        outcome = Streamed(sha256(content).hexdigest())
                        return members.take_whole(entry, content, outcome)
                    stream = partial(stream_pieces, _read_blocks(file))
                    return members.take_source(entry, FileByteSource(file), stream)
            except PackageError as error:
                return members.refuse(entry, str(error))

        return visit_all(entries, visit, progress)

    def pieces(self, entry: TreeEntry) -> Iterator[bytes]:
        """Read one file again. Raises PackageError."""
        with open_bytes(_own(entry).path) as file:
            yield from _read_blocks(file)

    def contents(self, entries: Sequence[TreeEntry]) -> Iterator[tuple[TreeEntry, Iterator[bytes]]]:
        """Read these files again, in the given order."""
        return ((entry, self.pieces(entry)) for entry in entries)

    def close(self) -> None:
        """Do nothing: no file is open."""


class WholeFolder(FolderTree):
    """All files of a folder. A link to another path in the folder stays a link, as in an archive.

    A link to a file outside of the folder is read as that file (Bazel's outputs are such links); a
    link to a folder outside is not followed.
    """

    def find(self, name: str) -> FileEntry:
        """Return the named file or link."""
        path = self._root / name
        if "\0" in name or not path.is_symlink():
            return super().find(name)
        root, real = Path(os.path.realpath(self._root)), Path(os.path.realpath(path))
        target = real.relative_to(root).as_posix() if real.is_relative_to(root) else ""
        if target or real.is_dir():
            mode = stat.S_IFLNK | 0o777
            return FileEntry(name, name, mode=mode, target=target or str(real))
        return super().find(name)


def _describe_link(visited: Visited, target: str) -> Visited:
    """Add the target of a link; report a link that leads out of the folder."""
    if not target:
        return visited
    faults = visited.member.faults
    if target.startswith("/"):
        faults = (*faults, f"it links to {target}, outside of the folder")
    return visited._replace(member=replace(visited.member, target=target, faults=faults))


def _own(entry: TreeEntry) -> FileEntry:
    """Return the entry as a FileEntry; this tree lists only entries of this class."""
    assert isinstance(entry, FileEntry)
    return entry


def _read_blocks(file: FileBytes) -> Iterator[bytes]:
    offset = 0
    while block := file.read(offset, _BLOCK):
        ask(len(block))
        yield block
        offset += len(block)


class FileByteSource:
    """An open file, as a source of bytes for readers of object files."""

    def __init__(self, file: FileBytes) -> None:
        self._file = file

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._file.size

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes. Raises MalformedError if the file ends before."""
        check_extent(offset, length, self.size)
        return self._file.read(offset, length)
