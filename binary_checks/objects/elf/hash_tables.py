"""Judges the heads of DT_GNU_HASH and DT_HASH, by which a loader looks names up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from binary_checks.errors import MalformedError
from binary_checks.objects.elf.dynamic import DT_GNU_HASH, DT_HASH, Dynamic
from binary_checks.objects.elf.image import MappedImage

WIDE_SYSV: Final = (22, 0x9026)
"""EM_S390 and EM_ALPHA, whose DT_HASH has words of 8 bytes with 64 bits, against the gABI."""
_HASH_BITS: Final = 32


def hash_sysv(name: bytes) -> int:
    """The hash of DT_HASH and of the version tables (gABI, "Hash Table")."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ value >> 24 & 0xF0) & 0x0FFFFFFF
    return value


def judge_hash_table(image: MappedImage, dynamic: Dynamic) -> Iterator[str]:
    """Heads that a loader cannot work with: of the GNU table, where there are both.

    Raises MalformedError. How far the tables reach is seen to where symbols are counted.
    """
    if DT_GNU_HASH in dynamic:
        head = image.header.struct("IIII")
        _, _, size, shift = image.unpack(head, dynamic.value(DT_GNU_HASH), "DT_GNU_HASH")
        if not size or size & size - 1:
            yield f"has a DT_GNU_HASH whose Bloom filter has {size} words, no power of two"
        elif shift >= _HASH_BITS:
            yield f"has a DT_GNU_HASH that shifts hashes of {_HASH_BITS} bits by {shift}"
    elif DT_HASH in dynamic:
        wide = image.header.bits == 64 and image.header.machine in WIDE_SYSV
        layout = image.header.struct("QQ" if wide else "II")
        buckets, _ = image.unpack(layout, dynamic.value(DT_HASH), "DT_HASH")
        if not buckets:
            yield "has a DT_HASH without buckets: a loader divides by their number"
    else:
        raise MalformedError("neither DT_GNU_HASH nor DT_HASH: no symbol is ever found in it")
