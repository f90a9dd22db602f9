"""Find why an engine refuses a WebAssembly module before any of its code runs.

Section numbers are those of the WebAssembly Core Specification 3.0. The code itself is validated
(chapter 3) by the engine alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.wasm.header import (
    CODE,
    CUSTOM,
    DYLINK,
    LEGACY_DYLINK,
    SECTION_NAMES,
    Section,
    find_section,
    iter_sections,
)
from binary_checks.objects.wasm.symbols import FUNCTION_KIND, Export

_ORDER = {kind: place for place, kind in enumerate(SECTION_NAMES)}


def verify_extent(source: LimitedSource) -> None:
    """Raise MalformedError if a section ends beyond the file, as in a truncated file."""
    for _ in iter_sections(source):
        pass


def find_layout_faults(sections: Sequence[Section]) -> Iterator[str]:
    """Yield faults of the order of sections (Core 5.5.2); each sentence continues the path."""
    known = [each.id for each in sections if each.id != CUSTOM]
    for kind in sorted({*known} - _ORDER.keys()):
        yield f"has a section of unknown id {kind}"
    for first, second in pairwise(kind for kind in known if kind in _ORDER):
        if first == second:
            yield f"has two {SECTION_NAMES[first]} sections"
        elif _ORDER[first] > _ORDER[second]:
            earlier, later = SECTION_NAMES[second], SECTION_NAMES[first]
            yield f"has its {earlier} section after its {later} section"
    names = [each.name for each in sections]
    dylink = next((name for name in (DYLINK, LEGACY_DYLINK) if name in names), None)
    if dylink is not None and names[0] != dylink:
        yield f"does not begin with its section {dylink}, which loaders read only there"


class Parsed(NamedTuple):
    """The parts of a module that the search for refusals needs."""

    sections: Sequence[Section]
    exports: Sequence[Export]
    types: int  # number of types
    functions: Sequence[int]  # the type of every function, imported ones first
    imported: int  # number of imported functions
    bodies: int  # number of functions in the code section


def find_refusals(parsed: Parsed) -> tuple[str, ...]:
    """Return why an engine refuses the module; each reason continues the path."""
    return (*find_layout_faults(parsed.sections), *_find_index_faults(parsed))


def _find_index_faults(parsed: Parsed) -> Iterator[str]:
    """Yield faults of indices and of equal names (Core 3.4, 5.5.16)."""
    defined = len(parsed.functions) - parsed.imported
    if defined != parsed.bodies:
        has_code = find_section(parsed.sections, CODE) is not None
        bodies = f"code for {parsed.bodies}" if has_code else "no code section"
        yield f"declares {defined} functions, but has {bodies}"
    highest = max(parsed.functions, default=-1)
    if highest >= parsed.types:
        yield f"has functions of type {highest}, but only {parsed.types} types"
    seen: set[str] = set()
    for export in parsed.exports:
        if export.name in seen:
            yield f"exports {export.name} twice"
        seen.add(export.name)
        if export.kind == FUNCTION_KIND and export.number >= len(parsed.functions):
            yield f"exports {export.name} as function {export.number}, which it does not have"
