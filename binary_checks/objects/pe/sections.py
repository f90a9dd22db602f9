"""Reads the section headers of a PE image, which say what a loader maps, and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.pe.header import (
    IMAGE_SCN_CNT_INITIALIZED_DATA,
    IMAGE_SCN_MEM_ACCESS,
    IMAGE_SCN_MEM_EXECUTE,
    IMAGE_SCN_MEM_WRITE,
    SECTION,
    PeHeader,
    verify_end,
)
from binary_checks.objects.ranges import merge


class Section(NamedTuple):
    """One section header, its name spelled out."""

    name: str
    address: int
    virtual_size: int
    offset: int  # in the file
    size: int  # in the file; 0: nothing of it is there
    flags: int
    declared_size: int  # in the file, also where the header names no place in it


def read_sections(source: LimitedSource, header: PeHeader) -> tuple[Section, ...]:
    """Read every section header, in order. Raises MalformedError for a name that is not there."""
    start, end = header.sections_offset, header.sections_end
    sections = []
    for name, virtual_size, address, size, offset, *_, flags in SECTION.iter_unpack(
        source.read(start, end - start)
    ):
        spelled = _read_name(source, header, name.rstrip(b"\0"))
        # Without a place in the file it has no contents, whatever the size says (GNU ld's .bss).
        sections.append(
            Section(spelled, address, virtual_size, offset, size if offset else 0, flags, size)
        )
    return tuple(sections)


def _read_name(source: LimitedSource, header: PeHeader, name: bytes) -> str:
    """A name of more than 8 bytes stands in the COFF string table, at the offset ``/123``."""
    if not name.startswith(b"/") or not name[1:].isdigit() or not header.strings_offset:
        return name.decode("latin-1")
    start = header.strings_offset + int(name[1:])
    verify_end(start + 1, source.size, "the name of a section")
    text = source.read(start, min(64, source.size - start))  # no name that counts is longer
    return text.partition(b"\0")[0].decode("latin-1")


def is_debug_companion(sections: Iterable[Section]) -> bool:
    """Whether the code is gone, as ``objcopy --only-keep-debug`` leaves it."""
    code = [s for s in sections if s.flags & IMAGE_SCN_MEM_EXECUTE and s.virtual_size]
    return has_debug_information(sections) and bool(code) and not any(s.size for s in code)


def has_debug_information(sections: Iterable[Section]) -> bool:
    """Whether DWARF's main section is there with contents, compressed or not."""
    return any(s.name in (".debug_info", ".zdebug_info") and s.size for s in sections)


def measure_debug_information(sections: Iterable[Section]) -> int:
    """The bytes of the file that sections of DWARF take, each byte counted once."""
    extents = merge(find_extents(sections, (".debug_", ".zdebug_")))
    return sum(end - start for start, end in extents)


def find_extents(
    sections: Iterable[Section], names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Start and end of the sections whose names begin so and that have contents, in file order.

    What the file has beyond the size in memory fills up its last sector.
    """
    found = (
        (section.offset, section.offset + min(section.size, section.virtual_size or section.size))
        for section in sections
        if section.name.startswith(names) and section.size
    )
    return tuple(sorted(found))


def find_read_only(
    sections: Iterable[Section], others: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Start and end of data that is neither written nor run, in file order, without others.

    Sections that claim the same bytes are one.
    """
    flags = IMAGE_SCN_CNT_INITIALIZED_DATA | IMAGE_SCN_MEM_WRITE | IMAGE_SCN_MEM_EXECUTE
    return merge(
        (section.offset, section.offset + min(section.size, section.virtual_size or section.size))
        for section in sections
        if section.flags & flags == IMAGE_SCN_CNT_INITIALIZED_DATA
        and not section.name.startswith(others)
    )


def find_writable_executable(sections: Iterable[Section]) -> tuple[str, ...]:
    """The names of the sections that are both, in file order."""
    both = IMAGE_SCN_MEM_WRITE | IMAGE_SCN_MEM_EXECUTE
    return tuple(section.name for section in sections if section.flags & both == both)


def find_inaccessible(sections: Sequence[Section]) -> tuple[Section, ...]:
    """The sections that nothing in the process may read, write or run."""
    return tuple(item for item in sections if not item.flags & IMAGE_SCN_MEM_ACCESS)


def find_end(header: PeHeader, sections: Iterable[Section], source: LimitedSource) -> int:
    """Where everything that the headers speak of ends, without the signature."""
    ends = [section.offset + section.size for section in sections if section.size]
    end = max([*ends, min(header.headers_size, source.size), header.sections_end])
    if end <= header.strings_offset <= source.size - 4:
        length = int.from_bytes(source.read(header.strings_offset, 4), "little")
        end = header.strings_offset + length
        end += -end % max(header.file_alignment, 1)  # LLD fills up what is not aligned
    return min(end, source.size)
