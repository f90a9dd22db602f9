"""Pages are hashed while a file streams by, in pieces of any size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks import objects
from binary_checks.model import MachOFile
from binary_checks.objects.macho.signature import PageScanner
from binary_checks.trees.kept_bytes import StreamedObject
from fixtures.samples import expected_macho_facts, read_macho_sample
from tests.objects.byte_sources import Bytes

CONTENT = bytes(range(256)) * 200


@given(st.lists(st.integers(0, 9000)), st.integers(1, len(CONTENT)), st.sampled_from([4096, 16384]))
def test_the_pieces_change_nothing(cuts: list[int], limit: int, size: int) -> None:
    scanner, start = PageScanner(limit, size), 0
    for length in (*cuts, len(CONTENT)):
        assert list(scanner.see(CONTENT[start : start + length])) == []
        start += length
    pages = [CONTENT[at : min(at + size, limit)] for at in range(0, limit, size)]
    assert scanner.digests == b"".join(hashlib.sha256(page).digest() for page in pages)


def test_of_what_has_not_streamed_by_nothing_is_said() -> None:
    scanner = PageScanner(8192, 4096)
    scanner.see(CONTENT[:8191])
    assert scanner.digests is None


def _stream(content: bytes) -> tuple[StreamedObject, list[int]]:
    again: list[int] = []

    def repeat() -> Iterator[bytes]:
        again.append(1)
        yield content

    source = StreamedObject(objects, content[:4096], len(content), repeat)
    for start in range(0, len(content), 1000):
        source.append(content[start : start + 1000])
    return source, again


@pytest.mark.parametrize("name", sorted(expected_macho_facts()))
def test_a_file_that_streamed_by_reads_as_one_that_is_kept(name: str) -> None:
    content = read_macho_sample(name)
    source, again = _stream(content)
    with closing(source):
        assert source.read(name) == objects.read_objects(name, Bytes(content))
    assert again == []


@pytest.mark.parametrize("place", [0x300, 0x1000, 0x2FFF])
def test_a_page_that_was_changed_is_told_by_its_place(place: int) -> None:
    content = bytearray(read_macho_sample("signed_arm64.dylib"))
    assert _faults(bytes(content)) == ()
    content[place] ^= 1
    assert _faults(bytes(content)) == (
        "the code signature's SHA-256 of 1 of 5 pages is wrong, "
        f"first at byte {place // 4096 * 4096:#x}",
    )


def _faults(content: bytes) -> tuple[str, ...]:
    with closing(_stream(content)[0]) as source:
        (found,) = source.read("demo/a.dylib")
    assert isinstance(found, MachOFile), found
    return found.signature_faults
