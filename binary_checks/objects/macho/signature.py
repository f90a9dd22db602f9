"""Verify the part of a code signature that depends only on the file: the hash of every page.

The structures are those of xnu's <kern/cs_blobs.h>; their numbers are big-endian. On arm64 a
process is killed at the first page with a wrong hash. A tool that edits a file after linking
without signing it again leaves such pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from struct import Struct
from typing import Any, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.header import Slice

# The pages of a signed file are hashed while the file is streamed, so that they need not be kept.
# The signature at the end of the file states their size. Earlier only the signature's length is
# known, which permits a single page size.

_SMALL_PAGE, _LARGE_PAGE = 4096, 16384  # bytes
_DIGEST = 32  # bytes of a SHA-256


def guess_page_size(limit: int, signature: int) -> int:
    """Return the page size for which hashes of ``limit`` bytes fit into ``signature`` bytes."""
    return _SMALL_PAGE if -(-limit // _SMALL_PAGE) * _DIGEST <= signature else _LARGE_PAGE


class PageScanner:
    """Hashes (SHA-256) each page from the start of a file up to a limit in bytes."""

    def __init__(self, limit: int, page_size: int) -> None:
        self.limit = limit
        self.page_size = page_size
        self._seen = 0
        self._begun = sha256()  # hash of the page that is not complete yet
        self._digests = bytearray()

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Hash the next piece of the file; the caller need not keep any of its bytes."""
        view = memoryview(piece)[: self.limit - self._seen]
        step = self.page_size
        place = -self._seen % step  # where the next page begins in the piece
        self._seen += len(view)
        if place:
            self._begun.update(view[:place])
            if place > len(view):
                return ()
            self._digests += self._begun.digest()
        last = place + (len(view) - place) // step * step
        for start in range(place, last, step):
            self._digests += sha256(view[start : start + step]).digest()
        self._begun = sha256(view[last:])
        return ()

    @property
    def digests(self) -> bytes | None:
        """The joined digests of all pages; None if the file was not streamed up to the limit."""
        if self._seen < self.limit:
            return None
        rest = self._begun.digest() if self.limit % self.page_size else b""
        return bytes(self._digests) + rest


# The signature.

_SUPER_BLOB = 0xFADE0CC0  # CSMAGIC_EMBEDDED_SIGNATURE
_CODE_DIRECTORY = 0xFADE0C02  # CSMAGIC_CODEDIRECTORY
# Slots of code directories: CSSLOT_CODEDIRECTORY, CSSLOT_ALTERNATE_CODEDIRECTORIES (five).
_SLOT, _FIRST_ALTERNATE, _LAST_ALTERNATE = 0, 0x1000, 0x1004

_SHA_256 = 2
_Hash = Callable[[bytes | memoryview], Any]

_HASHES: dict[int, tuple[str, _Hash, int]] = {
    1: ("SHA-1", partial(hashlib.sha1, usedforsecurity=False), 20),
    _SHA_256: ("SHA-256", hashlib.sha256, 32),
    3: ("truncated SHA-256", hashlib.sha256, 20),
    4: ("SHA-384", hashlib.sha384, 48),
}
"""Hash type (CS_HASHTYPE_*) -> name, function, bytes of the digest that are stored."""
# Hash types from weak to strong; the kernel uses the strongest code directory.
_RANK = (1, 3, 2, 4)

_BLOB = Struct(">2I")  # CS_SuperBlob: magic, total length in bytes; followed by the number of parts
_INDEX = Struct(">2I")  # CS_BlobIndex: slot, offset from the start of the SuperBlob
# CS_CodeDirectory: magic, length, version, flags, hashOffset, identOffset, nSpecialSlots,
# nCodeSlots, codeLimit, hashSize, hashType, platform, log2 of the page size, spare
_DIRECTORY = Struct(">9I4BI")
_LIMIT_64 = Struct(">Q")
_LIMIT_64_OFFSET = 56  # offset of codeLimit64 in a code directory, in bytes
_WITH_LIMIT_64 = 0x20300  # CS_SUPPORTSCODELIMIT64: oldest version with that field
_MOST_BLOBS = 64  # parts; real signatures have some five
_CHUNK = 1 << 20  # bytes hashed at a time
_SMALLEST_PAGE = 1 << 9  # bytes; limits the number of hashes of a file


class CodeDirectory(NamedTuple):
    """Facts that a signature states about the pages of code."""

    hash_type: int
    limit: int  # number of signed bytes in the slice
    page_size: int  # bytes; 0 if all bytes are one page
    hashes: bytes

    @property
    def step(self) -> int:
        """The distance from one page to the next, in bytes."""
        return self.page_size or max(self.limit, 1)


def find_signature_faults(
    source: Slice, seen: PageScanner | None, start: int, size: int
) -> tuple[str, ...]:
    """Return faults of the code signature at an offset of the slice; () if there are none.

    If the scanner ``seen`` has hashed the pages while the file was streamed, they are not hashed
    again. Raises TooLarge if the signature has more parts than the limit.
    """
    try:
        directory = _choose(_read_directories(source, source.read(start, size)))
        return tuple(_verify(source, seen, directory, start))
    except MalformedError as error:
        return (error.reason,)


def _read_directories(source: Slice, signature: bytes) -> Iterator[CodeDirectory]:
    """Yield the code directories of a SuperBlob. Raises MalformedError, TooLarge."""
    if len(signature) < 12:
        raise MalformedError("the code signature is empty")
    magic, length = _BLOB.unpack_from(signature)
    count = int.from_bytes(signature[8:12], "big")
    if magic != _SUPER_BLOB or length > len(signature) or 12 + 8 * count > length:
        raise MalformedError("the code signature is not a complete SuperBlob")
    source.require_at_most(count, _MOST_BLOBS, "parts in its code signature")
    for kind, place in _INDEX.iter_unpack(signature[12 : 12 + 8 * count]):
        if kind == _SLOT or _FIRST_ALTERNATE <= kind <= _LAST_ALTERNATE:
            yield _read_directory(signature[:length], place)


def _read_directory(signature: bytes, place: int) -> CodeDirectory:
    """Read the code directory at an offset of the SuperBlob. Raises MalformedError."""
    blob = signature[place:]
    if len(blob) < _DIRECTORY.size:
        raise MalformedError("a code directory of the signature lies outside of it")
    fields = _DIRECTORY.unpack_from(blob)
    magic, length, version, _, hashes, _, _, count, limit, hash_size, kind, _, page, _ = fields
    if magic != _CODE_DIRECTORY or length > len(blob):
        raise MalformedError("a code directory of the signature is not complete")
    if kind in _HASHES and hash_size != _HASHES[kind][2]:
        raise MalformedError(f"a code directory has hashes of {hash_size} bytes")
    if hashes + count * hash_size > length:
        raise MalformedError(f"a code directory has {length} bytes, too few for {count} hashes")
    if version >= _WITH_LIMIT_64 and length >= _LIMIT_64_OFFSET + _LIMIT_64.size:
        limit = _LIMIT_64.unpack_from(blob, _LIMIT_64_OFFSET)[0] or limit
    page_size = 1 << page if page else 0
    return CodeDirectory(kind, limit, page_size, blob[hashes : hashes + count * hash_size])


def _choose(directories: Iterator[CodeDirectory]) -> CodeDirectory:
    """Return the strongest code directory, which the kernel uses."""
    known = [item for item in directories if item.hash_type in _RANK]
    if not known:
        raise MalformedError("the code signature has no code directory of a known hash type")
    return max(known, key=lambda item: _RANK.index(item.hash_type))


def _verify(
    source: Slice, seen: PageScanner | None, directory: CodeDirectory, signature_start: int
) -> Iterator[str]:
    """Yield faults of the hashes in a code directory."""
    name, _, length = _HASHES[directory.hash_type]
    limit, page_size = directory.limit, directory.step
    if limit > signature_start or (page_size < _SMALLEST_PAGE and directory.page_size):
        yield f"the code signature claims to cover {limit} bytes in pages of {page_size}"
        return
    if limit < signature_start:
        yield f"the code signature covers {limit} of {signature_start} bytes"
    pages = -(-limit // page_size)
    if pages * length != len(directory.hashes):
        yield f"the code signature has {len(directory.hashes) // length} hashes, not {pages}"
        return
    digests = _find_seen_hashes(seen, directory) or _hash_all_pages(source, directory)
    if digests == directory.hashes:
        return
    starts = range(0, len(digests), length)
    wrong = [at for at in starts if digests[at : at + length] != directory.hashes[at : at + length]]
    yield (
        f"the code signature's {name} of {len(wrong)} of {pages} pages is wrong, "
        f"first at byte {wrong[0] // length * page_size:#x}"
    )


def _find_seen_hashes(seen: PageScanner | None, directory: CodeDirectory) -> bytes | None:
    """Return the hashes of streamed pages if they are for the code directory's pages, else None."""
    if seen is None or directory.hash_type != _SHA_256:
        return None
    same = (seen.limit, seen.page_size) == (directory.limit, directory.page_size)
    return seen.digests if same else None


def _hash_all_pages(source: Slice, directory: CodeDirectory) -> bytes:
    limit, page_size = directory.limit, directory.step
    _, hash_, length = _HASHES[directory.hash_type]
    hash_pages = _hash_large_pages if page_size > _CHUNK else _hash_pages
    return b"".join([each[:length] for each in hash_pages(source, limit, page_size, hash_)])


def _hash_pages(source: Slice, limit: int, page_size: int, hash_: _Hash) -> Iterator[bytes]:
    # A multiple of the page size, because both are powers of 2.
    for start in range(0, limit, _CHUNK):
        chunk = memoryview(source.read(start, min(_CHUNK, limit - start)))
        for place in range(0, len(chunk), page_size):
            yield hash_(chunk[place : place + page_size]).digest()


def _hash_large_pages(source: Slice, limit: int, page_size: int, hash_: _Hash) -> Iterator[bytes]:
    """Yield the digest of each page, if pages must be read in several chunks."""
    for start in range(0, limit, page_size):
        end = min(start + page_size, limit)
        hashed = hash_(b"")
        for place in range(start, end, _CHUNK):
            hashed.update(source.read(place, min(_CHUNK, end - place)))
        yield hashed.digest()
