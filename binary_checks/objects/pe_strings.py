"""Finds where a PE image has its strings, and the names of libraries among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binary_checks.model import OpenedNames, SymbolTable
from binary_checks.model.source import ByteSource
from binary_checks.objects.pe_header import Section
from binary_checks.objects.pe_sections import find_read_only
from binary_checks.objects.ranges import intersect

_KEPT = 32 << 20
"""Bytes kept of a section that may hold strings."""
_OPENERS = ("LoadLibraryA", "LoadLibraryW", "LoadLibraryExA", "LoadLibraryExW")
_NO_STRINGS = (
    ".rsrc", ".reloc", ".pdata", ".xdata", ".edata", ".idata", ".debug", ".buildid",
    ".nv_", "__nv_", ".hip_",
)  # fmt: skip
"""How sections begin that are only read and hold tables, or code for a GPU."""


def find_strings(sections: tuple[Section, ...]) -> Iterator[tuple[int, int]]:
    """Where strings lie, as far as it is worth keeping."""
    for start, end in find_read_only(sections, _NO_STRINGS):
        yield start, min(end, start + _KEPT)


def opens_libraries(imports: SymbolTable) -> bool:
    """Whether an image imports a function that opens libraries by name."""
    return bool(imports.among(_OPENERS))


def read_opened(
    source: ByteSource,
    sections: tuple[Section, ...],
    kept: Iterable[tuple[int, int]],
    known: Iterable[str],
) -> OpenedNames:
    """The names of libraries in what is only read, without those that are known.

    Only where it was kept: to read the rest, the whole file would be read again.
    """
    from binary_checks.objects.opened_names import PE_NAMES, find_opened  # for few objects

    extents = find_read_only(sections, _NO_STRINGS)
    return find_opened(source, intersect(extents, kept), PE_NAMES, known, extents)
