"""Where a member's bytes lie, by its local header, and where that contradicts the directory."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from binary_checks.trees.file_bytes import PackageBytes
from binary_checks.trees.zip.directory import Archive, ZipEntry, decode_name, find_zip64
from binary_checks.trees.zip.header_faults import (
    DESCRIPTOR,
    NEWEST_VERSION,
    judge_extra,
    judge_kind,
    measure_descriptor,
)

_LOCAL = struct.Struct("<4s5H3I2H")
_LENGTHS = struct.Struct("<2H")  # its last two fields
_FULL = 0xFFFFFFFF
_ENCRYPTED = 1
_MOST_BETWEEN = 4096  # bytes that are looked at behind a member's data
STORED, DEFLATED = 0, 8
# RFC 1951: a match of 258 bytes takes two bits at least, so 1032 is the end of it.
_MAXIMUM_RATIO = 1032
GUESS = _LOCAL.size + 96  # bytes; most local headers without their name are shorter


def find_data(ahead: bytes) -> int | None:
    """Say how far behind the local header, with which ``ahead`` begins, the member's data begin."""
    if len(ahead) < _LOCAL.size or not ahead.startswith(b"PK\3\4"):
        return None
    lengths: tuple[int, int] = _LENGTHS.unpack_from(ahead, _LOCAL.size - _LENGTHS.size)
    return _LOCAL.size + sum(lengths)


def locate(
    file: PackageBytes, entry: ZipEntry, ahead: bytes | None = None, *, limit: int = -1
) -> tuple[int | None, tuple[str, ...]]:
    """Find the offset of a member's compressed bytes, None where they must not be read.

    The faults say what is wrong with its headers. ``ahead`` are the file's bytes from the local
    header on, where the caller has them already; ``limit`` is where it has to end, if that is
    known.
    """
    head = file.read(entry.offset, _LOCAL.size) if ahead is None else ahead
    if len(head) < _LOCAL.size or not head.startswith(b"PK\3\4"):
        return None, (f"its local header is not there (at byte {entry.offset:#x})",)
    _, version, flags, method, _, _, crc, packed, size, name_length, extra_length = (
        _LOCAL.unpack_from(head)
    )
    variable = name_length + extra_length
    rest = head[_LOCAL.size : _LOCAL.size + variable]
    if len(rest) < variable:
        rest = file.read(entry.offset + _LOCAL.size, variable)
    start = entry.offset + _LOCAL.size + variable
    sums = (crc, packed, size)
    same = entry[2:7] == (flags, method, *sums) and entry.raw_name == rest[:name_length]
    ends = (limit < 0 and start + packed <= file.size) or start + packed == limit
    if same and ends and _is_plain(entry) and version <= NEWEST_VERSION and not extra_length:
        return start, ()
    faults = (
        *_compare_names(entry, rest[:name_length], flags),
        *(_judge_local(entry, version, flags, rest[name_length:])),
        *_compare_methods(entry, method, flags),
        *_compare_sums(entry, sums, rest[name_length:], bool(flags & DESCRIPTOR)),
    )
    if limit >= 0 and start + entry.compressed_size <= file.size:
        faults = (*faults, *_judge_end(file, entry, start + entry.compressed_size, limit))
    refusals = tuple(_refuse(entry))
    if start + entry.compressed_size > file.size:
        refusals = (*refusals, "its data reach beyond the end of the file")
    return None if refusals else start, (*faults, *refusals)


def _is_plain(entry: ZipEntry) -> bool:
    """Whether nothing is special about it, as about nearly all of thousands."""
    _, _, flags, method, _, packed, size, *_ = entry
    common = method == DEFLATED and not flags & (_ENCRYPTED | DESCRIPTOR)
    return common and packed < _FULL and size < _FULL and size <= packed * _MAXIMUM_RATIO


def _judge_local(entry: ZipEntry, version: int, flags: int, extra: bytes) -> Iterator[str]:
    """Say what the local header has that no installer reads, beside what the directory has."""
    where = " in its local header"
    yield from judge_kind(version, flags & ~entry.flags, where)
    yield from judge_extra(extra, entry.raw_name, where)
    if (flags ^ entry.flags) & DESCRIPTOR:
        yield "its local header and the central directory disagree on a data descriptor"


def _judge_end(file: PackageBytes, entry: ZipEntry, end: int, limit: int) -> Iterator[str]:
    """The next member has to begin where one ends, with no bytes between that nobody names."""
    if end > limit:
        yield f"its bytes reach {end - limit} into what follows it"
        return
    between = file.read(end, min(limit - end, _MOST_BETWEEN))
    if entry.flags & DESCRIPTOR and between:
        sums = (entry.crc, entry.compressed_size, entry.size)
        length = measure_descriptor(between, sums)
        if length is None:
            yield "what follows its data is no data descriptor with its CRC-32 and sizes"
            return
        between = between[length:]
    if between.strip(b"\0"):  # with zeros some tools align what follows
        yield f"{limit - end} bytes after its data belong to no member"


def _compare_names(entry: ZipEntry, raw_name: bytes, flags: int) -> Iterator[str]:
    if raw_name != entry.raw_name:
        yield f"its local header calls it {decode_name(raw_name, flags)[0]!r}"


def _compare_methods(entry: ZipEntry, method: int, flags: int) -> Iterator[str]:
    if method != entry.method:
        yield (
            f"its local header says compression method {method},"
            f" the central directory {entry.method}"
        )
    if (flags ^ entry.flags) & _ENCRYPTED:
        yield "its local header and the central directory disagree on whether it is encrypted"


def _compare_sums(
    entry: ZipEntry, sums: tuple[int, int, int], extra: bytes, descriptor: bool
) -> Iterator[str]:
    crc, packed, size = sums
    if _FULL in {packed, size}:
        # Both sizes must be in a local ZIP64 field, unlike in the central directory's.
        wide = find_zip64(extra)
        if wide is None or len(wide) < 2:
            yield "its ZIP64 field is missing or short in its local header"
            return
        size, packed = wide[:2]
    if descriptor and not any((crc, packed, size)):
        return  # they follow the data
    for what, local, central in (
        ("CRC-32", crc, entry.crc),
        ("compressed size", packed, entry.compressed_size),
        ("size", size, entry.size),
    ):
        if local != central and not (descriptor and local == 0):
            yield f"its local header says {what} {local}, the central directory {central}"


def _refuse(entry: ZipEntry) -> Iterator[str]:
    """Say why a member is not inflated."""
    if entry.flags & _ENCRYPTED:
        yield "it is encrypted"
    if entry.method not in {STORED, DEFLATED}:
        yield f"its compression method {entry.method} is none that installers read"
    elif entry.method == STORED and entry.size != entry.compressed_size:
        yield f"it is stored in {entry.compressed_size} bytes and claims {entry.size}"
    elif entry.size > entry.compressed_size * _MAXIMUM_RATIO:
        yield f"it claims {entry.size} bytes out of {entry.compressed_size}, which cannot be"


def find_overlaps(archive: Archive) -> dict[int, str]:
    """Say, by index, which entries share bytes with an earlier one or with the directory."""
    places: Iterable[tuple[int, int]] = sorted(
        (entry.offset, index) for index, entry in enumerate(archive.entries)
    )
    found: dict[int, str] = {}
    reach, holder = 0, ""
    for offset, index in places:
        entry = archive.entries[index]
        # The name stands twice; a local extra field makes the entry longer still.
        end = offset + _LOCAL.size + len(entry.raw_name) + entry.compressed_size
        if offset < reach:
            found[index] = f"its bytes overlap those of {holder!r}"
        elif end > archive.directory_offset:
            found[index] = "its bytes overlap the central directory"
        if end > reach:
            reach, holder = end, entry.name
    return found
