"""Finds why Windows would refuse a PE image, or die over it, before any of its code runs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import SymbolTable
from binary_checks.objects.pe.addresses import find_address_faults
from binary_checks.objects.pe.debug import find_configuration_faults
from binary_checks.objects.pe.exports import find_export_faults, find_hollow_tables
from binary_checks.objects.pe.header import ADDRESSES, DELAY_IMPORT, IMPORT, PeHeader
from binary_checks.objects.pe.image import MappedImage
from binary_checks.objects.pe.imports import DELAYED, DESCRIPTOR, ImportedLibrary, PeImports
from binary_checks.objects.pe.layout import find_layout_faults
from binary_checks.objects.pe.sections import Section

_ALIGNMENT = 4


class Parsed(NamedTuple):
    """What has been read of an image."""

    sections: Sequence[Section]
    imports: SymbolTable
    libraries: Sequence[ImportedLibrary]
    ends: Sequence[int]  # of each library's symbols among all
    exports: SymbolTable
    hybrid: bool  # it has code for two processors


def find_refusals(image: MappedImage, parsed: Parsed) -> tuple[str, ...]:
    """Why the loader refuses an image, from the outside in. Raises MalformedError."""
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
    """Say what is wrong with descriptors and with the addresses that are to be filled in.

    ``ends`` say where each library's symbols end among all. Each fault goes on from the path.
    A ``hybrid`` image has more addresses than imports, for the code of its other processor.
    """
    pointer = image.header.bits // 8
    counts = [end - start for start, end in pairwise((0, *ends))]
    for library, count in zip(libraries, counts, strict=True):
        yield from _judge_library(image, library, (count + 1) * pointer)
    yield from _judge_ends(image, libraries)
    eager = sum(n for each, n in zip(libraries, counts, strict=True) if not each.delayed)
    start, size = image.header.directories[ADDRESSES]
    if start and size and not hybrid and (count := _count_pointers(image, start, size)) > eager:
        listed = f"has {count} import addresses, its tables name {eager}"
        yield f"{listed}: nothing fills in the others"


def _find_name_faults(imports: SymbolTable, header: PeHeader) -> Iterator[str]:
    """Say where names would lie in the headers, which is where damaged tables lead."""
    if isinstance(imports, PeImports) and (lowest := imports.lowest_name) < header.headers_size:
        yield f"has the name of an import at address {lowest:#x}, in its headers"


def _count_pointers(image: MappedImage, start: int, size: int) -> int:
    """How many there are before the loader puts others in their place; linkers leave zeros too.

    One that leads into the mapped image is filled in already: binutils has those of delayed
    imports there, which lead to the code that loads the library (all of Wine's own DLLs).
    """
    kind = "Q" if image.header.bits == 64 else "I"
    pointers = array(kind)
    content = image.read(start, size, "the import addresses")
    pointers.frombytes(content[: len(content) // pointers.itemsize * pointers.itemsize])
    base, end = image.header.image_base, image.header.image_base + image.header.image_size
    if base < image.header.image_size:
        return len(pointers) - pointers.count(0)  # it cannot be told from an address in the file
    return sum(1 for pointer in pointers if pointer and not base <= pointer < end)


def _judge_library(image: MappedImage, library: ImportedLibrary, size: int) -> Iterator[str]:
    name = library.name[:80]
    if not name or not name.isprintable():
        yield f"imports from a library named {name!r}, which no file is called"
    if library.addresses % _ALIGNMENT:  # Go's linker aligns the one of names to nothing
        place = f"at address {library.addresses:#x}, which is no multiple of {_ALIGNMENT}"
        yield f"has its table of addresses for {name!r} {place}"
    try:
        image.read(library.addresses, size, "it")
    except MalformedError as error:
        yield f"has no table of addresses for what it imports from {name!r}: {error.reason}"


def _judge_ends(image: MappedImage, libraries: Sequence[ImportedLibrary]) -> Iterator[str]:
    """A list ends with an empty descriptor; with half of one it was cut short."""
    for directory, layout, delayed in ((IMPORT, DESCRIPTOR, False), (DELAY_IMPORT, DELAYED, True)):
        start, size = image.header.directories[directory]
        if not start:
            continue
        count = sum(each.delayed is delayed for each in libraries)
        what = "a descriptor of delay imports" if delayed else "an import descriptor"
        last = image.unpack(layout, start + count * layout.size, what)
        if any(last):
            yield f"has {what} without a name: those that follow are never read"
        if not count and size >= 2 * layout.size:
            yield f"has {size:#x} bytes of descriptors, of which the first is empty"
