"""Inflates one member in bounded pieces, and says what is wrong with its bytes."""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Protocol

from binary_checks.errors import BrokenDataError
from binary_checks.trees.file_bytes import PackageBytes
from binary_checks.trees.members import HEAD, Streamed
from binary_checks.trees.zip.directory import ZipEntry
from binary_checks.trees.zip.local_header import DEFLATED, GUESS, STORED, find_data, locate

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
