"""Plans which parts of a PE image to keep and to scan, as far as the first bytes tell."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model.protocols import Plan, Scanner
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.device.sections import SHORT_SECTIONS
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.pe.header import (
    CLR,
    DEBUG,
    DELAY_IMPORT,
    EXPORT,
    IMPORT,
    LOAD_CONFIG,
    SECURITY,
    TLS,
    PeHeader,
    find_signature,
    read_header,
)
from binary_checks.objects.pe.sections import Section, find_extents, read_sections
from binary_checks.objects.pe.strings import find_name_scanner
from binary_checks.objects.ranges import Head, complement

_Range = tuple[int, int]

_NEARBY = 4 << 20
"""Bytes kept before and behind a directory, for what it refers to: all of a small section."""
_KEPT_OF_END = 1 << 16
"""Bytes kept at the end of every section: delvewheel puts names where there was room."""
_KEPT_OF_STRINGS = 1 << 20
"""Bytes kept of the COFF string table, which may follow MinGW's sections and names some."""
_HEAD = 4096
_DIRECTORIES = (EXPORT, IMPORT, DEBUG, TLS, LOAD_CONFIG, DELAY_IMPORT, CLR)


def plan(head: bytes, size: int, factor: int) -> Plan:
    """Keep what lies near a directory, and leave out what lies far: code and data, above all.

    Of a small image everything is kept, and of a signed one, since all of it is signed.
    """
    source = LimitedSource(Head(head, size), factor)
    try:
        signature = find_signature(source)
        if not signature:
            return Plan(ranges=((0, min(size, 64)),))
        header = read_header(source, signature)
        sections = read_sections(source, header._replace(strings_offset=0))
    except (MalformedError, Unavailable):
        return Plan(ranges=((0, size),))
    return Plan(
        ranges=_find_ranges(header, sections, size),
        scanners=tuple(_find_scanners(sections, size, factor)),
    )


def _find_scanners(sections: tuple[Section, ...], size: int, factor: int) -> Iterator[Scanner]:
    device = find_extents(sections, SHORT_SECTIONS)
    if device:
        yield DeviceScanner(device, size)
    if sections and size > _NEARBY:  # a smaller one is kept, and searched if it opens libraries
        yield find_name_scanner(sections, factor)


def _find_ranges(header: PeHeader, sections: tuple[Section, ...], size: int) -> tuple[_Range, ...]:
    if header.directories[SECURITY][1] or size <= _NEARBY:
        return ((0, size),)
    kept = [(0, max(_HEAD, header.headers_size, header.sections_end))]
    if header.strings_offset:
        kept.append((header.strings_offset, header.strings_offset + _KEPT_OF_STRINGS))
    for section in sections:
        end = section.offset + section.size
        kept.append((max(end - _KEPT_OF_END, section.offset), end))
    for directory in _DIRECTORIES:
        kept.extend(_surround(header.directories[directory], sections))
    return complement([(0, size)], kept, size)


def _surround(directory: tuple[int, int], sections: tuple[Section, ...]) -> Iterator[_Range]:
    """The part of the file around a directory, within its section."""
    start, size = directory
    for section in sections:
        if 0 <= start - section.address < max(section.virtual_size, section.size):
            place = section.offset + start - section.address
            end = section.offset + section.size
            yield max(place - _NEARBY, section.offset), min(place + size + _NEARBY, end)
