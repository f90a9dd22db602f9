"""Finds why dyld would refuse a Mach-O file, or crash over it, before any of its code runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from binary_checks.model import SymbolTable
from binary_checks.objects.macho.commands import Commands
from binary_checks.objects.macho.exports import MachOExports
from binary_checks.objects.macho.header import MachHeader
from binary_checks.objects.macho.layout import find_layout_faults
from binary_checks.objects.macho.segments import Segment


class Parsed(NamedTuple):
    """What has been read of a slice."""

    commands: Commands
    segments: Sequence[Segment]
    exports: SymbolTable


def find_refusals(header: MachHeader, parsed: Parsed, *, intact: bool) -> tuple[str, ...]:
    """Why dyld refuses a file that it is to load, from the outside in.

    The exports trie of one that is proven ``intact`` is the one that its linker wrote: it is not
    judged. Raises MalformedError.
    """
    if not intact and isinstance(parsed.exports, MachOExports):
        parsed.exports.verify()
    return tuple(find_layout_faults(header, parsed.commands, parsed.segments))
