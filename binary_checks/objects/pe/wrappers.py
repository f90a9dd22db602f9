"""Finds the wrappers of device code in a PE image: their pointers are addresses in memory."""

from __future__ import annotations

from binary_checks.errors import MalformedError
from binary_checks.objects.device.wrappers import (
    MOST_PLACES,
    SHORT_RELOCATABLE,
    SHORT_SECTIONS,
    Wrappers,
    read_wrappers,
)
from binary_checks.objects.pe.image import MappedImage
from binary_checks.objects.pe.sections import Section, find_extents


def find_wrappers(image: MappedImage, sections: tuple[Section, ...]) -> Wrappers:
    """Read the wrappers of an image with relocatable device code; of others there is no need to."""
    relocatable = find_extents(sections, SHORT_RELOCATABLE)
    if not relocatable:
        return Wrappers()

    if len(sections) > MOST_PLACES:
        reason = f"pointers are followed through no more than {MOST_PLACES} sections"
        return Wrappers(relocatable=relocatable, unread=reason)

    def follow(_place: int, value: int) -> int | None:
        try:
            return image.locate(value - image.header.image_base, "device code")[0]
        except MalformedError:
            return None

    return read_wrappers(image.source, find_extents(sections, SHORT_SECTIONS), relocatable, follow)
