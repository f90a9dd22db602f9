"""Why Windows dies over the tables of imports of a PE image, or never sees them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise

from binary_checks.errors import MalformedError
from binary_checks.model import SymbolTable
from binary_checks.objects.pe.header import ADDRESSES, DELAY_IMPORT, IMPORT, PeHeader
from binary_checks.objects.pe.imports import DELAYED, DESCRIPTOR, ImportedLibrary, PeImports
from binary_checks.objects.pe.sections import MappedImage

_ALIGNMENT = 4


def find_import_faults(
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


def find_name_faults(imports: SymbolTable, header: PeHeader) -> Iterator[str]:
    """Say where names would lie in the headers, which is where damaged tables lead."""
    if isinstance(imports, PeImports) and (lowest := imports.lowest_name) < header.headers_size:
        yield f"has the name of an import at address {lowest:#x}, in its headers"


def _count_pointers(image: MappedImage, start: int, size: int) -> int:
    """How many there are before the loader puts others in their place; linkers leave zeros too."""
    kind = "Q" if image.header.bits == 64 else "I"
    pointers = array(kind)
    content = image.read(start, size, "the import addresses")
    pointers.frombytes(content[: len(content) // pointers.itemsize * pointers.itemsize])
    return len(pointers) - pointers.count(0)


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
