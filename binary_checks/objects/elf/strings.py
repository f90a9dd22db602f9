"""Finds where an ELF file has its strings, and the names of libraries among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from binary_checks.knowledge.linked_libraries import names_compiler
from binary_checks.model import OpenedNames, SymbolTable
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.elf.code import TELLING
from binary_checks.objects.elf.dynamic import DT_NEEDED, DT_SONAME, Dynamic
from binary_checks.objects.elf.header import ElfHeader, architecture_of, runs_on_a_host
from binary_checks.objects.elf.sections import Section, find_read_only
from binary_checks.objects.elf.segments import PF_W, PF_X, PT_GNU_EH_FRAME, PT_LOAD, Segment
from binary_checks.objects.library_names import ELF_NAMES
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.opened_names import NameScanner, find_opened, find_texts

KEPT_BEHIND: Final = 4096
"""Bytes behind all that is loaded, which are kept for ``.comment``."""
_OPENERS = ("dlopen", "dlmopen")
_NO_STRINGS = (".interp", ".eh_frame", ".gcc_except_table", ".nv", "__nv", ".hip")
"""How sections begin that are only read and hold tables, or code for a GPU."""


def find_name_scanner(
    header: ElfHeader, segments: Iterable[Segment], device: DeviceScanner, factor: int
) -> NameScanner:
    """Search strings while the file streams by, but for what is code of any kind."""
    known = tuple(segments)
    extents = tuple(_find_strings(known)) if runs_on_a_host(header) else ()
    mixed = any(
        load.type == PT_LOAD and load.flags & PF_X and load.offset <= start < _end_of(load)
        for load in known
        for start, _ in extents
    )
    is_code = TELLING.get(architecture_of(header)) if mixed else None
    return NameScanner(extents, ELF_NAMES, device=device, is_code=is_code, factor=factor)


def _find_strings(segments: tuple[Segment, ...]) -> Iterator[tuple[int, int]]:
    """Where strings may lie, as far as segments tell: linkers put them before PT_GNU_EH_FRAME.

    In what is only read, where there is none; and in such a segment behind it.
    """
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    end = next((s.offset for s in segments if s.type == PT_GNU_EH_FRAME), 0)
    within = [(load.offset, end) for load in loads if load.offset < end < _end_of(load)]
    yield from within
    for load in loads:
        behind = load.offset > end and not load.flags & PF_X  # .lrodata, of large code
        if not load.flags & PF_W and (behind or not within):
            yield load.offset, _end_of(load)


def _end_of(load: Segment) -> int:
    return load.offset + load.file_size


def opens_libraries(imports: SymbolTable, dynamic: Dynamic) -> bool:
    """Whether an object imports a function that opens libraries by name."""
    # Most do not: the names of all symbols need not be taken apart to know it.
    likely = any(name.encode() + b"\0" in dynamic.strings for name in _OPENERS)
    return likely and bool(imports.among(_OPENERS))


def read_texts(
    source: LimitedSource, seen: NameScanner | None, sections: tuple[Section, ...]
) -> tuple[str, ...]:
    """The texts by which libraries are known."""
    return find_texts(source, seen, find_read_only(sections, _NO_STRINGS))


def read_comment(
    source: LimitedSource, segments: Iterable[Segment], sections: Iterable[Section]
) -> Iterator[str]:
    """The names that compilers left, where linkers put them: right behind all that is loaded."""
    last = max((_end_of(each) for each in segments if each.type == PT_LOAD), default=0)
    for section in sections:
        end = min(section.offset + section.size, source.size)
        if section.name == ".comment" and last <= section.offset <= end <= last + KEPT_BEHIND:
            comment = source.read(section.offset, end - section.offset)
            for text in comment.decode("ascii", "replace").split("\0"):
                if names_compiler(text):
                    yield text


def read_opened(
    source: LimitedSource,
    seen: NameScanner | None,
    sections: tuple[Section, ...],
    dynamic: Dynamic,
) -> OpenedNames:
    """The names of libraries in what is only read, but its own and those it needs."""
    if not sections:
        return OpenedNames(unread="without section headers nothing tells where its strings lie")
    known = (dynamic.string(DT_SONAME), *dynamic.texts(DT_NEEDED))
    return find_opened(source, seen, ELF_NAMES, known, find_read_only(sections, _NO_STRINGS))
