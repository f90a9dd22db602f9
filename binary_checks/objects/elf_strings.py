"""Finds where an ELF file has its strings, and the names of libraries among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binary_checks.model import OpenedNames, SymbolTable
from binary_checks.model.source import ByteSource
from binary_checks.objects.elf_dynamic import DT_NEEDED, DT_SONAME, Dynamic
from binary_checks.objects.elf_sections import Section, find_read_only
from binary_checks.objects.elf_segments import PF_X, PT_GNU_EH_FRAME, PT_LOAD, Segment
from binary_checks.objects.ranges import intersect

_KEPT = 20 << 20
"""Bytes kept behind code: libtorch_cpu.so has 18 MiB, libtorch_cuda.so 9, and then device code."""
_KEPT_BEHIND_TABLES = 40 << 20
"""LLD puts strings behind symbols and relocations, and all of them before the code."""
_KEPT_BEHIND_CODE = 48 << 20
"""Where code is not apart: the strings of libtorch_cpu.so begin 40 MiB before PT_GNU_EH_FRAME."""
_OPENERS = ("dlopen", "dlmopen")
_NO_STRINGS = (".interp", ".eh_frame", ".gcc_except_table", ".nv", "__nv", ".hip")
"""How sections begin that are only read and hold tables, or code for a GPU."""


def find_strings(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    """Where strings lie, as far as segments tell: linkers put them before PT_GNU_EH_FRAME.

    Behind the code, where that is not in a segment of its own.
    """
    known = tuple(segments)
    end = next((s.offset for s in known if s.type == PT_GNU_EH_FRAME), 0)
    for load in known:
        if load.type == PT_LOAD and 0 <= end - load.offset < load.file_size:
            if load.flags & PF_X:
                yield max(load.offset, end - _KEPT_BEHIND_CODE), end
            else:
                length = _KEPT if load.offset else _KEPT_BEHIND_TABLES
                yield load.offset, min(end, load.offset + length)


def opens_libraries(imports: SymbolTable, dynamic: Dynamic) -> bool:
    """Whether an object imports a function that opens libraries by name."""
    # Most do not: the names of all symbols need not be taken apart to know it.
    likely = any(name.encode() + b"\0" in dynamic.strings for name in _OPENERS)
    return likely and bool(imports.among(_OPENERS))


def read_opened(
    source: ByteSource,
    sections: tuple[Section, ...],
    kept: Iterable[tuple[int, int]],
    dynamic: Dynamic,
) -> OpenedNames:
    """The names of libraries in what is only read, but its own and those it needs.

    Only where it was kept: to read the rest, the whole file would be read again.
    """
    from binary_checks.objects.opened_names import ELF_NAMES, find_opened  # for few objects

    if not sections:
        return OpenedNames(unread="without section headers nothing tells where its strings lie")
    extents = find_read_only(sections, _NO_STRINGS)
    known = (dynamic.string(DT_SONAME), *dynamic.texts(DT_NEEDED))
    return find_opened(source, intersect(extents, kept), ELF_NAMES, known, extents)
