"""A reader gets what scanners saw of a file as a value, by the class of the scanner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from binary_checks import objects
from binary_checks.model import (
    NOTHING_SEEN,
    ByteSource,
    MachOFile,
    MalformedObject,
    ObjectFile,
    Observations,
    UnreadObject,
)
from binary_checks.objects.macho.signature import PageScanner
from binary_checks.objects.strings import NameScanner
from binary_checks.trees.kept_bytes import StreamedObject
from fixtures.samples import read_macho_sample
from tests.objects.byte_sources import Bytes


def scan(content: bytes) -> Observations:
    scanners = objects.plan(content, len(content)).scanners
    for scanner in scanners:
        assert list(scanner.see(content)) == []
    return Observations(scanners=scanners)


def test_a_scanner_is_found_by_its_class() -> None:
    seen = scan(read_macho_sample("signed_arm64.dylib"))
    assert isinstance(seen.of(PageScanner), PageScanner)
    assert isinstance(seen.of(NameScanner), NameScanner)
    assert NOTHING_SEEN.of(PageScanner) is None


def test_a_reader_takes_what_was_seen_for_what_is_there() -> None:
    content = read_macho_sample("signed_arm64.dylib")
    changed = bytearray(content)
    changed[0x300] ^= 1
    assert faults(content, NOTHING_SEEN) == faults(content, scan(content)) == ()
    (fault,) = faults(content, scan(bytes(changed)))
    assert "1 of 5 pages is wrong" in fault


def faults(content: bytes, seen: Observations) -> tuple[str, ...]:
    (found,) = objects.read_objects("demo/a.dylib", Bytes(content), seen)
    assert isinstance(found, MachOFile)
    return found.signature_faults


def test_a_file_that_is_not_planned_for_is_read_again_and_its_scanners_see_it_once() -> None:
    content = read_macho_sample("signed_arm64.dylib")
    repeated: list[int] = []

    def again() -> Iterator[bytes]:
        repeated.append(1)
        yield content

    class Greedy(objects.LimitedReader):
        """A reader that asks for bytes it did not plan for."""

        def read_objects(
            self, path: str, source: ByteSource, observations: Observations = NOTHING_SEEN
        ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
            """Ask for every byte first."""
            assert source.read(0, source.size) == content
            return super().read_objects(path, source, observations)

    with closing(StreamedObject(Greedy(1), content[:4096], len(content), again)) as file:
        file.append(content)
        (found,) = file.read("demo/a.dylib")
    assert repeated == [1]
    assert isinstance(found, MachOFile)
    assert found.signature_faults == ()


@pytest.mark.parametrize("head", [b"text", b"!<arch>\n", b"\xca\xfe\xba\xbe\0\0\0\2"])
def test_a_file_of_which_everything_or_nothing_is_kept_needs_no_scanner(head: bytes) -> None:
    assert objects.plan(head.ljust(64, b"\0"), 1 << 20).scanners == ()
