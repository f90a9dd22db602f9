"""Finds the names of libraries among the strings of a Mach-O file."""

from __future__ import annotations

from collections.abc import Sequence

from binary_checks.model import Dependency, OpenedNames
from binary_checks.objects.macho_commands import LC_ID_DYLIB, Commands
from binary_checks.objects.macho_header import MachHeader, Slice
from binary_checks.objects.macho_sections import find_strings
from binary_checks.objects.ranges import intersect, merge


def read_opened(
    source: Slice, header: MachHeader, commands: Commands, needed: Sequence[Dependency]
) -> OpenedNames:
    """The names of libraries among the strings of a slice, but its own and those it needs."""
    from binary_checks.objects.opened_names import MACHO_NAMES, find_opened  # for few objects

    extents = merge(find_strings(header, commands))
    inside = intersect(extents, [(0, source.size)])
    known = [need.name.rpartition("/")[2] for need in needed]
    identity = commands.first(LC_ID_DYLIB)
    if identity is not None:
        known.append(identity.text(*identity.unpack("I")).rpartition("/")[2])
    return find_opened(source, inside, MACHO_NAMES, known, extents)
