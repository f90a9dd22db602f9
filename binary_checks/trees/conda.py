"""The container of a ``.conda`` package: a zip archive of tar archives, read as one tree.

``pkg-<name>.tar.zst`` holds the files to install, ``info-<name>.tar.zst`` the metadata, and
metadata.json the version of the format; <name> is the file's name without its suffix (CEP 35).
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from binary_checks.errors import BrokenDataError, PackageError
from binary_checks.trees.decompression import find_zstandard
from binary_checks.trees.file_bytes import PackageBytes, open_bytes
from binary_checks.trees.tar_tree import Part, TarTree
from binary_checks.trees.zip.directory import Archive, ZipEntry, read_archive
from binary_checks.trees.zip.members import (
    expand_again,
    find_overlaps,
    locate,
    span_of,
    span_of_head,
)

_SUFFIX = ".conda"
_FORMAT = "metadata.json"
_PREFIXES = ("info-", "pkg-")
_PACKED = ".tar.zst"
_FEW = 8  # members of the zip archive; a valid ``.conda`` file has three


def recognises(path: Path, head: bytes) -> bool:
    """Return whether the file has the suffix of a conda package."""
    del head
    return path.name.endswith(_SUFFIX)


def open_tree(path: Path) -> TarTree:
    """Open the file and find the two archives in it. Raises PackageError if one is missing."""
    files = ExitStack()
    file = files.enter_context(open_bytes(path))
    try:
        return _open(file, files, _PREFIXES)
    except PackageError:
        files.close()
        raise


def open_description(file: PackageBytes, files: ExitStack) -> TarTree:
    """Open only the archive with the metadata, a small part of the file.

    Raises PackageError if either archive is missing.
    """
    return _open(file, files, _PREFIXES[:1])


def _open(file: PackageBytes, files: ExitStack, wanted: tuple[str, ...]) -> TarTree:
    archive = read_archive(file)
    entries = {prefix: _find(file.path, archive, prefix) for prefix in _PREFIXES}
    chosen = [entries[prefix] for prefix in wanted]
    heads = (span_of_head(entry, 0) for entry in archive.entries[:_FEW])
    file.expect([*map(span_of, chosen), *heads])
    parts = [Part(each.name, partial(_unpack, file, each), find_zstandard) for each in chosen]
    return TarTree(file, files, parts, tuple(_judge(file, archive, entries)), archive.ambiguities)


def _find(path: Path, archive: Archive, prefix: str) -> ZipEntry:
    found = [e for e in archive.entries if e.name.startswith(prefix) and e.name.endswith(_PACKED)]
    if len(found) != 1:
        count = f"{len(found)} times" if found else "no"
        raise PackageError(f"{path.name}: not a conda package: it has {count} {prefix}*{_PACKED}")
    return found[0]


def _unpack(file: PackageBytes, entry: ZipEntry) -> Iterator[bytes]:
    """Yield the archive's bytes; raise BrokenDataError at their end if the CRC-32 is wrong."""
    crc = 0
    for piece in expand_again(file, entry):
        crc = zlib.crc32(piece, crc)
        yield piece
    if crc != entry.crc:
        raise BrokenDataError(f"its CRC-32 is {crc:08x} and the archive says {entry.crc:08x}")


def _judge(file: PackageBytes, archive: Archive, parts: dict[str, ZipEntry]) -> Iterator[str]:
    """Report faults of the zip archive, but no faults inside its two tar archives."""
    for name, count in Counter(entry.name for entry in archive.entries).items():
        if count > 1:
            yield f"{name}: {count} members have this name"
    overlaps = find_overlaps(archive)
    for index, entry in enumerate(archive.entries):
        _, faults = locate(file, entry, limit=archive.limit_of(entry))
        overlap = (overlaps[index],) if index in overlaps else ()
        yield from (f"{entry.name}: {fault}" for fault in (*entry.faults, *faults, *overlap))
        if entry.name != _FORMAT and entry not in parts.values():
            yield f"{entry.name}: not part of a conda package, and no tool unpacks it"
    if all(entry.name != _FORMAT for entry in archive.entries):
        yield f"it has no {_FORMAT}"
    stem = file.path.name.removesuffix(_SUFFIX)
    for prefix, entry in parts.items():
        if entry.name != f"{prefix}{stem}{_PACKED}":
            yield f"{entry.name}: should be {prefix}{stem}{_PACKED}: the package was renamed"
