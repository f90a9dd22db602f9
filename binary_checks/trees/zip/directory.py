"""A zip archive's own account of its entries: the central directory in, entries out."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from binary_checks.errors import PackageError
from binary_checks.trees.file_bytes import PackageBytes
from binary_checks.trees.members import MAXIMUM_ENTRIES, MAXIMUM_SIZE
from binary_checks.trees.zip.header_faults import (
    NEWEST_VERSION,
    SPECIAL_FLAGS,
    UTF8,
    judge_extra,
    judge_kind,
)

_MAXIMUM_DIRECTORY = 32 << 20  # bytes; as many entries with names of 120 bytes
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR64 = struct.Struct("<4sIQI")
_CENTRAL = struct.Struct("<6x3H4x3I4H2x2I")  # without its maker, time, inner attributes
_FULL = 0xFFFFFFFF  # "look into the ZIP64 field"


class ZipEntry(NamedTuple):
    """One record of the central directory."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    compressed_size: int
    size: int
    mode: int  # st_mode
    offset: int  # of the local header, from the start of the file
    faults: tuple[str, ...] = ()

    @property
    def stored(self) -> str:
        """Its name."""
        return self.name


class Archive(NamedTuple):
    """Every entry in the order of the central directory, and what is wrong with the whole."""

    entries: tuple[ZipEntry, ...]
    faults: tuple[str, ...]
    directory_offset: int  # where the entries' own bytes end
    boundaries: tuple[int, ...] = ()  # where entries begin, in rising order, and the directory

    def limit_of(self, entry: ZipEntry) -> int:
        """Where an entry has to end: where the next one begins, or the directory."""
        following = bisect_right(self.boundaries, entry.offset)
        return self.boundaries[following] if following < len(self.boundaries) else -1


class _End(NamedTuple):
    """Where the central directory is said to lie."""

    entries: int
    size: int
    offset: int
    place: int  # of the first record behind the directory


def read_archive(file: PackageBytes) -> Archive:
    """Read the central directory; PackageError where it cannot be followed."""
    end, faults = _find_end(file)
    start = end.place - end.size
    shift = start - end.offset  # bytes in front of the archive, as a self-extractor has them
    if start < 0 or shift < 0:
        raise PackageError(f"{file.path.name}: truncated: its central directory is not all there")
    if end.entries > MAXIMUM_ENTRIES or end.size > _MAXIMUM_DIRECTORY:
        raise PackageError(
            f"{file.path.name}: its central directory claims {end.entries} entries"
            f" in {end.size} bytes; at most {MAXIMUM_ENTRIES} in {_MAXIMUM_DIRECTORY} are read"
        )
    if shift:
        faults = (f"{shift} bytes stand before the start of the archive", *faults)
    entries = tuple(_read_entries(file, end, start, shift))
    if (total := sum(entry.size for entry in entries)) > MAXIMUM_SIZE:
        raise PackageError(
            f"{file.path.name}: its members claim {total} bytes,"
            f" more than {MAXIMUM_SIZE} are not read"
        )
    boundaries = (*sorted(entry.offset for entry in entries), start)
    if boundaries[0] > shift:
        faults = (f"{boundaries[0] - shift} bytes stand before its first member", *faults)
    return Archive(entries, faults, start, boundaries)


def _find_end(file: PackageBytes) -> tuple[_End, tuple[str, ...]]:
    """Find the end-of-central-directory record: the last one that its comment fits behind."""
    base = max(0, file.size - _END.size - 0xFFFF)
    tail = file.read(base, file.size - base)
    place = len(tail)
    while (place := tail.rfind(b"PK\5\6", 0, place)) >= 0:
        rest = len(tail) - place - _END.size
        if rest >= 0:
            _, disk, first_disk, here, count, size, offset, comment = _END.unpack_from(tail, place)
            if comment <= rest:
                break
    else:
        reason = "truncated" if file.read(0, 4) == b"PK\3\4" else "not a zip archive"
        raise PackageError(f"{file.path.name}: {reason}: it has no end-of-central-directory record")
    faults = (f"{rest - comment} bytes follow the end of the archive",) if comment < rest else ()
    if here != count:
        faults = (f"its end counts {here} members in this file and {count} in all", *faults)
    end64 = _find_end64(file, base + place)
    if end64 is not None and not _agree(end64, (count, size, offset)):
        faults = ("its end and its ZIP64 end disagree on where the directory is", *faults)
    end = end64 or _End(count, size, offset, base + place)
    if end64 is None and (disk or first_disk):
        raise PackageError(f"{file.path.name}: part of an archive that spans several files")
    return end, faults


def _agree(end: _End, common: tuple[int, int, int]) -> bool:
    """Whether the common record has what the ZIP64 one has, or refers to that."""
    wide = (end.entries, end.size, end.offset)
    full = (0xFFFF, _FULL, _FULL)
    return all(it in {that, most} for it, that, most in zip(common, wide, full, strict=True))


def _find_end64(file: PackageBytes, place: int) -> _End | None:
    """Read the ZIP64 record when its locator stands before the common one."""
    locator = file.read(max(0, place - _LOCATOR64.size), _LOCATOR64.size)
    if len(locator) < _LOCATOR64.size or not locator.startswith(b"PK\6\7"):
        return None
    # Bytes in front of the archive would shift the place it names, but not this one.
    place -= _LOCATOR64.size + _END64.size
    record = file.read(max(0, place), _END64.size)
    if len(record) < _END64.size or not record.startswith(b"PK\6\6"):
        raise PackageError(f"{file.path.name}: its ZIP64 end-of-central-directory record is broken")
    *_, count, size, offset = _END64.unpack(record)
    return _End(count, size, offset, place)


def _read_entries(file: PackageBytes, end: _End, start: int, shift: int) -> Iterator[ZipEntry]:
    directory = file.read(start, end.size)
    at = 0
    for number in range(end.entries):
        if directory[at : at + 4] != b"PK\1\2" or at + _CENTRAL.size > len(directory):
            raise PackageError(
                f"{file.path.name}: entry {number + 1} of its central directory is broken"
                f" (at byte {start + at:#x})"
            )
        fields = _CENTRAL.unpack_from(directory, at)
        name_end = at + _CENTRAL.size + fields[6]
        extra_end = name_end + fields[7]
        raw_name = directory[at + _CENTRAL.size : name_end]
        yield _make_entry(fields, raw_name, directory[name_end:extra_end], shift)
        at = extra_end + fields[8]
    if at != len(directory):
        raise PackageError(
            f"{file.path.name}: its central directory has {len(directory)} bytes,"
            f" its {end.entries} entries take {at}"
        )


def _make_entry(fields: tuple[int, ...], raw_name: bytes, extra: bytes, shift: int) -> ZipEntry:
    version, flags, method, crc, packed, size, _, _, _, disk, attributes, offset = fields
    name, faults = decode_name(raw_name, flags)
    if extra or disk or version > NEWEST_VERSION or flags & SPECIAL_FLAGS:
        faults = (
            *faults,
            *judge_kind(version, flags),
            *judge_extra(extra, raw_name, " in the central directory"),
        )
        if disk:
            faults = (*faults, f"it lies in part {disk + 1} of an archive that spans several files")
    if _FULL in (packed, size, offset):
        wide = find_zip64(extra)
        wanted = [value == _FULL for value in (size, packed, offset)]
        if wide is None or len(wide) < sum(wanted):
            faults = (*faults, "its ZIP64 field is missing or short in the central directory")
        else:
            values = iter(wide)
            size, packed, offset = (
                next(values) if replaced else value
                for replaced, value in zip(wanted, (size, packed, offset), strict=True)
            )
    default = 0o40755 if name.endswith("/") else 0o100644
    mode = attributes >> 16 or default
    return ZipEntry(name, raw_name, flags, method, crc, packed, size, mode, offset + shift, faults)


def decode_name(raw_name: bytes, flags: int) -> tuple[str, tuple[str, ...]]:
    """Read a member's name, which is UTF-8 where bit 11 of the flags says so, else CP437."""
    faults = ("its name holds a NUL byte",) if b"\0" in raw_name else ()
    if raw_name.isascii():
        return raw_name.decode("ascii"), faults
    if not flags & UTF8:
        spelled = "its name is neither ASCII nor marked as UTF-8: tools read it differently"
        return raw_name.decode("cp437"), (*faults, spelled)
    try:
        return raw_name.decode(), faults
    except UnicodeDecodeError:
        return raw_name.decode(errors="backslashreplace"), (*faults, "its name is not valid UTF-8")


def find_zip64(extra: bytes) -> tuple[int, ...] | None:
    """Find the 64-bit numbers of the ZIP64 field (0x0001), None where there is no such field."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            field = extra[at + 4 : at + 4 + length]
            return struct.unpack_from(f"<{len(field) // 8}Q", field)
        at += 4 + length
    return None
