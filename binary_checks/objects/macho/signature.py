"""Verify the part of a code signature that depends only on the file: the hash of every page.

The structures are those of xnu's <kern/cs_blobs.h>; their numbers are big-endian. On arm64 a
process is killed at the first page with a wrong hash. A tool that edits a file after linking
without signing it again leaves such pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.byte_source import FilePart

# The signature.

_SUPER_BLOB = 0xFADE0CC0  # CSMAGIC_EMBEDDED_SIGNATURE
_CODE_DIRECTORY = 0xFADE0C02  # CSMAGIC_CODEDIRECTORY
# Slots of code directories: CSSLOT_CODEDIRECTORY, CSSLOT_ALTERNATE_CODEDIRECTORIES (five).
_SLOT, _FIRST_ALTERNATE, _LAST_ALTERNATE = 0, 0x1000, 0x1004

_SHA_256 = 2
_Hash = Callable[[bytes], Any]

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
_BLOCK = 1 << 20  # bytes hashed at a time
_SMALLEST_PAGE = 1 << 9  # bytes; limits the number of hashes of a file


class CodeDirectory(NamedTuple):
    """Facts that a signature states about the pages of code."""

    hash_type: int
    limit: int  # number of signed bytes in the slice
    page_size: int  # bytes; 0 if all bytes are one page
    hashes: bytes


def find_signature_faults(source: FilePart, start: int, size: int) -> tuple[str, ...]:
    """Return faults of the code signature at an offset of the slice; () if there are none.

    Raises TooLarge if the signature has more parts than the limit.
    """
    try:
        directories = _read_directories(source, source.read(start, size))
        known = [each for each in directories if each.hash_type in _RANK]
        if not known:
            reason = "the code signature has no code directory of a known hash type"
            raise MalformedError(reason)
        strongest = max(known, key=lambda each: _RANK.index(each.hash_type))
        return tuple(_verify(source, strongest, start))
    except MalformedError as error:
        return (error.reason,)


def _read_directories(source: FilePart, signature: bytes) -> Iterator[CodeDirectory]:
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


def _verify(source: FilePart, directory: CodeDirectory, signature_start: int) -> Iterator[str]:
    """Yield faults of the hashes in a code directory."""
    name, hash_, length = _HASHES[directory.hash_type]
    limit, page_size = directory.limit, directory.page_size or max(directory.limit, 1)
    if limit > signature_start or page_size < min(_SMALLEST_PAGE, limit):
        yield f"the code signature claims to cover {limit} bytes in pages of {page_size}"
        return
    if limit < signature_start:
        yield f"the code signature covers {limit} of {signature_start} bytes"
    pages = range(0, limit, page_size)
    if len(pages) * length != len(directory.hashes):
        yield f"the code signature has {len(directory.hashes) // length} hashes, not {len(pages)}"
        return
    wrong, hashed, page = [], hash_(b""), iter(pages)
    for start in range(0, limit, _BLOCK):  # sizes of pages are powers of two, too
        block = memoryview(source.read(start, min(_BLOCK, limit - start)))
        for at in range(0, len(block), page_size):
            hashed.update(block[at : at + page_size])
            end = min(start + at + page_size, start + len(block))
            if end % page_size and end < limit:
                continue  # the page is longer than the block
            first = next(page)
            number = first // page_size * length
            if hashed.digest()[:length] != directory.hashes[number : number + length]:
                wrong.append(first)
            hashed = hash_(b"")
    if wrong:
        yield (
            f"the code signature's {name} of {len(wrong)} of {len(pages)} pages is wrong, "
            f"first at byte {wrong[0]:#x}"
        )
