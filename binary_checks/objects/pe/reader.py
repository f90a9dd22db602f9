"""Read PE images by their headers and the directories that these name, as a loader does.

Everything that the headers refer to must lie inside the file: a truncated image is malformed, never
empty. Static and import libraries (``.lib``) and COFF objects (``.obj``) do not begin with "MZ" and
are not read here, since no loader takes them.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct

from binary_checks.errors import MalformedError
from binary_checks.model import Kind, PeFile
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.device.sections import (
    SHORT_RELOCATABLE,
    SHORT_SECTIONS,
    SHORT_WRAPPER_SECTIONS,
    Wrappers,
    read_device_code,
    read_wrappers,
)
from binary_checks.objects.module_slots import find_gil_slot
from binary_checks.objects.pe.header import (
    IMAGE_FILE_DLL,
    IMAGE_SCN_MEM_EXECUTE,
    IMAGE_SCN_MEM_WRITE,
    SECURITY,
    MappedImage,
    Section,
    architecture_of,
    find_end,
    find_extents,
    find_read_only,
    find_signature,
    has_debug_information,
    is_debug_companion,
    is_managed,
    measure_debug_information,
    read_header,
    read_load_configuration,
    read_pdb,
    read_sections,
    verify_directories,
)
from binary_checks.objects.pe.manifest import read_assemblies
from binary_checks.objects.pe.signature import signature_matches
from binary_checks.objects.pe.symbols import read_exports, read_imports
from binary_checks.objects.strings import PE_NAMES, search_strings

# The location of the strings in a PE image, and the names of libraries among them.

_OPENERS = ("LoadLibraryA", "LoadLibraryW", "LoadLibraryExA", "LoadLibraryExW")
_NO_STRINGS = (
    ".rsrc", ".reloc", ".pdata", ".xdata", ".edata", ".idata", ".debug", ".buildid",
    ".nv_", "__nv_", ".hip_",
)  # fmt: skip
"""Beginnings of the names of read-only sections that contain tables or code for a GPU instead of
strings.
"""


# The wrappers of relocatable device code. Their pointers are absolute addresses.


def find_wrappers(image: MappedImage, sections: tuple[Section, ...]) -> Wrappers:
    """Read the wrappers of an image with relocatable device code; other images need none."""
    relocatable = find_extents(sections, SHORT_RELOCATABLE)
    if not relocatable:
        return Wrappers()

    def follow(_place: int, value: int) -> int | None:
        try:
            return image.locate(value - image.header.image_base, "device code")[0]
        except MalformedError:
            return None

    extents = find_extents(sections, SHORT_WRAPPER_SECTIONS)
    return read_wrappers(image.source, extents, relocatable, follow)


# The object of the model.


def read(path: str, source: LimitedSource) -> tuple[PeFile, ...]:
    """Return the only object of a PE image; () for a DOS program or a text.

    Raises MalformedError, or TooLarge if a limit is exceeded.
    """
    signature = find_signature(source)
    if not signature:
        return ()
    header = read_header(source, signature)
    sections = read_sections(source, header)
    for section in sections:
        source.require_end(section.offset + section.size, f"section {section.name!r} ends")
    source.require_end(sum(header.directories[SECURITY]), "the signature ends")
    image = MappedImage(path, source, header, sections)
    wrappers = find_wrappers(image, sections)
    device = read_device_code(source, find_extents(sections, SHORT_SECTIONS), wrappers)
    debug = is_debug_companion(sections)
    both = IMAGE_SCN_MEM_WRITE | IMAGE_SCN_MEM_EXECUTE
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
        writable_executable=tuple(each.name for each in sections if each.flags & both == both),
        characteristics=header.characteristics,
        dll_characteristics=header.dll_characteristics,
        subsystem=header.subsystem,
        subsystem_version="{}.{}".format(*header.subsystem_version),
        linker_version="{}.{}".format(*header.linker_version),
    )
    return (found if debug else _read_loadable(found, image, sections),)


def _read_loadable(
    found: PeFile,
    image: MappedImage,
    sections: tuple[Section, ...],
) -> PeFile:
    """Add the facts that a loader reads from an image."""
    source, header = image.source, image.header
    verify_directories(image)
    needed, imports = read_imports(image)
    name, exports = read_exports(image)
    load_configuration = read_load_configuration(image, sections)
    hybrid = load_configuration.hybrid
    constants = find_read_only(sections, _NO_STRINGS)
    data = (
        (header.image_base + each.address, source.read(each.offset, each.size))
        for each in sections
        if not each.flags & IMAGE_SCN_MEM_EXECUTE
    )
    pattern = PE_NAMES if imports.among(_OPENERS) else None
    known = (name, *(need.name for need in needed))
    opened, texts = search_strings(source, constants, pattern, known)
    return replace(
        found,
        kind=Kind.SHARED if header.characteristics & IMAGE_FILE_DLL else Kind.EXECUTABLE,
        architecture=architecture_of(header, hybrid=hybrid),
        name=name,
        needed=needed,
        imports=imports,
        exports=exports,
        opened=opened,
        texts=texts,
        gil_not_used=find_gil_slot(
            found.path, imports, data, Struct("<Q" if header.bits == 64 else "<I")
        ),
        managed=is_managed(image),
        assemblies=read_assemblies(image),
        dependent_load_flags=load_configuration.dependent_load_flags,
        pdb=read_pdb(image, source),
        # Bytes of the file that the headers do not refer to.
        overlay=source.size - find_end(header, sections, source) - header.directories[SECURITY][1],
        signed=bool(header.directories[SECURITY][1]),
        signature_matches=signature_matches(source, header),
    )
