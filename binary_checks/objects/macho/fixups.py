"""Follows the chained fixups of a Mach-O file through its segments, as dyld does.

Each page's start leads to a pointer that says how far away the next one is. dyld refuses a start
or a step that leaves the page or the segment, and an import that is none of those listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.header import MachHeader, Slice
from binary_checks.objects.macho.segments import Segment

_STARTS = Struct("<IHHQIH")  # size, page size, format, offset, highest pointer, pages
_PAGE_SIZES = frozenset({0x1000, 0x4000})
_NONE, _SEVERAL = 0xFFFF, 0x8000
_FORMATS = range(1, 14)
_NARROW_FORMAT = 3


class _Format(NamedTuple):
    """How the pointers of a chain are packed."""

    layout: Struct
    next_at: int  # bits before the distance to the next
    next_bits: int
    stride: int  # bytes, in which the distance is counted
    bind_at: int  # the bit that says that it is bound
    ordinal_bits: int


_WIDE, _NARROW = Struct("<Q"), Struct("<I")
_KNOWN = {
    1: _Format(_WIDE, 51, 11, 8, 62, 16),  # arm64e
    2: _Format(_WIDE, 51, 12, 4, 63, 24),  # 64 bits
    3: _Format(_NARROW, 26, 5, 4, 31, 20),  # 32 bits
    6: _Format(_WIDE, 51, 12, 4, 63, 24),  # 64 bits, offsets in place of addresses
    9: _Format(_WIDE, 51, 11, 8, 62, 16),  # arm64e of user space
    12: _Format(_WIDE, 51, 11, 8, 62, 24),  # the same with more imports
}


def find_fixup_faults(
    source: Slice, header: MachHeader, table: bytes, segments: Sequence[Segment]
) -> Iterator[str]:
    """Say where chained fixups leave their segment, the first fault of each segment.

    Each goes on from the path.
    """
    _, starts, _, _, imports, *_ = header.struct("7I").unpack_from(table)
    (count,) = header.struct("I").unpack_from(table, starts)
    if count > len(segments):
        yield f"has chained fixups of {count} segments, of which there are {len(segments)}"
        return
    base = next((item.address for item in segments if item.name == "__TEXT"), 0)
    for number in range(count):
        at = starts + 4 + 4 * number
        offset = int.from_bytes(table[at : at + 4], "little")
        if not offset:
            continue
        try:
            chains = _read_chains(table, starts + offset, segments[number], base)
            if chains is not None:
                _follow(source, chains, segments[number], imports)
        except MalformedError as error:
            yield f"has chained fixups of {segments[number].name} {error.reason}"


class _Chains(NamedTuple):
    """The starts of the chains of one segment, one a page."""

    starts: tuple[int, ...]
    page_size: int
    form: int


def _read_chains(table: bytes, place: int, segment: Segment, base: int) -> _Chains | None:
    """None for a format that nothing but a kernel has. Raises MalformedError."""
    if place + _STARTS.size > len(table):
        raise MalformedError("that begin beyond their table")
    size, page_size, form, offset, _, pages = _STARTS.unpack_from(table, place)
    if page_size not in _PAGE_SIZES or form not in _FORMATS:
        raise MalformedError(f"of pages of {page_size:#x} bytes and pointers of format {form}")
    if offset != segment.address - base:
        raise MalformedError(f"at {offset:#x}, the segment is at {segment.address - base:#x}")
    end = place + _STARTS.size + 2 * pages
    if end > place + size or end > len(table):
        raise MalformedError(f"of {pages} pages in a table of {size:#x} bytes")
    if pages and (pages - 1) * page_size >= segment.memory:
        raise MalformedError(f"of {pages} pages, it has {segment.memory:#x} bytes")
    starts = Struct(f"<{pages}H").unpack_from(table, place + _STARTS.size)
    return _Chains(starts, page_size, form) if form in _KNOWN else None


def _follow(source: Slice, chains: _Chains, segment: Segment, imports: int) -> None:
    content = source.read(segment.offset, segment.size)
    for number, start in enumerate(chains.starts):
        several = chains.form == _NARROW_FORMAT and start & _SEVERAL  # no wheel has those
        if start == _NONE or several:
            continue
        if start >= chains.page_size:
            raise MalformedError(f"that begin at byte {start:#x} of a page")
        page = range(number * chains.page_size, (number + 1) * chains.page_size)
        _walk(content, page[start:], _KNOWN[chains.form], imports)


def _walk(content: bytes, page: range, packing: _Format, imports: int) -> None:
    layout, next_at, next_bits, stride, bind_at, ordinal_bits = packing
    steps, ordinals = (1 << next_bits) - 1, (1 << ordinal_bits) - 1
    at, limit = page.start, min(page.stop, len(content)) - layout.size
    unpack = layout.unpack_from
    while True:
        if at > limit:
            raise MalformedError(f"that lead to {at:#x}, out of its page or its bytes")
        (pointer,) = unpack(content, at)
        if pointer >> bind_at & 1 and pointer & ordinals >= imports:
            number = pointer & ordinals
            raise MalformedError(f"that bind import {number} of {imports} (at {at:#x})")
        step = pointer >> next_at & steps
        if not step:
            return
        at += step * stride
