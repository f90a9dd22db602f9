"""Finds the names of libraries among the strings of a Mach-O file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model import Dependency, OpenedNames
from binary_checks.objects.macho.commands import LC_ID_DYLIB, Commands
from binary_checks.objects.macho.header import MachHeader, Slice
from binary_checks.objects.macho.plan import read_first_commands
from binary_checks.objects.macho.sections import find_strings

if TYPE_CHECKING:
    from binary_checks.objects.opened_names import NameScout


def find_name_scout(head: bytes, size: int) -> NameScout | None:
    """Whoever searches the strings while the file streams by; None where all of it is kept."""
    try:
        header, commands = read_first_commands(head, size)
        extents = tuple(find_strings(header, commands))
    except (MalformedError, Unavailable):
        return None
    from binary_checks.objects.library_names import MACHO_NAMES
    from binary_checks.objects.opened_names import NameScout  # for large files

    return NameScout(extents, MACHO_NAMES)


def read_opened(
    source: Slice, header: MachHeader, commands: Commands, needed: Sequence[Dependency]
) -> OpenedNames:
    """The names of libraries among the strings of a slice, but its own and those it needs."""
    from binary_checks.objects.library_names import MACHO_NAMES
    from binary_checks.objects.opened_names import find_opened  # for few objects

    known = [need.name.rpartition("/")[2] for need in needed]
    identity = commands.first(LC_ID_DYLIB)
    if identity is not None:
        known.append(identity.text(*identity.unpack("I")).rpartition("/")[2])
    return find_opened(source, MACHO_NAMES, known, find_strings(header, commands))
