"""The relocations that a loader needs no symbol for, by architecture, and how records look."""

from __future__ import annotations

from typing import Final, NamedTuple


class RelocationTypes(NamedTuple):
    """The relocations of one architecture."""

    relative: int  # R_*_RELATIVE: the load address plus the addend
    addends: bool = True  # records are Elf_Rela; else Elf_Rel, with the addend in the place itself


RELOCATION_TYPES: Final = {
    "x86_64": RelocationTypes(relative=8),
    "i686": RelocationTypes(relative=8, addends=False),
    "aarch64": RelocationTypes(relative=1027),
    "armv7l": RelocationTypes(relative=23, addends=False),
    "ppc64le": RelocationTypes(relative=22),
    "s390x": RelocationTypes(relative=12),
    "riscv64": RelocationTypes(relative=3),
    "loongarch64": RelocationTypes(relative=3),
}
"""The records of other architectures are not read."""
