"""Where a member's bytes lie, by its local header, and where that contradicts the directory."""

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
from binary_checks.trees.members import HEAD, Streamed
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

_LOCAL = struct.Struct("<4s5H3I2H")
_LENGTHS = struct.Struct("<2H")  # its last two fields
_ENCRYPTED = 1
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
    extra = rest[name_length:]
    faults = (
        *_compare_names(entry, rest[:name_length], flags),
        *(_judge_local(entry, version, flags, extra)),
        *_compare_methods(entry, method, flags),
        *_compare_sums(entry, sums, extra, bool(flags & DESCRIPTOR)),
    )
    end = start + entry.compressed_size
    if limit >= 0 and end <= file.size:
        wide = find_zip64(extra) is not None
        faults = (*faults, *_judge_end(file, entry, end, limit, wide=wide))
    refusals = tuple(_refuse(entry))
    if start + entry.compressed_size > file.size:
        refusals = (*refusals, "its data reach beyond the end of the file")
    return None if refusals else start, (*faults, *refusals)


def _is_plain(entry: ZipEntry) -> bool:
    """Whether nothing is special about it, as about nearly all of thousands."""
    _, _, flags, method, _, packed, size, *_ = entry
    common = method == DEFLATED and not flags & (_ENCRYPTED | DESCRIPTOR)
    return common and packed < FULL and size < FULL and size <= packed * _MAXIMUM_RATIO


def _judge_local(entry: ZipEntry, version: int, flags: int, extra: bytes) -> Iterator[str]:
    """Say what the local header has that no installer reads, beside what the directory has."""
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
    """Report bytes between a member and the next one, zeros too: uv, as it downloads, refuses them.

    ``wide`` says that the local header has a ZIP64 field.
    """
    if end > limit:
        yield f"its bytes reach {end - limit} into what follows it"
        return
    if entry.flags & DESCRIPTOR:
        sums = (entry.crc, entry.compressed_size, entry.size)
        following = file.read(end, min(limit - end, LONGEST_DESCRIPTOR))
        length = measure_descriptor(following, sums, wide=wide)
        if length is None:
            yield "what follows its data is no data descriptor with its CRC-32 and sizes"
            return
        end += length
    if end < limit:
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
    # A local ZIP64 field may repeat both sizes where the header has them.
    if find_zip64(extra) != struct.pack("<2Q", size, packed):
        widened = widen(extra, (size, packed))
        if widened is None:
            yield f"{ZIP64_FAULT} in its local header"
            return
        size, packed = widened
    if descriptor:  # where they are 0, they follow the data
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


# Inflates one member in bounded pieces, and says what is wrong with its bytes.

_library: Any = zlib
with contextlib.suppress(ImportError):  # the extra "fast", more than twice as quick
    _library = import_module("isal.isal_zlib")

_PIECE = 256 << 10  # bytes of output at a time: they stay in the processor's cache
_INPUT = 64 << 10  # bytes of the file at a time
_TABLES = 448  # bytes; a dynamic block's own take up to 300 before the first byte comes out
_DESCRIPTOR = 24  # bytes; the longest data descriptor


class _Sums(Protocol):
    def update(self, piece: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def read_small(file: PackageBytes, entry: ZipEntry, limit: int = -1) -> tuple[bytes, Streamed]:
    """Read a member of at most WHOLE bytes, header and data in one go; where it has to end."""
    length = GUESS + len(entry.raw_name) + entry.compressed_size
    ahead = file.read(entry.offset, length)
    start, faults = locate(file, entry, ahead, limit=limit)
    if start is None:
        return b"", Streamed(faults=(*entry.faults, *faults))
    begin = start - entry.offset
    packed = ahead[begin : begin + entry.compressed_size]
    if len(packed) < entry.compressed_size:
        packed = file.read(start, entry.compressed_size)
    known = (*entry.faults, *faults)
    pieces: list[bytes] = []
    try:
        pieces.extend(_expand_small(packed, entry))
    except BrokenDataError as error:
        return b"".join(pieces), Streamed(faults=(*known, str(error)))
    content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return content, _conclude(entry, _library.crc32(content), hashlib.sha256(content), known)


def _expand_small(packed: bytes, entry: ZipEntry) -> Iterable[bytes]:
    """Inflate it in one call, which what is whole allows; else piece by piece as a large one."""
    if entry.method == DEFLATED:
        stream: Any = _library.decompressobj(-zlib.MAX_WBITS)
        with contextlib.suppress(_library.error):
            content: bytes = stream.decompress(packed, entry.size + 1)
            if stream.eof and not stream.unused_data and len(content) == entry.size:
                return (content,)
    return _expand(iter((packed,)), entry, entry.size + 1)


def read_stream(
    file: PackageBytes, entry: ZipEntry, consume: Callable[[bytes], object], limit: int = -1
) -> Streamed:
    """Inflate a member piece by piece into ``consume``, with its CRC-32 and SHA-256."""
    start, faults = locate(file, entry, limit=limit)
    known = (*entry.faults, *faults)
    if start is None:
        return Streamed(faults=known)
    crc, sums = 0, hashlib.sha256()
    try:
        for piece in _expand(_slice(file, start, entry.compressed_size), entry, _PIECE):
            crc = _library.crc32(piece, crc)
            sums.update(piece)
            consume(piece)
    except BrokenDataError as error:
        return Streamed(faults=(*known, str(error)))
    return _conclude(entry, crc, sums, known)


def expand_again(file: PackageBytes, entry: ZipEntry) -> Iterator[bytes]:
    """Inflate a member that was read before, for its bytes alone."""
    start, _ = locate(file, entry)
    if start is not None:
        yield from _expand(_slice(file, start, entry.compressed_size), entry, _PIECE)


def span_of(entry: ZipEntry) -> tuple[int, int]:
    """Where a member lies, its headers and what may follow its data included."""
    length = GUESS + len(entry.raw_name) + entry.compressed_size + _DESCRIPTOR
    return entry.offset, entry.offset + length


def span_of_head(entry: ZipEntry, length: int) -> tuple[int, int]:
    """Where the bytes lie that `read_head` asks for."""
    fetched = min(entry.compressed_size, length + _TABLES)
    return entry.offset, entry.offset + GUESS + len(entry.raw_name) + fetched


def read_head(file: PackageBytes, entry: ZipEntry, length: int) -> bytes:
    """Inflate only the first bytes of a member; b"" where they cannot be read."""
    fetched = min(entry.compressed_size, length + _TABLES)
    begins, ends = span_of_head(entry, length)
    ahead = file.read(begins, ends - begins)
    begin = find_data(ahead)
    if begin is None or entry.method not in {STORED, DEFLATED}:
        return b""
    start = entry.offset + begin
    packed = ahead[begin : begin + fetched]
    if len(packed) < fetched:
        packed = file.read(start, fetched)
    if entry.method == STORED:
        return packed[:length]
    try:
        head: bytes = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, length)
        if len(head) >= min(length, entry.size) or fetched == entry.compressed_size:
            return head
        pieces = _expand(_slice(file, start, entry.compressed_size), entry, _PIECE)
        return next(pieces, b"")[:length]
    except (zlib.error, BrokenDataError):
        return b""


def _slice(file: PackageBytes, start: int, length: int) -> Iterator[bytes]:
    for offset in range(start, start + length, _INPUT):
        yield file.read(offset, min(_INPUT, start + length - offset))


def _expand(packed: Iterator[bytes], entry: ZipEntry, limit: int) -> Iterator[bytes]:
    """Yield what the bytes inflate to, in pieces of at most limit bytes."""
    produced = 0
    pieces = packed if entry.method == STORED else _inflate(packed, limit)
    for piece in _fill_head(pieces):
        produced += len(piece)
        if produced > entry.size:
            raise BrokenDataError(f"it inflates to more than the {entry.size} bytes it declares")
        yield piece
    if produced < entry.size:
        raise BrokenDataError(f"it inflates to {produced} bytes and declares {entry.size}")


def _fill_head(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join the first pieces: thousands of empty blocks may stand before the first bytes."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= HEAD:
            break
    if head:
        yield head
    yield from pieces


def _inflate(packed: Iterator[bytes], limit: int) -> Iterator[bytes]:
    stream: Any = _library.decompressobj(-zlib.MAX_WBITS)
    for fetched in packed:
        if stream.eof:
            raise BrokenDataError("bytes follow its compressed data")
        rest = fetched
        while True:
            try:
                piece: bytes = stream.decompress(rest, limit)
            except _library.error:  # whose words differ from library to library
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
