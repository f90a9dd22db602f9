"""Every page of a signed file is hashed."""

from __future__ import annotations

import pytest

from binary_checks import objects
from binary_checks.model import MachOFile
from fixtures.samples import read_macho_sample
from tests.objects.byte_sources import Bytes


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
    (found,) = objects.read_objects("demo/a.dylib", Bytes(content))
    assert isinstance(found, MachOFile), found
    return found.signature_faults
