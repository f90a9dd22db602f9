"""Finds the wrappers of device code in an ELF file, and follows their pointers as a loader does."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.device.wrappers import (
    MOST_PLACES,
    RELOCATABLE,
    SECTIONS,
    Follow,
    Unfollowed,
    Wrappers,
    read_wrappers,
)
from binary_checks.objects.elf.dynamic import Dynamic, read_dynamic
from binary_checks.objects.elf.header import ET_REL, architecture_of
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.relocations import RELOCATION_TYPES, read_relocations
from binary_checks.objects.elf.sections import SHT_NOBITS, Section, find_extents
from binary_checks.objects.elf.segments import Segment

_MOST_SECTIONS = 16  # linkers make one of all


def find_wrappers(
    image: MappedImage, segments: Iterable[Segment], sections: tuple[Section, ...]
) -> Wrappers:
    """Read the wrappers of a file with relocatable device code; of others there is no need to.

    Raises MalformedError or TooLarge as reading the dynamic segment does.
    """
    relocatable = find_extents(sections, RELOCATABLE)
    if not relocatable:
        return Wrappers()
    if image.header.type == ET_REL:
        return Wrappers(relocatable=relocatable, awaits_linking=True)
    places = [s for s in sections if s.name in SECTIONS and s.type != SHT_NOBITS and s.size]
    if len(places) > _MOST_SECTIONS:
        reason = f"no more than {_MOST_SECTIONS} sections of wrappers of device code are read"
        return Wrappers(relocatable=relocatable, unread=reason)
    segments = tuple(segments)
    if len(segments) > MOST_PLACES:
        reason = f"pointers are followed through no more than {MOST_PLACES} segments"
        return Wrappers(relocatable=relocatable, unread=reason)
    try:
        follow = _follow(image, read_dynamic(image, segments), places)
    except Unfollowed as error:
        return Wrappers(relocatable=relocatable, unread=str(error))
    return read_wrappers(image.source, find_extents(sections, SECTIONS), relocatable, follow)


def _follow(image: MappedImage, dynamic: Dynamic, places: list[Section]) -> Follow:
    """Follow a pointer: by the addend of its relocation, else by what stands in its place."""
    moved = _find_addends(image, dynamic, places)

    def follow(place: int, value: int) -> int | None:
        for section in places:
            if section.offset <= place < section.offset + section.size:
                address = moved.get(section.address + place - section.offset, value)
                try:
                    return image.locate(address, "device code")[0]
                except MalformedError:
                    return None
        return None

    return follow


def _find_addends(image: MappedImage, dynamic: Dynamic, places: list[Section]) -> dict[int, int]:
    """The addends of the R_*_RELATIVE relocations of these sections, by address.

    Those of DT_RELR have theirs in the place itself, as have those without an addend of their own.
    Raises Unfollowed where they cannot be read, or another kind of relocation fills in a pointer.
    """
    types = RELOCATION_TYPES.get(architecture_of(image.header))
    if types is None or not dynamic:
        return {}
    try:
        tables = read_relocations(image, dynamic, types).tables
    except (MalformedError, TooLarge) as error:
        reason = error.reason if isinstance(error, MalformedError) else str(error)
        raise Unfollowed(f"the relocations of its wrappers were not read: {reason}") from None
    found: dict[int, int] = {}
    for table in tables:
        for section in places:
            start, end = section.address, section.address + section.size
            for index, address in enumerate(table.offsets):
                if start <= address < end:
                    if table.types[index] != types.relative:
                        raise Unfollowed("a wrapper of device code is filled in by a symbol")
                    if table.addends is not None:
                        found[address] = table.addends[index]
    return found
