"""Reads PE images: headers first, then the directories that they name, as a loader does.

Everything that the headers refer to must lie inside the file: a truncated image is malformed,
never empty. Static archives and import libraries (``.lib``) begin otherwise, and COFF objects
(``.obj``) have no signature at all: none of them is an object file here, as nothing loads them.
"""

from __future__ import annotations

from dataclasses import replace

from binary_checks.model import Kind, PeFile
from binary_checks.model.protocols import Observations
from binary_checks.objects.device.sections import SHORT_SECTIONS, read_device_code
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.opened_names import NameScanner
from binary_checks.objects.pe.debug import (
    is_managed,
    read_load_configuration,
    read_pdb,
    verify_directories,
)
from binary_checks.objects.pe.exports import read_exports
from binary_checks.objects.pe.header import (
    IMAGE_FILE_DLL,
    SECURITY,
    PeHeader,
    architecture_of,
    find_signature,
    read_header,
)
from binary_checks.objects.pe.image import MappedImage
from binary_checks.objects.pe.imports import read_imports
from binary_checks.objects.pe.layout import verify_extent
from binary_checks.objects.pe.plan import plan
from binary_checks.objects.pe.refusals import Parsed, find_refusals
from binary_checks.objects.pe.sections import (
    Section,
    find_end,
    find_extents,
    find_writable_executable,
    has_debug_information,
    is_debug_companion,
    measure_debug_information,
    read_sections,
)
from binary_checks.objects.pe.signature import signature_matches
from binary_checks.objects.pe.strings import opens_libraries, read_opened, read_texts
from binary_checks.objects.pe.wrappers import find_wrappers

__all__ = ["plan", "read"]


def read(path: str, source: LimitedSource, observations: Observations) -> tuple[PeFile, ...]:
    """The one object of a PE image; a DOS program or a text is no object.

    Raises MalformedError, or TooLarge for what is too long.
    """
    signature = find_signature(source)
    if not signature:
        return ()
    header = read_header(source, signature)
    sections = read_sections(source, header)
    verify_extent(header, sections, source.size)
    image = MappedImage(path, source, header, sections)
    wrappers = find_wrappers(image, sections)
    device = read_device_code(source, find_extents(sections, SHORT_SECTIONS), wrappers)
    debug = is_debug_companion(sections)
    found = PeFile(
        path=path,
        kind=Kind.DEBUG if debug else Kind.SHARED,
        size=source.size,
        architecture=architecture_of(header, hybrid=False),
        debug_information=has_debug_information(sections),
        debug_bytes=measure_debug_information(sections),
        device_code=device.code,
        device_containers=device.containers,
        device_faults=device.faults,
        writable_executable=find_writable_executable(sections),
        characteristics=header.characteristics,
        dll_characteristics=header.dll_characteristics,
        subsystem=header.subsystem,
        subsystem_version="{}.{}".format(*header.subsystem_version),
        linker_version="{}.{}".format(*header.linker_version),
    )
    return (
        found if debug else _read_loadable(found, image, sections, observations.of(NameScanner)),
    )


def _read_loadable(
    found: PeFile,
    image: MappedImage,
    sections: tuple[Section, ...],
    seen: NameScanner | None,
) -> PeFile:
    """Add to an image what a loader reads of it."""
    source, header = image.source, image.header
    verify_directories(image)
    needed, imports, libraries, ends = read_imports(image)
    name, exports = read_exports(image)
    load_configuration = read_load_configuration(image)
    hybrid = load_configuration.hybrid
    parsed = Parsed(sections, imports, libraries, ends, exports, hybrid)
    known = (name, *(need.name for need in needed))
    return replace(
        found,
        kind=Kind.SHARED if header.characteristics & IMAGE_FILE_DLL else Kind.EXECUTABLE,
        architecture=architecture_of(header, hybrid=hybrid),
        name=name,
        needed=needed,
        imports=imports,
        exports=exports,
        opened=read_opened(source, seen, sections, known) if opens_libraries(imports) else None,
        texts=read_texts(source, seen, sections),
        managed=is_managed(image),
        dependent_load_flags=load_configuration.dependent_load_flags,
        pdb=read_pdb(image, source),
        overlay=_measure_overlay(source, header, sections),
        signed=bool(header.directories[SECURITY][1]),
        signature_matches=signature_matches(source, header),
        refusals=find_refusals(image, parsed),
    )


def _measure_overlay(source: LimitedSource, header: PeHeader, sections: tuple[Section, ...]) -> int:
    """How many bytes nothing in the headers speaks of."""
    return source.size - find_end(header, sections, source) - header.directories[SECURITY][1]
