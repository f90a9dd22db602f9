"""Members of zip archives: local headers that may contradict the directory, and data.

Section numbers are those of APPNOTE.TXT 6.3.10.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Protocol

from binary_checks.errors import BrokenDataError
from binary_checks.trees.file_bytes import PackageBytes
from binary_checks.trees.members import Streamed, join_head
from binary_checks.trees.zip.directory import (
    DESCRIPTOR,
    FULL,
    LONGEST_DESCRIPTOR,
    NEWEST_VERSION,
    UTF8,
    ZIP64_FAULT,
    Archive,
    ZipEntry,
    decode_name,
    find_zip64,
    judge_extra,
    judge_kind,
    measure_descriptor,
    widen,
)
from binary_checks.watchdog import ask

_LOCAL = struct.Struct("<4s5H3I2H")  # 4.3.7
# last two fields of a local header: lengths of name and extra field
_LENGTHS = struct.Struct("<2H")
_ENCRYPTED = 1  # bit 0 of the flags (4.4.4)
STORED, DEFLATED = 0, 8  # 4.4.5; installers read no other method
# RFC 1951, 3.2.5: a match of at most 258 bytes takes at least two bits, so a byte gives 1032.
_MAXIMUM_RATIO = 1032
# bytes read of a local header and what follows it, without the name; most headers are shorter
HEADER_BLOCK = _LOCAL.size + 96


def find_data(ahead: bytes) -> int | None:
    """Return the number of bytes from the local header to the member's data.

    Return None if ``ahead`` does not begin with the local header.
    """
    if len(ahead) < _LOCAL.size or not ahead.startswith(b"PK\3\4"):  # 4.3.7
        return None
    lengths: tuple[int, int] = _LENGTHS.unpack_from(ahead, _LOCAL.size - _LENGTHS.size)
    return _LOCAL.size + sum(lengths)


def locate(
    file: PackageBytes, entry: ZipEntry, ahead: bytes | None = None, *, limit: int | None = None
) -> tuple[int | None, tuple[str, ...]]:
    """Return the offset of a member's compressed data, or None if it must not be read.

    Also return the faults of its headers. ``ahead`` are the file's bytes from the local header on,
    if the caller has them; ``limit`` is the offset at which the member must end, if that is known.
    """
    head = file.read(entry.offset, _LOCAL.size) if ahead is None else ahead
    if len(head) < _LOCAL.size or not head.startswith(b"PK\3\4"):
        return None, (f"its local header is not there (at byte {entry.offset:#x})",)
    _, version, flags, method, _, _, crc, packed, size, name_length, extra_length = (
        _LOCAL.unpack_from(head)
    )
    variable = name_length + extra_length
    rest = head[_LOCAL.size : _LOCAL.size + variable]
    if len(rest) != variable:
        rest = file.read(entry.offset + _LOCAL.size, variable)
    start = entry.offset + _LOCAL.size + variable
    sums = (crc, packed, size)
    same = entry[2:7] == (flags, method, *sums) and entry.raw_name == rest[:name_length]
    if (
        same
        and start + packed == limit
        and _is_plain(entry)
        and version <= NEWEST_VERSION
        and not extra_length
    ):
        return start, ()
    extra = rest[name_length:]
    faults = (
        *_compare_header(entry, rest[:name_length], method, flags),
        *_judge_local(entry, version, flags, extra),
        *_compare_sums(entry, sums, extra, bool(flags & DESCRIPTOR)),
    )
    end = start + entry.compressed_size
    if limit is not None and end <= file.size:
        wide = find_zip64(extra) is not None
        faults = (*faults, *_judge_end(file, entry, end, limit, wide=wide))
    refusals = tuple(_refuse(entry))
    if end > file.size:
        refusals = (*refusals, "its data reach beyond the end of the file")
    return None if refusals else start, (*faults, *refusals)


def _is_plain(entry: ZipEntry) -> bool:
    """Return whether an entry needs no further check; this is true for nearly all entries."""
    _, _, flags, method, _, packed, size, *_ = entry
    common = method == DEFLATED and not flags & (_ENCRYPTED | DESCRIPTOR)
    return common and FULL not in (packed, size) and size <= packed * _MAXIMUM_RATIO


def _compare_header(entry: ZipEntry, raw_name: bytes, method: int, flags: int) -> Iterator[str]:
    if raw_name != entry.raw_name:
        yield f"its local header calls it {decode_name(raw_name, flags)[0]!r}"
    if method != entry.method:
        yield (
            f"its local header says compression method {method},"
            f" the central directory {entry.method}"
        )
    if (flags ^ entry.flags) & _ENCRYPTED:
        yield "its local header and the central directory disagree on whether it is encrypted"


def _judge_local(entry: ZipEntry, version: int, flags: int, extra: bytes) -> Iterator[str]:
    """Report faults of the local header (4.3.7) that the central directory does not have."""
    where = " in its local header"
    yield from judge_kind(version, flags & ~entry.flags, where)
    yield from judge_extra(extra, entry.raw_name, where)
    if (flags ^ entry.flags) & DESCRIPTOR:
        yield "its local header and the central directory disagree on a data descriptor"
    if (flags ^ entry.flags) & UTF8 and not entry.raw_name.isascii():
        yield "its local header and the central directory disagree on whether its name is UTF-8"


def _judge_end(
    file: PackageBytes, entry: ZipEntry, end: int, limit: int, *, wide: bool
) -> Iterator[str]:
    """Report bytes between a member and the next one, even zeros: uv refuses them when it streams.

    ``wide`` states that the local header has a ZIP64 field.
    """
    if end > limit:
        yield f"its last {end - limit} bytes overlap the data after it"
        return
    if entry.flags & DESCRIPTOR:
        sums = (entry.crc, entry.compressed_size, entry.size)
        following = file.read(end, min(limit - end, LONGEST_DESCRIPTOR))
        length = measure_descriptor(following, sums, wide=wide)
        if length is None:
            yield "no data descriptor with its CRC-32 and sizes follows its data"
            return
        end += length
    if end < limit:
        yield f"{limit - end} bytes after its data belong to no member"


def _compare_sums(
    entry: ZipEntry, sums: tuple[int, int, int], extra: bytes, descriptor: bool
) -> Iterator[str]:
    crc, packed, size = sums
    # A local ZIP64 field must contain both sizes (4.5.3), even if the header contains them.
    if find_zip64(extra) != struct.pack("<2Q", size, packed):
        widened = widen(extra, (size, packed))
        if widened is None:
            yield f"{ZIP64_FAULT} in its local header"
            return
        size, packed = widened
    if descriptor:  # 4.4.4, bit 3: the sums are 0 in the local header, and follow the data
        crc = crc or entry.crc
        if not (packed or size):
            packed, size = entry.compressed_size, entry.size
    for what, local, central in (
        ("CRC-32", crc, entry.crc),
        ("compressed size", packed, entry.compressed_size),
        ("size", size, entry.size),
    ):
        if local != central:
            yield f"its local header says {what} {local}, the central directory {central}"


def _refuse(entry: ZipEntry) -> Iterator[str]:
    """Report why a member is not decompressed."""
    if entry.flags & _ENCRYPTED:
        yield "it is encrypted"
    if entry.method not in {STORED, DEFLATED}:
        yield f"its compression method {entry.method} is not one that installers read"
    elif entry.method == STORED and entry.size != entry.compressed_size:
        yield f"it is stored in {entry.compressed_size} bytes, but claims {entry.size}"
    elif entry.size > entry.compressed_size * _MAXIMUM_RATIO:
        yield f"it claims {entry.size} bytes out of {entry.compressed_size}, which is impossible"


def find_overlaps(archive: Archive) -> dict[int, str]:
    """Return the entries that share bytes with an earlier entry or the directory, by index."""
    places: Iterable[tuple[int, int]] = sorted(
        (entry.offset, index) for index, entry in enumerate(archive.entries)
    )
    found: dict[int, str] = {}
    reach, holder = 0, ""
    for offset, index in places:
        entry = archive.entries[index]
        # The local header contains the name, too; its extra field makes the entry even longer.
        end = offset + _LOCAL.size + len(entry.raw_name) + entry.compressed_size
        if offset < reach:
            found[index] = f"its bytes overlap those of {holder!r}"
        elif end > archive.directory_offset:
            found[index] = "its bytes overlap the central directory"
        if end > reach:
            reach, holder = end, entry.name
    return found


# Decompression of one member in bounded pieces.

_library: Any = zlib
with contextlib.suppress(ImportError):  # the extra "fast", more than twice as fast
    _library = import_module("isal.isal_zlib")

_OUTPUT_BLOCK = 256 << 10  # bytes of output at a time, which fit into the processor's cache
_INPUT_BLOCK = 64 << 10  # bytes of the file at a time
_TABLES = 448  # bytes; the code tables of a dynamic block (RFC 1951, 3.2.7) take up to 300


class _Sums(Protocol):
    def update(self, piece: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def read_small(file: PackageBytes, entry: ZipEntry, limit: int | None) -> tuple[bytes, Streamed]:
    """Read a member of at most WHOLE bytes with one read; ``limit`` is as for `locate`."""
    length = HEADER_BLOCK + len(entry.raw_name) + entry.compressed_size
    ahead = file.read(entry.offset, length)
    start, faults = locate(file, entry, ahead, limit=limit)
    if start is None:
        return b"", Streamed(faults=(*entry.faults, *faults))
    begin = start - entry.offset
    packed = ahead[begin : begin + entry.compressed_size]
    if len(packed) != entry.compressed_size:
        packed = file.read(start, entry.compressed_size)
    known = (*entry.faults, *faults)
    pieces: list[bytes] = []
    try:
        pieces.extend(_expand_small(packed, entry))
    except BrokenDataError as error:
        return b"".join(pieces), Streamed(faults=(*known, str(error)))
    content = b"".join(pieces)
    return content, _conclude(entry, _library.crc32(content), hashlib.sha256(content), known)


def _expand_small(packed: bytes, entry: ZipEntry) -> Iterable[bytes]:
    """Decompress the data at once if it is valid, else in pieces like a large member's data."""
    if entry.method == DEFLATED:
        stream: Any = _library.decompressobj(-zlib.MAX_WBITS)
        with contextlib.suppress(_library.error):
            content: bytes = stream.decompress(packed, entry.size + 1)
            if stream.eof and not stream.unused_data and len(content) == entry.size:
                ask(len(content))
                return (content,)
    return _expand(iter((packed,)), entry, entry.size + 1)


def read_stream(
    file: PackageBytes, entry: ZipEntry, consume: Callable[[bytes], object], limit: int | None
) -> Streamed:
    """Stream a member into ``consume``; compute its CRC-32 and SHA-256."""
    start, faults = locate(file, entry, limit=limit)
    known = (*entry.faults, *faults)
    if start is None:
        return Streamed(faults=known)
    crc, sums = 0, hashlib.sha256()
    try:
        for piece in _expand(_slice(file, start, entry.compressed_size), entry, _OUTPUT_BLOCK):
            crc = _library.crc32(piece, crc)
            sums.update(piece)
            consume(piece)
    except BrokenDataError as error:
        return Streamed(faults=(*known, str(error)))
    return _conclude(entry, crc, sums, known)


def expand_again(file: PackageBytes, entry: ZipEntry) -> Iterator[bytes]:
    """Decompress a member that was read and checked before."""
    start, _ = locate(file, entry)
    if start is not None:
        yield from _expand(_slice(file, start, entry.compressed_size), entry, _OUTPUT_BLOCK)


def span_of(entry: ZipEntry) -> tuple[int, int]:
    """Return the range of a member with its header and data descriptor."""
    length = HEADER_BLOCK + len(entry.raw_name) + entry.compressed_size + LONGEST_DESCRIPTOR
    return entry.offset, entry.offset + length


def span_of_head(entry: ZipEntry, length: int) -> tuple[int, int]:
    """Return the range of the file that `read_head` reads."""
    fetched = min(entry.compressed_size, length + _TABLES)
    return entry.offset, entry.offset + HEADER_BLOCK + len(entry.raw_name) + fetched


def read_head(file: PackageBytes, entry: ZipEntry, length: int) -> bytes:
    """Return the first bytes of a member, or b"" if they cannot be read."""
    fetched = min(entry.compressed_size, length + _TABLES)
    begins, ends = span_of_head(entry, length)
    ahead = file.read(begins, ends - begins)
    begin = find_data(ahead)
    if begin is None or entry.method not in {STORED, DEFLATED}:
        return b""
    start = entry.offset + begin
    packed = ahead[begin : begin + fetched]
    if len(packed) != fetched:
        packed = file.read(start, fetched)
    if entry.method == STORED:
        return packed[:length]
    try:
        head: bytes = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, length)
        if len(head) >= min(length, entry.size) or fetched == entry.compressed_size:
            return head
        pieces = _expand(_slice(file, start, entry.compressed_size), entry, _OUTPUT_BLOCK)
        return next(pieces, b"")[:length]
    except (zlib.error, BrokenDataError):
        return b""


def _slice(file: PackageBytes, start: int, length: int) -> Iterator[bytes]:
    for offset in range(start, start + length, _INPUT_BLOCK):
        yield file.read(offset, min(_INPUT_BLOCK, start + length - offset))


def _expand(packed: Iterator[bytes], entry: ZipEntry, limit: int) -> Iterator[bytes]:
    """Yield the decompressed bytes in pieces of at most ``limit`` bytes."""
    produced = 0
    pieces = packed if entry.method == STORED else _inflate(packed, limit)
    for piece in join_head(pieces):
        produced += len(piece)
        ask(len(piece))
        if produced > entry.size:
            raise BrokenDataError(f"it inflates to more than the {entry.size} bytes it declares")
        yield piece
    if produced < entry.size:
        raise BrokenDataError(f"it inflates to {produced} bytes and declares {entry.size}")


def _inflate(packed: Iterator[bytes], limit: int) -> Iterator[bytes]:
    stream: Any = _library.decompressobj(-zlib.MAX_WBITS)
    for fetched in packed:
        if stream.eof:
            raise BrokenDataError("bytes follow its compressed data")
        rest = fetched
        while True:
            try:
                piece: bytes = stream.decompress(rest, limit)
            except _library.error:  # messages differ between the libraries
                raise BrokenDataError("its compressed data are broken") from None
            rest = stream.unconsumed_tail
            if piece:
                yield piece
            if stream.eof or (not rest and len(piece) < limit):
                break
    if stream.unused_data:
        raise BrokenDataError(f"{len(stream.unused_data)} bytes follow its compressed data")
    if not stream.eof:
        raise BrokenDataError("its compressed data end too early")


def _conclude(entry: ZipEntry, crc: int, sums: _Sums, faults: tuple[str, ...]) -> Streamed:
    if crc != entry.crc:
        wrong = f"its CRC-32 is {crc:08x} and the archive says {entry.crc:08x}"
        faults = (*faults, wrong)
    return Streamed(sums.hexdigest(), faults)
