"""Add a section to samples of PE images."""

from __future__ import annotations

import struct

from fixtures.samples import read_pe_sample

_PAGE = 4096


def add_section(sample: str, name: str, content: bytes) -> bytes:
    """Return the sample with one more section at its end."""
    return append_section(read_pe_sample(sample), name, content)


def address_of_next(image: bytes) -> int:
    """Return the address of the next section, with the image at its preferred base."""
    (start,) = struct.unpack_from("<I", image, 60)
    (base,) = struct.unpack_from("<Q", image, start + 24 + 24)
    (memory,) = struct.unpack_from("<I", image, start + 24 + 56)
    return int(base + memory)


def append_section(whole: bytes, name: str, content: bytes) -> bytes:
    """Return a 64-bit image with one more section at its end."""
    image = bytearray(whole)
    (start,) = struct.unpack_from("<I", image, 60)
    (count,) = struct.unpack_from("<H", image, start + 6)
    (optional,) = struct.unpack_from("<H", image, start + 20)
    (memory,) = struct.unpack_from("<I", image, start + 24 + 56)
    place = len(image) + -len(image) % 512
    header = struct.pack(
        "<8sIIIIIIHHI",
        *(name.encode(), len(content), memory, len(content), place, 0, 0, 0, 0, 0x40000040),
    )
    at = start + 24 + optional + 40 * count
    assert not any(image[at : at + 40]), "no room for another header"
    image[at : at + 40] = header
    struct.pack_into("<H", image, start + 6, count + 1)
    struct.pack_into("<I", image, start + 24 + 56, memory + -(-len(content) // _PAGE) * _PAGE)
    return bytes(image).ljust(place, b"\0") + content
