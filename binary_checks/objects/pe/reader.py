"""Read PE images by their headers and the directories that these name, as a loader does.

Everything that the headers refer to must lie inside the file: a truncated image is malformed, never
empty. Static and import libraries (``.lib``) and COFF objects (``.obj``) do not begin with "MZ" and
are not read here, since no loader takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model import Kind, Observations, OpenedNames, PeFile, Plan, Scanner, SymbolTable
from binary_checks.objects.byte_source import Head, LimitedSource, complement
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.device.sections import (
    MOST_PLACES,
    SHORT_RELOCATABLE,
    SHORT_SECTIONS,
    SHORT_WRAPPER_SECTIONS,
    Wrappers,
    read_device_code,
    read_wrappers,
)
from binary_checks.objects.pe.header import (
    CLR,
    DEBUG,
    DELAY_IMPORT,
    EXPORT,
    IMAGE_FILE_DLL,
    IMPORT,
    LOAD_CONFIG,
    RESOURCE,
    SECURITY,
    TLS,
    MappedImage,
    PeHeader,
    Section,
    architecture_of,
    find_end,
    find_extents,
    find_read_only,
    find_signature,
    find_writable_executable,
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
from binary_checks.objects.pe.refusals import Parsed, find_refusals, verify_extent
from binary_checks.objects.pe.signature import signature_matches
from binary_checks.objects.pe.symbols import read_exports, read_imports
from binary_checks.objects.strings import PE_NAMES, NameScanner, find_opened, find_texts

# The location of the strings in a PE image, and the names of libraries among them.

_OPENERS = ("LoadLibraryA", "LoadLibraryW", "LoadLibraryExA", "LoadLibraryExW")
_NO_STRINGS = (
    ".rsrc", ".reloc", ".pdata", ".xdata", ".edata", ".idata", ".debug", ".buildid",
    ".nv_", "__nv_", ".hip_",
)  # fmt: skip
"""Beginnings of the names of read-only sections that contain tables or code for a GPU instead of
strings.
"""


def find_name_scanner(sections: tuple[Section, ...], factor: int) -> NameScanner:
    """Return a scanner that searches read-only data while the file is streamed."""
    return NameScanner(find_read_only(sections, _NO_STRINGS), PE_NAMES, factor=factor)


def opens_libraries(imports: SymbolTable) -> bool:
    """Return whether an image imports a function that opens libraries by name."""
    return bool(imports.among(_OPENERS))


def read_texts(
    source: LimitedSource, seen: NameScanner | None, sections: tuple[Section, ...]
) -> tuple[str, ...]:
    """Return the texts that identify statically linked libraries."""
    return find_texts(source, seen, find_read_only(sections, _NO_STRINGS))


def read_opened(
    source: LimitedSource,
    seen: NameScanner | None,
    sections: tuple[Section, ...],
    known: Iterable[str],
) -> OpenedNames:
    """Return the names of libraries in read-only data, without the ``known`` ones."""
    return find_opened(source, seen, PE_NAMES, known, find_read_only(sections, _NO_STRINGS))


# The wrappers of relocatable device code. Their pointers are absolute addresses.


def find_wrappers(image: MappedImage, sections: tuple[Section, ...]) -> Wrappers:
    """Read the wrappers of an image with relocatable device code; other images need none."""
    relocatable = find_extents(sections, SHORT_RELOCATABLE)
    if not relocatable:
        return Wrappers()

    if len(sections) > MOST_PLACES:
        reason = f"pointers are followed through no more than {MOST_PLACES} sections"
        return Wrappers(relocatable=relocatable, unread=reason)

    def follow(_place: int, value: int) -> int | None:
        try:
            return image.locate(value - image.header.image_base, "device code")[0]
        except MalformedError:
            return None

    return read_wrappers(
        image.source, find_extents(sections, SHORT_WRAPPER_SECTIONS), relocatable, follow
    )


# The parts of a PE image to keep and to scan, as far as the first bytes show them.

_Range = tuple[int, int]

_NEARBY = 4 << 20
"""Bytes kept before and after a directory, for data that the directory refers to; small files are
kept completely.
"""
_KEPT_OF_END = 1 << 16
"""Bytes kept at the end of each section: delvewheel writes new names into the padding."""
_KEPT_OF_STRINGS = 1 << 20
"""Bytes kept of the COFF string table, where MinGW stores the names of sections."""
_HEAD = 4096
_DIRECTORIES = (EXPORT, IMPORT, DEBUG, TLS, LOAD_CONFIG, DELAY_IMPORT, CLR)


def plan(head: bytes, size: int, factor: int) -> Plan:
    """Plan to keep the surroundings of each directory, but not code and data far from all of them.

    A small image is kept completely. So is a signed image, because the signature covers all of it.
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
    """Yield the scanners for device code and for strings."""
    device = find_extents(sections, SHORT_SECTIONS)
    if device:
        yield DeviceScanner(device, size)
    # A smaller image is kept, and searched only if it opens libraries.
    if sections and size > _NEARBY:
        yield find_name_scanner(sections, factor)


def _find_ranges(header: PeHeader, sections: tuple[Section, ...], size: int) -> tuple[_Range, ...]:
    """Return the byte ranges to keep."""
    if header.directories[SECURITY][1] or size <= _NEARBY:
        return ((0, size),)
    kept = [(0, max(_HEAD, header.headers_size, header.sections_end))]
    if header.strings_offset:
        kept.append((header.strings_offset, header.strings_offset + _KEPT_OF_STRINGS))
    for section in sections:
        if section.address == header.directories[RESOURCE][0]:
            kept.append((section.offset, section.offset + _KEPT_OF_END))
        end = section.offset + section.size
        kept.append((max(end - _KEPT_OF_END, section.offset), end))
    for directory in _DIRECTORIES:
        kept.extend(_surround(header.directories[directory], sections))
    return complement([(0, size)], kept, size)


def _surround(directory: tuple[int, int], sections: tuple[Section, ...]) -> Iterator[_Range]:
    """Yield the bytes around a directory that lie in its section."""
    start, size = directory
    for section in sections:
        if 0 <= start - section.address < max(section.virtual_size, section.size):
            place = section.offset + start - section.address
            end = section.offset + section.size
            yield max(place - _NEARBY, section.offset), min(place + size + _NEARBY, end)


# The object of the model.


def read(path: str, source: LimitedSource, observations: Observations) -> tuple[PeFile, ...]:
    """Return the only object of a PE image; () for a DOS program or a text.

    Raises MalformedError, or TooLarge if a limit is exceeded.
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
    """Add the facts that a loader reads from an image."""
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
        assemblies=read_assemblies(image),
        dependent_load_flags=load_configuration.dependent_load_flags,
        pdb=read_pdb(image, source),
        # Bytes of the file that the headers do not refer to.
        overlay=source.size - find_end(header, sections, source) - header.directories[SECURITY][1],
        signed=bool(header.directories[SECURITY][1]),
        signature_matches=signature_matches(source, header),
        refusals=find_refusals(image, parsed),
    )
