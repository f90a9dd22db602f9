"""Judges what a loader calls before anybody asks: initialisers, and whether they are code."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Protocol

from binary_checks.objects.elf.dynamic import (
    DT_FINI,
    DT_FINI_ARRAY,
    DT_FINI_ARRAYSZ,
    DT_INIT,
    DT_INIT_ARRAY,
    DT_INIT_ARRAYSZ,
    Dynamic,
)
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.memory import Memory, find_outside
from binary_checks.objects.elf.relocation_types import RelocationTypes
from binary_checks.objects.elf.relocations import (
    Relocations,
    RelocationTables,
    column,
    unpack_between,
)
from binary_checks.objects.elf.sections import Section

_MOST = 1 << 26  # bytes of an array of initialisers
_ARRAYS = (
    ("DT_INIT_ARRAY", DT_INIT_ARRAY, DT_INIT_ARRAYSZ),
    ("DT_FINI_ARRAY", DT_FINI_ARRAY, DT_FINI_ARRAYSZ),
)


class Addresses(Protocol):
    """Where symbols are, by index."""

    values: array[int]
    sections: array[int]  # 0: defined elsewhere


def judge_functions(dynamic: Dynamic, memory: Memory, sections: Iterable[Section]) -> Iterator[str]:
    """DT_INIT and DT_FINI, which are nearly always sections of that name, from their start on."""
    for name, tag in ((".init", DT_INIT), (".fini", DT_FINI)):
        address = dynamic.value(tag)
        if tag not in dynamic:
            continue
        entry = f"has DT_{name[1:].upper()} {address:#x}"
        if find_outside(memory.code, [address]) is not None:
            yield f"{entry}, where no code is: a loader calls it"
        elif any(each.name == name and 0 < address - each.address < each.size for each in sections):
            yield f"{entry}, in the middle of {name}: a loader calls it"


def judge_arrays(
    image: MappedImage,
    dynamic: Dynamic,
    memory: Memory,
    relocations: RelocationTables,
    symbols: Addresses,
) -> Iterator[str]:
    """DT_INIT_ARRAY and DT_FINI_ARRAY, as relocation leaves them. Raises MalformedError."""
    word = image.header.bits // 8
    for name, tag, length in _ARRAYS:
        start, size = dynamic.value(tag), dynamic.value(length) // word * word
        if tag not in dynamic or not size:
            continue
        content = image.read(start, size, name, _MOST)
        slots = _Slots(start, column("Q" if word == 8 else "I", content, image.header.byte_order))
        targets = slots.relocate(relocations, symbols)
        bare = next((at for at in range(start, start + size, word) if at not in targets), None)
        if bare is not None:
            yield f"has an address in {name}, at {bare:#x}, that no relocation sets"
            continue
        wrong = find_outside(memory.code, [each for each in targets.values() if each is not None])
        if wrong is not None:
            yield f"has {wrong:#x} in {name}, where no code is: a loader calls it"


class _Slots:
    """The words of an array, which relocations fill."""

    def __init__(self, start: int, contents: array[int]) -> None:
        self.start, self.contents, self.word = start, contents, contents.itemsize
        self.end = start + self.word * len(contents)

    def relocate(self, relocations: RelocationTables, symbols: Addresses) -> dict[int, int | None]:
        """What each place becomes; None where that is known only once it is loaded."""
        packed = unpack_between(relocations.packed, self.word, self.start, self.end)
        found: dict[int, int | None] = {place: self._content(place) for place in packed}
        for table in relocations.tables:
            if len(found) < len(self.contents):
                for row in self._find_rows(table):
                    found[table.offsets[row]] = self._target(table, row, relocations.types, symbols)
        return found

    def _find_rows(self, table: Relocations) -> Sequence[int]:
        """The records that write there: nearly always one behind the other."""
        places = array(table.offsets.typecode, range(self.start, self.end, self.word))
        at = table.offsets.tobytes().find(places[:1].tobytes())
        first, rest = divmod(at, self.word)
        if at >= 0 and not rest and table.offsets[first : first + len(places)] == places:
            return range(first, first + len(places))
        inside = range(self.start, self.end).__contains__
        return list(compress(range(len(table)), map(inside, table.offsets)))

    def _content(self, place: int) -> int:
        return self.contents[(place - self.start) // self.word]

    def _target(
        self, table: Relocations, row: int, types: RelocationTypes, symbols: Addresses
    ) -> int | None:
        kind, symbol = table.types[row], table.symbols[row]
        addend = table.addends[row] if table.addends else self._content(table.offsets[row])
        if kind == types.relative:
            return addend
        if kind != types.symbolic or symbol >= len(symbols.values) or not symbols.sections[symbol]:
            return None
        return symbols.values[symbol] + addend & (1 << 8 * self.word) - 1
