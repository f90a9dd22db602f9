"""The columns of DT_SYMTAB: a large library has a million symbols."""

from __future__ import annotations

import sys
from array import array
from functools import cached_property
from typing import Final, Literal

from binary_checks.objects.elf.relocations import column

ENTRY_SIZE: Final = {32: 16, 64: 24}
_ZERO: Final = bytes(number == 0 for number in range(256))
_BINDING_OF: Final = bytes(info >> 4 for info in range(256))
_TYPE_OF: Final = bytes(info & 15 for info in range(256))
_RESERVED: Final = 0xFF  # the high byte of SHN_LORESERVE and all above
_IS_ORDINARY: Final = bytes(high != _RESERVED for high in range(256))
_HIGH: Final = int(sys.byteorder == "little")  # where the high byte of 2 is


class SymbolColumns:
    """The table by columns, so that the table itself, which is the largest, can go."""

    def __init__(self, table: bytes, bits: int, byte_order: str) -> None:
        wide, size = bits == 64, ENTRY_SIZE[bits]
        whole = memoryview(table)

        def take(kind: Literal["H", "I", "Q"], first: int) -> array[int]:
            numbers = whole.cast(kind)
            each = numbers[first // numbers.itemsize :: size // numbers.itemsize]
            return column(kind, each.tobytes(), byte_order)

        self.names = take("I", 0)
        self.information = table[4 if wide else 12 :: size]  # st_info: binding and type
        self.views = table[5 if wide else 13 :: size]  # st_other, with the visibility
        self.sections = take("H", 6 if wide else 14)
        self.values = take("Q", 8) if wide else take("I", 4)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def bindings(self) -> bytes:
        """STB_LOCAL, which is 0, and others."""
        return self.information.translate(_BINDING_OF)

    @cached_property
    def types(self) -> bytes:
        """STT_FUNC and others."""
        return self.information.translate(_TYPE_OF)

    @cached_property
    def undefined(self) -> bytes:
        """1 for each that others must define."""
        return find_zeros(self.sections)

    @cached_property
    def defined(self) -> bytes:
        """1 for each that is its own."""
        return self.undefined.translate(_ZERO)

    def in_sections(self) -> bytes:
        """1 for each that is its own and in a section: not absolute, not common."""
        high = self.sections.tobytes()[_HIGH::2]
        return (
            join(self.defined, high.translate(_IS_ORDINARY)) if _RESERVED in high else self.defined
        )


def find_zeros(numbers: array[int]) -> bytes:
    """1 for each that is 0; at the speed of C."""
    content, step = numbers.tobytes(), numbers.itemsize
    return join(*(content[place::step].translate(_ZERO) for place in range(step)))


def join(*masks: bytes) -> bytes:
    """1 wherever all masks, of 0 and 1, have it; at the speed of C."""
    first, *others = masks
    joined = int.from_bytes(first, "little")
    for mask in others:
        joined &= int.from_bytes(mask, "little")
    return joined.to_bytes(len(first), "little")
