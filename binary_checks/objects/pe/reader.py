"""Reads PE images: headers first, then the directories that they name, as a loader does.

Everything that the headers refer to must lie inside the file: a truncated image is malformed,
never empty. Static archives and import libraries (``.lib``) begin otherwise, and COFF objects
(``.obj``) have no signature at all: none of them is an object file here, as nothing loads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model import Kind, PeFile
from binary_checks.model.protocols import ByteSource, Scout
from binary_checks.objects.device.sections import SHORT_SECTIONS, read_device_code
from binary_checks.objects.head import Head
from binary_checks.objects.pe.addresses import find_address_faults
from binary_checks.objects.pe.debug import (
    find_configuration_faults,
    is_managed,
    read_load_configuration,
    read_pdb,
    verify_directories,
)
from binary_checks.objects.pe.exports import find_export_faults, find_hollow_tables, read_exports
from binary_checks.objects.pe.header import (
    CLR,
    DEBUG,
    DELAY_IMPORT,
    EXPORT,
    IMAGE_FILE_DLL,
    IMPORT,
    LOAD_CONFIG,
    MAGIC,
    RELOCATIONS,
    SECURITY,
    TLS,
    PeHeader,
    Section,
    find_signature,
    read_header,
    read_sections,
    verify_extent,
)
from binary_checks.objects.pe.import_faults import find_import_faults, find_name_faults
from binary_checks.objects.pe.imports import read_imports
from binary_checks.objects.pe.layout import find_layout_faults
from binary_checks.objects.pe.machines import architecture_of
from binary_checks.objects.pe.sections import (
    MappedImage,
    find_end,
    find_extents,
    find_writable_executable,
    has_debug_information,
    is_debug_companion,
)
from binary_checks.objects.pe.signature import signature_matches
from binary_checks.objects.pe.strings import find_name_scout, opens_libraries, read_opened
from binary_checks.objects.ranges import complement

_Range = tuple[int, int]

_NEARBY = 4 << 20
"""Bytes kept before and behind a directory, for what it refers to: all of a small section."""
_KEPT_OF_END = 1 << 16
"""Bytes kept at the end of every section: delvewheel puts names where there was room."""
_KEPT_OF_STRINGS = 1 << 20
"""Bytes kept of the COFF string table, which may follow MinGW's sections and names some."""
_HEAD = 4096
_DIRECTORIES = (EXPORT, IMPORT, RELOCATIONS, DEBUG, TLS, LOAD_CONFIG, DELAY_IMPORT, CLR)


def recognises(head: bytes) -> bool:
    """Whether the first bytes announce a PE image, or at least a DOS program."""
    return head.startswith(MAGIC)


def retained(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """The ranges that ``read`` may ask for, as far as the first bytes tell.

    What is left out is what lies far from any directory: code and data, above all. Of a small
    image everything is kept, and of a signed one, since all of it is signed.
    """
    source = Head(head, size)
    try:
        signature = find_signature(source)
        if not signature:
            return ((0, min(size, 64)),)
        header = read_header(source, signature)
        sections = read_sections(source, header._replace(strings_offset=0))
    except (MalformedError, Unavailable):
        return ((0, size),)
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


def searched(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """The ranges in which device code may lie, as far as the first bytes tell."""
    return find_extents(_read_first_sections(head, size), SHORT_SECTIONS)


def watchers(head: bytes, size: int, device: Scout | None) -> tuple[Scout, ...]:
    """Whoever searches strings for names; what is kept whole is searched if it opens libraries."""
    del device
    sections = _read_first_sections(head, size) if size > _NEARBY else ()
    return (find_name_scout(sections),) if sections else ()


def _read_first_sections(head: bytes, size: int) -> tuple[Section, ...]:
    """The sections as far as the first bytes tell: () where they do not."""
    source = Head(head, size)
    try:
        header = read_header(source, find_signature(source))
        return read_sections(source, header._replace(strings_offset=0))
    except (MalformedError, Unavailable):
        return ()


def read(path: str, source: ByteSource) -> tuple[PeFile, ...]:
    """The one object of a PE image; a DOS program or a text is no object.

    Raises MalformedError, or TooLarge for what is too long.
    """
    signature = find_signature(source)
    if not signature:
        return ()
    header = read_header(source, signature)
    sections = read_sections(source, header)
    verify_extent(header, sections, source.size)
    facts: dict[str, Any] = {
        "path": path,
        "size": source.size,
        "debug_information": has_debug_information(sections),
        **read_device_code(source, find_extents(sections, SHORT_SECTIONS)),
        "writable_executable": find_writable_executable(sections),
        **_facts_of_header(header),
    }
    if is_debug_companion(sections):
        architecture = architecture_of(header, hybrid=False)
        return (PeFile(kind=Kind.DEBUG, architecture=architecture, **facts),)
    return (_read_loadable(source, header, sections, facts),)


def _read_loadable(
    source: ByteSource, header: PeHeader, sections: tuple[Section, ...], facts: dict[str, Any]
) -> PeFile:
    image = MappedImage(facts["path"], source, header, sections)
    verify_directories(image)
    needed, imports, libraries, ends = read_imports(image)
    name, exports = read_exports(image)
    load_configuration = read_load_configuration(image)
    known = (name, *(need.name for need in needed))
    return PeFile(
        kind=Kind.SHARED if header.characteristics & IMAGE_FILE_DLL else Kind.EXECUTABLE,
        architecture=architecture_of(header, hybrid=load_configuration.hybrid),
        name=name,
        needed=needed,
        imports=imports,
        exports=exports,
        opened=(read_opened(source, sections, known) if opens_libraries(imports) else None),
        managed=is_managed(image),
        dependent_load_flags=load_configuration.dependent_load_flags,
        pdb=read_pdb(image, source),
        overlay=_measure_overlay(source, header, sections),
        signed=bool(header.directories[SECURITY][1]),
        signature_matches=signature_matches(source, header),
        refusals=(
            *find_layout_faults(header, sections),
            *find_address_faults(image, sections),
            *find_import_faults(image, libraries, ends, hybrid=load_configuration.hybrid),
            *find_name_faults(imports, header),
            *find_export_faults(exports, header),
            *find_hollow_tables(image),
            *find_configuration_faults(image),
        ),
        **facts,
    )


def _facts_of_header(header: PeHeader) -> dict[str, Any]:
    return {
        "characteristics": header.characteristics,
        "dll_characteristics": header.dll_characteristics,
        "subsystem": header.subsystem,
        "subsystem_version": "{}.{}".format(*header.subsystem_version),
        "linker_version": "{}.{}".format(*header.linker_version),
    }


def _measure_overlay(source: ByteSource, header: PeHeader, sections: tuple[Section, ...]) -> int:
    """How many bytes nothing in the headers speaks of."""
    return source.size - find_end(header, sections, source) - header.directories[SECURITY][1]
