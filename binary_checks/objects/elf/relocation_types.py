"""The relocations that glibc's loader knows, by architecture (elf_machine_rel in dl-machine.h)."""

from __future__ import annotations

from typing import Final, NamedTuple


class RelocationTypes(NamedTuple):
    """The numbers of one architecture's relocations, as far as a loader meets them."""

    known: frozenset[int]
    relative: int  # R_*_RELATIVE: the load address plus the addend
    indirect: int  # R_*_IRELATIVE: what the function at the load address plus the addend returns
    symbolic: int  # R_*_64, R_*_ABS32: a symbol's address plus the addend
    thread: frozenset[int]  # those that need thread-local storage
    slots: frozenset[int]  # R_*_GLOB_DAT and R_*_JUMP_SLOT: a symbol's address
    programs: frozenset[int]  # R_*_COPY, and those too narrow for a library's addresses
    unknown_to_musl: frozenset[int]
    grows: bool = False  # the ABI is young: later loaders know more
    sizes: frozenset[int] = frozenset()  # R_*_SIZE: a symbol's size, of one that must be there
    addends: bool = True  # records are Elf_Rela; else Elf_Rel, with the addend in the place itself


def _numbers(*items: int | range) -> frozenset[int]:
    return frozenset(
        number for item in items for number in ((item,) if isinstance(item, int) else item)
    )


RELOCATION_TYPES: Final = {
    "x86_64": RelocationTypes(
        known=_numbers(range(3), range(5, 9), 10, range(16, 19), 32, 33, range(36, 39)),
        relative=8,
        indirect=37,
        symbolic=1,
        thread=_numbers(16, 17, 18, 36),
        slots=_numbers(6, 7),
        programs=_numbers(2, 5, 10),
        unknown_to_musl=_numbers(10, 32, 33, 37, 38),
        sizes=_numbers(32, 33),
    ),
    "i686": RelocationTypes(
        known=_numbers(range(3), range(5, 9), 14, range(35, 39), 41, 42),
        relative=8,
        indirect=42,
        symbolic=1,
        thread=_numbers(14, 35, 36, 37, 41),
        addends=False,
        slots=_numbers(6, 7),
        programs=_numbers(5),
        unknown_to_musl=_numbers(38, 42),
        sizes=_numbers(38),
    ),
    "aarch64": RelocationTypes(
        known=_numbers(0, 256, 257, 258, range(1024, 1033)),
        relative=1027,
        indirect=1032,
        symbolic=257,
        thread=_numbers(range(1028, 1032)),
        slots=_numbers(1025, 1026),
        programs=_numbers(1024),
        unknown_to_musl=_numbers(1032),
        grows=True,
    ),
    "armv7l": RelocationTypes(
        known=_numbers(range(4), 13, range(17, 24), 160),
        relative=23,
        indirect=160,
        symbolic=2,
        thread=_numbers(13, 17, 18, 19),
        addends=False,
        slots=_numbers(21, 22),
        programs=_numbers(20),
        unknown_to_musl=_numbers(160),
    ),
    "ppc64le": RelocationTypes(
        known=_numbers(
            range(10), 19, 20, 21, 22, 24, 25, 26, range(37, 45), 56, 57, range(67, 114), 247, 248
        ),
        relative=22,
        indirect=248,
        symbolic=38,
        thread=_numbers(68, range(69, 79), range(95, 107), 112, 113),
        slots=_numbers(20, 21),
        programs=_numbers(19),
        unknown_to_musl=_numbers(247, 248),
    ),
    "s390x": RelocationTypes(
        known=_numbers(range(6), range(9, 13), range(16, 20), 22, 23, 54, 55, 56, 61),
        relative=12,
        indirect=61,
        symbolic=22,
        thread=_numbers(54, 55, 56),
        slots=_numbers(10, 11),
        programs=_numbers(9),
        unknown_to_musl=_numbers(61),
    ),
    "riscv64": RelocationTypes(
        known=_numbers(range(13), 58),
        relative=3,
        indirect=58,
        symbolic=2,
        thread=_numbers(range(6, 13)),
        slots=_numbers(5),
        programs=_numbers(4),
        unknown_to_musl=_numbers(58),
        grows=True,
    ),
    "loongarch64": RelocationTypes(
        known=_numbers(range(15)),
        relative=3,
        indirect=12,
        symbolic=2,
        thread=_numbers(range(6, 12), 13, 14),
        slots=_numbers(5),
        programs=_numbers(4),
        unknown_to_musl=_numbers(12),
        grows=True,
    ),
}
"""Of other architectures relocations are not judged."""
