"""Finds where a PE image has its strings, and the names of libraries among them."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.model import OpenedNames, SymbolTable
from binary_checks.objects.library_names import PE_NAMES
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.opened_names import NameScanner, find_opened, find_texts
from binary_checks.objects.pe.sections import Section, find_read_only

_OPENERS = ("LoadLibraryA", "LoadLibraryW", "LoadLibraryExA", "LoadLibraryExW")
_NO_STRINGS = (
    ".rsrc", ".reloc", ".pdata", ".xdata", ".edata", ".idata", ".debug", ".buildid",
    ".nv_", "__nv_", ".hip_",
)  # fmt: skip
"""How sections begin that are only read and hold tables, or code for a GPU."""


def find_name_scanner(sections: tuple[Section, ...], factor: int) -> NameScanner:
    """Search what is only read while the file streams by."""
    return NameScanner(find_read_only(sections, _NO_STRINGS), PE_NAMES, factor=factor)


def opens_libraries(imports: SymbolTable) -> bool:
    """Whether an image imports a function that opens libraries by name."""
    return bool(imports.among(_OPENERS))


def read_texts(
    source: LimitedSource, seen: NameScanner | None, sections: tuple[Section, ...]
) -> tuple[str, ...]:
    """The texts by which libraries are known."""
    return find_texts(source, seen, find_read_only(sections, _NO_STRINGS))


def read_opened(
    source: LimitedSource,
    seen: NameScanner | None,
    sections: tuple[Section, ...],
    known: Iterable[str],
) -> OpenedNames:
    """The names of libraries in what is only read, without those that are known."""
    return find_opened(source, seen, PE_NAMES, known, find_read_only(sections, _NO_STRINGS))
