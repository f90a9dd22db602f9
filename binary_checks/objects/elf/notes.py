"""Reads the notes of an ELF file: its build id, the x86 ISA level, guards of control flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from binary_checks.objects.elf.header import ElfHeader, architecture_of
from binary_checks.objects.elf.segments import PT_GNU_PROPERTY, PT_NOTE, Segment
from binary_checks.objects.limits import LimitedSource

_NT_GNU_BUILD_ID = 3
_NT_GNU_PROPERTY_TYPE_0 = 5
_X86_ISA_1_NEEDED = 0xC0008002  # ..._USED (0xC0010002) states no requirement
_X86 = 0xC0000002, ((1, "IBT"), (2, "SHSTK"))  # GNU_PROPERTY_X86_FEATURE_1_AND
_AARCH64 = 0xC0000000, ((1, "BTI"), (2, "PAC"), (4, "GCS"))  # ..._AARCH64_FEATURE_1_AND
_GUARDS = {
    "x86_64": _X86,
    "x32": _X86,
    "i686": _X86,
    "aarch64": _AARCH64,
    "aarch64_be": _AARCH64,
}
_FROM_NOTES = frozenset({"x86_64", "x32", "i686"})
"""Where glibc reads the property note of a file without PT_GNU_PROPERTY too: older linkers'."""
_ISA_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))
_MOST = 1 << 20  # bytes of notes that are read; real ones have some hundred


class Notes(NamedTuple):
    """What the notes tell; "" where they say nothing."""

    build_id: str = ""
    isa_level: str = ""
    guards: tuple[str, ...] = ()


def read_notes(source: LimitedSource, header: ElfHeader, segments: Iterable[Segment]) -> Notes:
    """Read every PT_NOTE; the first build id counts. Raises TooLarge for a long one.

    An ISA level counts wherever it stands: files must not be called fit for more CPUs than they
    are. Guards count where glibc finds them.
    """
    build_id, needed = "", 0
    by_type: dict[int, list[dict[int, int]]] = {PT_GNU_PROPERTY: [], PT_NOTE: []}
    for segment in segments:
        if segment.type not in by_type or not segment.file_size:
            continue
        source.refuse_more(segment.file_size, _MOST, "bytes in a PT_NOTE")
        contents = source.read(segment.offset, segment.file_size)
        for kind, description in _iterate(contents, header, segment.alignment):
            if kind == _NT_GNU_BUILD_ID and not build_id:
                build_id = description.hex()
            elif kind == _NT_GNU_PROPERTY_TYPE_0:
                properties = _read_properties(description, header)
                needed |= properties.get(_X86_ISA_1_NEEDED, 0)
                if segment.alignment == header.bits // 8:  # glibc passes over all others
                    by_type[segment.type].append(properties)
    isa_level = next((name for bit, name in _ISA_LEVELS if needed & bit), "")
    return Notes(build_id, isa_level, _find_guards(by_type, architecture_of(header)))


def _find_guards(by_type: Mapping[int, list[dict[int, int]]], architecture: str) -> tuple[str, ...]:
    """Those of the one note that glibc reads: the first of PT_GNU_PROPERTY, else of PT_NOTE."""
    if architecture not in _GUARDS:
        return ()
    kind, bits = _GUARDS[architecture]
    notes = by_type[PT_GNU_PROPERTY] or (by_type[PT_NOTE] if architecture in _FROM_NOTES else [])
    mask = notes[0].get(kind, 0) if notes else 0
    return tuple(name for bit, name in bits if mask & bit)


def _iterate(contents: bytes, header: ElfHeader, alignment: int) -> Iterator[tuple[int, bytes]]:
    """Type and description of each note of the owner GNU.

    Notes are padded to 4 bytes, in a segment aligned to 8 to 8. A note that does not fit ends the
    walk: no loader reads notes but the property one, and linkers have padded them in every way.
    """
    layout, step = header.struct("III"), 8 if alignment == 8 else 4
    position = 0
    while position + layout.size <= len(contents):
        name_size, size, kind = layout.unpack_from(contents, position)
        name_start = position + layout.size
        start = _round_up(name_start + name_size, step)
        if start + size > len(contents):
            return
        if contents[name_start : name_start + name_size] == b"GNU\0":
            yield kind, contents[start : start + size]
        position = _round_up(start + size, step)


def _read_properties(description: bytes, header: ElfHeader) -> dict[int, int]:
    """The masks of four bytes among the properties, the first of each kind."""
    layout, word = header.struct("II"), header.struct("I")
    found: dict[int, int] = {}
    position = 0
    while position + layout.size <= len(description):
        kind, size = layout.unpack_from(description, position)
        start = position + layout.size
        if size == 4 and start + 4 <= len(description):
            found.setdefault(kind, word.unpack_from(description, start)[0])
        position = _round_up(start + size, header.bits // 8)
    return found


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
