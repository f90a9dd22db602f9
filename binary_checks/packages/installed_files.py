"""The files of an installed distribution, each compared with its row of RECORD."""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from binary_checks.errors import PackageError
from binary_checks.model.objects import MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.packages import Member, RecordRow
from binary_checks.model.protocols import ObjectReader
from binary_checks.model.record import decode_hash
from binary_checks.python_code.mentions import Mention
from binary_checks.trees.file_bytes import FileBytes, open_bytes
from binary_checks.trees.retention import check_extent

_HEAD = 64  # bytes
_BLOCK = 1 << 20


class InstalledAt(NamedTuple):
    """Where the rows of RECORD lead."""

    site: Path
    prefix: Path

    def find(self, row: RecordRow) -> Path | None:
        """The file of a row, None outside the environment."""
        path = Path(os.path.normpath(self.site / row.path))
        return path if any(path.is_relative_to(each) for each in self) else None

    def name(self, path: Path) -> str:
        """The path in site-packages, or for lack of that in the environment: it escapes neither."""
        inside = path.is_relative_to(self.site)
        return path.relative_to(self.site if inside else self.prefix).as_posix()


class FileReading(NamedTuple):
    """A file, and the objects in it."""

    member: Member
    objects: tuple[ObjectFile | MalformedObject | UnreadObject, ...] = ()


def read_text(path: Path, most: int) -> bytes | None:
    """Read a small file, None where there is none or it is too large."""
    try:
        with open_bytes(path) as file:
            return file.read(0, file.size) if file.size <= most else None
    except PackageError:
        return None


def peek(place: InstalledAt, row: RecordRow) -> bytes:
    """The first bytes of a file, none where it cannot be read."""
    try:
        path, _ = _look(place, row)
        with open_bytes(path) as file:
            return file.read(0, _HEAD)
    except PackageError:
        return b""


def state_file(place: InstalledAt, row: RecordRow) -> FileReading:
    """Look whether the file is there and has its size; its hash is what RECORD says."""
    try:
        path, found = _look(place, row)
    except PackageError as error:
        return _leave(row, str(error))
    return FileReading(_describe(row, place.name(path), found, decode_hash(row.hash)))


def read_file(place: InstalledAt, row: RecordRow, reader: ObjectReader) -> FileReading:
    """Read the file from start to end, and as an object if it is one."""
    try:
        path, found = _look(place, row)
        with open_bytes(path) as file:
            digest = _hash(file)
            objects = reader.read_objects(row.path, _FileSource(file))
    except PackageError as error:
        return _leave(row, str(error))
    return FileReading(_describe(row, place.name(path), found, digest), objects)


def read_objects(place: InstalledAt, row: RecordRow, reader: ObjectReader) -> FileReading:
    """Read the file as an object if it is one; its hash is what RECORD says."""
    try:
        path, found = _look(place, row)
        with open_bytes(path) as file:
            objects = reader.read_objects(row.path, _FileSource(file))
    except PackageError as error:
        return _leave(row, str(error))
    return FileReading(_describe(row, place.name(path), found, decode_hash(row.hash)), objects)


def _look(place: InstalledAt, row: RecordRow) -> tuple[Path, os.stat_result]:
    path = None if "\0" in row.path else place.find(row)
    if path is None:
        raise PackageError("it lies outside the environment and is not looked at")
    try:
        found = path.stat()
    except OSError as error:
        raise PackageError(f"RECORD names it, and it is not there: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise PackageError("RECORD names it, and it is no regular file")
    return path, found


def _leave(row: RecordRow, fault: str) -> FileReading:
    return FileReading(Member(path=row.path, archive_name=row.path, faults=(fault,)))


def _describe(row: RecordRow, name: str, found: os.stat_result, digest: str) -> Member:
    return Member(
        path=row.path,
        archive_name=name,
        size=found.st_size,
        compressed_size=found.st_size,
        mode=found.st_mode,
        sha256=digest,
        faults=tuple(_find_faults(row, found.st_size, digest)),
    )


def _find_faults(row: RecordRow, size: int, digest: str) -> list[str]:
    stated = decode_hash(row.hash)
    if row.size is not None and size != row.size:
        return [f"it has {size} bytes, and RECORD says {row.size}: it was changed"]
    if stated and digest and stated != digest:
        return ["it is not what RECORD says: it was changed after the installation"]
    return []


def _hash(file: FileBytes) -> str:
    digest = sha256()
    offset = 0
    while block := file.read(offset, _BLOCK):
        digest.update(block)
        offset += len(block)
    return digest.hexdigest()


def does_mention(path: Path, mention: Mention) -> bool:
    """Whether a file mentions it, of whatever size it is."""
    search, offset = mention.search(), 0
    with open_bytes(path) as file:
        while block := file.read(offset, _BLOCK):
            if search(block):
                return True
            offset += len(block)
    return False


class _FileSource:
    """An open file as readers of objects want it."""

    def __init__(self, file: FileBytes) -> None:
        self._file = file

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._file.size

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""
        check_extent(offset, length, self.size)
        return self._file.read(offset, length)
