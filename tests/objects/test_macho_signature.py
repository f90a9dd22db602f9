"""Code signatures are verified: every hash type, every page, every contradiction."""

from __future__ import annotations

import hashlib
import struct

import pytest

from binary_checks.model import MachOFile
from binary_checks.objects import read_objects
from binary_checks.objects.macho.header import LC_CODE_SIGNATURE
from fixtures.samples import read_macho_sample
from tests.objects.byte_sources import Bytes
from tests.objects.macho_bytes import patched, place_of, table


def _read(content: bytes) -> MachOFile:
    (found,) = read_objects("demo/a.dylib", Bytes(content))
    assert isinstance(found, MachOFile), found
    return found


@pytest.mark.parametrize("place", [0x300, 0x1000, 0x2FFF])
def test_a_page_that_was_changed_is_told_by_its_place(place: int) -> None:
    content = read_macho_sample("signed_arm64.dylib")
    assert (_read(content).signed, _read(content).signature_faults) == (True, ())
    assert _read(patched(content, place, "B", content[place] ^ 1)).signature_faults == (
        "the code signature's SHA-256 of 1 of 5 pages is wrong, "
        f"first at byte {place // 4096 * 4096:#x}",
    )


def test_a_stale_signature_is_told_apart_from_none() -> None:
    assert not _read(read_macho_sample("unsigned_arm64.dylib")).signed
    assert _read(read_macho_sample("stale_signature_arm64.dylib")).signature_faults == (
        "the code signature's SHA-256 of 1 of 5 pages is wrong, first at byte 0x0",
    )


def _directory(content: bytes) -> int:
    """Return the offset of the sample's code directory, the first part of its SuperBlob."""
    start, _ = table(content, LC_CODE_SIGNATURE)
    (place,) = struct.unpack_from(">I", content, start + 16)
    return start + int(place)


def _resigned(content: bytes, kind: int, size: int, page: int) -> bytes:
    """Sign the sample again with another hash type and page size (a power of 2; 0: one page)."""
    limit, _ = table(content, LC_CODE_SIGNATURE)
    step = 1 << page if page else limit
    algorithm = {1: "sha1", 4: "sha384"}.get(kind, "sha256")
    ident = b"demo\0"
    hashes = 88 + len(ident)
    count = -(-limit // step)
    signature_size = 20 + hashes + size * count
    place = place_of(content, LC_CODE_SIGNATURE)
    code = patched(content[:limit], place + 12, "I", signature_size)
    pages = [code[start : start + step] for start in range(0, limit, step)]
    digests = b"".join(hashlib.new(algorithm, each).digest()[:size] for each in pages)
    head = struct.pack(
        ">9I4BI", 0xFADE0C02, hashes + len(digests), 0x20400, 2, hashes, 88, 0, count, limit,
        size, kind, 0, page, 0,
    )  # fmt: skip
    blob = head.ljust(88, b"\0") + ident + digests
    return code + struct.pack(">5I", 0xFADE0CC0, signature_size, 1, 0, 20) + blob


@pytest.mark.parametrize(("kind", "size"), [(1, 20), (2, 32), (3, 20), (4, 48)])
@pytest.mark.parametrize("page", [0, 9, 12, 14, 21])
def test_every_hash_type_and_page_size_is_verified(kind: int, size: int, page: int) -> None:
    content = _resigned(read_macho_sample("signed_arm64.dylib"), kind, size, page)
    # Keep the size of the old signature, which the segment has room for.
    content = content.ljust(len(read_macho_sample("signed_arm64.dylib")), b"\0")
    assert _read(content).signature_faults == ()
    (fault,) = _read(patched(content, 0x3F00, "B", 1)).signature_faults
    assert "of 1 of" in fault


def test_the_strongest_of_two_code_directories_counts() -> None:
    content = read_macho_sample("signed_arm64.dylib")
    weak, strong = _resigned(content, 1, 20, 14), _resigned(content, 2, 32, 14)
    start, _ = table(weak, LC_CODE_SIGNATURE)
    parts = [weak[start + 20 :], strong[start + 20 :]]
    length = 28 + sum(map(len, parts))
    index = struct.pack(">4I", 0, 28, 0x1000, 28 + len(parts[0]))
    signature = struct.pack(">3I", 0xFADE0CC0, length, 2) + index + b"".join(parts)
    place = place_of(content, LC_CODE_SIGNATURE)
    both = patched(strong[:start], place + 12, "I", length) + signature
    (fault,) = _read(both.ljust(len(content), b"\0")).signature_faults
    assert "SHA-256 of 1 of" in fault  # the page of the load commands, which state that size


@pytest.mark.parametrize(
    ("offset", "value", "fault"),
    [
        (0, 0, "code directory of the signature is not complete"),
        (4, 1 << 30, "code directory of the signature is not complete"),
        (16, 0, "of 5 of 5 pages is wrong"),
        (28, 1 << 30, "too few for"),
        (28, 4, "has 4 hashes, not 5"),
        (32, 8, "covers 8 of"),
        (32, 1 << 30, "claims to cover"),
        (36, 0x20090000, "no code directory of a known hash type"),
        (36, 0x20020001, "in pages of 2"),
        (36, 0x1002000C, "has hashes of 16 bytes"),
    ],
)
def test_a_signature_that_contradicts_itself_is_a_fault(
    offset: int, value: int, fault: str
) -> None:
    content = bytearray(read_macho_sample("signed_arm64.dylib"))
    struct.pack_into(">I", content, _directory(bytes(content)) + offset, value)
    assert fault in _read(bytes(content)).signature_faults[0]


@pytest.mark.parametrize(
    ("offset", "value", "fault"),
    [
        (0, 0, "not a complete SuperBlob"),
        (4, 1 << 30, "not a complete SuperBlob"),
        (8, 1 << 30, "not a complete SuperBlob"),
        (12, 5, "no code directory of a known hash type"),
        (16, 1 << 30, "lies outside of it"),
    ],
)
def test_a_signature_without_a_code_directory_is_a_fault(
    offset: int, value: int, fault: str
) -> None:
    content = bytearray(read_macho_sample("signed_arm64.dylib"))
    start, _ = table(bytes(content), LC_CODE_SIGNATURE)
    struct.pack_into(">I", content, start + offset, value)
    assert fault in _read(bytes(content)).signature_faults[0]
