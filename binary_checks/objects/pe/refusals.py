"""Find why Windows refuses a PE image, or crashes on it, before any of its code runs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import SymbolTable
from binary_checks.objects.pe.header import (
    ADDRESSES,
    CLR,
    DELAY_IMPORT,
    DIRECTORY_NAMES,
    IMAGE_FILE_DLL,
    IMAGE_FILE_EXECUTABLE_IMAGE,
    IMAGE_FILE_RELOCS_STRIPPED,
    IMAGE_SCN_MEM_EXECUTE,
    IMPORT,
    MAPPED,
    SECURITY,
    TLS,
    MappedImage,
    PeHeader,
    Section,
    find_configuration_faults,
    find_inaccessible,
    verify_end,
)
from binary_checks.objects.pe.symbols import (
    DELAYED,
    DESCRIPTOR,
    ImportedLibrary,
    PeImports,
    find_export_faults,
    find_hollow_tables,
)

# Why Windows refuses a mapped image, or crashes on it: addresses that the loader follows before any
# code of the image runs (entry point, directories, thread-local storage), but that are not valid.

# PE, "The .tls Section": start and end of raw data, address of the index, callbacks
_TLS = {32: Struct("<3I4x"), 64: Struct("<3Q8x")}


def find_address_faults(image: MappedImage, sections: Sequence[Section]) -> Iterator[str]:
    """Yield faults of invalid addresses; each sentence continues the path.

    Raises MalformedError.
    """
    yield from _judge_entry_point(image, sections)
    yield from _judge_directories(image, sections)
    yield from _judge_tls(image)


def _find(sections: Sequence[Section], address: int) -> Section | None:
    for section in sections:
        size = section.virtual_size or section.declared_size
        if section.address <= address < section.address + size:
            return section
    return None


def _is_code(sections: Sequence[Section], address: int) -> bool:
    """Return whether the file has executable code at an address."""
    section = _find(sections, address)
    if section is None or not section.flags & IMAGE_SCN_MEM_EXECUTE:
        return False
    # A packer fills an empty section at run time.
    return address < section.address + section.size or not section.size


def _judge_entry_point(image: MappedImage, sections: Sequence[Section]) -> Iterator[str]:
    """Yield a fault if there is no code at the entry point.

    An entry point of 0 means that there is none, which is allowed only for a DLL (glew32.dll of
    kivy_deps_glew 0.3.2).
    """
    header = image.header
    if header.directories[CLR][0]:
        # .NET ignores this entry point; code compiled ahead of time has stubs for old processors
        return
    if header.entry_point and not _is_code(sections, header.entry_point):
        yield f"has its entry point at address {header.entry_point:#x}, where there is no code"
    if not header.entry_point and not header.characteristics & IMAGE_FILE_DLL:
        yield "is a program without an entry point"


def _judge_directories(image: MappedImage, sections: Sequence[Section]) -> Iterator[str]:
    """Yield directories that are not in the file, or that lie in memory that cannot be read."""
    directories = image.header.directories
    inaccessible = find_inaccessible(sections)
    for number, (start, size) in enumerate(directories):
        if not start or number not in MAPPED:
            continue
        if not size:
            yield f"has a directory of {DIRECTORY_NAMES[number]} without a size"
            continue
        name = DIRECTORY_NAMES[number]
        if start < image.header.headers_size:
            yield f"has its directory of {name} at address {start:#x}, in its headers"
            continue
        _, available, _ = image.locate(start, f"the directory of {name}")
        if available < size:
            yield f"has its directory of {name} in memory that the file does not fill"
        if section := _find(inaccessible, start):
            yield f"has its directory of {name} in section {section.name!r}, which cannot be read"


def _judge_tls(image: MappedImage) -> Iterator[str]:
    """Yield addresses of thread-local storage outside of the image.

    Unlike addresses in other directories, these are absolute instead of relative to the image base
    (PE, "The .tls Section").
    """
    start, _ = image.header.directories[TLS]
    if not start:  # the loader ignores the directory's size
        return
    header = image.header
    fields = image.unpack(_TLS[header.bits], start, "thread-local storage")
    first, last, index = (field - header.image_base for field in fields)
    if first != last and not 0 <= first <= last <= header.image_size:
        yield f"has thread-local data from address {first:#x} to {last:#x}, beyond the image"
    if not 0 <= index < header.image_size:
        yield f"has the index of its thread-local storage at address {index:#x}, beyond the image"


# Why Windows does not map an image: rules for headers and sections.
#
# Most rules are in the PE specification. The kernel checks them when it makes a section object of
# the file, and fails with error 193, "not a valid Win32 application".

# Bytes of a page, and the smallest FileAlignment of an image whose sections are aligned to pages
# (PE, "Optional Header Windows-Specific Fields").
_PAGE, _SECTOR = 0x1000, 0x200
_LARGEST_FILE_ALIGNMENT = 0x10000  # bytes (PE, "Optional Header Windows-Specific Fields")
_LARGEST_IMAGE = 0x77000000  # bytes; MM_SIZE_OF_LARGEST_IMAGE in the kernel
_DIRECTORIES = len(DIRECTORY_NAMES)  # 16, IMAGE_NUMBEROF_DIRECTORY_ENTRIES
_BASE_STEP = 0x10000  # bytes: ImageBase is a multiple of 64 K (same section)
_FORCE_INTEGRITY = 0x80  # IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY
# IMAGE_FILE_MACHINE_I386, _ARM, _THUMB, _ARMNT, _RISCV32, _LOONGARCH32; _IA64, _RISCV64,
# _LOONGARCH64, _AMD64, _ARM64EC, _ARM64X, _ARM64 (PE, "Machine Types").
_BITS = {
    **dict.fromkeys((0x014C, 0x01C0, 0x01C2, 0x01C4, 0x5032, 0x6232), 32),
    **dict.fromkeys((0x0200, 0x5064, 0x6264, 0x8664, 0xA641, 0xA64E, 0xAA64), 64),
}
"""Machine -> bits of the optional header that it requires: 32 for PE32, 64 for PE32+."""


def verify_extent(header: PeHeader, sections: tuple[Section, ...], size: int) -> None:
    """Raise MalformedError for a section or a signature that is not entirely inside the file.

    Without this, a truncated library would seem to need nothing and to define nothing.
    """
    for section in sections:
        verify_end(section.offset + section.size, size, f"section {section.name!r}")
    # The signature's directory is the only one with a file offset instead of an address.
    start, length = header.directories[SECURITY]
    verify_end(start + length, size, "the signature")


def find_layout_faults(header: PeHeader, sections: Sequence[Section]) -> Iterator[str]:
    """Yield faults that prevent mapping the image. Each sentence continues the path."""
    yield from _judge_header(header)
    alignment = tuple(_judge_alignments(header))
    yield from alignment
    yield from _judge_sizes(header)
    if alignment:
        return  # the following rules use the alignments
    if header.section_alignment < _PAGE:
        yield from _judge_unaligned(sections)
    else:
        yield from _judge_places(header, sections)


def _judge_header(header: PeHeader) -> Iterator[str]:
    """Yield faults of the file header and of fields of the optional header."""
    if header.signature % 4:
        yield f"has its PE header at byte {header.signature:#x}, which is not a multiple of 4"
    if not header.characteristics & IMAGE_FILE_EXECUTABLE_IMAGE:
        yield "is not marked as an image (IMAGE_FILE_EXECUTABLE_IMAGE): its linker found errors"
    if _BITS.get(header.machine, header.bits) != header.bits:
        yield f"is for machine {header.machine:#x} and has a header of {header.bits} bits"
    if header.image_base % _BASE_STEP:
        yield f"has ImageBase {header.image_base:#x}, which is not a multiple of {_BASE_STEP:#x}"
    if header.dll_characteristics & _FORCE_INTEGRITY and not header.directories[SECURITY][1]:
        yield "requires a check of its signature (FORCE_INTEGRITY) but has none"
    if header.directory_count > _DIRECTORIES:
        yield f"states {header.directory_count} directories; an image has at most {_DIRECTORIES}"
    fixed = IMAGE_FILE_DLL | IMAGE_FILE_RELOCS_STRIPPED
    if header.characteristics & fixed == fixed:
        yield f"loads only at address {header.image_base:#x}: its base relocations were stripped"
    for number in header.uncounted_directories:
        name = DIRECTORY_NAMES[number]
        yield f"has a directory of {name} after the {header.directory_count} that its header counts"


def _judge_alignments(header: PeHeader) -> Iterator[str]:
    """Yield faults of FileAlignment and SectionAlignment, both in bytes.

    Both must be powers of 2, and FileAlignment must not be larger (PE, "Optional Header
    Windows-Specific Fields").
    """
    small, large = header.file_alignment, header.section_alignment
    for name, value in (("FileAlignment", small), ("SectionAlignment", large)):
        if value < 1 or value & (value - 1):
            yield f"has {name} {value:#x}, which is not a power of 2"
    if large < small:
        yield f"has SectionAlignment {large:#x}, which is less than its FileAlignment {small:#x}"
    elif small != large and (large < _PAGE or small < _SECTOR):
        lowest = f"if one is below its minimum ({_PAGE:#x} and {_SECTOR:#x}) they must be equal"
        yield f"has SectionAlignment {large:#x} and FileAlignment {small:#x}: {lowest}"
    if small > _LARGEST_FILE_ALIGNMENT:
        yield f"has FileAlignment {small:#x}, more than {_LARGEST_FILE_ALIGNMENT:#x}"


def _judge_sizes(header: PeHeader) -> Iterator[str]:
    """Yield faults of SizeOfImage and SizeOfHeaders, both in bytes."""
    image, headers = header.image_size, header.headers_size
    if image > _LARGEST_IMAGE:
        yield f"has SizeOfImage {image:#x}, more than Windows maps"
    if headers >= image:
        yield f"has SizeOfHeaders {headers:#x} in an image of {image:#x} bytes"
    if headers < header.sections_end:
        end = header.sections_end
        yield f"has SizeOfHeaders {headers:#x}, but its section headers end at byte {end:#x}"


def _judge_unaligned(sections: Sequence[Section]) -> Iterator[str]:
    """Yield faults of an image that is mapped unchanged: its section alignment is below a page."""
    for section in sections:
        if section.size and section.offset != section.address:
            place = f"lies at byte {section.offset:#x} of the file, at {section.address:#x} in"
            yield f"has a section {section.name!r} that {place} memory, without pages"


def _judge_places(header: PeHeader, sections: Sequence[Section]) -> Iterator[str]:
    """Yield sections that do not begin at the end of the previous section or of the headers."""
    step = header.section_alignment
    place = _round_up(header.headers_size, step)
    for section in sections:
        size = section.virtual_size or section.declared_size
        if section.address != place:
            where = f"at address {section.address:#x}, not at {place:#x}"
            yield f"has its section {section.name!r} {where}, the end of the preceding part"
            return  # all following sections would be reported, too
        if not size:
            yield f"has a section {section.name!r} without a size"
        if section.size and section.offset % _SECTOR:
            start = f"at byte {section.offset:#x}, not a multiple of {_SECTOR:#x}"
            yield f"has its section {section.name!r} {start}"
        place = _round_up(place + size, step)
    if place > _round_up(header.image_size, step):
        yield f"has SizeOfImage {header.image_size:#x}, but its sections end at {place:#x}"


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


# All rules together.

_ALIGNMENT = 4  # bytes: the loader writes pointers into the Import Address Table


class Parsed(NamedTuple):
    """The parts of an image that were already read."""

    sections: Sequence[Section]
    imports: SymbolTable
    libraries: Sequence[ImportedLibrary]
    ends: Sequence[int]  # by library, the position after its last symbol
    exports: SymbolTable
    hybrid: bool  # whether the image has code for two processors


def find_refusals(image: MappedImage, parsed: Parsed) -> tuple[str, ...]:
    """Return why the loader refuses an image, from the outermost header inwards.

    Raises MalformedError.
    """
    header, sections = image.header, parsed.sections
    return (
        *find_layout_faults(header, sections),
        *find_address_faults(image, sections),
        *_find_import_faults(image, parsed.libraries, parsed.ends, hybrid=parsed.hybrid),
        *_find_name_faults(parsed.imports, header),
        *find_export_faults(parsed.exports, header),
        *find_hollow_tables(image),
        *find_configuration_faults(image),
    )


def _find_import_faults(
    image: MappedImage, libraries: Sequence[ImportedLibrary], ends: Sequence[int], *, hybrid: bool
) -> Iterator[str]:
    """Yield faults of import descriptors and of the addresses that the loader fills in.

    ``ends`` are the positions after each library's last symbol. Each sentence continues the path. A
    ``hybrid`` image has more addresses than imports, for the code of its other processor.
    """
    pointer = image.header.bits // 8
    counts = [end - start for start, end in pairwise((0, *ends))]
    for library, count in zip(libraries, counts, strict=True):
        yield from _judge_library(image, library, (count + 1) * pointer)
    yield from _judge_ends(image, libraries)
    eager = sum(n for each, n in zip(libraries, counts, strict=True) if not each.delayed)
    start, size = image.header.directories[ADDRESSES]
    if start and size and not hybrid and (count := _count_pointers(image, start, size)) > eager:
        listed = f"has {count} import addresses, but its tables name only {eager}"
        yield f"{listed}: nothing fills in the others"


def _find_name_faults(imports: SymbolTable, header: PeHeader) -> Iterator[str]:
    """Yield imports whose names lie in the headers, as in damaged tables."""
    if isinstance(imports, PeImports) and (lowest := imports.lowest_name) < header.headers_size:
        yield f"has the name of an import at address {lowest:#x}, in its headers"


def _count_pointers(image: MappedImage, start: int, size: int) -> int:
    """Return the number of pointers that the loader replaces; zeros left by linkers do not count.

    A pointer into the mapped image is final already: for delay imports, binutils writes pointers to
    the code that loads the library (in all of Wine's own DLLs).
    """
    kind = "Q" if image.header.bits == 64 else "I"
    pointers = array(kind)
    content = image.read(start, size, "the import addresses")
    pointers.frombytes(content[: len(content) // pointers.itemsize * pointers.itemsize])
    base, end = image.header.image_base, image.header.image_base + image.header.image_size
    if base < image.header.image_size:
        # If addresses lie in the image, they may be confused with offsets in the file.
        return len(pointers) - pointers.count(0)
    return sum(1 for pointer in pointers if pointer and not base <= pointer < end)


def _judge_library(image: MappedImage, library: ImportedLibrary, size: int) -> Iterator[str]:
    """Yield faults of one import descriptor; ``size`` is the size of its address table in bytes."""
    name = library.name[:80]
    if not name or not name.isprintable():
        yield f"imports from a library named {name!r}, which cannot be the name of a file"
    # Go's linker does not align the lookup table (shfmt.exe of shfmt_py 4.2.0).
    if library.addresses % _ALIGNMENT:
        place = f"at address {library.addresses:#x}, which is not a multiple of {_ALIGNMENT}"
        yield f"has its table of addresses for {name!r} {place}"
    try:
        image.read(library.addresses, size, "the table")
    except MalformedError as error:
        yield f"has no table of addresses for its imports from {name!r}: {error.reason}"


def _judge_ends(image: MappedImage, libraries: Sequence[ImportedLibrary]) -> Iterator[str]:
    """Yield a fault for each list of descriptors that was cut off before its final, empty one."""
    for directory, layout, delayed in ((IMPORT, DESCRIPTOR, False), (DELAY_IMPORT, DELAYED, True)):
        start, size = image.header.directories[directory]
        if not start:
            continue
        count = sum(each.delayed is delayed for each in libraries)
        what = "a descriptor of delay imports" if delayed else "an import descriptor"
        last = image.unpack(layout, start + count * layout.size, what)
        if any(last):
            yield f"has {what} without a name: loaders do not read the following ones"
        if not count and size >= 2 * layout.size:
            yield f"has {size:#x} bytes of descriptors, of which the first is empty"
