"""Why Windows does not map a PE image: what its headers and sections have to agree on.

Microsoft's PE specification names most of these rules; the kernel holds an image to them when it
makes a section object of the file, and answers "not a valid Win32 application" (error 193).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from binary_checks.objects.pe.header import (
    DIRECTORY_NAMES,
    IMAGE_FILE_DLL,
    IMAGE_FILE_EXECUTABLE_IMAGE,
    IMAGE_FILE_RELOCS_STRIPPED,
    SECURITY,
    PeHeader,
    verify_end,
)
from binary_checks.objects.pe.sections import Section

_PAGE, _SECTOR = 0x1000, 0x200
_LARGEST_FILE_ALIGNMENT = 0x10000
_LARGEST_IMAGE = 0x77000000  # bytes; the kernel's MM_SIZE_OF_LARGEST_IMAGE
_DIRECTORIES = len(DIRECTORY_NAMES)
_BASE_STEP = 0x10000
_FORCE_INTEGRITY = 0x80
_BITS = {
    **dict.fromkeys((0x014C, 0x01C0, 0x01C2, 0x01C4, 0x5032, 0x6232), 32),
    **dict.fromkeys((0x0200, 0x5064, 0x6264, 0x8664, 0xA641, 0xA64E, 0xAA64), 64),
}
"""By machine, how wide the optional header has to be."""


def verify_extent(header: PeHeader, sections: tuple[Section, ...], size: int) -> None:
    """Raise MalformedError for what the file does not hold in full.

    Without this a truncated library reads as one that needs nothing and defines nothing.
    """
    for section in sections:
        verify_end(section.offset + section.size, size, f"section {section.name!r}")
    start, length = header.directories[SECURITY]  # the one directory that says file offsets
    verify_end(start + length, size, "the signature")


def find_layout_faults(header: PeHeader, sections: Sequence[Section]) -> Iterator[str]:
    """Say what keeps the image from being mapped: each goes on from its path."""
    yield from _judge_header(header)
    alignment = tuple(_judge_alignments(header))
    yield from alignment
    yield from _judge_sizes(header)
    if alignment:
        return  # the sections' places are counted in it
    if header.section_alignment < _PAGE:
        yield from _judge_unaligned(sections)
    else:
        yield from _judge_places(header, sections)


def _judge_header(header: PeHeader) -> Iterator[str]:
    if header.signature % 4:
        yield f"has its PE header at byte {header.signature:#x}, which is no multiple of 4"
    if not header.characteristics & IMAGE_FILE_EXECUTABLE_IMAGE:
        yield "is not marked as an image (IMAGE_FILE_EXECUTABLE_IMAGE): its linker found errors"
    if _BITS.get(header.machine, header.bits) != header.bits:
        yield f"is for machine {header.machine:#x} and has a header of {header.bits} bits"
    if header.image_base % _BASE_STEP:
        yield f"has ImageBase {header.image_base:#x}, which is no multiple of {_BASE_STEP:#x}"
    if header.dll_characteristics & _FORCE_INTEGRITY and not header.directories[SECURITY][1]:
        yield "asks for a check of its signature (FORCE_INTEGRITY) and has none"
    if header.directory_count > _DIRECTORIES:
        yield f"counts {header.directory_count} directories, of which there are {_DIRECTORIES}"
    fixed = IMAGE_FILE_DLL | IMAGE_FILE_RELOCS_STRIPPED
    if header.characteristics & fixed == fixed:
        yield f"loads at address {header.image_base:#x} alone: its base relocations were stripped"
    for number in header.uncounted_directories:
        name = DIRECTORY_NAMES[number]
        yield f"has a directory of {name} after the {header.directory_count} that it counts"


def _judge_alignments(header: PeHeader) -> Iterator[str]:
    small, large = header.file_alignment, header.section_alignment
    for name, value in (("FileAlignment", small), ("SectionAlignment", large)):
        if value < 1 or value & (value - 1):
            yield f"has {name} {value:#x}, which is no power of 2"
    if large < small:
        yield f"has SectionAlignment {large:#x}, which is less than its FileAlignment {small:#x}"
    elif small != large and (large < _PAGE or small < _SECTOR):
        lowest = f"where one is below its minimum ({_PAGE:#x} and {_SECTOR:#x}) they must be equal"
        yield f"has SectionAlignment {large:#x} and FileAlignment {small:#x}: {lowest}"
    if small > _LARGEST_FILE_ALIGNMENT:
        yield f"has FileAlignment {small:#x}, more than {_LARGEST_FILE_ALIGNMENT:#x}"


def _judge_sizes(header: PeHeader) -> Iterator[str]:
    image, headers = header.image_size, header.headers_size
    if image > _LARGEST_IMAGE:
        yield f"has SizeOfImage {image:#x}, more than Windows maps"
    if headers >= image:
        yield f"has SizeOfHeaders {headers:#x} in an image of {image:#x} bytes"
    if headers < header.sections_end:
        end = header.sections_end
        yield f"has SizeOfHeaders {headers:#x}, its section headers end at byte {end:#x}"


def _judge_unaligned(sections: Sequence[Section]) -> Iterator[str]:
    """The file is mapped as it lies, where sections are aligned to less than a page."""
    for section in sections:
        if section.size and section.offset != section.address:
            place = f"lies at byte {section.offset:#x} of the file, at {section.address:#x} in"
            yield f"has a section {section.name!r} that {place} memory: without pages they are one"


def _judge_places(header: PeHeader, sections: Sequence[Section]) -> Iterator[str]:
    """Sections follow the headers and one another, each where the one before it ends."""
    step = header.section_alignment
    place = _round_up(header.headers_size, step)
    for section in sections:
        size = section.virtual_size or section.declared_size
        if section.address != place:
            where = f"at address {section.address:#x}, not at {place:#x} where the one before ends"
            yield f"has its section {section.name!r} {where}"
            return  # all that follow would be misplaced too
        if not size:
            yield f"has a section {section.name!r} without a size"
        if section.size and section.offset % _SECTOR:
            start = f"at byte {section.offset:#x}, no multiple of {_SECTOR:#x}"
            yield f"has its section {section.name!r} {start}"
        place = _round_up(place + size, step)
    if place > _round_up(header.image_size, step):
        yield f"has SizeOfImage {header.image_size:#x}, its sections end at {place:#x}"


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step
