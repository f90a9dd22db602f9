"""Finds where a Mach-O file has its strings, and the names of libraries among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from binary_checks.model import Dependency, OpenedNames, SymbolTable
from binary_checks.objects.library_names import MACHO_NAMES
from binary_checks.objects.macho.commands import LC_ID_DYLIB, Commands
from binary_checks.objects.macho.header import Slice
from binary_checks.objects.macho.segments import Segment
from binary_checks.objects.opened_names import NameScanner, find_opened, find_texts

_OPENERS = ("dlopen",)
_S_CSTRING_LITERALS = 2


def find_name_scanner(segments: Iterable[Segment], factor: int) -> NameScanner:
    """Search strings while the file streams by."""
    found = tuple(segments)
    extents = (*_find_strings(found), *_find_constants(found))
    return NameScanner(extents, MACHO_NAMES, factor=factor)


def _find_strings(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    """Start and end of every section of strings that end with a zero."""
    for segment in segments:
        for section in segment.sections:
            if section.flags & 0xFF == _S_CSTRING_LITERALS:
                yield section.offset, section.offset + section.size


def _find_constants(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    """Start and end of the constants that are no literals: arrays of letters are among them."""
    for segment in segments:
        for section in segment.sections:
            if section.name == "__const" and segment.name == "__TEXT" and section.is_filled:
                yield section.offset, section.offset + section.size


def opens_libraries(imports: SymbolTable) -> bool:
    """Whether an object imports the function that opens libraries by name."""
    return bool(imports.among(_OPENERS))


def read_texts(
    source: Slice, seen: NameScanner | None, segments: Iterable[Segment]
) -> tuple[str, ...]:
    """The texts by which libraries are known."""
    found = tuple(segments)
    return find_texts(source, seen, (*_find_strings(found), *_find_constants(found)))


def read_opened(
    source: Slice,
    seen: NameScanner | None,
    segments: Iterable[Segment],
    commands: Commands,
    needed: Sequence[Dependency],
) -> OpenedNames:
    """The names of libraries among the strings of a slice, but its own and those it needs."""
    known = [need.name.rpartition("/")[2] for need in needed]
    identity = commands.first(LC_ID_DYLIB)
    if identity is not None:
        known.append(identity.text(*identity.unpack("I")).rpartition("/")[2])
    return find_opened(source, seen, MACHO_NAMES, known, _find_strings(segments))
