"""Reads an ELF file's section headers, which may be missing: no loader looks at them."""

from __future__ import annotations

from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.elf.header import ElfHeader
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.ranges import merge

SHT_PROGBITS: Final = 1
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_DYNSYM: Final = 11
SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4

_MOST_NAMES = 1 << 26
"""Bytes of section names that are read; those of the largest libraries have some thousand."""


class Section(NamedTuple):
    """One section header."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int


def read_sections(source: LimitedSource, header: ElfHeader) -> tuple[Section, ...]:
    """Read every section header, in order.

    Raises MalformedError where names lie outside, TooLarge where they are too long.
    """
    start, end = header.sections_offset, header.sections_end
    if not header.section_count:
        return ()
    rows = tuple(header.section_struct.iter_unpack(source.read(start, end - start)))
    names = _read_names(source, header, rows)
    return tuple(
        Section(_name_at(names, row[0]), row[1], row[2], row[3], row[4], row[5]) for row in rows
    )


def _read_names(
    source: LimitedSource, header: ElfHeader, rows: tuple[tuple[int, ...], ...]
) -> bytes:
    if header.names_index == 0 or header.names_index >= len(rows):
        return b""
    _, kind, _, _, offset, size = rows[header.names_index][:6]
    if kind == SHT_NOBITS:
        return b""
    if offset + size > source.size:
        raise MalformedError("the sections' names lie beyond the end of the file", source.size)
    source.refuse_more(size, _MOST_NAMES, "bytes of section names")
    return source.read(offset, size)


def _name_at(names: bytes, offset: int) -> str:
    end = names.find(b"\0", offset, offset + 256)  # none of the names that count is longer
    return names[offset : end if end >= 0 else offset].decode("latin-1")


def is_debug_companion(sections: tuple[Section, ...]) -> bool:
    """Whether all that would be loaded is gone, as ``objcopy --only-keep-debug`` leaves it."""
    kept = {section.type for section in sections if section.flags & SHF_ALLOC}
    return SHT_NOBITS in kept and kept <= {SHT_NOBITS, SHT_NOTE}


def has_debug_information(sections: tuple[Section, ...]) -> bool:
    """Whether DWARF's main section is there with contents, compressed or not."""
    return any(
        section.name in (".debug_info", ".zdebug_info")
        and section.type != SHT_NOBITS
        and section.size > 0
        for section in sections
    )


def measure_debug_information(sections: tuple[Section, ...]) -> int:
    """The bytes of the file that sections of DWARF take, each byte counted once."""
    extents = merge(
        (section.offset, section.offset + section.size)
        for section in sections
        if section.name.startswith((".debug_", ".zdebug_")) and section.type != SHT_NOBITS
    )
    return sum(end - start for start, end in extents)


def find_extents(
    sections: tuple[Section, ...], names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Start and end of the sections of these names that have contents, in file order."""
    found = (
        (section.offset, section.offset + section.size)
        for section in sections
        if section.name in names and section.type != SHT_NOBITS and section.size
    )
    return tuple(sorted(found))


def find_read_only(
    sections: tuple[Section, ...], others: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Start and end of what is loaded, neither written nor run, but sections whose names begin so.

    Sections that claim the same bytes are one.
    """
    flags = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR
    return merge(
        (section.offset, section.offset + section.size)
        for section in sections
        if section.type == SHT_PROGBITS
        and section.flags & flags == SHF_ALLOC
        and not section.name.startswith(others)
    )
